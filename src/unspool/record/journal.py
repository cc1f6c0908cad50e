"""The journal: files of a folder, one conversation each, appended to at once.

A record is one write() to a file opened for appending: a killed process loses at most the record
that it was writing. A long conversation goes on in further parts. Limits evict whole conversations,
the one first that was written to longest ago; only where no other is left, the earlier parts of the
one that goes on. A conversation that goes on without what it had says so.
"""

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from unspool.sinks import safe_name

OPEN_FILES = 64
REMEMBERED = 1024
"""Conversations that are remembered as evicted."""
PART_BYTES = 64 * 1024 * 1024
COUNTED = (b'{"kind":"request"', b'{"kind":"tool"', b'{"kind":"element"', b'{"kind":"utility"')
"""How the records begin that count as entries."""

_SUFFIX = ".jsonl"
_PART_NAME = re.compile(r".+-[0-9a-f]{12}\.\d+\.jsonl")
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT
_FLAGS |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Limits(msgspec.Struct, frozen=True):
    """How much is kept; None is no limit."""

    entries: int | None = None
    bytes: int | None = None
    age_seconds: float | None = None

    @property
    def part_entries(self) -> int | None:
        return None if self.entries is None else max(1, self.entries // 8)

    @property
    def part_bytes(self) -> int:
        return PART_BYTES if self.bytes is None else max(1, min(PART_BYTES, self.bytes // 8))


class Part:
    """An open file."""

    __slots__ = ("entries", "file", "name", "size")

    def __init__(self, folder: str, name: str) -> None:
        self.name = name
        # No Path: it interns every name that it sees, and they would add up.
        self.file = os.open(f"{folder}{os.sep}{name}", _FLAGS, 0o600)
        self.size = os.fstat(self.file).st_size
        self.entries = 0
        if self.size:
            os.lseek(self.file, -1, os.SEEK_END)
            if os.read(self.file, 1) != b"\n":
                self.write(b"\n")  # behind a torn record, a new one begins on a line of its own

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.file, view) :]
        self.size += len(data)

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.file)

    @property
    def is_gone(self) -> bool:
        """Whether somebody removed the file: what is written to it now is nowhere."""
        return os.fstat(self.file).st_nlink == 0


class Weight(msgspec.Struct):
    """What a part counts towards the limits."""

    entries: int = 0
    bytes: int = 0


