"""The first minute with unspool: `--help`, `list` on a machine with 500 conversations, a long page.

The home is made up: Claude Code transcripts of prompts, tool rounds and answers, 150 MB in all.
"""

import json
import os
import random
import sys
import tempfile
import time
import uuid
from pathlib import Path

from bench.measure import Measured, Row, floor

WORDS = [
    "the limiter", "refills", "its bucket", "by clock", "not by call", "so a burst", "has to wait",
]  # fmt: skip
SIZE_BYTES = 150_000_000
CONVERSATIONS = 500


def generate(home: Path, size_bytes: int = SIZE_BYTES, count: int = CONVERSATIONS) -> int:
    """Fill ~/.claude/projects; the bytes written."""
    rng = random.Random(9)
    total = 0
    for number in range(count):
        folder = home / ".claude" / "projects" / f"-home-ada-project-{number % 20}"
        folder.mkdir(parents=True, exist_ok=True)
        ident = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        lines = _conversation(rng, ident, number, size_bytes // count)
        data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (folder / f"{ident}.jsonl").write_text(data, encoding="utf-8")
        total += len(data)
    return total


def _conversation(
    rng: random.Random, ident: str, number: int, size_bytes: int
) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    clock = 1_770_000_000 + number * 7200
    before: str | None = None
    written = 0

    def add(kind: str, message: dict[str, object], **more: object) -> None:
        nonlocal before, clock
        own = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        clock += rng.randint(1, 20)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(clock))
        lines.append(
            {
                "parentUuid": before, "isSidechain": False, "userType": "external",
                "cwd": f"/home/ada/project-{number % 20}", "sessionId": ident, "version": "2.1.97",
                "gitBranch": "main", "type": kind, "message": message, "uuid": own,
                "timestamp": stamp, **more,
            }
        )  # fmt: skip
        before = own

    while written < size_bytes:
        if len(lines) % 24 == 0:
            add("user", {"role": "user", "content": f"Task {len(lines)}: {_words(rng, 12)}"})
        call = f"toolu_{rng.getrandbits(64):016x}"
        tool = {
            "type": "tool_use",
            "id": call,
            "name": "Bash",
            "input": {"command": _words(rng, 6)},
        }
        answer = {
            "id": f"msg_{rng.getrandbits(64):016x}", "role": "assistant", "model": "big-model-4",
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 9, "cache_read_input_tokens": 20_000, "output_tokens": 220},
        }  # fmt: skip
        add("assistant", {**answer, "content": [{"type": "text", "text": _words(rng, 40)}]})
        add("assistant", {**answer, "content": [tool]})
        output = "\n".join(_words(rng, 12) for _ in range(rng.randint(5, 80)))
        result = {"type": "tool_result", "tool_use_id": call, "content": output}
        details = {"stdout": output, "stderr": "", "interrupted": False}
        add("user", {"role": "user", "content": [result]}, toolUseResult=details)
        written += 2 * len(output) + 1800
    return lines


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


def _measured(home: Path, *arguments: str, times: int = 1) -> Measured:
    """What the command costs, the best of several."""
    environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home / "data")}
    for name in ("CLAUDE_CONFIG_DIR", "COPILOT_HOME", "UNSPOOL_STORE", "XDG_CONFIG_HOME"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "unspool", *arguments]
    runs = [Measured(command, environment) for _ in range(times)]
    return min(runs, key=lambda run: run.seconds)


def run(size_bytes: int = SIZE_BYTES) -> list[Row]:
    """Rows for the table."""
    with tempfile.TemporaryDirectory(prefix="unspool-bench-") as temporary:
        home = Path(temporary)
        start = _measured(home, "--help", times=5).seconds
        rows = [("front: unspool --help", f"{1000 * start:.0f} ms")]
        total = generate(home, size_bytes)
        base = floor(home / ".claude")
        given = f"{CONVERSATIONS} conversations, {total / 1e6:.0f} MB"
        for name in ("first time", "again"):
            shown = _measured(home, "list").over(base)
            rows.append((f"front: unspool list, {given}, {name}", shown))
        rows.append(("front: unspool scan, the same", _measured(home, "scan").over(base)))
    return rows


if __name__ == "__main__":
    for row in run():
        print(*row, sep="\t")
