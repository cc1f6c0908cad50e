"""What a first and a second sync cost, how large the store is, and how fast it is searched.

The home is made up: Claude Code and Copilot CLI sessions, VS Code's stored chats, and a database of
Cursor's. Search is measured in one process, without its start.
"""

import json
import random
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from bench import claude_code, copilot_cli, vscode_chat
from bench.measure import Measured, Row, floor, made_data, size_of
from bench.telemetry import WORDS

SEARCHED = 1_000_000
"""Messages of the store that search is measured on."""


def run_sync() -> list[Row]:
    """Claude Code and Copilot CLI alone, 600 MB."""
    with made_data("sync", generate_sessions) as home:
        return _sync("sync", home)


def run_sync_all() -> list[Row]:
    """All that a home may hold."""
    with made_data("sync-all", generate_home) as home:
        return _sync("sync-all", home)


def generate_sessions(home: Path, size: int = 600_000_000) -> None:
    claude_code.generate(home / ".claude", size // 2)
    copilot_cli.generate(home / ".copilot", size // 2)


def generate_home(home: Path, size: int = 700_000_000) -> None:
    claude_code.generate(home / ".claude", size * 2 // 5)
    copilot_cli.generate(home / ".copilot", size * 2 // 5)
    vscode_chat.generate(home / ".config" / "Code", size // 1_400_000)
    cursor(home / ".config" / "Cursor" / "User" / "globalStorage", size // 10)


def cursor(folder: Path, size: int) -> None:
    """Composers of 40 bubbles each in a global database."""
    folder.mkdir(parents=True)
    rng = random.Random(1)
    connection = sqlite3.connect(folder / "state.vscdb")
    connection.execute(
        "CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
    )
    connection.execute("CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
    put = "INSERT INTO cursorDiskKV VALUES (?, ?)"
    done = number = 0
    while done < size:
        number += 1
        heads = [{"bubbleId": f"b{n}", "type": 1 + n % 2} for n in range(40)]
        composer = {"composerId": f"c{number}", "fullConversationHeadersOnly": heads, "_v": 10}
        composer |= {"createdAt": 1_770_000_000_000 + number * 1000, "name": f"Chat {number}"}
        connection.execute(put, (f"composerData:c{number}", json.dumps(composer)))
        for head in heads:
            text = " ".join(rng.choices(WORDS, k=rng.randint(20, 900)))
            bubble = json.dumps({**head, "text": text, "_v": 3})
            connection.execute(put, (f"bubbleId:c{number}:{head['bubbleId']}", bubble))
            done += len(bubble)
    connection.commit()
    connection.close()


def _sync(job: str, home: Path) -> list[Row]:
    base = floor(home, skip=".vscdb")
    total = size_of(home)
    with tempfile.TemporaryDirectory(prefix="unspool-bench-store-") as temporary:
        store = Path(temporary, "store.db")
        command = [sys.executable, "-m", "unspool", "sync", str(home), "--store", str(store), "-q"]
        first = Measured(command)
        second = Measured(command)
        return [
            (f"{job}: input", f"{total / 1e6:.0f} MB"),
            (f"{job}: floor, orjson.loads on every line", f"{base.seconds:.2f} s"),
            (f"{job}: first sync", first.over(base)),
            (f"{job}: size of the store over input", f"{store.stat().st_size / total:.2f}"),
            (f"{job}: second sync, nothing changed", f"{second.seconds:.2f} s"),
        ]


def run_search(messages: int = SEARCHED) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="unspool-bench-") as temporary:
        return _search(Path(temporary, "large.db"), messages)


def _search(store: Path, count: int) -> list[Row]:
    from unspool.store.conversations import WORDS, catch_up
    from unspool.store.opening import opened
    from unspool.store.search import search

    with opened(store) as connection:
        _fill(connection, count)
        catch_up(connection, [WORDS])
        rows: list[Row] = [("search: messages", f"{count:,}")]
        for what, query in (
            ("a common word", "result"),
            ("a rare word", "needle7"),
            ("a phrase", '"value of parse"'),
            ("a beginning", "need*"),
        ):
            search(connection, query)
            start = time.perf_counter()
            search(connection, query)
            rows.append((f"search: {what}", f"{(time.perf_counter() - start) * 1000:.0f} ms"))
        return rows


def _fill(connection: sqlite3.Connection, count: int) -> None:
    """Short messages by the thousand; every word is in about a third of them."""
    from unspool.store.opening import transaction

    rng = random.Random(1)
    lines = [" ".join(rng.choices(WORDS, k=14)) for _ in range(5000)]
    with transaction(connection):
        connection.execute(
            "INSERT INTO conversations (id, external_id, platform, source, started_at)"
            " VALUES ('x:1', '1', 'x', 'x', '2026-01-01T00:00:00.000Z')"
        )
        for number in range(count):
            text = rng.choice(lines) + (f" needle{number % 1000}" if number % 500 == 7 else "")
            connection.execute(
                "INSERT INTO messages (id, conversation_id, message_index, role)"
                " VALUES (?, 'x:1', ?, 'user')",
                (number + 1, number),
            )
            connection.execute("INSERT INTO texts (id, typed) VALUES (?, ?)", (number + 1, text))
