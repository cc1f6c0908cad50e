"""Conversations in the tables: written, replaced, removed, read back, and made searchable.

What can be searched is in `texts` as soon as a conversation is written. Its two indexes follow: `words`
right behind it, except in a new store that a `list` fills, which does not wait for it; `pieces` (every
three characters) takes a quarter of the time of a first sync, and only `search --substring` and
patterns ask for it. Messages get ever higher numbers, and `indexed` says up to which one an index
holds them.
"""

import sqlite3
from collections.abc import Iterable
from functools import cache

from unspool.io.packing import tamed
from unspool.store.blocks import expand
from unspool.store.opening import BUSY_SECONDS, transaction
from unspool.store.rows import Rows, make_rows
from unspool.trajectory import Trajectory, unpack_trajectory

WORDS, PIECES = INDEXES = ("words", "pieces")
TEXTS = "typed, answered, called, returned"
"""What both indexes hold."""
INDEXED_AT_ONCE = 5000
CATCH_UP_MS = 500
_NO_TEXTS = (None,) * 4
_TABLES = (
    "model_usage", "tool_calls", "files_touched", "git_references", "checkpoints",
    "conversation_turns", "conversation_origins",
)  # fmt: skip


def unpack(packed: bytes) -> Trajectory:
    return unpack_trajectory(expand(packed))


def get_trajectory(connection: sqlite3.Connection, ident: str) -> Trajectory | None:
    row = connection.execute(
        "SELECT data FROM trajectories WHERE conversation_id = ?", (ident,)
    ).fetchone()
    return unpack(row[0]) if row else None


def put_rows(connection: sqlite3.Connection, rows: Rows, origin_ids: Iterable[int]) -> None:
    """Write the conversation, in place of what the store had of it."""
    connection.execute("SAVEPOINT conversation")
    try:
        _put(connection, rows, origin_ids)
    except OverflowError:
        # A number in it is larger than any column: those count nothing and are left out.
        connection.execute("ROLLBACK TO conversation")
        _put(connection, make_rows(tamed(unpack(rows.packed))), origin_ids)
    connection.execute("RELEASE conversation")


