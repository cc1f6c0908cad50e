"""Batches: changed origins read and put together, apart from the store.

Nothing here asks the store, so worker processes do it beside the one that writes. What comes out is
a stream: for every origin `Began`, its blocks and problems, `Ended`; then the conversations of which
this batch has all facts, reduced, linked with each other, and as rows. Whether they are right is for
the store to say: it may have more facts of them, or more conversations to link.
"""

import os
import pickle
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unspool.facts import NOBODY, AnyFact, Key, Problem
from unspool.io.databases import is_spare
from unspool.io.origins import Origin, Tally
from unspool.io.packing import Packer
from unspool.io.processes import WorkerProcess, attempt, end_with_driver
from unspool.link import Card, Patch, link
from unspool.pipeline.collect import Collection, Gathered, Rebuilt, problem_of, rebuild
from unspool.pipeline.discover import cut, recognise
from unspool.pipeline.finish import finish
from unspool.store.blocks import FactBlock, RawBlock, fact_block, moved, raw_blocks
from unspool.store.reading import RawRecords, is_log, read_items
from unspool.store.rows import Rows, make_rows
from unspool.store.survey import Changed, tail_hash, whole_records_end
from unspool.trajectory import Trajectory, pack_trajectory

PART_BYTES = 32 * 1024 * 1024
"""Logs of lines are read in parts of this size."""
FACTS_BYTES = 16 * 1024 * 1024
"""Facts beyond this are packed and let go of."""
FRESH_BYTES = 48 * 1024 * 1024
"""Facts of a batch that are still at hand when its conversations are reduced."""
BATCH_BYTES = 6 * 1024 * 1024
WORTH_WORKERS_BYTES = 24 * 1024 * 1024
"""Less is read before a process has started."""
WORKERS = 2
"""One process writes what they read, and more would wait for it."""
AHEAD = 2
"""Batches that a worker has read and nobody has taken yet."""

pack = Packer().encode
_patch = msgspec.msgpack.Decoder(Patch).decode


def pack_patch(patch: Patch | None) -> bytes | None:
    return pack(patch) if patch is not None else None


def unpack_patch(packed: bytes | None) -> Patch | None:
    return _patch(packed) if packed is not None else None


class Began(NamedTuple):
    """An origin; where there is nothing to read, no more is said of it."""

    changed: Changed
    origin: Origin | None = None
    """None: of no known format, or there is trouble."""
    end: int = 0
    """Up to where its records are whole."""
    tail: str = ""
    is_spare: bool = False
    """The backup of a database that is good again: what was read while it was not stays."""
    trouble: Problem | None = None
    is_live: bool = False
    """The log of a session, which only the store has: its records stay when it is read anew."""


class Whole(NamedTuple):
    """What came as a trajectory: there are no facts of it."""

    packed: bytes


class Ended(NamedTuple):
    records: int


class Reduced(NamedTuple):
    """A conversation, or a side thread of one, made from facts."""

    key: Key
    card: bytes
    patch: bytes | None
    """What linking says of it, with which the rows were made."""
    rows: Rows | None
    """None: it is a mere copy of another, and that knows all that it says."""
    told: Any = None
    """What else the writer wants to know of it."""

    @classmethod
    def of(cls, trajectory: Trajectory, card: Card, patch: Patch | None) -> "Reduced":
        """The trajectory finished, with what linking says of it."""
        rows: Rows | None = None
        if patch is None or not patch.absorbed:
            finish(trajectory, patch)
            rows = make_rows(trajectory)
        return cls(card.key, pack(card), pack_patch(patch), rows)


class Conversation(NamedTuple):
    """What came of the facts of one key."""

    key: Key
    reduced: list[Reduced]
    problems: list[Problem]


Item = Began | FactBlock | RawBlock | Problem | Whole | Ended | Conversation


