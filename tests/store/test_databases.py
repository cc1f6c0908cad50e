"""Databases of running editors: what tells that they changed, and damage."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from bench.store import cursor

from tests.store.test_sync import sound, stored, sync
from tests.store.test_sync_odd import talk
from tests.telemetry import write
from tests.test_extract import ENV
from unspool.store.maintenance import rebuild
from unspool.store.opening import reading, writing
from unspool.store.survey import HEADER_BYTES, INDEX_HEADER_BYTES, LOG_HEADER_BYTES

BUBBLE = "bubbleId:c1:b1"


@pytest.fixture(params=["delete", "wal"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Cursor's global database with one conversation, in either journal mode."""
    path = tmp_path / "home" / "Cursor" / "User" / "globalStorage" / "state.vscdb"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {request.param}")
        connection.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)")
        heads = [{"bubbleId": "b1", "type": 1}]
        composer = {"composerId": "c1", "fullConversationHeadersOnly": heads, "_v": 10}
        put(connection, "composerData:c1", composer)
        put(connection, BUBBLE, {"bubbleId": "b1", "type": 1, "text": "first", "_v": 3})
    return path


def put(connection: sqlite3.Connection, key: str, value: Any) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO cursorDiskKV VALUES (?, ?)", (key, json.dumps(value))
    )


def say(connection: sqlite3.Connection, text: str) -> None:
    put(connection, BUBBLE, {"bubbleId": "b1", "type": 1, "text": text, "_v": 3})


def words(store: Path) -> list[str]:
    return [m["content"] for trajectory in stored(store) for m in trajectory["messages"]]