def _put(connection: sqlite3.Connection, rows: Rows, origin_ids: Iterable[int]) -> None:
    ident = rows.ident
    rows = rows if rows.known is not None else only_new(connection, rows)
    kept = rows.known or 0
    if connection.execute("SELECT 1 FROM conversations WHERE id = ?", (ident,)).fetchone():
        drop_rows(connection, ident, kept)
    if rows.session is not None:
        connection.execute(_PUT_SESSION, rows.session)
    connection.execute(_upsert(tuple(rows.conversation)), rows.conversation)
    connection.execute("INSERT OR REPLACE INTO trajectories VALUES (?, ?)", (ident, rows.packed))
    # Numbers of messages that an index has met are not given again.
    (last,) = connection.execute(
        "SELECT max(ifnull((SELECT max(id) FROM messages), 0), max(up_to)) FROM indexed"
    ).fetchone()
    start = last + 1 - kept
    for table, values in (
        ("messages", [(start + row[0], *row[1:]) for row in rows.messages]),
        ("texts", [(start + row[0], *row[1:]) for row in rows.texts]),
        *rows.tables,
        ("conversation_origins", [(ident, origin) for origin in sorted(set(origin_ids))]),
    ):
        if values:  # most conversations have nothing for most tables
            marks = ", ".join("?" * len(values[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    connection.executemany("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?)", rows.links)


def only_new(connection: sqlite3.Connection, rows: Rows) -> Rows:
    """Without the messages that the store has as they are: a conversation that goes on is not indexed
    anew."""
    known = connection.execute(
        f"SELECT m.*, {TEXTS} FROM messages m LEFT JOIN texts t ON t.id = m.id"
        " WHERE m.conversation_id = ? ORDER BY m.id",
        (rows.ident,),
    )
    texts = {row[0]: row[1:] for row in rows.texts}
    kept = 0
    for row, old in zip(rows.messages, known, strict=False):
        columns = len(row)
        if old[1:columns] != row[1:] or old[columns:] != texts.get(row[0], _NO_TEXTS):
            break
        kept += 1
    return rows._replace(
        messages=rows.messages[kept:],
        texts=[row for row in rows.texts if row[0] >= kept],
        known=kept,
    )


@cache
def _upsert(columns: tuple[str, ...]) -> str:
    marks = ", ".join(f":{name}" for name in columns)
    updates = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "id")
    return (
        f"INSERT INTO conversations ({', '.join(columns)}) VALUES ({marks})"
        f" ON CONFLICT(id) DO UPDATE SET {updates}"
    )


_PUT_SESSION = (
    "INSERT INTO cursor_sessions VALUES (:id, :external, :hash, :name, :path, :start, :end, '{}')"
    " ON CONFLICT(id) DO UPDATE SET"
    " started_at = min(started_at, excluded.started_at),"
    " ended_at = nullif(max(ifnull(ended_at, ''), ifnull(excluded.ended_at, '')), ''),"
    " workspace_name = ifnull(excluded.workspace_name, workspace_name),"
    " workspace_path = ifnull(excluded.workspace_path, workspace_path),"
    " workspace_hash = CASE excluded.workspace_hash WHEN '' THEN workspace_hash"
    " ELSE excluded.workspace_hash END"
)


def drop_rows(connection: sqlite3.Connection, ident: str, kept: int = 0) -> None:
    """All rows of a conversation but its own, to which foreign keys of others may point, and those of
    its first messages that are `kept`."""
    gone = "id IN (SELECT id FROM messages WHERE conversation_id = ? AND message_index >= ?)"
    for index in INDEXES:
        connection.execute(
            f"INSERT INTO {index} ({index}, rowid, {TEXTS}) SELECT 'delete', id, {TEXTS} FROM texts"
            f" WHERE {gone} AND id <= (SELECT up_to FROM indexed WHERE name = ?)",
            (ident, kept, index),
        )
    for table in ("texts", "messages"):
        connection.execute(f"DELETE FROM {table} WHERE {gone}", (ident, kept))
    for table in _TABLES:
        connection.execute(f"DELETE FROM {table} WHERE conversation_id = ?", (ident,))
    connection.execute("DELETE FROM links WHERE parent_id = ? OR child_id = ?", (ident, ident))


def remove(connection: sqlite3.Connection, ident: str) -> None:
    drop_rows(connection, ident)
    connection.execute(
        "DELETE FROM conversation_alignments WHERE claude_conversation_id = ?"
        " OR cursor_conversation_id = ?",
        (ident, ident),
    )
    connection.execute("DELETE FROM trajectories WHERE conversation_id = ?", (ident,))
    connection.execute("DELETE FROM conversations WHERE id = ?", (ident,))


def catch_up(connection: sqlite3.Connection, indexes: Iterable[str] = INDEXES) -> None:
    """Write what these indexes do not hold yet."""
    for index in indexes:
        due = f"SELECT id FROM texts WHERE id > (SELECT up_to FROM indexed WHERE name = '{index}')"
        while connection.execute(f"{due} LIMIT 1").fetchone():
            with transaction(connection):
                # Asked again, inside the transaction: another program may have been faster.
                some = f"{due} ORDER BY id LIMIT {INDEXED_AT_ONCE}"
                (end,) = connection.execute(f"SELECT max(id) FROM ({some})").fetchone()
                if end is not None:
                    connection.execute(
                        f"INSERT INTO {index} (rowid, {TEXTS})"
                        f" SELECT id, {TEXTS} FROM texts WHERE id IN ({some}) ORDER BY id"
                    )
                    done = "UPDATE indexed SET up_to = ? WHERE name = ?"
                    connection.execute(done, (end, index))


def is_new(connection: sqlite3.Connection) -> bool:
    """Whether nothing was ever made searchable."""
    statement = "SELECT 1 FROM indexed WHERE name = ? AND up_to > 0"
    return connection.execute(statement, (WORDS,)).fetchone() is None


def caught_up(connection: sqlite3.Connection, index: str) -> bool:
    """Whether the index holds everything now: a store may be read-only, or somebody writes it, for
    whom nobody waits long."""
    try:
        connection.execute(f"PRAGMA busy_timeout = {CATCH_UP_MS}")
        catch_up(connection, [index])
    except sqlite3.OperationalError:
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    return True
