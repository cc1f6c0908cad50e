"""Reading an origin for the store: its facts, and its records as they are."""

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from unspool import sinks, sources
from unspool.databases import open_database
from unspool.facts import NOBODY, AnyFact, Key, Problem
from unspool.origins import Origin, Tally, open_origin
from unspool.pipeline.collect import Collection
from unspool.store.keeping import RawRecord
from unspool.store.survey import in_lines, is_database
from unspool.trajectory import Trajectory

LARGEST_DATABASE = 512 * 1024 * 1024
"""The raw copy of a larger one is left out of the store, and that is a problem to count."""


class ReadOrigin:
    """What reading one origin gave."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.collection = Collection()
        self.trajectories: list[Trajectory] = []
        self.tally = Tally()
        self.owners: dict[int, tuple[Key, str, int | None]] = {}
        """Offset → whose record it is, what kind, when."""
        self.end = origin.size
        """Up to where records are surely whole: the rest is kept when it is."""

    @property
    def gave_anything(self) -> bool:
        return bool(self.collection.conversations or self.trajectories)

    @property
    def problems(self) -> list[Problem]:
        return self.collection.problems

    def fail(self, code: str, error: Exception) -> None:
        text = getattr(error, "strerror", None) or str(error)
        path = self.origin.path
        self.problems.append(Problem(key=NOBODY, origin=path, offset=0, code=code, sample=text))


def read_origin(origin: Origin) -> ReadOrigin:
    """Read it; an origin that cannot be read is a problem, and the rest goes on."""
    made = ReadOrigin(origin)
    try:
        if origin.source in sinks.READERS:
            for item in sinks.load_reader(origin.source).read(origin, made.tally):
                if isinstance(item, Problem):
                    made.collection.problems.append(item)
                else:
                    made.trajectories.append(item)
        else:
            for fact in sources.read(origin, made.tally):
                made.collection.add(origin.source, fact)
                _own(made, fact)
    except (sqlite3.Error, OSError) as error:
        made.fail("unreadable", error)
    return made


def _own(made: ReadOrigin, fact: AnyFact) -> None:
    if fact.key != NOBODY and fact.offset not in made.owners:
        made.owners[fact.offset] = (fact.key, type(fact).__name__, fact.time)


class _Kind(msgspec.Struct):
    """The field in which most formats say what a record is."""

    type: msgspec.Raw = msgspec.Raw(b"")
    name: msgspec.Raw = msgspec.Raw(b"")
    hook_event_name: msgspec.Raw = msgspec.Raw(b"")


_kind = msgspec.json.Decoder(_Kind).decode


def event_type(line: bytes, default: str) -> str:
    try:
        found = _kind(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return default
    for value in (found.type, found.hook_event_name, found.name):
        text = bytes(value)
        if text[:1] == b'"':
            return text[1:-1].decode("utf-8", "replace")[:100]
    return default


def iter_records(read: ReadOrigin) -> Iterator[RawRecord]:
    """The origin's records as they are: lines, or the whole of a document or a database."""
    try:
        yield from _iter_records(read)
    except (sqlite3.Error, OSError) as error:
        # The origin's trouble, not the store's: what was read of it stays.
        read.fail("raw-copy-failed", error)


def _iter_records(read: ReadOrigin) -> Iterator[RawRecord]:
    origin = read.origin
    if not in_lines(origin.path, origin.source):
        yield from _whole(read)
        return
    owner: Key = next((key for key, _, _ in read.owners.values()), NOBODY)
    for offset, line in _exact_lines(origin, read.end):
        known = read.owners.get(offset)
        if known is not None:
            owner = known[0]
        # A line that states nothing may state something to a better reader: it stays with those
        # around it.
        kind = event_type(line, known[1] if known else "")
        yield RawRecord(offset, owner, kind, known[2] if known else None, line)


def _exact_lines(origin: Origin, end: int) -> Iterator[tuple[int, bytes]]:
    """Lines with their ends, blank ones too: put together they are the file, byte for byte."""
    with open_origin(origin.path) as file:
        file.seek(origin.start)
        offset = origin.start
        for line in file:
            if offset >= end:
                return
            yield offset, line
            offset += len(line)


def _whole(read: ReadOrigin) -> Iterator[RawRecord]:
    path = read.origin.path
    keys = {key for key, _, _ in read.owners.values()}
    owner = keys.pop() if len(keys) == 1 else NOBODY
    if not is_database(path):
        with open_origin(path) as file:
            yield RawRecord(0, owner, "document", None, file.read())
    elif read.origin.size <= LARGEST_DATABASE:
        yield RawRecord(0, owner, "database", None, copy_database(path))
    else:
        read.collection.problems.append(
            Problem(key=NOBODY, origin=path, offset=0, code="raw-copy-too-large")
        )


def copy_database(path: str) -> bytes:
    """The database with its log, in one file."""
    with tempfile.TemporaryDirectory(prefix="unspool-") as folder:
        target = Path(folder, "copy")
        with open_database(path) as database:
            copy = sqlite3.connect(target)
            try:
                database.connection.backup(copy)
            finally:
                copy.close()
        return target.read_bytes()
