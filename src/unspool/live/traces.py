"""Database traces: rows of an editor's database, as events of the conversations that they belong to.

    {"table":"cursorDiskKV","key":"bubbleId:c1:b7","value":{"text":"…"},"database":"/home/ann/…/state.vscdb"}

They are kept for those who want to know what was there and when; the facts come from the database
itself.
"""

import hashlib
import sqlite3
import time

import msgspec

from unspool.hooks.spool import Layout
from unspool.io.origins import Touched, TouchedRow
from unspool.live.logs import traces_path
from unspool.store.events import DATABASE_TRACE, Event, put_events
from unspool.store.intake import now


def put_database_traces(
    connection: sqlite3.Connection, layout: Layout, source: str, database: str, touched: Touched
) -> None:
    path = traces_path(layout, database)
    connection.execute(
        "INSERT INTO origins (path, name, source, size_bytes, mtime_ns, read_bytes, tail_hash,"
        " first_seen, last_read) VALUES (?1, 'database traces', '', 0, 0, 0, '', ?2, ?2)"
        " ON CONFLICT (path) DO UPDATE SET last_read = ?2",
        (path, now()),
    )
    origin_id, offset, number = connection.execute(
        "SELECT o.id, o.read_bytes, (SELECT ifnull(max(sequence), 0) FROM raw_traces r"
        " WHERE r.origin_id = o.id) FROM origins o WHERE path = ?",
        (path,),
    ).fetchone()
    events: list[Event] = []
    received_ns = time.time_ns()
    for row in touched.rows:
        line = _line(database, row)
        event_id = hashlib.sha256(b"%s\0%d" % (line, received_ns)).hexdigest()
        number += 1
        events.append(
            Event(
                event_id, (source, row.conversation), DATABASE_TRACE, number, received_ns, offset, line
            )
        )  # fmt: skip
        offset += len(line)
    put_events(connection, origin_id, events)
    connection.execute(
        "UPDATE origins SET read_bytes = ?1, size_bytes = ?1 WHERE id = ?2", (offset, origin_id)
    )


def _line(database: str, row: TouchedRow) -> bytes:
    try:
        value: object = msgspec.json.decode(row.value or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = (row.value or b"").decode("utf-8", "replace")
    told = {"table": row.table, "key": row.key, "value": value, "database": database}
    return msgspec.json.encode(told) + b"\n"
