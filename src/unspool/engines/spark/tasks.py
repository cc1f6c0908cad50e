"""Tasks: what Spark's Python workers do with the partitions that they are given.

    read     spans of files → facts, joined as far as one task sees them
    reduce   all facts of a conversation → trajectory and card
    finish   trajectory and what linking says of it → files (output.py)

Each gets and gives Arrow batches, one at a time. A worker process serves many tasks: nothing is
kept from one to the next.
"""

import gc
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from unspool import sinks, sources
from unspool.engines.spark.elsewhere import Row, localised, relabelled
from unspool.engines.spark.elsewhere import read_rows as read_table
from unspool.engines.spark.output import GIVE_BACK_BYTES, write_part
from unspool.engines.spark.rows import (
    BATCH_BYTES,
    CONVERSATION,
    FACTS,
    MESSAGES,
    PATCH,
    PIECE_BYTES,
    READY,
    REPORT,
    Item,
    pack,
    tell,
    unpack,
    use_system_memory,
)
from unspool.facts import NOBODY, AnyFact, Key, Problem
from unspool.io.memory import give_back
from unspool.io.origins import Origin, Tally
from unspool.io.packing import Packer
from unspool.link import Card, Patch, make_card
from unspool.pipeline.collect import Collection, Gathered, Place, rebuild
from unspool.pipeline.finish import Filters, drop_reasoning, finish
from unspool.pipeline.job import MEGABYTE, Job
from unspool.pipeline.shuffle import pack_facts, unpack_facts
from unspool.trajectory import (
    Message,
    Trajectory,
    pack_trajectory,
    unpack_trajectory,
)

MEMORY_BYTES = 64 * MEGABYTE
"""A task that has read so many facts passes them on, joined as far as they are."""

Batches = Iterator[Any]


class Reduced(msgspec.Struct, array_like=True):
    """What the driver must know of a conversation."""

    place: tuple[Place, Key, int]
    card: Card
    merged: bool
    partial: bool


class Report(msgspec.Struct, array_like=True):
    """What a task has to tell of itself."""

    tally: Tally = msgspec.field(default_factory=Tally)
    superseded: int = 0
    problems: list[Problem] = []


PROBLEMS_PER_REPORT = 1000
encode = Packer().encode
decode_report = msgspec.msgpack.Decoder(Report).decode
decode_reduced = msgspec.msgpack.Decoder(Reduced).decode
_decode_span = msgspec.msgpack.Decoder(Origin).decode
_decode_key = msgspec.msgpack.Decoder(Key).decode
_decode_place = msgspec.msgpack.Decoder(Place).decode
_decode_patch = msgspec.msgpack.Decoder(Patch).decode
_decode_messages = msgspec.msgpack.Decoder(list[Message]).decode


_frozen = False


@contextmanager
def _frugal() -> Iterator[None]:
    """Facts hold no cycles; scanning them again and again costs a fifth of the time. After every task
    Spark's daemon scans all the same: what was imported it need not look at."""
    global _frozen
    use_system_memory()
    if not _frozen:  # (gc.get_freeze_count() counts them all, which takes 10 ms)
        _frozen = True
        gc.freeze()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _reports(task: int, report: Report) -> Iterator[Item]:
    """The report in rows of bounded length."""
    problems = report.problems
    report.problems = problems[:PROBLEMS_PER_REPORT]
    key = b"report %d" % task
    yield Item(key, task, REPORT, encode(report), b"")
    for at in range(PROBLEMS_PER_REPORT, len(problems), PROBLEMS_PER_REPORT):
        more = Report(problems=problems[at : at + PROBLEMS_PER_REPORT])
        yield Item(key, task, REPORT, encode(more), b"")


def _problem(key: Key, place: Place, error: Exception) -> Problem:
    """A file that cannot be read, or a fault of ours: the other files and conversations go on."""
    code, text = "internal-error", f"{type(error).__name__}: {error}"
    if isinstance(error, OSError):
        code, text = "unreadable", error.strerror or str(error)
    return Problem(key=key, origin=place[0], offset=place[1], code=code, sample=text)


# read


def read(batches: Batches, recover: bool) -> Batches:
    """Spans of files, each a row (task, packed span), into rows of facts."""
    with _frugal():
        yield from pack(_read(batches, recover))