def test_a_database_that_changed_within_its_size_and_time(database: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    sync(store, tmp_path / "home")
    before = database.stat()
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        say(connection, "other")  # as long as the first
        if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            os.utime(database, ns=(before.st_atime_ns, before.st_mtime_ns))
            assert sync(store, tmp_path / "home").read == 1
            say(connection, "third")  # the log only moves on
            assert sync(store, tmp_path / "home").read == 1
            assert words(store) == ["third"]
            return
    os.utime(database, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert database.stat().st_size == before.st_size
    assert sync(store, tmp_path / "home").read == 1
    assert words(store) == ["other"]


@pytest.mark.parametrize("database", ["delete"], indirect=True)
def test_a_touched_or_copied_database_is_not_read_again(database: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    sync(store, tmp_path / "home")
    os.utime(database, (1, 1))
    copy = database.with_name("copy")
    shutil.copyfile(database, copy)
    copy.replace(database)
    report = sync(store, tmp_path / "home")
    assert (report.read, report.unchanged) == (0, 1)


@pytest.mark.parametrize("database", ["wal"], indirect=True)
def test_a_log_that_is_begun_anew_is_seen(database: Path, tmp_path: Path) -> None:
    """A checkpoint moves neither the counter nor the length of the log."""
    store, home = tmp_path / "s.db", tmp_path / "home"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for text in ("one", "two", "six"):
            say(connection, text)
            connection.execute("PRAGMA wal_checkpoint(RESTART)")
            sync(store, home)
            assert words(store) == [text]
        assert sync(store, home).read == 0
    # closed: no log any more, and the counter of the file has never moved
    sync(store, home)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        say(connection, "end")
    sync(store, home)
    assert words(store) == ["end"]


@pytest.mark.parametrize("database", ["wal"], indirect=True)
def test_what_a_killed_editor_left_is_read_once(database: Path, tmp_path: Path) -> None:
    """The first who opens it then makes the index of the log anew: the same one, counted from 0."""
    store, home = tmp_path / "s.db", tmp_path / "home"
    killed = f"""
import os, sqlite3
connection = sqlite3.connect({str(database)!r}, isolation_level=None)
for word in ("left", "right"):
    connection.execute("UPDATE cursorDiskKV SET value = replace(value, 'first', ?)", (word,))
os._exit(1)
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    assert sync(store, home).read == 1
    assert words(store) == ["left"]
    assert sync(store, home).read == 0


def test_nothing_but_headers_is_read_when_nothing_changed(database: Path, tmp_path: Path) -> None:
    store, home = tmp_path / "s.db", tmp_path / "home"
    write(home / "a.jsonl", talk("one"))
    with closing(sqlite3.connect(database, isolation_level=None)) as held:
        say(held, "held open")
        sync(store, home)
        trace = tmp_path / "trace"
        command = [sys.executable, "-m", "unspool", "sync", str(home), "--store", str(store)]
        subprocess.run(
            [sys.executable, "-c", WATCHED, str(trace), *command[3:]], env=ENV, check=True
        )
    most = {"": HEADER_BYTES, "-wal": LOG_HEADER_BYTES, "-shm": INDEX_HEADER_BYTES}
    allowed = {f"{database}{suffix}": size for suffix, size in most.items()}
    found = json.loads(trace.read_text())
    for path, size in found.items():
        assert size <= allowed[path]
    assert str(database) in found


WATCHED = """
import io, json, sys
home = sys.argv[3]
read = {}
opened = io.open
class File(io.FileIO):
    def read(self, size=-1):
        data = super().read(size)
        read[self.name] = read.get(self.name, 0) + len(data)
        return data
def watching(path, mode="r", buffering=-1, **more):
    if str(path).startswith(home):
        assert buffering == 0, path
        return File(path)
    return opened(path, mode, buffering, **more)
import builtins
builtins.open = watching
from unspool.cli import group
group.main(sys.argv[2:], standalone_mode=False)
opened(sys.argv[1], "w").write(json.dumps(read))
"""


def test_a_database_that_is_damaged_in_the_middle(tmp_path: Path) -> None:
    """Nothing is lost at first; when it goes on being used, what can be read of it counts."""
    home, store = tmp_path / "home", tmp_path / "s.db"
    path = home / "Cursor" / "User" / "globalStorage" / "state.vscdb"
    cursor(path.parent, 600_000)
    sync(store, home)
    before = stored(store)
    data = bytearray(path.read_bytes())
    at = data.index(b'"composerId": "c3"') // 4096 * 4096
    data[at : at + 4096] = b"\xff" * 4096
    data[27] += 1  # the change counter
    path.write_bytes(data)
    for _ in range(2):
        touch(path, 1)
        # The page holds rows of c2 and c3; c1, c4 and c5 are read.
        assert sync(store, home).problems == {"unreadable-database": 2}
        assert stored(store) == before
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        bubble = {"bubbleId": "n", "type": 1, "text": "goes on", "_v": 3}
        put(connection, "bubbleId:c1:n", bubble)
        heads = [{"bubbleId": "n", "type": 1}]
        put(
            connection,
            "composerData:c1",
            {"composerId": "c1", "fullConversationHeadersOnly": heads},
        )
    sync(store, home)
    assert "goes on" in words(store)
    sound(store)


def touch(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


def chats(path: Path, *names: str) -> None:
    """A store of VS Code's with old chats in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    held = [
        {"sessionId": name, "responderUsername": "x",
         "requests": [{"requestId": f"request_{name}", "message": f"about {name}"}]}
        for name in names
    ]  # fmt: skip
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB)")
        row = ("interactive.sessions", json.dumps(held))
        connection.execute("INSERT INTO ItemTable VALUES (?, ?)", row)


@pytest.mark.parametrize("damage", ["pages", "header", "missing"])
@pytest.mark.parametrize("product", ["Code", "Cursor"])
def test_the_backup_of_a_database_that_breaks_later(
    tmp_path: Path, damage: str, product: str
) -> None:
    """The editor goes back to it; and what the store knew of the database stays."""
    store, home = tmp_path / "s.db", tmp_path / "home"
    database = home / product / "User" / "workspaceStorage" / "w" / "state.vscdb"
    backup = database.with_name("state.vscdb.backup")
    chats(database, "a", "b")
    chats(backup, "a", "c")
    sync(store, home)
    assert sorted(words(store)) == ["about a", "about b"]
    assert sync(store, home).read == 0
    data = database.read_bytes()
    if damage == "missing":
        database.unlink()
    else:
        keep = 100 if damage == "pages" else 0
        database.write_bytes(data[:keep] + b"\1" * len(data))
    sync(store, home)
    assert sorted(words(store)) == ["about a", "about b", "about c"]
    sync(store, home)
    assert sorted(words(store)) == ["about a", "about b", "about c"]
    shutil.copyfile(backup, database)
    sync(store, home)
    assert {"about a", "about c"} <= {*words(store)}
    assert sync(store, home).read == 0
    sound(store)


def marked(store: Path) -> list[str]:
    with reading(store) as connection:
        rows = connection.execute("SELECT external_id FROM facts WHERE gone_since IS NOT NULL")
        return sorted({ident for (ident,) in rows})


def test_a_conversation_that_a_database_lost_stays(database: Path, tmp_path: Path) -> None:
    """The person deleted it, or the editor began its database anew."""
    store, home = tmp_path / "s.db", tmp_path / "home"
    sync(store, home)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        rows = connection.execute("SELECT key, value FROM cursorDiskKV").fetchall()
        heads = [{"bubbleId": "b2", "type": 1}]
        composer = {"composerId": "c2", "fullConversationHeadersOnly": heads, "_v": 10}
        put(connection, "composerData:c2", composer)
        put(connection, "bubbleId:c2:b2", {"bubbleId": "b2", "type": 1, "text": "second", "_v": 3})
        sync(store, home)
        connection.execute("DELETE FROM cursorDiskKV WHERE key NOT LIKE '%c2%'")
        report = sync(store, home)
        assert (report.read, report.removed) == (1, 0)
        assert (sorted(words(store)), marked(store)) == (["first", "second"], ["c1"])
        connection.execute("DELETE FROM cursorDiskKV")
        sync(store, home)
        assert (sorted(words(store)), marked(store)) == (["first", "second"], ["c1", "c2"])
        with writing(store) as opened:
            rebuild(opened)
        assert (sorted(words(store)), marked(store)) == (["first", "second"], ["c1", "c2"])
        connection.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
        say(connection, "first, and again")
        sync(store, home)
    assert (sorted(words(store)), marked(store)) == (["first, and again", "second"], ["c2"])
    sound(store)


def test_prompts_leave_when_their_conversation_comes(tmp_path: Path) -> None:
    """They were but echoes of it."""
    store, home = tmp_path / "s.db", tmp_path / "home"
    path = home / "Cursor" / "User" / "workspaceStorage" / "w" / "state.vscdb"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB)")
        row = ("aiService.prompts", json.dumps([{"text": "why?", "commandType": 4}]))
        connection.execute("INSERT INTO ItemTable VALUES (?, ?)", row)
        sync(store, home)
        assert words(store) == ["why?"]
        bubbles = [{"type": "user", "id": "b1", "text": "why?"}, {"type": "ai", "text": "So."}]
        chat = {"tabId": "t1", "bubbles": bubbles}
        key = "workbench.panel.aichat.view.aichat.chatdata"
        row = (key, json.dumps({"tabs": [chat]}))
        connection.execute("INSERT INTO ItemTable VALUES (?, ?)", row)
    sync(store, home)
    assert (words(store), marked(store)) == (["why?"], [])
    assert [t["conversation_id"] for t in stored(store)] == ["t1"]


