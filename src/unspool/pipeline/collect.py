"""Collect: the facts of every conversation, kept until all origins are read.

Snapshots are joined as they come; the rest is kept as it is. What outgrows the memory limit goes to
disk in buckets, by conversation, and is read back bucket by bucket.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from sys import getsizeof
from typing import Any, BinaryIO, NamedTuple, cast

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
from unspool.longtext import is_long
from unspool.packing import Packer

Place = tuple[str, int]
NOWHERE: Place = ("\U0010ffff", 0)
BUCKETS = 64
CHUNK_BYTES = 1 << 20
_BEARING = frozenset(MESSAGE_BEARING)
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
        kind = type(fact)
        if kind in _BEARING and fact.origin <= self.first[0]:
            self.first = min(self.first, (fact.origin, fact.offset))
        if kind is SnapshotSeen:
            return self._join(cast(SnapshotSeen, fact)) + _FACT_BYTES
        self.facts.append(fact)
        return _FACT_BYTES + _weight(fact)

    def _join(self, fact: SnapshotSeen) -> int:
        if self.joiner is None:
            self.joiner = Joiner()
        return self.joiner.add(fact)

    def all_facts(self) -> list[AnyFact]:
        return self.facts + list(self.joiner.facts() if self.joiner else ())

    def hand_out(self) -> Iterator[AnyFact]:
        """The same, each for good: a list may be hundreds of megabytes, and whoever takes it
        decides how long it stays."""
        facts, self.facts, self.joiner = self.all_facts(), [], None
        facts.reverse()
        while facts:
            yield facts.pop()


def _weight(fact: AnyFact) -> int:
    """Bytes of its texts: one character beyond Latin-1 doubles a whole text, an emoji quadruples it."""
    weigh = _WEIGHTS.get(type(fact))
    return weigh(fact) if weigh is not None else 0


_WEIGHTS: dict[type, Callable[[Any], int]] = {
    MessageSeen: lambda fact: getsizeof(fact.text) + getsizeof(fact.thinking),
    ToolReturned: lambda fact: getsizeof(fact.text) + (500 if fact.details is not None else 0),
    ToolCalled: lambda fact: getsizeof(fact.arguments),
    SnapshotSeen: lambda fact: len(fact.text),
    PieceSeen: lambda fact: len(fact.body),
}
"""By kind: a look-up, because every fact is weighed."""


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

    source: str
    first: Place
    facts: list[AnyFact]


class _Header(msgspec.Struct, array_like=True):
    """What stands before a chunk: whose it is, and how long."""

    key: Key
    size: int
    text: int = 0
    """How long the text behind the chunk is, which belongs to its last fact."""


class ChunkPlace(NamedTuple):
    """Where a chunk begins, its size, and that of the text behind it."""

    offset: int
    size: int
    text: int


_encoder = Packer()
_decoder = msgspec.msgpack.Decoder(Chunk)
_header = msgspec.msgpack.Decoder(_Header)
_SIZE_BYTES = 4


def write_chunks(file: BinaryIO, key: Key, gathered: Gathered) -> None:
    """A little at a time: the facts are not held once more, as bytes."""
    for facts in _slices(gathered.all_facts()):
        last, text = facts[-1], b""
        if isinstance(last, SnapshotSeen) and is_long(len(last.text)):
            facts[-1], text = msgspec.structs.replace(last, text=b""), last.text
        data = _encoder.encode(Chunk(gathered.source, gathered.first, facts))
        _write_header(file, _Header(key, len(data), len(text)))
        file.write(data)
        file.write(text)


def _write_header(file: BinaryIO, header: _Header) -> None:
    data = _encoder.encode(header)
    file.write(len(data).to_bytes(_SIZE_BYTES, "little"))
    file.write(data)


def _slices(facts: list[AnyFact]) -> Iterator[list[AnyFact]]:
    first = weight = 0
    for at, fact in enumerate(facts):
        weight += _FACT_BYTES + _weight(fact)
        if weight > CHUNK_BYTES:
            yield facts[first : at + 1]
            first, weight = at + 1, 0
    if first < len(facts):
        yield facts[first:]


class Chunks:
    """A file of chunks, read by their places; one that is not there holds none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> "Chunks":
        with suppress(FileNotFoundError):
            self._file = open(self._path, "rb")
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def places(self) -> Iterator[tuple[Key, ChunkPlace]]:
        """Whose each chunk is, and where; the chunks themselves stay unread."""
        if self._file is None:
            return
        at = 0
        while True:
            self._file.seek(at)
            size = int.from_bytes(self._file.read(_SIZE_BYTES), "little")
            if not size:
                return
            header = _header.decode(self._file.read(size))
            at += _SIZE_BYTES + size
            yield header.key, ChunkPlace(at, header.size, header.text)
            at += header.size + header.text

    def add_to(self, gathered: Gathered | None, place: ChunkPlace) -> Gathered:
        """The facts of a chunk, with those that are there already."""
        chunk = _decoder.decode(self._read(place.offset, place.size))
        if place.text:
            text = self._read(place.offset + place.size, place.text)
            chunk.facts[-1] = msgspec.structs.replace(chunk.facts[-1], text=text)
        if gathered is None:
            gathered = Gathered(chunk.source)
        for fact in chunk.facts:
            gathered.add(fact)
        gathered.first = min(gathered.first, chunk.first)
        return gathered

    def copy(self, key: Key, place: ChunkPlace, target: BinaryIO) -> None:
        _write_header(target, _Header(key, place.size, place.text))
        target.write(self._read(place.offset, place.size + place.text))

    def _read(self, offset: int, size: int) -> bytes:
        if self._file is None:
            return b""
        self._file.seek(offset)
        return self._file.read(size)


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
                    write_chunks(file, key, conversations[key])
        self.keys.update(conversations)
