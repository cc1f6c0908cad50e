"""Blocks: facts and raw records of conversations, compressed."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec
import zstandard

from unspool.facts import (
    ECHO,
    MESSAGE_BEARING,
    AnyFact,
    Key,
    ListSeen,
    MessageSeen,
    SnapshotSeen,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.io.packing import Packer
from unspool.io.times import format_time
from unspool.pipeline.collect import Gathered

BLOCK_BYTES = 1024 * 1024
MOST_WAITING_BYTES = 16 * BLOCK_BYTES
"""Of many conversations in one log: then blocks are written that are not full."""
_encode = Packer().encode
_decode_facts = msgspec.msgpack.Decoder(list[AnyFact]).decode
decode_block = msgspec.msgpack.Decoder(list[tuple[int, bytes]]).decode
LEVEL = 1
"""Level 3 takes twice the time for a store that is 3 % smaller."""
_compressor = zstandard.ZstdCompressor(level=LEVEL)
_decompressor = zstandard.ZstdDecompressor()


def squeeze(data: bytes) -> bytes:
    return _compressor.compress(data)


def expand(data: bytes) -> bytes:
    return _decompressor.decompress(data)


class FactBlock(NamedTuple):
    """Facts of one conversation from one origin; those of a tail stand in a block of their own."""

    key: Key
    source: str
    first_offset: int
    """Of a message-bearing record; -1 where there is none."""
    data: bytes


class RawBlock(NamedTuple):
    """Records of one conversation from one origin, in order."""

    key: Key
    event_types: str
    started_at: str | None
    ended_at: str | None
    first_offset: int
    records: int
    size_bytes: int
    data: bytes


class RawRecord(NamedTuple):
    """One record as it was read: where, whose, what kind, when."""

    offset: int
    key: Key
    event_type: str
    time: int | None
    data: bytes


def fact_block(key: Key, source: str, facts: list[AnyFact]) -> FactBlock:
    first = min((fact.offset for fact in facts if isinstance(fact, MESSAGE_BEARING)), default=-1)
    return FactBlock(key, source, first, squeeze(_encode(facts)))


def put_facts(connection: sqlite3.Connection, origin_id: int, block: FactBlock) -> None:
    connection.execute(
        "INSERT INTO facts (platform, external_id, origin_id, source, first_offset, data)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*block.key, origin_id, block.source, block.first_offset, block.data),
    )


def put_raw(connection: sqlite3.Connection, origin_id: int, block: RawBlock) -> None:
    connection.execute(
        "INSERT INTO raw_traces (platform, external_id, origin_id, event_types, started_at, ended_at,"
        " first_offset, records, size_bytes, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*block.key, origin_id, *block[1:]),
    )


def moved(fact: AnyFact, path: str) -> AnyFact:
    """The fact as if it had been read at another path."""
    there = msgspec.structs.replace(fact, origin=path)
    if isinstance(there, SnapshotSeen):
        views = tuple(msgspec.structs.replace(view, origin=path) for view in there.views)
        return msgspec.structs.replace(there, views=views)
    if isinstance(there, ListSeen) and there.view is not None:
        return msgspec.structs.replace(there, view=msgspec.structs.replace(there.view, origin=path))
    return there


def get_facts(
    connection: sqlite3.Connection, key: Key, after: int = 0, made: Gathered | None = None
) -> Gathered | None:
    """All kept facts of a conversation, of all its origins; of known ones those behind a block."""
    rows = connection.execute(
        "SELECT source, data FROM facts WHERE platform = ? AND external_id = ? AND id > ?"
        " ORDER BY id",
        (*key, after),
    )
    for source, data in rows:
        made = made or Gathered(source)
        for fact in _decode_facts(expand(data)):
            made.add(fact)
    return made


def forget_facts(connection: sqlite3.Connection, origin_id: int) -> list[Key]:
    """All but what the origin itself forgot: nobody could tell it again."""
    keys = keys_of(connection, origin_id)
    connection.execute("DELETE FROM facts WHERE origin_id = ? AND gone_since IS NULL", (origin_id,))
    return keys


Told = dict[Key, tuple[str, list[AnyFact]]]
"""Conversation → the source, and what an origin said of it."""
_THINGS = (MessageSeen, ToolCalled, ToolReturned)
_BEFORE = 1 << 40
"""Taken off the offsets of what is kept: it stands before what the file says now."""


def facts_told(connection: sqlite3.Connection, origin_id: int) -> Told:
    rows = connection.execute(
        "SELECT platform, external_id, source, data FROM facts"
        " WHERE origin_id = ? AND gone_since IS NULL ORDER BY id",
        (origin_id,),
    )
    by_key: Told = {}
    for platform, ident, source, data in rows:
        facts = by_key.setdefault((str(platform), str(ident)), (str(source), []))[1]
        facts += _decode_facts(expand(data))
    return by_key


def keep_lost(connection: sqlite3.Connection, origin_id: int, before: Told, now: str) -> set[Key]:
    """Keep the records that a file held and, rewritten by its agent, no longer holds. A file that
    shares less than half of them is another one."""
    after = facts_told(connection, origin_id)
    touched: set[Key] = set()
    for key, (source, facts) in before.items():
        entries = {fact.entry for fact in after.get(key, ("", []))[1]}
        things = [fact for fact in facts if fact.entry and isinstance(fact, _THINGS)]
        lost: list[AnyFact] = [fact for fact in things if fact.entry not in entries]
        if not lost or 2 * len(lost) > len(things):
            continue
        messages = {fact.id for fact in lost if isinstance(fact, MessageSeen)}
        lost += [f for f in facts if isinstance(f, UsageReported) and f.subject in messages]
        kept = [msgspec.structs.replace(fact, offset=fact.offset - _BEFORE) for fact in lost]
        connection.execute(
            "INSERT INTO facts (platform, external_id, origin_id, source, first_offset, data,"
            " gone_since) VALUES (?, ?, ?, ?, -1, ?, ?)",
            (*key, origin_id, source, squeeze(_encode(kept)), now),
        )
        touched.add(key)
    return touched


def keys_of(connection: sqlite3.Connection, origin_id: int) -> list[Key]:
    """The conversations that an origin told of."""
    rows = connection.execute(
        "SELECT DISTINCT platform, external_id FROM facts WHERE origin_id = ?", (origin_id,)
    )
    return [(str(platform), str(ident)) for platform, ident in rows]


def last_fact(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT ifnull(max(id), 0) FROM facts").fetchone()[0])


def forget_old_facts(
    connection: sqlite3.Connection, origin_id: int, key: Key, last: int, now: str
) -> bool:
    """Drop what a database said of a conversation before, up to the fact `last`.

    Where it says nothing of it now (it was deleted, or the database begun anew) what was said stays
    and is marked; but not mere echoes, whose conversation may have come.
    """
    mine = "origin_id = ? AND platform = ? AND external_id = ?"
    said = f"SELECT 1 FROM facts WHERE {mine} AND id > ? LIMIT 1"
    if connection.execute(said, (origin_id, *key, last)).fetchone() is None:
        rows = connection.execute(f"SELECT data FROM facts WHERE {mine}", (origin_id, *key))
        facts = (fact for (data,) in rows for fact in _decode_facts(expand(data)))
        if any(isinstance(f, MESSAGE_BEARING) and getattr(f, "rank", 0) < ECHO for f in facts):
            mark = f"UPDATE facts SET gone_since = ifnull(gone_since, ?) WHERE {mine}"
            connection.execute(mark, (now, origin_id, *key))
            return False
    connection.execute(f"DELETE FROM facts WHERE {mine} AND id <= ?", (origin_id, *key, last))
    return True


def raw_blocks(records: Iterable[RawRecord]) -> Iterator[RawBlock]:
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
            yield _raw_block(key, blocks.pop(key))
            waiting -= sizes.pop(key)
    for key, block in blocks.items():
        yield _raw_block(key, block)


def _raw_block(key: Key, block: list[RawRecord]) -> RawBlock:
    times = [record.time for record in block if record.time is not None]
    types = Counter(record.event_type for record in block)
    return RawBlock(
        key,
        json.dumps(dict(sorted(types.items()))),
        format_time(min(times)) if times else None,
        format_time(max(times)) if times else None,
        block[0].offset,
        len(block),
        sum(len(record.data) for record in block),
        pack_records([(record.offset, record.data) for record in block]),
    )


def pack_records(records: list[tuple[int, bytes]]) -> bytes:
    return squeeze(_encode(records))


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
        for record in decode_block(expand(data)):
            heappush(waiting, record)
    while waiting:
        yield heappop(waiting)
