"""Events: what an agent told while it worked, one row of `raw_traces` each, and raw records read back.

An event keeps its id, its type, its number in the queue and when it arrived. Its bytes are a line of
the dated log that the events of a session make, so `rebuild` lays that log out like any other file.
"""

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from unspool.facts import Key
from unspool.store.blocks import RawBlock, decode_block, expand, pack_records, put_raw
from unspool.store.reading import event_type as type_of
from unspool.store.survey import is_whole

DATABASE_TRACE = "database_trace"
"""The type of what a monitor saw in an editor's database."""


class Event(NamedTuple):
    """One live event on its way into the store."""

    event_id: str
    key: Key
    event_type: str
    sequence: int
    received_ns: int
    offset: int
    """Of its line in the log of its session."""
    line: bytes


class RawEvent(msgspec.Struct, omit_defaults=True):
    """One raw record of a conversation, as `store events` prints it."""

    platform: str
    event_type: str
    origin: str
    offset: int
    event_id: str | None = None
    sequence: int | None = None
    received_at: str | None = None
    payload: msgspec.Raw | None = None
    text: str | None = None
    """In place of the payload: what is not JSON."""


def put_events(connection: sqlite3.Connection, origin_id: int, events: list[Event]) -> None:
    blocks: list[RawBlock] = []
    for event in events:
        at = stamp(event.received_ns)
        data = pack_records([(event.offset, event.line)])
        blocks.append(
            RawBlock(
                event.key, json.dumps({event.event_type: 1}), at, at, event.offset, 1, len(event.line),
                data, event.event_id, event.event_type, event.sequence, at,
            )
        )  # fmt: skip
    put_raw(connection, origin_id, blocks)


def stamp(time_ns: int) -> str:
    """With the microseconds that it has, whatever they are: texts of one length sort by time."""
    moment = datetime.fromtimestamp(time_ns // 1000 / 1_000_000, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def position(connection: sqlite3.Connection, queue: str) -> str:
    """How far a queue was read; empty where it never was."""
    row = connection.execute("SELECT position FROM cursors WHERE name = ?", (queue,)).fetchone()
    return str(row[0]) if row else ""


def put_position(connection: sqlite3.Connection, queue: str, at: str) -> None:
    connection.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (queue, at))


def iter_events(
    connection: sqlite3.Connection, key: Key, only_type: str | None = None
) -> Iterator[RawEvent]:
    """The raw records of a conversation: live events by their number, then those of files."""
    rows = connection.execute(
        "SELECT o.path, r.data, r.event_id, r.event_type, r.sequence, r.received_at"
        " FROM raw_traces r JOIN origins o ON o.id = r.origin_id"
        " WHERE r.platform = ? AND r.external_id = ?"
        " AND (? IS NULL OR r.event_type = ? OR (r.event_type IS NULL"
        " AND EXISTS (SELECT 1 FROM json_each(r.event_types) WHERE key = ?)))"
        " ORDER BY r.sequence IS NULL, r.sequence, o.path, r.first_offset",
        (*key, only_type, only_type, only_type),
    )
    for path, data, event_id, kind, sequence, received_at in rows:
        for offset, record in decode_block(expand(data)):
            event_type = kind or type_of(record, "")
            if only_type is not None and event_type != only_type:
                continue
            event = RawEvent(key[0], event_type, path, offset, event_id, sequence, received_at)
            if record.strip() and is_whole(record):
                event.payload = msgspec.Raw(record.strip())
            else:
                event.text = record.decode("utf-8", "replace")
            yield event
