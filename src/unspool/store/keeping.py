"""Keeping: facts and raw records of conversations, in compressed blocks."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec
import zstandard

from unspool.facts import MESSAGE_BEARING, AnyFact, Key, ListSeen, SnapshotSeen
from unspool.packing import Packer
from unspool.pipeline.collect import Gathered
from unspool.times import format_time

BLOCK_BYTES = 1024 * 1024
MOST_WAITING_BYTES = 16 * BLOCK_BYTES
"""Of many conversations in one log: then blocks are written that are not full."""
_encode = Packer().encode
_decode_facts = msgspec.msgpack.Decoder(list[AnyFact]).decode
_decode_block = msgspec.msgpack.Decoder(list[tuple[int, bytes]]).decode
_compressor = zstandard.ZstdCompressor(level=3)
_decompressor = zstandard.ZstdDecompressor()


def squeeze(data: bytes) -> bytes:
    return _compressor.compress(data)


def expand(data: bytes) -> bytes:
    return _decompressor.decompress(data)


class RawRecord(NamedTuple):
    """One record as it was read: where, whose, what kind, when."""

    offset: int
    key: Key
    event_type: str
    time: int | None
    data: bytes


def put_facts(
    connection: sqlite3.Connection, origin_id: int, key: Key, source: str, facts: list[AnyFact]
) -> None:
    """Facts of one conversation from one origin; those of a tail stand in rows of their own."""
    bearing = [fact.offset for fact in facts if isinstance(fact, MESSAGE_BEARING)]
    connection.execute(
        "INSERT INTO facts (platform, external_id, origin_id, source, first_offset, data)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*key, origin_id, source, min(bearing, default=-1), squeeze(_encode(facts))),
    )


def moved(fact: AnyFact, path: str) -> AnyFact:
    """The fact as if it had been read at another path."""
    made = msgspec.structs.replace(fact, origin=path)
    if isinstance(made, SnapshotSeen):
        views = tuple(msgspec.structs.replace(view, origin=path) for view in made.views)
        return msgspec.structs.replace(made, views=views)
    if isinstance(made, ListSeen) and made.view is not None:
        return msgspec.structs.replace(made, view=msgspec.structs.replace(made.view, origin=path))
    return made


def get_facts(connection: sqlite3.Connection, key: Key) -> Gathered | None:
    """All kept facts of a conversation, of all its origins."""
    rows = connection.execute(
        "SELECT source, data FROM facts WHERE platform = ? AND external_id = ? ORDER BY id", key
    )
    made: Gathered | None = None
    for source, data in rows:
        made = made or Gathered(source)
        for fact in _decode_facts(expand(data)):
            made.add(fact)
    return made


def forget_origin(connection: sqlite3.Connection, origin_id: int) -> list[Key]:
    """Drop what was kept of an origin that is read anew; the conversations that it was part of."""
    keys = forget_facts(connection, origin_id)
    for table in ("raw_traces", "problems"):
        connection.execute(f"DELETE FROM {table} WHERE origin_id = ?", (origin_id,))
    return keys


def forget_facts(connection: sqlite3.Connection, origin_id: int) -> list[Key]:
    keys = connection.execute(
        "SELECT DISTINCT platform, external_id FROM facts WHERE origin_id = ?", (origin_id,)
    ).fetchall()
    connection.execute("DELETE FROM facts WHERE origin_id = ?", (origin_id,))
    return [(str(platform), str(ident)) for platform, ident in keys]


def put_raw(connection: sqlite3.Connection, origin_id: int, records: Iterable[RawRecord]) -> None:
    """Records in blocks per conversation, in order."""
    blocks: dict[Key, list[RawRecord]] = {}
    sizes: Counter[Key] = Counter()
    waiting = 0
    for record in records:
        blocks.setdefault(record.key, []).append(record)
        sizes[record.key] += len(record.data)
        waiting += len(record.data)
        full = [record.key] if sizes[record.key] >= BLOCK_BYTES else []
        if waiting >= MOST_WAITING_BYTES:
            full = list(blocks)
        for key in full:
            _put_block(connection, origin_id, key, blocks.pop(key))
            waiting -= sizes.pop(key)
    for key, block in blocks.items():
        _put_block(connection, origin_id, key, block)


def _put_block(
    connection: sqlite3.Connection, origin_id: int, key: Key, block: list[RawRecord]
) -> None:
    times = [record.time for record in block if record.time is not None]
    types = Counter(record.event_type for record in block)
    data = _encode([(record.offset, record.data) for record in block])
    connection.execute(
        "INSERT INTO raw_traces (platform, external_id, origin_id, event_types, started_at, ended_at,"
        " first_offset, records, size_bytes, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            key[0],
            key[1],
            origin_id,
            json.dumps(dict(sorted(types.items()))),
            format_time(min(times)) if times else None,
            format_time(max(times)) if times else None,
            block[0].offset,
            len(block),
            sum(len(record.data) for record in block),
            squeeze(data),
        ),
    )


def iter_raw(connection: sqlite3.Connection, origin_id: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of all kept records of an origin, in the order in which they stood."""
    rows = connection.execute(
        "SELECT first_offset, data FROM raw_traces WHERE origin_id = ? ORDER BY first_offset",
        (origin_id,),
    )
    waiting: list[tuple[int, bytes]] = []
    for first, data in rows:
        while waiting and waiting[0][0] < first:
            yield heappop(waiting)
        for record in _decode_block(expand(data)):
            heappush(waiting, record)
    while waiting:
        yield heappop(waiting)
