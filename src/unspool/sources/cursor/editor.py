"""The editor's databases, `state.vscdb`: the global one with composers and bubbles, and one per
workspace with prompts, generations and the chats of earlier versions."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import AnyFact
from unspool.io.databases import MAGIC, Database, is_spare, open_database, reading
from unspool.io.origins import Head, Origin, Tally, Touched, TouchedRow
from unspool.sources.cursor.composers import Reader
from unspool.sources.cursor.generations import Generations
from unspool.sources.cursor.paths import is_cursor_folder
from unspool.sources.cursor.tables import Keys
from unspool.sources.cursor.workspace import read_workspace

_LOG_BYTES = 1 << 18
_REMEMBERED = 4
_MOST_TOUCHED = 5000
"""Where more rows are new, everything is read."""
_OWN = (b"cursorDiskKV", b"composer.composerData", b"aiService.", b"composerHeaders")


def claims(head: Head) -> bool:
    """VS Code's databases have the same name: Cursor's are in its folder, or hold its keys."""
    if not head.data.startswith(MAGIC) or ".vscdb" not in head.name:
        return False
    if any(mark in head.data for mark in _OWN):
        return True
    return any(mark in log_start(head.path) for mark in _OWN) or is_cursor_folder(head.parts)


def log_start(path: str) -> bytes:
    """The beginning of the write-ahead log: a young database has nothing outside of it."""
    try:
        with open(f"{path}-wal", "rb") as file:
            return file.read(_LOG_BYTES)
    except OSError:
        return b""


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    """All facts, or those of the conversations that the origin names; what is said of others there
    they say again when it is their turn."""
    for fact in _read(origin, tally):
        if not origin.only or fact.key[1] in origin.only:
            yield fact


def touched(path: str, position: str) -> Touched | None:
    """Which composers were written since a position: the key-value table replaces rows, so that what is
    new has a higher number, and a database of gigabytes is not read again.

    {"last": 81044, "rows": [[1, "bubbleId:…"], [40522, "composerData:…"]]}

    Some rows are remembered: if one has another key now, the editor has renumbered them (VACUUM).
    """
    with open_database(path) as database:
        if database.stale or "cursorDiskKV" not in database.tables():
            return None
        connection = database.connection
        connection.execute("BEGIN")
        (newest,) = connection.execute("SELECT ifnull(max(rowid), 0) FROM cursorDiskKV").fetchone()
        position_now = _Position(newest)
        for part in range(_REMEMBERED):
            row = connection.execute(
                "SELECT rowid, key FROM cursorDiskKV WHERE rowid >= ? LIMIT 1",
                (newest * part // _REMEMBERED,),
            ).fetchone()
            if row is not None:
                position_now.rows.append((int(row[0]), str(row[1])))
        here = msgspec.json.encode(position_now).decode()
        before = msgspec.json.decode(position, type=_Position) if position else None
        if before is None or before.last > newest:
            return Touched(here)
        for number, key in before.rows:
            statement = "SELECT key FROM cursorDiskKV WHERE rowid = ?"
            row = connection.execute(statement, (number,)).fetchone()
            if row is not None and str(row[0]) != key:
                return Touched(here)
        rows = connection.execute(
            "SELECT key, CAST(value AS BLOB) FROM cursorDiskKV WHERE rowid > ? ORDER BY rowid LIMIT ?",
            (before.last, _MOST_TOUCHED + 1),
        ).fetchall()
        if len(rows) > _MOST_TOUCHED:
            return Touched(here)
        touched = [
            TouchedRow("cursorDiskKV", key, key.split(":")[1] if ":" in key else "", value)
            for key, value in ((str(key), value) for key, value in rows)
            if not key.startswith("agentKv:")
        ]
        idents = {row.conversation for row in touched} - {""}
        return Touched(here, tuple(sorted(idents)), touched)


class _Position(msgspec.Struct):
    last: int
    rows: list[tuple[int, str]] = []


def _read(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    reader = Reader(origin.path, tally, "global")
    if not origin.named and is_spare(origin.path):
        tally.records += 1
        tally.noise += 1
        return
    with reading(origin, tally) as database:
        tables = database.tables()
        if "cursorDiskKV" in tables:
            reader.rows = rows = Keys(database.connection, "cursorDiskKV")
            beside = Path(reader.origin).parent
            if beside.name == "globalStorage":
                reader.generations = Generations(beside.with_name("workspaceStorage"))
            # All that have a row of their own, then those of which only bubbles are left.
            heads = (key.partition(":")[2] for key in rows.keys("composerData:"))
            listed = origin.only or dict.fromkeys((*heads, *rows.groups("bubbleId:")))
            for ident in filter(None, listed):
                yield from _read_composer(reader, rows, ident)
        if "composerHeaders" in tables:
            reader.store = "headers"
            yield from _read_headers(reader, database, origin.only)
        if "ItemTable" in tables:
            reader.store = "workspace"
            yield from read_workspace(reader, Keys(database.connection, "ItemTable"))


def _read_composer(reader: Reader, rows: Keys, ident: str) -> Iterator[AnyFact]:
    """A bad page is the loss of one conversation, not of those behind it. A row without a value is of a
    composer that was deleted; of others only bubbles are left."""
    key = ("cursor", ident)
    try:
        data = rows.get(f"composerData:{ident}")
        composer = reader.parse_object(data, key) if data is not None else None
        if composer or rows.has(f"bubbleId:{ident}:"):
            yield from reader.read(ident, composer or {})
        elif data is None:
            reader.tally.records += 1
            reader.tally.noise += 1
    except sqlite3.OperationalError:
        raise  # locked, or gone: it is so for all
    except sqlite3.DatabaseError as error:
        reader.problem("unreadable-database", str(error), key)


def _read_headers(
    reader: Reader, database: Database, only: tuple[str, ...] | None
) -> Iterator[AnyFact]:
    """Since 3.12 the heads are rows of a table: some fields as columns, the rest in `value`."""
    columns = database.columns("composerHeaders")
    for row in database.connection.execute(f"SELECT {', '.join(columns)} FROM composerHeaders"):
        fields: dict[str, Any] = dict(zip(columns, row, strict=True))
        ident, value = str(fields.get("composerId") or ""), fields.get("value")
        if ident and (not only or ident in only):
            data = value if isinstance(value, bytes) else str(value or "{}").encode()
            head = reader.parse_object(data, ("cursor", ident))
            if head is not None:
                yield from reader.head(ident, {**fields, **head})
