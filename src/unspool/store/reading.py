"""Reading an origin for the store: what it states, and its records as they are."""

import io
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from unspool import sinks, sources
from unspool.facts import NOBODY, AnyFact, Key, Problem
from unspool.io.databases import open_database
from unspool.io.origins import Origin, Tally, open_origin
from unspool.io.temporary import scratch
from unspool.store.blocks import BLOCK_BYTES, RawRecord
from unspool.store.survey import LOGS, is_database, is_whole
from unspool.trajectory import Trajectory

LARGEST_DATABASE = 512 * 1024 * 1024
"""The raw copy of a larger one is left out of the store, and that is a problem to count."""
PART_BYTES = 32 * 1024 * 1024
"""Logs of lines are read in parts of this size."""


def read_items(origin: Origin, tally: Tally) -> Iterator[AnyFact | Trajectory]:
    """All that it states; an origin that cannot be read is a problem, and the rest goes on."""
    try:
        if origin.source in sinks.READERS:
            yield from sinks.load_reader(origin.source).read(origin, tally)
        else:
            yield from sources.read(origin, tally)
    except (sqlite3.Error, OSError) as error:
        yield trouble(origin.path, "unreadable", error)


def trouble(path: str, code: str, error: Exception) -> Problem:
    text = getattr(error, "strerror", None) or str(error)
    return Problem(key=NOBODY, origin=path, offset=0, code=code, sample=text)


def parts_of(origin: Origin, in_lines: bool, problems: list[Problem]) -> Iterator[Origin]:
    """A long log of lines in parts that begin and end where lines do; anything else as it is."""
    start = origin.start
    if not in_lines or origin.size - start <= PART_BYTES:
        yield origin
        return
    try:
        while start < origin.size:
            end = _line_end(origin, start + PART_BYTES)
            yield msgspec.structs.replace(origin, start=start, end=end)
            start = end
    except OSError as error:
        problems.append(trouble(origin.path, "unreadable", error))


def _line_end(origin: Origin, at: int) -> int:
    """Where the line that holds the byte before `at` ends."""
    if at >= origin.size:
        return origin.size
    with open(origin.path, "rb") as file:
        file.seek(at - 1)
        file.readline()
        return min(file.tell(), origin.size)


BROKEN = frozenset(("truncated-json", "invalid-json", "not-json", "recovered"))


def is_half_written(path: str, codes: Iterable[str]) -> bool:
    """Whether it is one JSON document that breaks off: somebody is writing it anew.

    A log of lines is none: what stands in it stays true, whatever its last line is.
    """
    if not BROKEN.intersection(codes):
        return False
    try:
        with open_origin(path) as file:
            first = file.readline()
            more = bool(file.readline())
    except OSError:
        return True
    if path.endswith(LOGS) and more:
        return False
    return first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") and not is_whole(first)


class Owner(NamedTuple):
    """Whose record it is, what kind, when."""

    key: Key
    kind: str
    time: int | None


class Owners:
    """Whose the records of an origin are, as its facts tell."""

    def __init__(self, in_lines: bool) -> None:
        self.in_lines = in_lines
        self.keys: set[Key] = set()
        self.of: dict[int, Owner] = {}
        """By offset; only of lines, the rest is kept as a whole."""

    def add(self, fact: AnyFact) -> None:
        if fact.key == NOBODY:
            return
        self.keys.add(fact.key)
        if self.in_lines and fact.offset not in self.of:
            self.of[fact.offset] = Owner(fact.key, type(fact).__name__, fact.time)


class _Kind(msgspec.Struct):
    """The field in which most formats say what a record is."""

    type: msgspec.Raw = msgspec.Raw(b"")
    name: msgspec.Raw = msgspec.Raw(b"")
    hook_event_name: msgspec.Raw = msgspec.Raw(b"")


_kind = msgspec.json.Decoder(_Kind).decode


def event_type(line: bytes, default: str) -> str:
    try:
        kind = _kind(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return default
    for value in (kind.type, kind.hook_event_name, kind.name):
        text = bytes(value)
        if text[:1] == b'"':
            return text[1:-1].decode("utf-8", "replace")[:100]
    return default


def iter_records(
    part: Origin, end: int, owners: Owners, problems: list[Problem]
) -> Iterator[RawRecord]:
    """The records as they are: lines up to `end`, or pieces of a document or a database."""
    try:
        yield from _lines(part, end, owners) if owners.in_lines else _whole(part, owners, problems)
    except (sqlite3.Error, OSError) as error:
        # The origin's trouble, not the store's: what was read of it stays.
        problems.append(trouble(part.path, "raw-copy-failed", error))


def _lines(part: Origin, end: int, owners: Owners) -> Iterator[RawRecord]:
    """Lines with their ends, blank ones too: put together they are the file, byte for byte."""
    key: Key = next((owner.key for owner in owners.of.values()), NOBODY)
    offset = part.start
    with open_origin(part.path) as file:
        file.seek(offset)
        for line in file:
            if offset >= end:
                return
            stating = owners.of.get(offset)
            if stating is not None:
                key = stating.key
            # A line that states nothing may state something to a better reader: it stays with those
            # around it.
            kind = event_type(line, stating.kind if stating else "")
            yield RawRecord(offset, key, kind, stating.time if stating else None, line)
            offset += len(line)


def _whole(origin: Origin, owners: Owners, problems: list[Problem]) -> Iterator[RawRecord]:
    owner = next(iter(owners.keys)) if len(owners.keys) == 1 else NOBODY
    if not is_database(origin.path):
        with open_origin(origin.path) as file:
            yield from _pieces(file, owner, "document")
    elif origin.size <= LARGEST_DATABASE:
        with copied_database(origin.path) as file:
            yield from _pieces(file, owner, "database")
    else:
        large = f"more than {LARGEST_DATABASE} bytes"
        problems.append(trouble(origin.path, "raw-copy-too-large", ValueError(large)))


def _pieces(file: io.BufferedReader, owner: Key, kind: str) -> Iterator[RawRecord]:
    offset = 0
    while piece := file.read(BLOCK_BYTES):
        yield RawRecord(offset, owner, kind, None, piece)
        offset += len(piece)


@contextmanager
def copied_database(path: str) -> Iterator[io.BufferedReader]:
    """The database with its log, in one file."""
    with scratch() as folder:
        target = Path(folder, "copy")
        with open_database(path) as database:
            copy = sqlite3.connect(target)
            try:
                database.connection.backup(copy)
            finally:
                copy.close()
        with open(target, "rb") as file:
            yield file
