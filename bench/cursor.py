"""A made-up global database of Cursor's, and what `extract` costs on it.

Composers of 2,000 bubbles of 30 to 50 KB, most of them tools with what they returned: longer
conversations than anybody has, so that one of them is more than all facts may weigh in memory.
"""

import json
import random
import sqlite3
import tempfile
import uuid
from pathlib import Path

from bench.measure import Measured, Row, extract_command
from bench.telemetry import WORDS

BUBBLES = 2000
KV = "CREATE TABLE {} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
PUT = "INSERT INTO cursorDiskKV VALUES (?, ?)"


def run(composers: int = 26) -> list[Row]:
    """26 composers are a database of 2.2 GB."""
    with tempfile.TemporaryDirectory(prefix="unspool-bench-") as temporary:
        folder = Path(temporary, "Cursor/User/globalStorage")
        folder.mkdir(parents=True)
        path = folder / "state.vscdb"
        generate(path, composers)
        size = path.stat().st_size
        done = Measured(extract_command(folder, Path(temporary, "out.jsonl")))
    return [
        ("cursor: database", f"{size / 1e6:.0f} MB, {composers} conversations"),
        ("cursor: extract", f"{done.seconds:.1f} s = {size / 1e6 / done.seconds:.0f} MB/s"),
        ("cursor: peak memory", f"{done.peak_bytes / 1e6:.0f} MB"),
    ]


def generate(path: Path, composers: int) -> None:
    rng = random.Random(1)
    plain = [word for word in WORDS if word.isascii()]
    text = " ".join(rng.choices(plain, k=200_000))
    connection = sqlite3.connect(path)
    for table in ("cursorDiskKV", "ItemTable"):
        connection.execute(KV.format(table))
    for number in range(composers):
        ident = str(uuid.UUID(int=rng.getrandbits(128)))
        heads = [{"bubbleId": f"b{n}", "type": 1 + (n % 5 > 0)} for n in range(BUBBLES)]
        composer = {"_v": 10, "composerId": ident, "fullConversationHeadersOnly": heads}
        rows = [(f"composerData:{ident}", json.dumps(composer))]
        for place, head in enumerate(heads):
            start = rng.randrange(len(text) // 2)
            said = f"{number} {place} {text[start : start + rng.randint(30_000, 50_000)]}"
            rows.append((f"bubbleId:{ident}:b{place}", json.dumps({**head, **_body(place, said)})))
        connection.executemany(PUT, rows)
        connection.commit()
    connection.close()


def _body(place: int, said: str) -> dict[str, object]:
    if place % 5 < 2:
        return {"_v": 3, "text": said}
    tool = {
        "name": "read_file_v2",
        "toolCallId": f"call-{place}",
        "status": "completed",
        "params": json.dumps({"targetFile": f"/w/file{place}.py"}),
        "result": json.dumps({"contents": said}),
    }
    return {"_v": 3, "text": "", "capabilityType": 15, "toolFormerData": tool}
