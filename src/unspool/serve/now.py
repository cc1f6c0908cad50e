"""Now: what every agent is doing, its sub-agents below it."""

import sqlite3
import time

from unspool.io.times import format_time
from unspool.serve.answers import Doing, Now
from unspool.serve.conversations import listed
from unspool.serve.queries import NoQuery

RECENT_SECONDS = 24 * 3600


def now(connection: sqlite3.Connection, query: NoQuery) -> Now:
    since = format_time(int((time.time() - RECENT_SECONDS) * 1_000_000))
    rows = connection.execute(
        "SELECT id FROM conversations WHERE ended_at >= ? AND parent_id IS NULL"
        " ORDER BY ended_at DESC LIMIT 100",
        (since,),
    )
    return Now(
        [Doing(listed=listed(connection, row), state="idle", children=[]) for (row,) in rows], False
    )


def is_live(connection: sqlite3.Connection) -> bool:
    """Whether a daemon keeps the store current."""
    return False
