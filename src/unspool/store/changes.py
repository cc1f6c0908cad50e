"""Changes: which conversations were written or removed, for readers in any process.

Triggers on `conversations` write a row of `changes` in the transaction that writes the conversation,
whoever does it. A reader keeps the number of the last change that it saw and asks for what came after;
SQLite's data version tells, for some microseconds, whether any other connection has written. Changes
are kept for a week. A reader that was away for longer is told to begin anew.
"""

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

KEPT = timedelta(days=7)
POLL_SECONDS = 0.1
MOST_AT_ONCE = 1000


class Change(NamedTuple):
    seq: int
    conversation: str
    """`conversations.id`"""
    kind: str
    """new, changed or removed"""
    at: str


class News(NamedTuple):
    """What a reader missed."""

    seq: int
    """Of the last change: the reader's place from now on."""
    changes: list[Change]
    reset: bool = False
    """Changes that the reader has not seen are no longer there: it must begin anew."""


def last_change(connection: sqlite3.Connection) -> int:
    """The number of the last change ever made, whether or not it is still there."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
    return int(row[0]) if row else 0


def changes_after(connection: sqlite3.Connection, seq: int, limit: int = MOST_AT_ONCE) -> News:
    """The changes behind `seq`, oldest first, at most `limit`."""
    rows = connection.execute(
        "SELECT seq, conversation, kind, at FROM changes WHERE seq > ? ORDER BY seq LIMIT ?",
        (seq, limit),
    )
    changes = [Change(*row) for row in rows]
    last = last_change(connection)
    # Behind the last one: the store was made anew. A gap at the beginning: rows were dropped.
    first = changes[0].seq if changes else last + 1
    if seq > last or first > seq + 1:
        return News(last, [], reset=True)
    return News(changes[-1].seq if changes else seq, changes)


def drop_old_changes(connection: sqlite3.Connection) -> None:
    limit = (datetime.now(UTC) - KEPT).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    connection.execute("DELETE FROM changes WHERE at < ?", (limit,))