class Journal:
    """Not for several threads at once: its recorder holds a lock."""

    def __init__(
        self, folder: Path, limits: Limits, fsync: bool, evicted: Callable[[str], None]
    ) -> None:
        self.folder = folder
        self._root = str(folder)
        self.limits = limits
        self.fsync = fsync
        self._evicted = evicted
        self._open: OrderedDict[str, Part] = OrderedDict()
        self._parts: OrderedDict[str, dict[str, Weight]] = OrderedDict()
        """Conversations by when they were last written to, each with its parts; kept only where
        limits need them."""
        self._evicted_stems: OrderedDict[str, bool] = OrderedDict()
        self._entries = 0
        self._bytes = 0
        self._next_aging = 0.0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds what people said
        if limits.entries is not None or limits.bytes is not None:
            parts = []
            for path in self.files():
                with suppress(OSError):
                    parts.append((path.stat().st_mtime_ns, path))
            for _, path in sorted(parts):
                data = path.read_bytes()
                lines = data.split(b"\n")
                entries = sum(1 for line in lines if line.startswith(COUNTED))
                self._count(path.name, entries, len(data))
            self._evict("")
        self._age_out()

    def append(self, session: str, data: bytes, head: Callable[[], bytes], entry: bool) -> bool:
        """Add a record; `head` gives the record that a new part begins with.

        Gives whether a limit cost the session its earlier parts.
        """
        part = self._part(session)
        before = part.size
        stem = _stem(part.name)
        cut = before == 0 and self._evicted_stems.pop(stem, False)
        try:
            part.write(data if before else head() + data)
            if self.fsync:
                os.fsync(part.file)
        except OSError:
            # Half of it may be there: opened again, the file goes on with a line of its own.
            self._open.pop(session).close()
            raise
        part.entries += entry
        if self.limits.entries is not None or self.limits.bytes is not None:
            # Count what was written; whether the conversation itself had to lose parts for it.
            self._count(part.name, entry, part.size - before)
            cut = self._evict(part.name) or cut
        if self.limits.age_seconds is not None and time.monotonic() >= self._next_aging:
            self._age_out()
        return cut

    def refresh(self, session: str) -> None:
        """Let go of the session's file, and of what is remembered of it, where it was removed."""
        part = self._open.get(session)
        if part is not None and part.is_gone:
            self._drop(part.name)

    def _part(self, session: str) -> Part:
        self.refresh(session)
        part = self._open.get(session)
        if part is None:
            part = self._open[session] = self._find(session)
            while len(self._open) > OPEN_FILES:
                self._open.popitem(last=False)[1].close()
        elif self._is_full(part):
            part.close()
            part = self._open[session] = self._find(session)
        self._open.move_to_end(session)
        return part

    def _find(self, session: str) -> Part:
        """The first part of the session that is not full."""
        stem = stem_of(session)
        number = 0
        while True:
            part = Part(self._root, f"{stem}.{number}{_SUFFIX}")
            weight = self._parts.get(stem, {}).get(part.name)
            part.entries = weight.entries if weight is not None else 0
            if not self._is_full(part):
                return part
            part.close()
            number += 1

    def _is_full(self, part: Part) -> bool:
        entries = self.limits.part_entries
        return part.size >= self.limits.part_bytes or (
            entries is not None and part.entries >= entries
        )

    def _count(self, name: str, entries: int, size: int) -> None:
        stem = _stem(name)
        weight = self._parts.setdefault(stem, {}).setdefault(name, Weight())
        weight.entries += entries
        weight.bytes += size
        self._entries += entries
        self._bytes += size
        self._parts.move_to_end(stem)

    def _evict(self, current: str) -> bool:
        """Make room: conversations, then earlier parts of this one; whether it lost any."""
        limits, own, cut = self.limits, _stem(current), False
        while (limits.entries is not None and self._entries > limits.entries) or (
            limits.bytes is not None and self._bytes > limits.bytes
        ):
            oldest = next(iter(self._parts), own)
            if oldest != own:
                self._evicted_stems[oldest] = True
                while len(self._evicted_stems) > REMEMBERED:
                    self._evicted_stems.popitem(last=False)
                for name in list(self._parts[oldest]):
                    self._remove(name)
                continue
            name = next(iter(self._parts.get(own, ())), current)
            if name == current:
                break
            cut = True
            self._remove(name)
        return cut

    def _remove(self, name: str) -> None:
        self._drop(name)
        with suppress(OSError):
            (self.folder / name).unlink()

    def _drop(self, name: str) -> None:
        stem = _stem(name)
        weight = self._parts.get(stem, {}).pop(name, None)
        if weight is not None:
            self._entries -= weight.entries
            self._bytes -= weight.bytes
            if not self._parts[stem]:
                del self._parts[stem]
        for session, part in list(self._open.items()):
            if part.name == name:
                part.close()
                del self._open[session]
                self._evicted(session)

    def _age_out(self) -> None:
        age = self.limits.age_seconds
        if age is None:
            return
        self._next_aging = time.monotonic() + min(60.0, age / 10)
        written: dict[str, float] = {}
        files = self.files()
        for path in files:
            with suppress(OSError):
                stem = _stem(path.name)
                written[stem] = max(path.stat().st_mtime, written.get(stem, 0.0))
        for path in files:
            if time.time() - written.get(_stem(path.name), time.time()) > age:
                self._remove(path.name)

    def files(self, sessions: Iterable[str] | None = None) -> list[Path]:
        """The journal's files, or those of some sessions."""
        if sessions is None:
            if not self.folder.is_dir():
                return []
            names = (entry.name for entry in os.scandir(self.folder))
            return sorted(self.folder / name for name in names if _PART_NAME.fullmatch(name))
        stems = {stem_of(session) for session in sessions}
        return [path for path in self.files() if _stem(path.name) in stems]

    def clear(self, session: str | None = None) -> None:
        for path in self.files(None if session is None else [session]):
            self._remove(path.name)

    def close(self) -> None:
        for part in self._open.values():
            part.close()
        self._open.clear()

    @property
    def sizes(self) -> dict[str, int]:
        """How much the journal holds in memory."""
        return {
            "open_files": len(self._open),
            "weights": sum(map(len, self._parts.values())),
            "evicted": len(self._evicted_stems),
        }


def stem_of(session: str) -> str:
    """A file name for a session: readable, and told apart by a hash."""
    digest = blake2b(session.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{safe_name(session)[:80]}-{digest}"


def _stem(name: str) -> str:
    """The conversation that a part is of."""
    return name.rsplit(".", 2)[0]