def _read(batches: Batches, recover: bool) -> Iterator[Item]:
    rows = (row for batch in batches for row in batch.to_pylist())
    for task, group in groupby(rows, itemgetter("task")):
        reader = Reader(task, recover)
        for row in group:
            yield from reader.read(_decode_span(row["span"]))
        yield from reader.close()


def read_rows(batches: Batches, source: str, recover: bool) -> Batches:
    """Rows of a table (task, raw, origin, offset), each a raw event, into rows of facts."""
    with _frugal():
        yield from pack(_read_rows(batches, source, recover))


def _read_rows(batches: Batches, source: str, recover: bool) -> Iterator[Item]:
    reader: Reader | None = None
    for task, rows in _portions(batches):
        reader = reader or Reader(task, recover)
        facts = read_table(rows, source, reader.report.tally, recover)
        yield from reader.take(source, facts, rows[0][1:])
    if reader is not None:
        yield from reader.close()


def _portions(batches: Batches) -> Iterator[tuple[int, list[Row]]]:
    """Rows of some megabytes at a time, with their task: each portion goes through a file."""
    task, size = 0, 0
    rows: list[Row] = []
    for batch in batches:
        for row in batch.to_pylist():
            if row["raw"] is not None:
                task = row["task"]
                rows.append(Row(row["raw"], row["origin"] or "", row["offset"] or 0))
                size += len(row["raw"])
        if size > BATCH_BYTES:
            yield task, rows
            rows, size = [], 0
    if rows:
        yield task, rows


class Reader:
    """The facts of some spans, joined while memory allows."""

    def __init__(self, task: int, recover: bool) -> None:
        self.task = task
        self.recover = recover
        self.collection = Collection()
        self.report = Report()

    def read(self, span: Origin) -> Iterator[Item]:
        try:
            with localised(span) as local:
                if span.source in sinks.READERS:
                    yield from self._read_ready(span, local)
                else:
                    facts = sources.read(local, self.report.tally, self.recover)
                    facts = facts if local is span else relabelled(facts, span.path)
                    yield from self.take(span.source, facts, (span.path, span.start))
        except OSError as error:
            self.report.tally.records += 1
            self.report.tally.problems += 1
            self.report.problems.append(_problem(NOBODY, (span.path, span.start), error))

    def take(self, source: str, facts: Iterable[AnyFact], place: Place) -> Iterator[Item]:
        """`place` is where they begin."""
        collection = self.collection
        try:
            for fact in facts:
                if collection.weight > MEMORY_BYTES:
                    yield from self.pass_on()
                collection.add(source, fact)
                place = (fact.origin, fact.offset)
        except OSError:
            raise
        except Exception as error:
            self.report.problems.append(_problem(NOBODY, place, error))

    def _read_ready(self, span: Origin, local: Origin) -> Iterator[Item]:
        """A format that already is trajectories."""
        reader = sinks.load_reader(span.source)
        for number, item in enumerate(reader.read(local, self.report.tally)):
            if isinstance(item, Problem):
                self.report.problems.append(msgspec.structs.replace(item, origin=span.path))
                continue
            key = encode((item.source, item.conversation_id))
            place = encode((span.path, span.start + number))
            yield Item(key, self.task, READY, place, pack_trajectory(item))

    def pass_on(self) -> Iterator[Item]:
        for key in list(self.collection.conversations):
            gathered = self.collection.pop(key)
            if gathered is not None:
                for data in pack_facts(gathered):
                    yield Item(encode(key), self.task, FACTS, None, data)
        self.collection.take_met()

    def close(self) -> Iterator[Item]:
        yield from self.pass_on()
        self.report.problems += self.collection.problems
        yield from _reports(self.task, self.report)


# reduce


def reduce(batches: Batches, merge_tools: bool) -> Batches:
    """Rows of facts, those of a conversation together, into rows of conversations."""
    with _frugal():
        yield from pack(_reduce(unpack(batches), merge_tools))


