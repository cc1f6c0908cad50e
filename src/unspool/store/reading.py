"""Reading an origin for the store: what it states, and its records as they are."""

import io
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from unspool import sinks, sources
from unspool.facts import NOBODY, AnyFact, Key, Problem
from unspool.io.databases import open_database
from unspool.io.origins import Origin, Tally, open_origin
from unspool.io.temporary import scratch
from unspool.pipeline.collect import as_far_as_readable
from unspool.store.blocks import BLOCK_BYTES, RawRecord
from unspool.store.survey import LOGS, in_lines, is_database, is_whole
from unspool.trajectory import Trajectory

LARGEST_DATABASE = 512 * 1024 * 1024
"""The raw copy of a larger one is left out of the store, and that is a problem to count."""


def read_items(origin: Origin, tally: Tally, tolerant: bool) -> Iterator[AnyFact | Trajectory]:
    """All that it states."""
    told: Iterator[AnyFact | Trajectory]
    if origin.source in sinks.READERS:
        told = sinks.load_reader(origin.source).read(origin, tally)
    else:
        told = sources.read(origin, tally)
    return as_far_as_readable(told, origin, tally, tolerant)


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


class RawRecords:
    """The records of an origin as they are, up to `end`; whose they are, its facts tell."""

    def __init__(self, origin: Origin, end: int) -> None:
        self.in_lines = is_log(origin)
        self.end = end
        self._at = origin.start
        """Up to where lines were read."""
        self._keys: set[Key] = set()
        self._stated: dict[int, RawRecord] = {}
        """By offset; only of lines, the rest is kept as a whole."""

    def add(self, fact: AnyFact) -> None:
        if fact.key != NOBODY:
            self._keys.add(fact.key)
            if self.in_lines and fact.offset not in self._stated:
                kind = type(fact).__name__
                self._stated[fact.offset] = RawRecord(fact.offset, fact.key, kind, fact.time, b"")

    def read(self, part: Origin, problems: list[Problem]) -> Iterator[RawRecord]:
        """Those of a part: lines, or pieces of a document or a database."""
        try:
            yield from self._lines(part) if self.in_lines else self._pieces(part, problems)
        except (sqlite3.Error, OSError) as error:
            # The origin's trouble, not the store's: what was read of it stays.
            text = getattr(error, "strerror", None) or str(error)
            problems.append(_uncopied(part, "raw-copy-failed", text))
        self._stated.clear()

    def _lines(self, part: Origin) -> Iterator[RawRecord]:
        """Lines with their ends, blank ones too: put together they are the file, byte for byte. A line
        is of the part in which it begins."""
        end = self.end if part.end is None else min(self.end, part.end)
        key = next((record.key for record in self._stated.values()), NOBODY)
        with open_origin(part.path) as file:
            file.seek(self._at)
            while self._at < end and (line := file.readline()):
                # A line that states nothing may state something to a better reader: it stays with
                # those around it.
                record = self._stated.get(self._at) or RawRecord(self._at, key, "", None, b"")
                key = record.key
                kind = event_type(line, record.event_type)
                yield RawRecord(self._at, key, kind, record.time, line)
                self._at += len(line)

    def _pieces(self, origin: Origin, problems: list[Problem]) -> Iterator[RawRecord]:
        kind = "database" if is_database(origin.path) else "document"
        if kind == "database" and origin.size > LARGEST_DATABASE:
            large = f"more than {LARGEST_DATABASE} bytes"
            problems.append(_uncopied(origin, "raw-copy-too-large", large))
            return
        opened = copied_database if kind == "database" else open_origin
        owner = next(iter(self._keys)) if len(self._keys) == 1 else NOBODY
        offset = 0
        with opened(origin.path) as file:
            while piece := file.read(BLOCK_BYTES):
                yield RawRecord(offset, owner, kind, None, piece)
                offset += len(piece)


def _uncopied(origin: Origin, code: str, text: str) -> Problem:
    return Problem(key=NOBODY, origin=origin.path, offset=0, code=code, sample=text)


def is_log(origin: Origin) -> bool:
    """Whether its records are lines: a log of objects over several lines is read as a whole."""
    return origin.lines and in_lines(origin.path, origin.source)


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
