"""The journal: files of a folder, one conversation each, appended to at once.

A record is one write() to a file opened for appending: a killed process loses at most the record
that it was writing. Under limits a long conversation goes on in further parts. Limits evict whole
conversations, the one first that was written to longest ago; only where no other is left, the earlier
parts of the one that goes on. A conversation that goes on without what it had says so.
"""

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import msgspec

from unspool.record.identity import now
from unspool.record.plain import encode
from unspool.sinks import safe_name
from unspool.sources.recorder.entries import Entry

REMEMBERED = 1024
"""Conversations that are remembered as evicted, or by their file names."""
COUNTED = ("request", "tool", "element", "utility")
"""The kinds of records that count as entries."""

_STARTS = tuple(f'{{"kind":"{kind}"'.encode() for kind in COUNTED)
_SUFFIX = ".jsonl"
_PART_NAME = re.compile(r".+-[0-9a-f]{12}\.\d+\.jsonl")
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT
_FLAGS |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Limits(msgspec.Struct, frozen=True):
    """How much is kept; None is no limit."""

    entries: int | None = None
    bytes: int | None = None
    age_seconds: float | None = None

    def are_passed(self, entries: int, size: int) -> bool:
        return (self.entries is not None and entries > self.entries) or (
            self.bytes is not None and size > self.bytes
        )

    def part(self) -> "Limits":
        """Those of one part: an eighth of what is kept can go at a time."""
        shares = [None if n is None else max(1, n // 8) - 1 for n in (self.entries, self.bytes)]
        return Limits(*shares)


class Part(msgspec.Struct):
    """A file, and what it counts towards the limits."""

    name: str
    entries: int = 0
    bytes: int = 0


class Journal:
    """Not for several threads at once: its recorder holds a lock."""

    def __init__(
        self,
        folder: Path,
        limits: Limits,
        fsync: bool,
        head: Callable[[str], Entry],
        evicted: Callable[[str], None],
    ) -> None:
        self.folder = folder
        self._root = str(folder)
        self.limits = limits
        self._part_limits = limits.part()
        self.fsync = fsync
        self._head = head
        self._evicted = evicted
        self._parts: OrderedDict[str, list[Part]] = OrderedDict()
        """Conversations by when they were last written to, each with its parts; kept only where
        limits need them."""
        self._evicted_stems: OrderedDict[str, bool] = OrderedDict()
        self._entries = 0
        self._bytes = 0
        self._next_aging = 0.0
        self._is_limited = limits.entries is not None or limits.bytes is not None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds what people said
        if self._is_limited:
            paths = sorted(self.files(), key=lambda path: path.stat().st_mtime_ns)
            for path in paths:
                data = path.read_bytes()
                entries = sum(line.startswith(_STARTS) for line in data.split(b"\n"))
                part = Part(path.name)
                self._parts.setdefault(_stem(path.name), []).append(part)
                self._count(part, entries, len(data))
            self._make_room()
        self._age_out()

    def append(self, entry: Entry) -> None:
        """Add a record to its conversation's file."""
        stem = stem_of(entry.session)
        part = self._part(stem)
        data = encode(entry) + b"\n"
        # No Path: it interns every name that it sees, and they would add up.
        file = os.open(f"{self._root}{os.sep}{part.name}", _FLAGS, 0o600)
        try:
            if os.lseek(file, 0, os.SEEK_END) == 0:
                if entry.kind != "conversation":
                    data = encode(self._head(entry.session)) + b"\n" + data
            else:
                os.lseek(file, -1, os.SEEK_END)
                if os.read(file, 1) != b"\n":
                    data = b"\n" + data  # behind a torn record, this one has a line of its own
            if self._is_limited:
                self._parts.move_to_end(stem)
                self._count(part, entry.kind in COUNTED, len(data))
                self._make_room()
                if self._evicted_stems.pop(stem, False):
                    note = Entry(kind="evicted", session=entry.session, time=now())
                    data += encode(note) + b"\n"
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            if self.fsync:
                os.fsync(file)
        finally:
            os.close(file)
        if self.limits.age_seconds is not None and time.monotonic() >= self._next_aging:
            self._age_out()

    def is_gone(self, stem: str) -> bool:
        """Whether somebody removed the conversation's file."""
        parts = self._parts.get(stem)
        name = parts[-1].name if parts else f"{stem}.0{_SUFFIX}"
        if os.access(f"{self._root}{os.sep}{name}", os.F_OK):
            return False
        self._forget(stem)
        return True

    def _part(self, stem: str) -> Part:
        """The file that the conversation goes on in."""
        if not self._is_limited:
            return Part(f"{stem}.0{_SUFFIX}")
        parts = self._parts.setdefault(stem, [])
        if not parts:
            parts.append(Part(f"{stem}.0{_SUFFIX}"))
        elif self._part_limits.are_passed(parts[-1].entries, parts[-1].bytes):
            number = int(parts[-1].name.rsplit(".", 2)[1]) + 1
            parts.append(Part(f"{stem}.{number}{_SUFFIX}"))
        return parts[-1]

    def _count(self, part: Part, entries: int, size: int) -> None:
        part.entries += entries
        part.bytes += size
        self._entries += entries
        self._bytes += size

    def _make_room(self) -> None:
        """Remove conversations, then earlier parts of the one that was written to last."""
        while self.limits.are_passed(self._entries, self._bytes):
            stem, parts = next(iter(self._parts.items()))
            if len(self._parts) > 1:
                self._remove(stem, parts)
            elif len(parts) > 1:
                self._remove(stem, parts[:1])
            else:
                break
            self._evicted_stems[stem] = True
            if len(self._evicted_stems) > REMEMBERED:
                self._evicted_stems.popitem(last=False)

    def _remove(self, stem: str, parts: list[Part]) -> None:
        for part in parts:
            with suppress(OSError):
                (self.folder / part.name).unlink()
        self._forget(stem, parts)

    def _forget(self, stem: str, parts: Iterable[Part] | None = None) -> None:
        """The conversation has some of its parts no more, or none of them."""
        known = self._parts.get(stem, [])
        gone = {part.name for part in (known if parts is None else parts)}
        for part in known:
            if part.name in gone:
                self._count(part, -part.entries, -part.bytes)
        self._parts[stem] = [part for part in known if part.name not in gone]
        if not self._parts[stem]:
            del self._parts[stem]
            self._evicted(stem)

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
                self._remove(_stem(path.name), [Part(path.name)])

    def files(self, sessions: Iterable[str] | None = None) -> list[Path]:
        """The journal's files, or those of some sessions."""
        if not self.folder.is_dir():
            return []
        stems = None if sessions is None else {stem_of(session) for session in sessions}
        return sorted(
            self.folder / entry.name
            for entry in os.scandir(self.folder)
            if _PART_NAME.fullmatch(entry.name) and (stems is None or _stem(entry.name) in stems)
        )

    def clear(self, session: str | None) -> None:
        for path in self.files(None if session is None else [session]):
            self._remove(_stem(path.name), [Part(path.name)])

    @property
    def sizes(self) -> dict[str, int]:
        """How much the journal holds in memory."""
        parts = sum(map(len, self._parts.values()))
        return {"parts": parts, "evicted": len(self._evicted_stems)}


@lru_cache(REMEMBERED)
def stem_of(session: str) -> str:
    """A file name for a session: readable, and told apart by a hash."""
    digest = blake2b(session.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{safe_name(session)[:80]}-{digest}"


def _stem(name: str) -> str:
    """The conversation that a part is of."""
    return name.rsplit(".", 2)[0]
