"""Databases of editors while they are written: only what changed is read, as a sync would have it."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from bench.store import cursor

from tests.live.test_live_is_batch import Capture, differences, rows
from unspool.sources.cursor import editor
from unspool.store.events import iter_events
from unspool.store.opening import reading


@pytest.fixture
def capture(tmp_path: Path) -> Iterator[Capture]:
    made = Capture(tmp_path)
    cursor(made.home / "Cursor" / "User" / "globalStorage", 300_000)
    yield made
    made.queue.close()


def database(capture: Capture) -> Path:
    return capture.home / "Cursor" / "User" / "globalStorage" / "state.vscdb"


def say(path: Path, ident: str, bubble: str, text: str) -> None:
    """One more bubble in a composer, as the editor writes it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        key = f"composerData:{ident}"
        row = connection.execute("SELECT value FROM cursorDiskKV WHERE key = ?", (key,)).fetchone()
        head = json.loads(row[0]) if row else {"composerId": ident, "createdAt": 1_760_000_000_000}
        headers = head.setdefault("fullConversationHeadersOnly", [])
        headers.append({"bubbleId": bubble, "type": 1 + len(headers) % 2})
        value = {"bubbleId": bubble, "type": headers[-1]["type"], "text": text}
        put = "INSERT INTO cursorDiskKV VALUES (?, ?)"
        connection.execute(put, (f"bubbleId:{ident}:{bubble}", json.dumps(value)))
        connection.execute(put, (key, json.dumps(head)))


def test_only_what_changed_is_read(capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    path = database(capture)
    asked: list[tuple[str, ...]] = []
    read = editor._read

    def noted(origin: Any, tally: Any) -> Any:
        asked.append(origin.only)
        return read(origin, tally)

    monkeypatch.setattr(editor, "_read", noted)
    with capture.writer() as writer:
        capture.step(writer)
        say(path, "c2", "n1", "the first is read whole: nobody knows what was there")
        capture.step(writer)
        for number in range(3):
            say(path, "c2", f"m{number}", f"more {number}")
            say(path, "fresh", f"f{number}", f"fresh {number}")
            capture.step(writer)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO ItemTable VALUES ('window.zoom', '1')")
        capture.step(writer)
    assert asked == [(), (), *[("c2", "fresh")] * 3]
    assert differences(rows(capture.store), rows(capture.batch(path.parents[4]))) == []
    with reading(capture.store) as connection:
        traces = list(iter_events(connection, ("cursor", "fresh"), "database_trace"))
    assert len(traces) == 6
    assert traces[0].received_at is not None
    payload = json.loads(bytes(traces[0].payload or b""))
    assert payload["key"] == "bubbleId:fresh:f0"
    assert payload["value"]["text"] == "fresh 0"


def test_rows_that_were_renumbered_are_all_read(capture: Capture) -> None:
    path = database(capture)
    with capture.writer() as writer:
        for number in range(3):
            say(path, "c3", f"n{number}", f"text {number}")
            capture.step(writer)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DELETE FROM cursorDiskKV WHERE key LIKE '%:c1%'")
            connection.commit()
            connection.execute("VACUUM")
        say(path, "c4", "after", "after the vacuum")
        capture.step(writer)
    live = rows(capture.store)["texts"]
    assert any("after the vacuum" in row for row in live)
