"""Collect: the facts of every conversation, kept until all origins are read.

Snapshots are joined as they come; the rest is kept as it is. What outgrows the memory limit goes to
disk in buckets, by conversation, and is read back bucket by bucket.
"""

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from unspool.facts import (
    MESSAGE_BEARING,
    NOBODY,
    AnyFact,
    Key,
    MessageSeen,
    PieceSeen,
    Problem,
    SnapshotSeen,
    ToolCalled,
    ToolReturned,
)
from unspool.joining import Joiner

Place = tuple[str, int]
NOWHERE: Place = ("\U0010ffff", 0)
BUCKETS = 64
_FACT_BYTES = 500
"""What a fact weighs in memory beside its texts (measured: 350 to 700)."""


def bucket_of(key: Key) -> int:
    return zlib.crc32(key[1].encode("utf-8", "replace")) % BUCKETS


class Gathered:
    """The facts of one conversation."""

    __slots__ = ("facts", "first", "joiner", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.facts: list[AnyFact] = []
        self.joiner: Joiner | None = None
        self.first: Place = NOWHERE
        """Where its first message-bearing record stands: its place in the output."""

    def add(self, fact: AnyFact) -> int:
        """Take the fact in; by how many bytes this grew, about."""
        if isinstance(fact, MESSAGE_BEARING) and (fact.origin, fact.offset) < self.first:
            self.first = (fact.origin, fact.offset)
        if isinstance(fact, SnapshotSeen):
            if self.joiner is None:
                self.joiner = Joiner()
            return self.joiner.add(fact) + _FACT_BYTES
        self.facts.append(fact)
        return _FACT_BYTES + _weight(fact)

    def all_facts(self) -> list[AnyFact]:
        return self.facts + list(self.joiner.facts() if self.joiner else ())


def _weight(fact: AnyFact) -> int:
    if isinstance(fact, MessageSeen):
        return len(fact.text) + len(fact.thinking)
    if isinstance(fact, ToolReturned):
        return len(fact.text or "") + (500 if fact.details is not None else 0)
    if isinstance(fact, ToolCalled):
        return len(fact.arguments)
    return len(fact.body) if isinstance(fact, PieceSeen) else 0


class Collection:
    """All conversations that were read, and the problems."""

    def __init__(self) -> None:
        self.conversations: dict[Key, Gathered] = {}
        self.problems: list[Problem] = []
        self.weight = 0

    def take(self, source: str, facts: Iterable[AnyFact]) -> None:
        for fact in facts:
            self.add(source, fact)

    def add(self, source: str, fact: AnyFact) -> None:
        if isinstance(fact, Problem):
            self.problems.append(fact)
            if fact.key == NOBODY:
                return
        gathered = self.conversations.get(fact.key)
        if gathered is None:
            gathered = self.conversations[fact.key] = Gathered(source)
        self.weight += gathered.add(fact)

    def in_order(self) -> Iterator[tuple[Key, Gathered]]:
        """Conversations by their first message-bearing record; those without any come last."""
        yield from sorted(self.conversations.items(), key=lambda item: (item[1].first, item[0]))


class Chunk(msgspec.Struct, array_like=True):
    """Some facts of one conversation on their way through a file."""

    key: Key
    source: str
    first: Place
    facts: list[AnyFact]


class _Header(msgspec.Struct, array_like=True):
    """The beginning of a chunk, enough to know whose it is."""

    key: Key


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Chunk)
_header = msgspec.msgpack.Decoder(_Header)


def write_chunk(file: BinaryIO, key: Key, gathered: Gathered) -> None:
    data = _encoder.encode(Chunk(key, gathered.source, gathered.first, gathered.all_facts()))
    file.write(len(data).to_bytes(8, "little"))
    file.write(data)


def iter_chunks(path: Path) -> Iterator[tuple[Key, bytes]]:
    """(whose, undecoded chunk) of a file; nothing where there is no file."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed by the with below
    except FileNotFoundError:
        return
    with file:
        while size := file.read(8):
            data = file.read(int.from_bytes(size, "little"))
            yield _header.decode(data).key, data


def add_chunk(conversations: dict[Key, Gathered], data: bytes) -> None:
    chunk = _decoder.decode(data)
    gathered = conversations.get(chunk.key)
    if gathered is None:
        gathered = conversations[chunk.key] = Gathered(chunk.source)
    for fact in chunk.facts:
        gathered.add(fact)
    gathered.first = min(gathered.first, chunk.first)


class Spill:
    """Buckets of chunks on disk."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.keys: set[Key] = set()

    def path(self, bucket: int) -> Path:
        return self.folder / f"{self.name}-{bucket:02d}"

    def put(self, conversations: dict[Key, Gathered]) -> None:
        """Write all conversations out, bucket by bucket."""
        by_bucket: dict[int, list[Key]] = {}
        for key in conversations:
            by_bucket.setdefault(bucket_of(key), []).append(key)
        for bucket, keys in by_bucket.items():
            with open(self.path(bucket), "ab") as file:
                for key in keys:
                    write_chunk(file, key, conversations[key])
        self.keys.update(conversations)