class Batch:
    """Some changed origins on their way in."""

    def __init__(self, raw: bool = True) -> None:
        self.raw = raw
        self.fresh: dict[Key, Gathered] = {}
        """Conversations all of whose facts are at hand."""
        self.met: set[Key] = set()
        """Those of which an origin told: facts of two are put together in the store."""
        self._fresh_bytes = 0

    def read(self, batch: Iterable[Changed]) -> Iterator[Item]:
        for changed in batch:
            began = _begin(changed)
            yield began
            if began.origin is not None and not began.is_spare:
                yield from self.read_origin(began.origin, began.end)

    def read_origin(self, origin: Origin, end: int, path: str = "") -> Iterator[Item]:
        """Its facts and records, a block at a time; `path`: where it stands, if that is not here."""
        collection, tally, records = Collection(), Tally(), RawRecords(origin, end)
        problems = collection.problems
        is_copied = self.raw and not origin.only
        for part in cut([origin], PART_BYTES) if records.in_lines else [origin]:
            for item in read_items(part, tally, tolerant=not path):
                if isinstance(item, Trajectory):
                    if path and item.file_path == origin.path:
                        item.file_path = path
                    yield Whole(pack_trajectory(item))
                    continue
                if is_copied:
                    records.add(item)
                fact: AnyFact = moved(item, path) if path else item
                collection.add(origin.source, fact)
                if collection.weight > FACTS_BYTES:
                    yield from _fact_blocks(collection)
                    self._let_go(collection.conversations)
                    for key in list(collection.conversations):
                        collection.pop(key)
                if problems:
                    yield from problems
                    problems.clear()
            if is_copied:
                yield from raw_blocks(records.read(part, problems))
        yield from _fact_blocks(collection)
        # The facts of an origin that was read to its end stay for reducing, if they are all.
        first = collection.conversations.keys() - self.met
        self._let_go(collection.conversations)
        if not origin.start and self._fresh_bytes + collection.weight <= FRESH_BYTES:
            self._fresh_bytes += collection.weight
            self.fresh |= {key: collection.conversations[key] for key in first}
        yield from problems
        yield Ended(tally.records)

    def _let_go(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.fresh.pop(key, None)
            self.met.add(key)

    def reduce(self) -> Iterator[Conversation]:
        """The conversations all of whose facts are at hand, linked with each other, as rows."""
        rebuilt: dict[Key, Rebuilt] = {}
        for key in sorted(self.fresh):
            with suppress(Exception):  # a fault of ours: who reduces it from the store tells of it
                rebuilt[key] = rebuild(key, self.fresh.pop(key))
        patches = link([card for one in rebuilt.values() for _, card in one.conversations])
        for key in list(rebuilt):
            whole = rebuilt.pop(key)
            reduced = [Reduced.of(*one, patches.get(one[1].key)) for one in whole.conversations]
            yield Conversation(key, reduced, whole.problems)


def _fact_blocks(collection: Collection) -> Iterator[FactBlock]:
    for key, gathered in collection.conversations.items():
        yield fact_block(key, gathered.source, gathered.all_facts())


def _begin(changed: Changed) -> Began:
    """The origin to read, from the beginning or from where the store left off."""
    path, known, size = changed.path, changed.known, changed.size_bytes
    try:
        origin = recognise(Origin(path, changed.name, size=size, only=changed.only))
        begin = changed.begin
        if known is not None and begin and tail_hash(path, begin) == known.tail_hash:
            # A short log may look like another one, or like none, while it grows: then all of it is
            # read, as what it was.
            start = begin if origin.source == known.source and origin.lines else 0
            name = origin.source or known.source
            origin = msgspec.structs.replace(origin, source=name, start=start)
        if not origin.source:
            return Began(changed)
        end = whole_records_end(path, size) if is_log(origin) else size
        spare = known is not None and is_spare(path)
        return Began(changed, origin, end, tail_hash(path, end), spare)
    except OSError as error:
        return Began(changed, trouble=problem_of(error, NOBODY, (path, 0)))


def iter_read(changed: list[Changed], raw: bool, folder: Path) -> Iterator[Iterator[Item]]:
    """What there is to know of the origins, batch by batch.

    Where there is much, worker processes take turns. Each puts what comes of a batch into a file and
    says so, and is at most a few batches ahead. Batches are written in their order, so the store is the
    same however many workers there are.
    """
    batches = list(_iter_batches(changed))
    is_much = sum(one.size_bytes for one in changed) >= WORTH_WORKERS_BYTES
    if len(batches) < 2 or not is_much or (os.cpu_count() or 1) < 2:
        for batch in batches:
            yield _read(batch, raw)
        return
    workers = [
        WorkerProcess(folder, _read_some, batches[first::WORKERS], raw, folder / str(first))
        for first in range(WORKERS)
    ]
    try:
        for number in range(len(batches)):
            worker = workers[number % WORKERS]
            path = worker.receive()
            yield _unpickled(path)
            path.unlink()
            with suppress(OSError):  # it has read all of its batches
                worker.pipe.send(None)
    finally:
        for worker in workers:
            worker.close()


def _iter_batches(changed: list[Changed]) -> Iterator[list[Changed]]:
    """The changed origins in groups of some megabytes; a session's files stay together.

    `4f0c.jsonl` and `4f0c/subagents/agent-1.jsonl` are next to each other, and in one group.
    """
    batch: list[Changed] = []
    weight = 0
    stem = ""
    for item in sorted(changed, key=lambda one: _stem(one.path).split(os.sep)):  # noqa: PTH206
        if weight >= BATCH_BYTES and not item.path.startswith(stem):
            yield batch
            batch, weight = [], 0
        if not stem or not item.path.startswith(stem):
            stem = _stem(item.path) + os.sep
        batch.append(item)
        weight += item.size_bytes - item.begin
    if batch:
        yield batch


def _stem(path: str) -> str:
    return os.path.splitext(path)[0]  # noqa: PTH122 - thousands of files


def _read(batch: list[Changed], raw: bool) -> Iterator[Item]:
    reading = Batch(raw)
    yield from reading.read(batch)
    yield from reading.reduce()


def _unpickled(path: Path) -> Iterator[Item]:
    with open(path, "rb") as file, suppress(EOFError):
        while True:
            yield pickle.load(file)


def _read_some(pipe: Connection, batches: list[list[Changed]], raw: bool, folder: Path) -> None:
    folder.mkdir()

    def read(number: int, batch: list[Changed]) -> Path:
        path = folder / str(number)
        with open(path, "wb") as file:
            for item in _read(batch, raw):
                pickle.dump(item, file, pickle.HIGHEST_PROTOCOL)
                end_with_driver()
        return path

    for number, batch in enumerate(batches):
        if number >= AHEAD:
            pipe.recv()
        pipe.send(attempt(read, number, batch))
    while True:  # until the writer hangs up
        pipe.recv()
