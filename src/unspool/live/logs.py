"""Logs: the events of a session as the dated hook log that batch reads; rows of databases as events.

Every session has a log of its own, `live/logs/<platform>/<session>.jsonl`. No such file exists: its
lines are in `raw_traces`, one per event. But they are what a logging hook would have written,

    {"_logged_at":"2026-03-04T10:00:00.123456Z","session_id":"s1","hook_event_name":"Stop", …}

and they are read by the same source, under the same path, so that a `sync` of such files gives the
same conversations (law ten: live = batch).

What was written to an editor's database is a log as well, for those who want to know what was there and
when; the facts come from the database itself.

    {"table":"cursorDiskKV","key":"bubbleId:c1:b7","value":{"text":"…"},"database":"/home/ann/…/state.vscdb"}
"""

import hashlib
import re
import sqlite3
import time
from pathlib import Path

import msgspec

from unspool.hooks.spool import Layout
from unspool.io.origins import Touched, TouchedRow
from unspool.live.intake import read_payload
from unspool.live.queue import Arrival
from unspool.store.events import DATABASE_TRACE, Event, put_events, stamp
from unspool.store.intake import now

NOBODYS = "unknown"
"""Where events go that name no session."""
_PLAIN = re.compile(r"[\w.@:+-]{1,120}", re.ASCII)


def log_path(layout: Layout, arrival: Arrival) -> str:
    session = arrival.session or NOBODYS
    if not _PLAIN.fullmatch(session) or session.startswith("."):
        session = hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
    platform = arrival.platform if _PLAIN.fullmatch(arrival.platform) else NOBODYS
    return str(Path(layout.live, "logs", platform, f"{session}.jsonl"))


def log_line(arrival: Arrival) -> bytes:
    """The payload with the time of its arrival, on one line."""
    at = stamp(arrival.received_ns).encode()
    # In JSON a line end is space between tokens; in a broken payload it is no worse than a space.
    data = arrival.data.replace(b"\n", b" ").strip()
    if not data.startswith(b"{") or not read_payload(data)[1]:
        return b"%s %s\n" % (at, data)
    rest = data[1:].lstrip()
    return b'{"_logged_at":"%s"%s%s\n' % (at, b"" if rest.startswith(b"}") else b",", rest)


def put_database_traces(
    connection: sqlite3.Connection, layout: Layout, source: str, database: str, touched: Touched
) -> None:
    """What was written to an editor's database, into a log of its own."""
    name = hashlib.sha256(database.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    path = str(Path(layout.live, "logs", DATABASE_TRACE, f"{name}.jsonl"))
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
