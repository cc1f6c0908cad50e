"""Chunks: facts that outgrow the memory limit go to disk in buckets, by conversation, and are read back
bucket by bucket.
"""

import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from unspool.facts import TEXTS, AnyFact, Key, long_text
from unspool.io.longtext import STEP
from unspool.io.narrowtext import iter_bytes, put_together
from unspool.io.packing import Packer
from unspool.pipeline.collect import FACT_BYTES, Gathered, Place, weigh

BUCKETS = 64
CHUNK_BYTES = 1 << 20


def bucket_of(key: Key) -> int:
    return zlib.crc32(key[1].encode("utf-8", "replace")) % BUCKETS


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
    text = long_text(facts[-1])
    if text:
        name = TEXTS[type(facts[-1])]
        facts[-1] = msgspec.structs.replace(facts[-1], **{name: text[:0]})
    return text


def _iter_bytes(text: str | bytes) -> Iterable[bytes]:
    return (text,) if isinstance(text, bytes) else iter_bytes(text)


def _write_header(file: BinaryIO, header: _Header) -> None:
    data = _encoder.encode(header)
    file.write(len(data).to_bytes(_SIZE_BYTES, "little"))
    file.write(data)


def _slices(facts: list[AnyFact]) -> Iterator[list[AnyFact]]:
    first = weight = 0
    for at, fact in enumerate(facts):
        weight += FACT_BYTES + weigh(fact)
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
            name = TEXTS[type(chunk.facts[-1])]
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
