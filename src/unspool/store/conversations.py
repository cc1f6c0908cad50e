"""Conversations in the tables: written, replaced, removed, read back, and made searchable.

What can be searched (`texts`, the index of their words) is written with a conversation, except by a
`list` that fills a new store: it does not wait for it. The index of pieces, of every three characters,
is always written later: it takes a quarter of the time of a first sync, and only `search --substring`
and patterns ask for it. What is missing is noted as due; `unspool sync` and the search itself catch up.
"""

import sqlite3
from collections.abc import Callable, Iterable
from functools import cache

import msgspec
import zstandard

from unspool.io.packing import tamed
from unspool.store.blocks import expand
from unspool.store.opening import transaction
from unspool.store.rows import Rows, make_rows, texts_of
from unspool.trajectory import Trajectory, unpack_trajectory

TEXTS = "typed, answered, called, returned"
"""What both indexes hold."""
CAUGHT_UP_AT_ONCE = 100
_NO_TEXTS = (None,) * 4
_OF = "id IN (SELECT id FROM messages WHERE conversation_id = ?)"
_TABLES = (
    "model_usage", "model_work", "tool_calls", "files_touched", "git_references", "checkpoints",
    "conversation_turns", "conversation_origins",
)  # fmt: skip


def unpack(packed: bytes) -> Trajectory:
    return unpack_trajectory(expand(packed))


def get_trajectory(connection: sqlite3.Connection, ident: str) -> Trajectory | None:
    row = connection.execute(
        "SELECT data FROM trajectories WHERE conversation_id = ?", (ident,)
    ).fetchone()
    return unpack(row[0]) if row else None


def put_trajectory(
    connection: sqlite3.Connection, trajectory: Trajectory, origin_ids: Iterable[int]
) -> None:
    put_rows(connection, make_rows(trajectory), origin_ids)


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
    (start,) = connection.execute("SELECT ifnull(max(id), 0) + 1 FROM messages").fetchone()
    start -= kept
    for table, values in (
        ("messages", [(start + row[0], *row[1:]) for row in rows.messages]),
        *rows.tables,
        ("conversation_origins", [(ident, origin) for origin in sorted(set(origin_ids))]),
    ):
        if values:  # most conversations have nothing for most tables
            marks = ", ".join("?" * len(values[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    connection.executemany("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?)", rows.links)
    if rows.texts is None:
        connection.execute("INSERT INTO texts_due VALUES (?)", (ident,))
    else:
        _put_texts(connection, ident, [(start + row[0], *row[1:]) for row in rows.texts])


def only_new(connection: sqlite3.Connection, rows: Rows) -> Rows:
    """Without the messages that the store has as they are: a conversation that goes on is not indexed
    anew."""
    if rows.texts is None:
        return rows._replace(known=0)
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
    connection.execute("DELETE FROM texts_due WHERE conversation_id = ?", (ident,))
    due = connection.execute("DELETE FROM pieces_due WHERE conversation_id = ?", (ident,))
    if not due.rowcount:
        connection.execute(
            f"INSERT INTO pieces (pieces, rowid, {TEXTS})"
            f" SELECT 'delete', id, {TEXTS} FROM texts WHERE {_OF}",
            (ident,),
        )
    gone = "id IN (SELECT id FROM messages WHERE conversation_id = ? AND message_index >= ?)"
    connection.execute(
        f"INSERT INTO words (words, rowid, {TEXTS})"
        f" SELECT 'delete', id, {TEXTS} FROM texts WHERE {gone}",
        (ident, kept),
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


# What can be searched.


def _put_texts(connection: sqlite3.Connection, ident: str, texts: list[tuple[object, ...]]) -> None:
    """Each text behind the number of its message."""
    for table in ("texts", f"words (rowid, {TEXTS})"):
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", texts)
    connection.execute("INSERT OR IGNORE INTO pieces_due VALUES (?)", (ident,))


def _make_searchable(connection: sqlite3.Connection, ident: str) -> None:
    try:
        trajectory = get_trajectory(connection, ident)
    except (zstandard.ZstdError, msgspec.DecodeError):
        trajectory = None  # damaged: `store verify` tells of it, and all others can be searched
    numbers = dict(
        connection.execute(
            "SELECT message_index, id FROM messages WHERE conversation_id = ?", (ident,)
        )
    )
    texts = texts_of(trajectory) if trajectory is not None else []
    _put_texts(connection, ident, [(numbers[index], *fields) for index, *fields in texts])


def _index_pieces(connection: sqlite3.Connection, ident: str) -> None:
    connection.execute(
        f"INSERT INTO pieces (rowid, {TEXTS}) SELECT id, {TEXTS} FROM texts WHERE {_OF}", (ident,)
    )


def _catch_up(
    connection: sqlite3.Connection, due: str, write: Callable[[sqlite3.Connection, str], None]
) -> None:
    while idents := connection.execute(
        f"SELECT conversation_id FROM {due} LIMIT {CAUGHT_UP_AT_ONCE}"
    ).fetchall():
        with transaction(connection):
            for row in idents:
                # Asked again, inside the transaction: another program may have been faster.
                taken = f"DELETE FROM {due} WHERE conversation_id = ?"
                if connection.execute(taken, row).rowcount:
                    write(connection, *row)


def catch_up_texts(connection: sqlite3.Connection) -> None:
    """Write what a first `list` left out."""
    _catch_up(connection, "texts_due", _make_searchable)


def catch_up(connection: sqlite3.Connection) -> None:
    """Both indexes complete."""
    catch_up_texts(connection)
    _catch_up(connection, "pieces_due", _index_pieces)


def caught_up(connection: sqlite3.Connection, pieces: bool = True) -> bool:
    """Whether everything can be found now: a store may be read-only, or busy."""
    try:
        (catch_up if pieces else catch_up_texts)(connection)
    except sqlite3.OperationalError:
        return False
    return True
