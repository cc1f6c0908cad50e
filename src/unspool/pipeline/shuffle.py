"""Shuffle: what has to go through a file, because memory or another worker demands it.

Each worker appends to files of its own and keeps, or hands on, the places of what it put there. A
file has no structure beside that.
"""

import mmap
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from unspool.facts import AnyFact, Key
from unspool.io.packing import Packer
from unspool.pipeline.collect import FACT_BYTES, Gathered, Place, weigh

CHUNK_BYTES = 1 << 20
COPY_BYTES = 1 << 20
MAPPED_BYTES = 1 << 16
"""To map less than this costs more than to copy it."""


class Slot(NamedTuple):
    """Where something lies in a file."""

    file: str
    offset: int
    size: int


NO_SLOT = Slot("", 0, 0)

FactSlots = dict[Key, list[Slot]]
"""Conversation → where its facts lie."""


def family_of(key: Key) -> Key:
    """The conversation that one is, or is a sub-agent of (`<conversation>/<sub-agent>`)."""
    return (key[0], key[1].partition("/")[0])


def share_of(family: Key, workers: int) -> int:
    """The worker to whom a family belongs of whose files nothing is known in advance."""
    return zlib.crc32(family[1].encode("utf-8", "replace")) % workers


class Spool:
    """A file that grows, made when there is something to put into it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._file: BinaryIO | None = None
        self._end = 0

    def put(self, data: bytes | bytearray) -> Slot:
        if self._file is None:
            self._file = open(self.path, "ab")  # noqa: SIM115 - closed by close()
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


class Slots:
    """Reads slots; files stay open while many are read."""

    def __init__(self) -> None:
        self._files: dict[str, BinaryIO] = {}

    def _open(self, path: str) -> BinaryIO:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = open(path, "rb", buffering=0)  # noqa: SIM115 - kept open
        return file

    def read(self, slot: Slot) -> bytes:
        file = self._open(slot.file)
        file.seek(slot.offset)
        data = file.read(slot.size)
        while len(data) < slot.size:  # the system gives at most 2 GB at a time
            more = file.read(slot.size - len(data))
            if not more:
                break
            data += more
        return data

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

    def copy(self, slots: Iterable[Slot], target: BinaryIO) -> None:
        """The bytes of the slots, one after the other; runs of them are copied as one."""
        for run in _runs(slots):
            for offset in range(run.offset, run.offset + run.size, COPY_BYTES):
                size = min(COPY_BYTES, run.offset + run.size - offset)
                target.write(self.read(Slot(run.file, offset, size)))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


def _runs(slots: Iterable[Slot]) -> Iterator[Slot]:
    """Slots that lie behind one another in a file as one."""
    run: Slot | None = None
    for slot in slots:
        if run is not None and run.file == slot.file and run.offset + run.size == slot.offset:
            run = Slot(run.file, run.offset, run.size + slot.size)
            continue
        if run is not None:
            yield run
        run = slot
    if run is not None:
        yield run


def sole_file(slots: Iterable[Slot]) -> str | None:
    """The file that holds these slots in this order, and nothing else."""
    runs = list(_runs(slots))
    if len(runs) != 1 or runs[0].offset or runs[0].size != Path(runs[0].file).stat().st_size:
        return None
    return runs[0].file


class _Chunk(msgspec.Struct, array_like=True):
    """Some facts of one conversation on their way through a file."""

    source: str
    first: Place
    weight: int
    facts: list[AnyFact]


_encode = Packer().encode
_decode = msgspec.msgpack.Decoder(_Chunk).decode


def put_facts(spool: Spool, gathered: Gathered) -> list[Slot]:
    return [spool.put(data) for data in pack_facts(gathered)]


def pack_facts(gathered: Gathered) -> Iterator[bytes]:
    """A little at a time: the facts are not held once more, as bytes."""
    facts = gathered.all_facts()
    weight = gathered.weight
    for some in [(facts, weight)] if weight <= CHUNK_BYTES else _slices(facts):
        yield _encode(_Chunk(gathered.source, gathered.first, some[1], some[0]))


def _slices(facts: list[AnyFact]) -> Iterator[tuple[list[AnyFact], int]]:
    """Some facts, and what they weigh."""
    first = weight = 0
    for at, fact in enumerate(facts):
        weight += FACT_BYTES + weigh(fact)
        if weight > CHUNK_BYTES:
            yield facts[first : at + 1], weight
            first, weight = at + 1, 0
    if first < len(facts):
        yield facts[first:], weight


def get_facts(slots: Slots, places: Iterable[Slot], gathered: Gathered | None) -> Gathered | None:
    """What lies in the places, with what is at hand already."""
    for place in places:
        gathered = unpack_facts(slots.read(place), gathered)
    return gathered


def unpack_facts(data: bytes, gathered: Gathered | None) -> Gathered:
    """One of the pieces that `pack_facts` made, with what is at hand already."""
    chunk = _decode(data)
    if gathered is None:
        gathered = Gathered(chunk.source)
    gathered.take_back(chunk.facts, chunk.first, chunk.weight)
    return gathered
