"""Shuffle: what has to go through a file, because memory or another worker demands it.

Each worker appends to files of its own and keeps, or hands on, the places of what it put there. A
file has no structure beside that.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from unspool.facts import AnyFact, Key
from unspool.io.packing import Packer
from unspool.pipeline.collect import FACT_BYTES, Gathered, Place, weigh

CHUNK_BYTES = 1 << 20
BUFFER_BYTES = 1 << 18
"""Conversations of some 20 kB go out ten at a time: twice as fast as one by one."""

MAPPED_BYTES = 1 << 16
"""Shorter pieces are read: to map one takes a few system calls."""


class Slot(NamedTuple):
    """Where something lies in a file."""

    file: str
    offset: int
    size: int


FactSlots = dict[Key, list[Slot]]
"""Conversation → where its facts lie."""


def family_of(key: Key) -> Key:
    """The conversation that one is, or is a sub-agent of (`<conversation>/<sub-agent>`)."""
    return (key[0], key[1].partition("/")[0])


class Spool:
    """A file that grows, made when there is something to put into it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._file: BinaryIO | None = None
        self._end = 0

    def put(self, data: bytes | bytearray) -> Slot:
        if self._file is None:
            self._file = open(self.path, "ab", BUFFER_BYTES)  # noqa: SIM115 - closed by close()
        self._file.write(data)
        slot = Slot(self.path, self._end, len(data))
        self._end += len(data)
        return slot

    def flush(self) -> None:
        """From here on others can read what was put."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def clear(self) -> None:
        """Nothing of what was put counts any more."""
        self.close()
        Path(self.path).unlink(missing_ok=True)
        self._end = 0


class Slots:
    """Reads slots; files stay open while many are read."""

    def __init__(self) -> None:
        self._files: dict[str, BinaryIO] = {}

    def _open(self, path: str) -> BinaryIO:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = open(path, "rb")  # noqa: SIM115 - kept open
        return file

    def read(self, slot: Slot) -> bytes:
        file = self._open(slot.file)
        file.seek(slot.offset)
        return file.read(slot.size)

    def view(self, slot: Slot) -> bytes | memoryview:
        """What lies there, without a copy of it where it is long: for one who only looks at it."""
        if slot.size < MAPPED_BYTES:
            return self.read(slot)
        past = slot.offset % mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(
            self._open(slot.file).fileno(),
            slot.size + past,
            access=mmap.ACCESS_READ,
            offset=slot.offset - past,
        )
        return memoryview(mapped)[past:]  # which keeps it mapped

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


class _Chunk(msgspec.Struct, array_like=True):
    """Some facts of one conversation on their way through a file."""

    source: str
    first: Place
    """A list that went on stands where its last call logged it, not its first."""
    weight: int
    facts: list[AnyFact]


_encode = Packer().encode
_decode = msgspec.msgpack.Decoder(_Chunk).decode


def pack_facts(gathered: Gathered) -> Iterator[bytes]:
    """A little at a time: the facts are not held once more, as bytes."""
    facts = gathered.all_facts()
    start = weight = 0
    for at, fact in enumerate(facts, 1):
        weight += FACT_BYTES + weigh(fact)
        if weight > CHUNK_BYTES or at == len(facts):
            yield _encode(_Chunk(gathered.source, gathered.first, weight, facts[start:at]))
            start, weight = at, 0


def unpack_facts(data: bytes, gathered: Gathered | None) -> Gathered:
    """One of the pieces that `pack_facts` made, with what is at hand already."""
    chunk = _decode(data)
    if gathered is None:
        gathered = Gathered(chunk.source)
    gathered.take(chunk.facts, chunk.first, chunk.weight)
    return gathered
