"""Origins: where traces are read from. Opening them, cutting them into lines."""

import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import PurePath
from typing import NamedTuple

import msgspec

from unspool.facts import NOBODY, Key, Problem
from unspool.io.compression import PACKED
from unspool.io.compression import open_origin as open_origin

HEAD_BYTES = 65536


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file (or one byte range of it) and the source that reads it."""

    path: str
    name: str
    """The path relative to the argument that it was found under: what the output shows."""
    source: str = ""
    size: int = 0
    start: int = 0
    end: int | None = None
    """Records that begin in [start, end) are read; None is the end of the file."""
    named: bool = False
    """Given on the command line itself, not merely met in a folder."""
    only: tuple[str, ...] = ()
    """Of a database: the conversations to read, where others did not change; empty: all."""
    lines: bool = True
    """Whether its lines seem to be records, and lie there as they are read: only then may it be
    cut into ranges."""


class TouchedRow(NamedTuple):
    """A row of a database that is new, or has another value."""

    table: str
    key: str
    conversation: str
    value: bytes | None


class Touched(NamedTuple):
    """What was written to a database since somebody looked."""

    position: str
    """To ask again from here."""
    conversations: tuple[str, ...] | None = None
    """None: that cannot be told, and all must be read."""
    rows: Sequence["TouchedRow"] = ()


class Tally(msgspec.Struct):
    """What became of the records read: with the problems, they add up."""

    records: int = 0
    noise: int = 0
    unrecognised: int = 0
    problems: int = 0
    bytes: int = 0
    unknown: dict[str, int] = {}
    """Unrecognised kinds and how often each was met."""
    unknown_places: dict[str, tuple[str, int]] = {}
    """Where each unrecognised kind was met first."""
    flaws: list[Problem] = []
    """What was wrong with records, until what reads them passes it on among the facts."""

    def unrecognise(self, kind: str, origin: str, offset: int) -> None:
        self.unrecognised += 1
        if kind in self.unknown or len(self.unknown) < 1000:
            self.unknown[kind] = self.unknown.get(kind, 0) + 1
            place = (origin, offset)
            if self.unknown_places.get(kind, place) >= place:
                self.unknown_places[kind] = place

    def lose(self, code: str, origin: str, offset: int, sample: str, key: Key = NOBODY) -> None:
        """A record of which nothing can be used; `key`: the conversation that it is missing from."""
        self.problems += 1
        problem = Problem(key=key, origin=origin, offset=offset, code=code, sample=sample)
        self.flaws.append(problem)

    def take_flaws(self) -> list[Problem]:
        flaws, self.flaws = self.flaws, []
        return flaws

    def add(self, other: "Tally") -> None:
        self.records += other.records
        self.noise += other.noise
        self.unrecognised += other.unrecognised
        self.problems += other.problems
        self.bytes += other.bytes
        for kind, count in other.unknown.items():
            self.unknown[kind] = self.unknown.get(kind, 0) + count
            place = other.unknown_places[kind]
            if self.unknown_places.get(kind, place) >= place:
                self.unknown_places[kind] = place


def plain_name(path: str) -> str:
    """The name of a file without a packing suffix."""
    name = PurePath(path).name
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return name


class Head:
    """The first bytes of a file, for a source to say whether the file is its own."""

    def __init__(self, path: str, data: bytes, whole: bool, plain: bool = True) -> None:
        self.path = path
        self.data = data
        self.whole = whole
        """Whether `data` is the whole file."""
        self.plain = plain
        """Whether the bytes are those of the file: not packed, not in UTF-16."""

    @cached_property
    def name(self) -> str:
        return plain_name(self.path)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The folders above the file, outermost first."""
        return PurePath(self.path).parts[:-1]

    @cached_property
    def names_hook(self) -> bool:
        """Whether the field stands there that names the event of a hook: the sources of all agents that
        have hooks ask."""
        return b"hook_event_name" in self.data

    @property
    def is_one_line(self) -> bool:
        """Whether the first line is longer than what is here."""
        return not self.whole and b"\n" not in self.data

    @property
    def has_lines(self) -> bool:
        """Whether a line of the file is an object, or the first is too long to tell."""
        return self.plain and (b"\n" not in self.data or any(True for _ in self._iter_objects()))

    @cached_property
    def objects(self) -> list[dict[str, object]]:
        """The JSON objects on the first whole lines (at most 50); none of a file that is one array."""
        return list(self._iter_objects())

    def _iter_objects(self) -> Iterator[dict[str, object]]:
        lines = self.data.removeprefix(b"\xef\xbb\xbf").split(b"\n", 50)
        if len(lines) > 50 or (not self.whole and len(lines) > 1):
            lines.pop()
        for value in map(_decode, lines):
            if isinstance(value, dict):
                yield value


def _decode(line: bytes) -> object:
    line = line.strip(b"\r\0 \t,")
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        with suppress(ValueError, RecursionError):
            return json.loads(line)  # takes half a pair of surrogates, too
    return None


def read_head(path: str, after_first_line: bool = False) -> Head:
    data = b""
    with open_origin(path) as file:
        plain = isinstance(file.raw, io.FileIO)
        try:
            if after_first_line:
                _pass_line(file)
            while len(data) <= HEAD_BYTES and (more := file.read1(HEAD_BYTES + 1 - len(data))):
                data += more
        except OSError:
            if not data:
                raise
    return Head(path, data[:HEAD_BYTES], len(data) <= HEAD_BYTES, plain)


def _pass_line(file: io.BufferedReader) -> int:
    """To the next line; how many bytes that were."""
    size = 0
    while piece := file.readline(1 << 20):
        size += len(piece)
        if piece.endswith(b"\n"):
            break
    return size


def iter_lines(origin: Origin, ends: bytes = b"\r\n\0 \t,") -> Iterator[tuple[int, bytes]]:
    """Lines of the origin's range with their offsets, cut at newline bytes only.

    A byte-order mark, carriage returns, NUL bytes (power losses leave them) and the commas of an
    array with an element per line are dropped at the `ends` of a line. Blank lines are left out.
    """
    with open_origin(origin.path) as file:
        offset = origin.start
        if offset:
            file.seek(offset - 1)
            offset += _pass_line(file) - 1
        end = origin.end if origin.end is not None else _length(file)
        if offset >= end:
            return
        for line in file:
            start = offset
            offset += len(line)
            if not start:
                line = line.removeprefix(b"\xef\xbb\xbf")
            line = line.strip(ends)
            if line:
                yield start, line
            if offset >= end:
                return  # before the next line is read, which is another's and may be very long


def _length(file: io.BufferedReader) -> int:
    """How long a plain file is now: one that is written faster than it is read would never end.

    More than any where that is not told (packed files, pipes, the kernel's own files).
    """
    if not isinstance(file.raw, io.FileIO):
        return sys.maxsize
    return os.fstat(file.fileno()).st_size or sys.maxsize