@pytest.mark.parametrize("unpacked", [False, True])
def test_what_stands_beside_a_database_is_kept_for_a_rebuild(
    tmp_path: Path, unpacked: bool
) -> None:
    store, home = tmp_path / "s.db", tmp_path / "home"
    folder = home / "Cursor" / "User" / "workspaceStorage" / "w"
    folder.mkdir(parents=True)
    (folder / "workspace.json").write_text('{"folder": "file:///home/ada/shop"}')
    bubbles = [
        {"type": "user", "id": "b1", "text": "why?"},
        {"type": "ai", "id": "b2", "text": "So."},
    ]
    said = {"textDescription": "why?", "generationUUID": "g1", "unixMs": 1772359200000}
    values = {
        "workbench.panel.aichat.view.aichat.chatdata": {"tabs": [{"tabId": "t1", "bubbles": bubbles}]},
        "aiService.generations": [said],
    }  # fmt: skip
    if unpacked:
        for key, value in values.items():
            (folder / f"{key}.json").write_text(json.dumps(value))
    else:
        with closing(sqlite3.connect(folder / "state.vscdb", isolation_level=None)) as connection:
            connection.execute("CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB)")
            rows = [(key, json.dumps(value)) for key, value in values.items()]
            connection.executemany("INSERT INTO ItemTable VALUES (?, ?)", rows)
    sync(store, home)
    before = stored(store)
    (chat,) = before
    assert chat["workspace"]["path"] == "/home/ada/shop"
    assert chat["messages"][0]["timestamp"] == "2026-03-01T10:00:00.000Z"
    shutil.rmtree(home)
    with writing(store) as connection:
        connection.execute("DELETE FROM facts")
        rebuild(connection)
    assert stored(store) == before
