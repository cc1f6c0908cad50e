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
from unspool.live.monitors import Monitors
from unspool.sources.cursor import editor
from unspool.sources.vscode_chat import stores
from unspool.store.events import iter_events
from unspool.store.opening import reading, writing


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


def test_the_store_itself_is_not_followed(tmp_path: Path) -> None:
    """It changes with all that is said of it; and to open it beside SQLite drops SQLite's locks."""
    store = tmp_path / "data" / "s.db"
    link = tmp_path / "link"
    link.symlink_to(store.parent)
    with writing(store) as connection:
        for name in ("data", "link"):
            found = Monitors(connection, [str(tmp_path / name)]).poll()
            assert (found.changed, found.unchanged) == ([], 0)


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


def chat(ident: str, *prompts: str) -> dict[str, Any]:
    requests = [
        {
            "requestId": f"{ident}-{n}",
            "message": {"text": text},
            "response": [{"value": f"Yes, {text}"}],
        }
        for n, text in enumerate(prompts)
    ]
    named = {"requesterUsername": "ann", "responderUsername": "GitHub Copilot", "sessionId": ident}
    return {"version": 3, **named, "creationDate": 1_760_000_000_000, "requests": requests}


def put_chats(path: Path, *chats: dict[str, Any], **titles: str) -> None:
    """As VS Code writes them: whole values, in place of the old ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
        )
        entries = {ident: {"sessionId": ident, "title": title} for ident, title in titles.items()}
        put = "INSERT INTO ItemTable VALUES (?, ?)"
        connection.execute(put, ("interactive.sessions", json.dumps(chats)))
        connection.execute(
            put, ("chat.ChatSessionStore.index", json.dumps({"version": 1, "entries": entries}))
        )


def test_of_vs_code_only_the_chats_are_read_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Capture(tmp_path)
    path = capture.home / "Code" / "User" / "workspaceStorage" / "0f1e" / "state.vscdb"
    asked: list[tuple[str, ...]] = []
    read = stores.read_store

    def noted(origin: Any, tally: Any) -> Any:
        asked.append(origin.only)
        return read(origin, tally)

    monkeypatch.setattr(stores, "read_store", noted)
    with capture.writer() as writer:
        put_chats(path, chat("c1", "one"), chat("c2", "two"), c1="first", c2="second")
        capture.step(writer)
        put_chats(path, chat("c1", "one"), chat("c2", "two"), c1="first", c2="another")
        capture.step(writer)  # read whole: nobody knows what was there
        put_chats(path, chat("c1", "one"), chat("c2", "two", "more"), c1="first", c2="another")
        capture.step(writer)
        put_chats(path, chat("c1", "one"), chat("c2", "two", "more"), c1="new title", c2="another")
        capture.step(writer)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO ItemTable VALUES ('window.zoom', '1')")
        capture.step(writer)
    assert asked == [(), (), ("c2",), ("c1",)]
    assert differences(rows(capture.store), rows(capture.batch(tmp_path))) == []
    with reading(capture.store) as connection:
        (said,) = iter_events(connection, ("vscode-chat", "c2"), "database_trace")
        (named,) = iter_events(connection, ("vscode-chat", "c1"), "database_trace")
    payload = json.loads(bytes(said.payload or b""))
    assert (payload["table"], payload["key"]) == ("ItemTable", "interactive.sessions")
    assert payload["value"]["requests"][1]["message"]["text"] == "more"
    assert json.loads(bytes(named.payload or b""))["value"]["title"] == "new title"
    capture.queue.close()
