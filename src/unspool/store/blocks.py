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
    event_id: str | None = None
    """Of one live event."""
    event_type: str | None = None
    sequence: int | None = None
    received_at: str | None = None


class RawRecord(NamedTuple):
    """One record as it was read: where, whose, what kind, when."""

    offset: int
    key: Key
    event_type: str
    time: int | None
    data: bytes


def fact_block(key: Key, source: str, facts: list[AnyFact]) -> FactBlock:
    return FactBlock(key, source, squeeze(_encode(facts)))


def put_facts(connection: sqlite3.Connection, origin_id: int, block: FactBlock) -> None:
    connection.execute(
        "INSERT INTO facts (platform, external_id, origin_id, source, data) VALUES (?, ?, ?, ?, ?)",
        (*block.key, origin_id, block.source, block.data),
    )


def put_raw(connection: sqlite3.Connection, origin_id: int, blocks: Iterable[RawBlock]) -> None:
    connection.executemany(
        "INSERT INTO raw_traces (platform, external_id, origin_id, event_types, started_at, ended_at,"
        " first_offset, records, size_bytes, data, event_id, event_type, sequence, received_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((*block.key, origin_id, *block[1:]) for block in blocks),
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


_MINE = "origin_id = ? AND platform = ? AND external_id = ?"
_THINGS = (MessageSeen, ToolCalled, ToolReturned)
_BEFORE = 1 << 40
"""Taken off the offsets of what is kept: it stands before what the file says now."""


def keys_of(connection: sqlite3.Connection, origin_id: int) -> list[Key]:
    """The conversations that an origin told of."""
    rows = connection.execute(
        "SELECT DISTINCT platform, external_id FROM facts WHERE origin_id = ?", (origin_id,)
    )
    return [(str(platform), str(ident)) for platform, ident in rows]


def last_fact(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT ifnull(max(id), 0) FROM facts").fetchone()[0])


class Before(NamedTuple):
    """What an origin said of a conversation before it was read anew: all up to the fact `last`."""

    connection: sqlite3.Connection
    origin_id: int
    key: Key
    last: int

    def _facts(self, condition: str) -> list[AnyFact]:
        rows = self.connection.execute(
            f"SELECT data FROM facts WHERE {_MINE} AND {condition} ORDER BY id",
            (self.origin_id, *self.key, self.last),
        )
        return [fact for (data,) in rows for fact in _decode_facts(expand(data))]

    def forget(self, is_database: bool = False) -> None:
        """But what a file itself forgot stays: nobody could tell it again."""
        still = "" if is_database else " AND gone_since IS NULL"
        statement = f"DELETE FROM facts WHERE {_MINE} AND id <= ?{still}"
        self.connection.execute(statement, (self.origin_id, *self.key, self.last))

    def keep_untold(self, now: str) -> bool:
        """Mark what a database said that says nothing of the conversation now: it was deleted, or the
        database begun anew. But not mere echoes, whose conversation may have come. Whether it stays."""
        mine = (self.origin_id, *self.key)
        said = f"SELECT 1 FROM facts WHERE {_MINE} AND id > ? LIMIT 1"
        if self.connection.execute(said, (*mine, self.last)).fetchone() is not None or not any(
            isinstance(fact, MESSAGE_BEARING) and getattr(fact, "rank", 0) < ECHO
            for fact in self._facts("id <= ?")
        ):
            return False
        mark = f"UPDATE facts SET gone_since = ifnull(gone_since, ?) WHERE {_MINE}"
        self.connection.execute(mark, (now, *mine))
        return True

    def keep_lost(self, now: str) -> bool:
        """Keep the records that a file held and, rewritten by its agent, no longer holds. A file that
        shares less than half of them is another one. Whether there are any."""
        facts = self._facts("id <= ? AND gone_since IS NULL")
        entries = {fact.entry for fact in self._facts("id > ?")}
        things = [fact for fact in facts if fact.entry and isinstance(fact, _THINGS)]
        lost: list[AnyFact] = [fact for fact in things if fact.entry not in entries]
        if not lost or 2 * len(lost) > len(things):
            return False
        messages = {fact.id for fact in lost if isinstance(fact, MessageSeen)}
        lost += [f for f in facts if isinstance(f, UsageReported) and f.subject in messages]
        kept = [msgspec.structs.replace(fact, offset=fact.offset - _BEFORE) for fact in lost]
        self.connection.execute(
            "INSERT INTO facts (platform, external_id, origin_id, source, data, gone_since)"
            f" SELECT platform, external_id, origin_id, source, ?, ? FROM facts WHERE {_MINE} LIMIT 1",
            (squeeze(_encode(kept)), now, self.origin_id, *self.key),
        )
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
