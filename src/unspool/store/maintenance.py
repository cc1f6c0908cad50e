"""Maintenance: what the store holds, whether it is sound, how to make it smaller, and to make it anew.

To rebuild is for when a better reader comes: the raw records are laid out again as the files that they
stood in, and read. What was kept without raw records is made anew from its facts.
"""

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from unspool.io.origins import Origin, plain_name
from unspool.io.temporary import scratch
from unspool.pipeline.discover import recognise
from unspool.store.batches import Batch
from unspool.store.blocks import Before, iter_raw, keys_of, last_fact
from unspool.store.conversations import (
    INDEXES,
    catch_up,
    caught_up,
    get_trajectory,
    only_new,
)
from unspool.store.intake import Report, Taking, mark_dirty
from unspool.store.opening import transaction
from unspool.store.rows import make_rows
from unspool.store.survey import Survey, in_lines
from unspool.store.sync import Sync


def info(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """What the store holds."""

    def one(query: str) -> Any:
        return connection.execute(query).fetchone()[0]

    def count(table: str) -> int:
        return int(one(f"SELECT count(*) FROM {table}"))

    by_source = connection.execute(
        "SELECT source, count(*), sum(messages), min(nullif(started_at, '')), max(ended_at)"
        " FROM conversations GROUP BY source ORDER BY source"
    )
    names = ("source", "conversations", "messages", "first", "last")
    return {
        "path": str(path),
        "version": one("PRAGMA user_version"),
        "size_bytes": sum(
            file.stat().st_size
            for file in (path, path.with_name(path.name + "-wal"))
            if file.exists()
        ),
        "conversations": count("conversations"),
        "messages": count("messages"),
        "tool_calls": count("tool_calls"),
        "origins": count("origins WHERE source != ''"),
        "origins_gone": count("origins WHERE gone_since IS NOT NULL"),
        "origins_bytes": one("SELECT ifnull(sum(size_bytes), 0) FROM origins WHERE source != ''"),
        "raw_bytes": one("SELECT ifnull(sum(size_bytes), 0) FROM raw_traces"),
        "raw_stored_bytes": one("SELECT ifnull(sum(length(data)), 0) FROM raw_traces"),
        "facts_stored_bytes": one("SELECT ifnull(sum(length(data)), 0) FROM facts"),
        "problems": dict(
            connection.execute("SELECT code, count(*) FROM problems GROUP BY code ORDER BY code")
        ),
        "unwritten": count("dirty"),
        "sources": [dict(zip(names, row, strict=True)) for row in by_source],
    }


def verify(connection: sqlite3.Connection) -> list[str]:
    """What is wrong with the store; empty where nothing is."""
    problems = [
        f"SQLite: {text}"
        for (text,) in connection.execute("PRAGMA integrity_check")
        if text != "ok"
    ]
    problems += [
        f"a row of {row[0]} points to {row[2]}, where there is none"
        for row in connection.execute("PRAGMA foreign_key_check")
    ]
    for table in INDEXES:
        caught_up(connection, table)
        try:
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            if "readonly" not in str(error):  # which asks nothing of the index
                problems.append(f"the search index {table}: {error}")
    rows = connection.execute("SELECT id, messages FROM conversations").fetchall()
    for ident, messages in rows:
        problems += _check(connection, ident, messages)
    return problems


def _check(connection: sqlite3.Connection, ident: str, messages: int) -> list[str]:
    try:
        trajectory = get_trajectory(connection, ident)
    except Exception as error:  # damaged bytes fail in as many ways as there are
        return [f"{ident}: the trajectory cannot be read ({type(error).__name__})"]
    if trajectory is None:
        return [f"{ident}: has no trajectory"]
    made = make_rows(trajectory)
    known = only_new(connection, made).known
    (rows,) = connection.execute(
        "SELECT count(*) FROM messages WHERE conversation_id = ?", (ident,)
    ).fetchone()
    if not len(made.messages) == rows == known or len(trajectory.messages) != messages:
        told = f"{len(trajectory.messages)} messages, but {rows} rows of {messages}"
        return [f"{ident}: {told}, of which {known} say the same"]
    return []


def vacuum(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Give unused space back; the size before and after."""
    before = path.stat().st_size
    catch_up(connection)
    for table in INDEXES:
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return before, path.stat().st_size


_KEPT = (
    "SELECT o.id, o.path, o.source, o.read_bytes, EXISTS (SELECT 1 FROM problems p"
    " WHERE p.origin_id = o.id AND p.code = 'raw-copy-failed'), sum(r.size_bytes),"
    " min(json_extract(r.event_types, '$.document') IS NOT NULL)"
    " FROM origins o JOIN raw_traces r ON r.origin_id = o.id GROUP BY o.id ORDER BY o.path"
)
"""Origins with raw records, and whether each was kept in one piece, not line by line. A copy that is
not whole (some syncs kept none) knows less than the facts do: then these stay."""


def rebuild(connection: sqlite3.Connection) -> Report:
    """Every trajectory made anew from what the store kept."""
    sync = Sync(connection)
    rows = [
        (ident, path, source)
        for ident, path, source, read, failed, kept, whole in connection.execute(_KEPT).fetchall()
        if not failed and (whole or not in_lines(path, source) or kept == read)
    ]
    with transaction(connection):
        connection.execute(
            "INSERT OR IGNORE INTO dirty SELECT DISTINCT platform, external_id FROM facts"
        )
    with scratch() as folder:
        # All files first: some formats look at the files beside the one that they read.
        files = [lay_out(connection, ident, path, Path(folder)) for ident, path, _ in rows]
        for (ident, path, source), file in zip(rows, files, strict=True):
            _read_again(sync, ident, path, source, file)
    return sync.run([], Survey())


def _read_again(sync: Sync, ident: int, path: str, source: str, file: Path) -> None:
    size = file.stat().st_size
    origin = recognise(Origin(str(file), Path(path).name, size=size))
    if not origin.source and not source:
        return  # events of an agent that no source knows yet
    origin = msgspec.structs.replace(origin, source=origin.source or source)
    taking = Taking(ident)
    with transaction(sync.connection):
        keys, last = keys_of(sync.connection, ident), last_fact(sync.connection)
        sync.connection.execute("DELETE FROM problems WHERE origin_id = ?", (ident,))
        sync.intake.put(taking, Batch(raw=False).read_origin(origin, size, path))
        for key in keys:
            Before(sync.connection, ident, key, last).forget()
        mark_dirty(sync.connection, taking.touched)


def lay_out(connection: sqlite3.Connection, ident: int, path: str, folder: Path) -> Path:
    """The origin as a file again, under the same names: formats are told by them too."""
    original = Path(path).with_name(plain_name(path))  # what was kept is unpacked
    file = folder.joinpath(*original.parts[1:] if original.is_absolute() else original.parts)
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "wb") as target:
        for _, data in iter_raw(connection, ident):
            target.write(data)
    return file
