"""The editor's databases, `state.vscdb`: the global one with composers and bubbles, and one per
workspace with prompts, generations and the chats of earlier versions."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unspool.facts import NOBODY, AnyFact
from unspool.io.databases import DAMAGE, MAGIC, is_spare, open_database
from unspool.io.origins import Head, Origin, Tally
from unspool.sources.cursor.composers import Reader
from unspool.sources.cursor.generations import Generations
from unspool.sources.cursor.paths import is_cursor_folder, workspace_folder
from unspool.sources.cursor.sent import Sendings
from unspool.sources.cursor.tables import Broken, Keys, parse_object
from unspool.sources.cursor.workspace import Workspace

_LOG_BYTES = 1 << 18
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
    """A database that cannot be read, or not to its end, is a problem; what was read stays."""
    reader = Reader(origin.path, tally, "global")
    if not origin.named and is_spare(origin.path):
        tally.records += 1
        tally.noise += 1
        return
    try:
        with open_database(origin.path) as database:
            if database.stale:
                tally.records += 1
                yield reader.problem(NOBODY, "stale-database", "the log was too long to copy")
            database.connection.execute("BEGIN")  # one moment of it, though it is being written
            tables = database.tables()
            if "cursorDiskKV" in tables:
                reader.rows = Keys(database.connection, "cursorDiskKV")
                reader.sendings = Sendings(reader.rows, reader.origin, reader.offsets)
                beside = Path(reader.origin).parent
                if beside.name == "globalStorage":
                    reader.generations = Generations(beside.with_name("workspaceStorage"))
                # All that have a row of their own, then those of which only bubbles are left.
                seen: set[str] = set()
                for key, data in reader.rows.range("composerData:"):
                    ident = key.partition(":")[2]
                    if data is None:
                        reader.tally.records += 1
                        reader.tally.noise += 1
                        continue
                    try:
                        composer = parse_object(data)
                    except Broken as broken:
                        reader.tally.records += 1
                        yield reader.problem(("cursor", ident), broken.code, broken.data)
                        continue
                    seen.add(ident)
                    yield from _read_on(reader, ident, composer)
                for ident in reader.rows.groups("bubbleId:"):
                    if ident and ident not in seen:
                        yield from _read_on(reader, ident, {})
            if "composerHeaders" in tables and "value" in database.columns("composerHeaders"):
                # Since 3.12 the heads are rows of a table.
                reader.store = "headers"
                columns = database.columns("composerHeaders")
                statement = f"SELECT {', '.join(columns)} FROM composerHeaders"
                for row in database.connection.execute(statement):
                    fields: dict[str, Any] = dict(zip(columns, row, strict=True))
                    reader.tally.records += 1
                    ident = str(fields.get("composerId") or "")
                    value = fields.get("value")
                    try:
                        data = value if isinstance(value, bytes) else str(value or "{}").encode()
                        head = {**fields, **parse_object(data)}
                    except Broken as broken:
                        yield reader.problem(("cursor", ident), broken.code, broken.data)
                        continue
                    yield from reader.head(ident, head)
            if "ItemTable" in tables:
                items = Keys(database.connection, "ItemTable")
                reader.store = "workspace"
                workspace = Workspace(reader, items, workspace_folder(reader.origin))
                yield from workspace.read(Path(reader.origin).parent.name)
    except DAMAGE as error:
        tally.records += 1
        yield reader.problem(NOBODY, "unreadable-database", str(error))


def _read_on(reader: Reader, ident: str, composer: dict[str, Any]) -> Iterator[AnyFact]:
    """A bad page is the loss of one conversation, not of those behind it."""
    try:
        yield from reader.read(ident, composer)
    except sqlite3.OperationalError:
        raise  # locked, or gone: it is so for all
    except sqlite3.DatabaseError as error:
        reader.tally.records += 1
        yield reader.problem(("cursor", ident), "unreadable-database", str(error))