def _reduce(items: Iterable[Item], merge_tools: bool) -> Iterator[Item]:
    report = Report()
    for packed_key, group in groupby(items, attrgetter("key")):
        gathered: Gathered | None = None
        for item in group:
            if item.kind == REPORT:
                yield item
            elif item.kind == READY:
                trajectory = unpack_trajectory(item.data)
                key = (trajectory.source, trajectory.conversation_id)
                place = (_decode_place(item.head or b""), key, 0)
                yield from _conversation(trajectory, make_card(trajectory), place)
            else:
                gathered = unpack_facts(item.data, gathered)
        if gathered is None:
            continue
        key, first = _decode_key(packed_key), gathered.first
        try:
            rebuilt = rebuild(key, gathered, merge_tools)
        except Exception as error:
            report.problems.append(_problem(key, first, error))
            continue
        gathered = None
        report.superseded += rebuilt.superseded
        report.problems += rebuilt.problems
        rebuilt.conversations.reverse()
        number = 0
        while rebuilt.conversations:
            yield from _conversation(*rebuilt.conversations.pop(), (first, key, number))
            number += 1
    yield from _reports(-1, report)


def _conversation(
    trajectory: Trajectory, card: Card, place: tuple[Place, Key, int]
) -> Iterator[Item]:
    """The trajectory with its messages; those of a long one come after it, some at a time. They are let
    go as they are packed: a long conversation is held once."""
    reduced = Reduced(place, card, bool(trajectory.origins), bool(trajectory.partial))
    key, head = encode(place), encode(reduced)
    messages = trajectory.messages
    if sum(len(message.content) for message in messages) < PIECE_BYTES:
        yield Item(key, 0, CONVERSATION, head, pack_trajectory(trajectory))
        return
    trajectory.messages = []
    yield Item(key, 0, CONVERSATION, head, pack_trajectory(trajectory))
    messages.reverse()
    packed = 0
    while messages:
        some = [messages.pop()]
        weight = len(some[0].content)
        while messages and weight < PIECE_BYTES // 2:
            some.append(messages.pop())
            weight += len(some[-1].content)
        yield Item(key, 0, MESSAGES, None, encode(some))
        packed += weight
        if packed > GIVE_BACK_BYTES:
            packed = 0
            give_back()


# finish


class Names(Mapping[str, str]):
    """Path → its name relative to the argument that it was found under (see `io.folders.walk`): every
    task gets it, so it does not list the files, which may be a million."""

    def __init__(self, folders: Iterable[str], files: Iterable[str]) -> None:
        self.folders = [os.path.join(folder, "") for folder in folders]  # noqa: PTH118 - as walk
        self.files = set(files)

    def __getitem__(self, path: str) -> str:
        if path in self.files:
            return path.rpartition("/")[2]
        for folder in self.folders:
            if path.startswith(folder):
                return path[len(folder) :]
        raise KeyError(path)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


def finish_all(batches: Batches, job: Job, names: Mapping[str, str], folder: str) -> Batches:
    """Rows of conversations, each with its patch before it, into files below the folder; the rows that
    come out name them."""
    with _frugal():
        items = unpack(batches)
        first = next(items, None)
        if first is None:
            return
        number, items = first.task, chain((first,), items)
        del first
        dropped: Counter[str] = Counter()
        kept = _finish(items, job, names, dropped)
        part, written, messages = write_part(kept, job.sink, folder, number)
        parts = [(name, count, 0) for name, count in dropped.items()]
        yield tell([*parts, (part, written, messages)])


def _finish(
    items: Iterable[Item], job: Job, names: Mapping[str, str], dropped: "Counter[str]"
) -> Iterator[Trajectory]:
    """The conversations that no filter drops."""
    filters = Filters(job)
    for _, group in groupby(items, attrgetter("key")):
        patch: Patch | None = None
        trajectory: Trajectory | None = None
        for item in group:
            if item.kind == PATCH:
                patch = _decode_patch(item.data)
            elif patch is not None and patch.absorbed:
                continue
            elif trajectory is None:
                trajectory = unpack_trajectory(item.data)
            else:
                trajectory.messages += _decode_messages(item.data)
        if trajectory is None:
            continue
        if not job.reasoning:
            drop_reasoning(trajectory)
        finish(trajectory, patch, names)
        filter_name = filters.drops(trajectory)
        if filter_name is None:
            yield trajectory
        else:
            dropped[filter_name] += 1
