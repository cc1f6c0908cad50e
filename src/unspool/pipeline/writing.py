"""Writing: finished trajectories in the sink's shape, those that the filters keep."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from unspool import sinks
from unspool.link import Patch, apply_patch
from unspool.pipeline.enrich import drop_reasoning, enrich
from unspool.pipeline.filters import TELEMETRY, Filters
from unspool.pipeline.job import Job
from unspool.pipeline.spool import Slot, Slots
from unspool.pipeline.streaming import Stream, StreamingSink, streaming_sink
from unspool.prompts.census import TagScan
from unspool.sinks import Piece
from unspool.trajectory import Trajectory


class Task(msgspec.Struct):
    """One unit of output: a conversation, with its descendants for sinks that want them."""

    number: int
    members: list[tuple[Slot, Patch | None]]


class Written(msgspec.Struct):
    """What came of a task."""

    number: int
    ident: str
    dropped: str | None = None
    messages: int = 0
    pieces: list[tuple[str, Slot]] = []


class Pieces(msgspec.Struct):
    """What writing gave: an entry per task, and the prompt tags that were met."""

    written: list[Written]
    scan: TagScan | None = None


class Finisher:
    """Trajectories from the spool: linked, enriched, with the names that a person knows."""

    def __init__(self, job: Job, names: dict[str, str], slots: Slots) -> None:
        self.job = job
        self.names = names
        self.slots = slots

    def load(self, slot: Slot, patch: Patch | None) -> Trajectory:
        trajectory = self.slots.load(slot)
        self._finish(trajectory, patch)
        enrich(trajectory)
        return trajectory

    def stream(self, slot: Slot, patch: Patch | None) -> Stream:
        """The same, the messages some at a time."""
        trajectory, batches = self.slots.open(slot)
        self._finish(trajectory, patch)
        return Stream(trajectory, batches, patch, self.job.reasoning)

    def _finish(self, trajectory: Trajectory, patch: Patch | None) -> None:
        apply_patch(trajectory, patch)
        if not self.job.reasoning:
            drop_reasoning(trajectory)
        if trajectory.file_path is not None:
            trajectory.file_path = self.names.get(trajectory.file_path, trajectory.file_path)
        if trajectory.origins:
            trajectory.origins = [self.names.get(path, path) for path in trajectory.origins]


def write_tasks(tasks: Iterable[Task], path: Path, finisher: Finisher) -> Pieces:
    """What goes out of the tasks, one after the other into one file."""
    job = finisher.job
    made = Pieces([], TagScan() if job.scan_tags else None)
    with open(path, "wb") as file:
        writer = _Writer(finisher, Filters(job), file, made.scan)
        for task in tasks:
            sink = streaming_sink(job, task.members)
            done = writer.write(task) if sink is None else writer.write_long(task, sink)
            made.written.append(done)
    return made


class _Writer:
    def __init__(
        self, finisher: Finisher, filters: Filters, file: BinaryIO, scan: TagScan | None
    ) -> None:
        self._finisher = finisher
        self._filters = filters
        self._file = file
        self._scan = scan

    def write(self, task: Task) -> Written:
        members = [self._finisher.load(slot, patch) for slot, patch in task.members]
        dropped = self._filters.drops(members[0], lambda: members[0].messages)
        done = Written(task.number, members[0].conversation_id, dropped)
        if dropped is None:
            done.messages = sum(len(member.messages) for member in members)
            job = self._finisher.job
            family = sinks.Family(members[0], tuple(members[1:]))
            self._put(sinks.load(job.sink).write(family, job.sink_options), done)
            for member in members:
                if self._scan is not None and member.source == TELEMETRY:
                    self._scan.add(member)
        return done

    def write_long(self, task: Task, sink: StreamingSink) -> Written:
        slot, patch = task.members[0]
        finisher = self._finisher
        stream = finisher.stream(slot, patch)
        trajectory = stream.trajectory
        dropped = self._filters.drops(trajectory, lambda: finisher.stream(slot, patch).messages())
        done = Written(task.number, trajectory.conversation_id, dropped)
        if dropped is None:
            self._put(sink.write_long(trajectory, stream.batches()), done)
            done.messages = stream.count
            if self._scan is not None and trajectory.source == TELEMETRY:
                self._scan.add(trajectory, chain.from_iterable(finisher.slots.open(slot)[1]))
        return done

    def _put(self, made: Iterable[Piece], done: Written) -> None:
        file = self._file
        for piece in made:
            slot = Slot(file.name, file.tell(), len(piece.data))
            if done.pieces and not piece.name:  # the one file goes on
                slot = Slot(file.name, done.pieces[0][1].offset, done.pieces[0][1].size + slot.size)
                done.pieces.clear()
            done.pieces.append((piece.name, slot))
            file.write(piece.data)
