"""Worker: one process's share of a run, in three steps.

1. read: its origins' records become facts;
2. reduce: facts of conversations that another worker also saw change hands; each worker reduces
   the conversations that are its own and puts the trajectories into a spool file;
3. write: trajectories, with what linking found out, go through enrich, filters and the sink.

The same code runs in the calling process when there is one worker.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from unspool import sinks, sources
from unspool.facts import NOBODY, Key, Problem
from unspool.io.memory import give_back
from unspool.io.origins import Origin, Tally
from unspool.link import Card, make_card
from unspool.pipeline.chunks import (
    BUCKETS,
    ChunkPlace,
    Chunks,
    Spill,
    bucket_of,
    write_chunks,
)
from unspool.pipeline.collect import Collection, Gathered, Place
from unspool.pipeline.job import Job
from unspool.pipeline.spool import Slot, Slots, Spool
from unspool.pipeline.writing import Finisher, Pieces, Task, write_tasks
from unspool.reduce import reduce_facts
from unspool.reduce.naming import Naming
from unspool.trajectory import Trajectory

PROGRESS_FACTS = 256
SAMPLES_PER_CODE = 5


class Reduced(msgspec.Struct):
    """A trajectory in a spool file, with what the driver must know of it."""

    place: tuple[Place, Key, int]
    slot: Slot
    card: Card
    merged: bool = False
    partial: bool = False


class Report(msgspec.Struct):
    """What reading found out: the conversations met, and what became of the records."""

    keys: set[Key]
    tally: Tally


class Outcome(msgspec.Struct):
    """What reducing gave: the trajectories, how many records fell away, all problems."""

    reduced: list[Reduced]
    superseded: int
    problems: dict[str, int]
    samples: list[Problem]


class Worker:
    def __init__(
        self,
        number: int,
        folder: Path,
        job: Job,
        names: dict[str, str],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.number = number
        self.folder = folder
        self.job = job
        self.names = names
        self.progress = progress
        self.tally = Tally()
        self.collection = Collection()
        self.spill = Spill(folder, f"facts-{number}")
        self.problem_counts: dict[str, int] = {}
        self.problem_samples: dict[str, list[Problem]] = {}
        self.ready: list[tuple[Place, Slot]] = []
        self.owners: dict[Key, int] = {}
        self.slots = Slots()
        self.spool = Spool(folder / f"spool-{number}")

    # 1. read

    def read(self, spans: Iterable[Origin]) -> Report:
        self.read_spans(spans)
        return Report({*self.collection.conversations, *self.spill.keys}, self.tally)

    def read_spans(self, spans: Iterable[Origin]) -> None:
        limit = self.job.memory_bytes // max(1, self.job.workers)
        with open(self.folder / f"problems-{self.number}", "ab") as problems:
            for span in spans:
                if span.source in sinks.READERS:
                    self._read_ready(span)
                else:
                    self._read_span(span, limit)
                self._flush_problems(problems)

    def _read_span(self, span: Origin, limit: int) -> None:
        collection = self.collection
        count = 0
        done = span.start
        try:
            for fact in sources.read(span, self.tally, self.job.recover):
                if collection.weight > limit and not collection.has_text_of(fact):
                    self._spill()  # not before the source is done with the record before
                collection.add(span.source, fact)
                count += 1
                if count % PROGRESS_FACTS or self.progress is None or fact.origin != span.path:
                    continue
                self.progress(max(0, fact.offset - done))
                done = max(done, fact.offset)
        except OSError as error:  # vanished, or no longer permitted
            self._unreadable(span, error)
        except Exception as error:  # a fault of ours: the other files go on
            self._fault(NOBODY, (span.path, done), error)
        if collection.weight > limit:
            self._spill()
        end = span.end if span.end is not None else span.size
        if self.progress is not None:
            self.progress(max(0, end - done))

    def _read_ready(self, span: Origin) -> None:
        """A format that already is trajectories."""
        reader = sinks.load_reader(span.source)
        try:
            for number, item in enumerate(reader.read(span, self.tally)):
                if isinstance(item, Problem):
                    self.collection.problems.append(item)
                else:
                    slot = self.spool.put(item)
                    self.ready.append(((span.path, span.start + number), slot))
        except OSError as error:
            self._unreadable(span, error)

    def _unreadable(self, span: Origin, error: OSError) -> None:
        self.tally.records += 1
        self.tally.problems += 1
        text = error.strerror or str(error)
        self.collection.problems.append(
            Problem(
                key=("", ""), origin=span.path, offset=span.start, code="unreadable", sample=text
            )
        )

    def _fault(self, key: Key, place: Place, error: Exception) -> None:
        if os.environ.get("UNSPOOL_DEBUG"):
            raise error
        text = f"{type(error).__name__}: {error}"
        self.collection.problems.append(
            Problem(key=key, origin=place[0], offset=place[1], code="internal-error", sample=text)
        )

    def _spill(self) -> None:
        self.spill.put(self.collection.conversations)
        self.collection.conversations.clear()
        self.collection.weight = 0

    def _flush_problems(self, file: Any) -> None:
        for problem in self.collection.problems:
            self.problem_counts[problem.code] = self.problem_counts.get(problem.code, 0) + 1
            samples = self.problem_samples.setdefault(problem.code, [])
            if len(samples) < SAMPLES_PER_CODE:
                samples.append(problem)
            file.write(msgspec.json.encode(problem) + b"\n")
        self.collection.problems.clear()

    # 2. reduce

    def hand_over(self, owners: dict[Key, int]) -> None:
        """Facts of conversations that belong to another worker go to files for it."""
        mine = self.collection.conversations
        files: dict[tuple[int, int], Any] = {}

        def file_for(owner: int, bucket: int) -> Any:
            if (owner, bucket) not in files:
                path = self._hand_path(self.number, owner, bucket)
                files[(owner, bucket)] = open(path, "ab")  # noqa: SIM115 - closed below
            return files[(owner, bucket)]

        for key in [key for key in mine if owners.get(key, self.number) != self.number]:
            write_chunks(file_for(owners[key], bucket_of(key)), key, mine.pop(key))
        for bucket in range(BUCKETS) if self.spill.keys else ():
            with Chunks(self.spill.path(bucket)) as chunks:
                for key, place in chunks.places():
                    if owners.get(key, self.number) != self.number:
                        chunks.copy(key, place, file_for(owners[key], bucket))
        for file in files.values():
            file.close()
        self.owners = owners

    def _hand_path(self, giver: int, owner: int, bucket: int) -> Path:
        return self.folder / f"hand-{giver}-{owner}-{bucket:02d}"

    def reduce(self) -> Outcome:
        """All own conversations reduced into the spool file."""
        with open(self.folder / f"problems-{self.number}", "ab") as problems:
            made, superseded = self._reduce()
            self._flush_problems(problems)
        give_back()
        samples = [p for found in self.problem_samples.values() for p in found]
        return Outcome(made, superseded, self.problem_counts, samples)

    def _reduce(self) -> tuple[list[Reduced], int]:
        made: list[Reduced] = []
        superseded = 0
        for key, gathered in self._own():
            superseded += self._reduce_one(key, gathered, made)
            del gathered  # gone before the next one is read
        self.spool.close()
        for place, slot in self.ready:
            trajectory = self.slots.load(slot)
            key = (trajectory.source, trajectory.conversation_id)
            partial = bool(trajectory.partial)
            made.append(Reduced((place, key, 0), slot, make_card(trajectory), partial=partial))
        return made, superseded

    def _reduce_one(self, key: Key, gathered: Gathered, made: list[Reduced]) -> int:
        current = sources.current_of(key, gathered.source)
        merge = self.job.merge_tool_metadata
        try:
            reduction = reduce_facts(key, gathered.hand_out(), current, merge)
        except Exception as error:  # a fault of ours: the other conversations go on
            self._fault(key, gathered.first, error)
            return 0
        self.collection.problems += reduction.problems
        for number, (trajectory, naming) in enumerate(reduction.conversations()):
            made.append(self._reduced(trajectory, naming, (gathered.first, key, number)))
        return reduction.superseded

    def _own(self) -> Iterator[tuple[Key, Gathered]]:
        """The facts of one conversation at a time: from memory, from disk, from other workers."""
        memory: dict[int, dict[Key, Gathered]] = {}
        while self.collection.conversations:
            key, known = self.collection.conversations.popitem()
            memory.setdefault(bucket_of(key), {})[key] = known
            del known  # as above
        for bucket in range(BUCKETS):
            conversations = memory.pop(bucket, {})
            paths = [self._hand_path(n, self.number, bucket) for n in range(self.job.workers)]
            with ExitStack() as stack:
                files = [stack.enter_context(Chunks(p)) for p in (self.spill.path(bucket), *paths)]
                yield from self._in_bucket(conversations, files)

    def _in_bucket(
        self, conversations: dict[Key, Gathered], files: list[Chunks]
    ) -> Iterator[tuple[Key, Gathered]]:
        places: dict[Key, list[tuple[Chunks, ChunkPlace]]] = {key: [] for key in conversations}
        for chunks in files:
            for key, place in chunks.places():
                if self.owners.get(key, self.number) == self.number:
                    places.setdefault(key, []).append((chunks, place))
        for key, found in places.items():
            gathered = conversations.pop(key, None)
            for chunks, place in found:
                gathered = chunks.add_to(gathered, place)
            if gathered is not None:
                yield key, gathered
            del gathered  # as above

    def _reduced(
        self, trajectory: Trajectory, naming: Naming, place: tuple[Place, Key, int]
    ) -> Reduced:
        card = make_card(trajectory, naming)
        merged = bool(trajectory.origins)
        partial = bool(trajectory.partial)
        slot = self.spool.put(trajectory)
        return Reduced(place, slot, card, merged, partial)

    # 3. write

    def write(self, tasks: Iterable[Task]) -> Pieces:
        """The tasks' trajectories in the sink's shape, in this worker's own output file."""
        finisher = Finisher(self.job, self.names, self.slots)
        return write_tasks(tasks, self.folder / f"pieces-{self.number}", finisher)
