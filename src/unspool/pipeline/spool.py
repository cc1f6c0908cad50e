"""Spool: temporary files of packed trajectories and of written pieces, read back by their place."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from unspool.trajectory import Message, Trajectory, open_parts, pack_parts, unpack_parts

_SIZE_BYTES = 8


class Slot(NamedTuple):
    """Where a packed trajectory or a written piece lies."""

    file: str
    offset: int
    size: int


class Spool:
    """A file of packed trajectories."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def put(self, trajectory: Trajectory) -> Slot:
        """A part at a time, each behind its size: a long conversation is not held twice."""
        if self._file is None:
            self._file = open(self.path, "ab")  # noqa: SIM115 - closed by close()
        offset = self._file.tell()
        for part in pack_parts(trajectory):
            self._file.write(len(part).to_bytes(_SIZE_BYTES, "little"))
            self._file.write(part)
        return Slot(str(self.path), offset, self._file.tell() - offset)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Slots:
    """Reads slots; files stay open while many are read."""

    def __init__(self) -> None:
        self._files: dict[str, BinaryIO] = {}

    def read(self, slot: Slot) -> bytes:
        file = self._files.get(slot.file)
        if file is None:
            file = self._files[slot.file] = open(slot.file, "rb")  # noqa: SIM115 - kept open
        file.seek(slot.offset)
        return file.read(slot.size)

    def load(self, slot: Slot) -> Trajectory:
        """A trajectory that a spool holds."""
        return unpack_parts(self._parts(slot))

    def open(self, slot: Slot) -> tuple[Trajectory, Iterator[list[Message]]]:
        """The same, the messages some at a time."""
        return open_parts(self._parts(slot))

    def _parts(self, slot: Slot) -> Iterator[bytes]:
        at, end = slot.offset, slot.offset + slot.size
        while at < end:
            size = int.from_bytes(self.read(Slot(slot.file, at, _SIZE_BYTES)), "little")
            at += _SIZE_BYTES
            yield self.read(Slot(slot.file, at, size))
            at += size

    def copy(self, slot: Slot, target: BinaryIO, step: int) -> None:
        """The slot's bytes into another file, a step at a time."""
        for offset in range(slot.offset, slot.offset + slot.size, step):
            size = min(step, slot.offset + slot.size - offset)
            target.write(self.read(Slot(slot.file, offset, size)))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
