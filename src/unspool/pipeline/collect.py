"""Collect: the facts of every conversation, kept until all origins are read.

Snapshots are joined as they come; the rest is kept as it is. What outgrows the memory limit goes to
disk in buckets, by conversation, and is read back bucket by bucket.
"""

import zlib
from codecs import getincrementaldecoder
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
    Noted,
    PieceSeen,
    Problem,
    SnapshotSeen,
    ToolCalled,
    ToolReturned,
)
from unspool.joining import Joiner
from unspool.longtext import STEP, is_long
from unspool.narrowtext import iter_bytes, put_together
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

    __slots__ = ("aside", "facts", "first", "joiner", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.facts: list[AnyFact] = []
        self.joiner: Joiner | None = None
        self.first: Place = NOWHERE
        """Where its first message-bearing record stands: its place in the output."""
        self.aside: str | bytes = b""
        """The long text that was read back last: several facts may have it in common."""

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
        facts, self.facts, self.joiner, self.aside = self.all_facts(), [], None, b""
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
    Noted: lambda fact: getsizeof(fact.value) if isinstance(fact.value, str) else 0,
}
"""By kind: a look-up, because every fact is weighed."""

_TEXTS: dict[type, str] = {
    MessageSeen: "text",
    ToolReturned: "text",
    ToolCalled: "arguments",
    SnapshotSeen: "text",
    PieceSeen: "body",
    Noted: "value",
}
"""The field of each kind that may be as long as the line it comes from."""


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

    def has_text_of(self, fact: AnyFact) -> bool:
        """Whether the fact before has the same long text: that is kept, and written, once."""
        gathered = self.conversations.get(fact.key)
        known = gathered.facts[-1] if gathered is not None and gathered.facts else None
        text = _long_text(fact)
        return bool(text) and known is not None and text is _long_text(known)

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
    same: bool = False
    """Whether its last fact has the text of the chunk before."""


class ChunkPlace(NamedTuple):
    """Where a chunk begins, its size, and that of the text behind it."""

    offset: int
    size: int
    text: int
    same: bool


_encoder = Packer()
_decoder = msgspec.msgpack.Decoder(Chunk)
_header = msgspec.msgpack.Decoder(_Header)
_SIZE_BYTES = 4


def write_chunks(file: BinaryIO, key: Key, gathered: Gathered) -> None:
    """A little at a time: the facts are not held once more, as bytes."""
    before: str | bytes = b""
    for facts in _slices(gathered.all_facts()):
        text = _take_long_text(facts)
        data = _encoder.encode(Chunk(gathered.source, gathered.first, facts))
        same = bool(text) and text is before
        size = 0 if same else sum(map(len, _iter_bytes(text)))
        _write_header(file, _Header(key, len(data), size, same))
        file.write(data)
        for piece in _iter_bytes(text) if size else ():
            file.write(piece)
        before = text or before


def _take_long_text(facts: list[AnyFact]) -> str | bytes:
    """The text of the last one, if it is long: it goes behind the chunk."""
    text = _long_text(facts[-1])
    if text:
        name = _TEXTS[type(facts[-1])]
        facts[-1] = msgspec.structs.replace(facts[-1], **{name: text[:0]})
    return text


def _long_text(fact: AnyFact) -> str | bytes:
    name = _TEXTS.get(type(fact), "")
    text = getattr(fact, name) if name else None
    return text if isinstance(text, str | bytes) and is_long(len(text)) else b""


def _iter_bytes(text: str | bytes) -> Iterable[bytes]:
    return (text,) if isinstance(text, bytes) else iter_bytes(text)


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
            yield header.key, ChunkPlace(at, header.size, header.text, header.same)
            at += header.size + header.text

    def add_to(self, gathered: Gathered | None, place: ChunkPlace) -> Gathered:
        """The facts of a chunk, with those that are there already."""
        chunk = _decoder.decode(self._read(place.offset, place.size))
        if gathered is None:
            gathered = Gathered(chunk.source)
        if place.text or place.same:
            name = _TEXTS[type(chunk.facts[-1])]
            if place.text:
                narrow = isinstance(getattr(chunk.facts[-1], name), str)
                gathered.aside = (self._read_text if narrow else self._read)(
                    place.offset + place.size, place.text
                )
            chunk.facts[-1] = msgspec.structs.replace(chunk.facts[-1], **{name: gathered.aside})
        for fact in chunk.facts:
            gathered.add(fact)
        gathered.first = min(gathered.first, chunk.first)
        return gathered

    def copy(self, key: Key, place: ChunkPlace, target: BinaryIO) -> None:
        _write_header(target, _Header(key, place.size, place.text, place.same))
        target.write(self._read(place.offset, place.size + place.text))

    def _read(self, offset: int, size: int) -> bytes:
        if self._file is None:
            return b""
        self._file.seek(offset)
        return self._file.read(size)

    def _read_text(self, offset: int, size: int) -> str:
        decoder = getincrementaldecoder("utf-8")()
        steps = range(offset, offset + size, STEP)
        pieces = (self._read(at, min(STEP, offset + size - at)) for at in steps)
        return put_together(map(decoder.decode, pieces))


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
