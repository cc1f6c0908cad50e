"""Finish: the last seam, trajectory + patch → rows. The same for a run, the store and live capture.

A trajectory gets what linking found out, what can be read out of its prompts and its edits, and the
names that a person knows; then filters decide whether it goes out, and a sink gives it its shape.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from unspool import sinks, sources
from unspool.io.times import parse_time
from unspool.link import Patch, apply_patch
from unspool.pipeline.job import Job
from unspool.pipeline.shuffle import Slot, Spool
from unspool.prompts.catalogue import Catalogue, active
from unspool.prompts.census import TagScan
from unspool.prompts.context import message_context, summarise
from unspool.prompts.tags import Block, blocks
from unspool.prompts.typed import read_wording
from unspool.reduce.records import NOT_TYPED
from unspool.trajectory import Message, Trajectory

FILTERS = ("since", "require-system-first", "regex", "sample")
"""In the order in which they are asked."""
LISTLESS = {"only-echoes", "input-missing", "prompts-without-conversation"}
"""Partial trajectories whose message list nobody logged: they cannot begin with a system message."""


def finish(trajectory: Trajectory, patch: Patch | None, names: Mapping[str, str] = {}) -> None:
    """All that is done to a trajectory once the others are known; `names`: path → name to show."""
    apply_patch(trajectory, patch)
    if names:
        if trajectory.file_path is not None:
            trajectory.file_path = names.get(trajectory.file_path, trajectory.file_path)
        if trajectory.origins:
            trajectory.origins = [names.get(path, path) for path in trajectory.origins]
    enrich(trajectory)
    if any(
        touch.operation != "read" and touch.lines_added is None for touch in trajectory.files or ()
    ):
        from unspool.views.edits import count_touches  # many runs do without the views

        count_touches(trajectory)


def enrich(trajectory: Trajectory) -> None:
    """What the person typed, on every user message; and the context that the messages carry."""
    catalogue = active()
    # A list as it was sent to a model, so every message in it is as the program rendered it.
    rendered = trajectory.telemetry_type is not None
    contexts: list[dict[str, Any]] = []
    fields: set[str] = set()
    for index, message in enumerate(trajectory.messages):
        if message.role != "user":
            continue
        tags = blocks(message.content)
        _set_typed(message, tags, catalogue, rendered)
        if message.copied:
            continue
        context = message_context(message.content, tags, message.typed, catalogue)
        if context:
            fields.update(context)
            mode = {"mode": message.mode} if message.mode else {}
            contexts.append({"message_index": index, **mode, **context})
    if contexts:
        trajectory.context["message_contexts"] = contexts
        trajectory.context["message_context"] = summarise([fields])
    for branch in trajectory.branches or ():
        for message in branch.messages:
            if message.role == "user":
                _set_typed(message, blocks(message.content), catalogue, rendered)


def _set_typed(message: Message, tags: list[Block], catalogue: Catalogue, rendered: bool) -> None:
    if message.typed is None and message.kind not in NOT_TYPED:
        wording = read_wording(message.content, tags, catalogue, rendered)
        message.kind = message.kind or wording.kind
        message.typed = wording.typed


def drop_reasoning(trajectory: Trajectory) -> None:
    """Leave the models' reasoning out, in the conversation and in its abandoned branches."""
    branches = (branch.messages for branch in trajectory.branches or ())
    for message in chain(trajectory.messages, *branches):
        message.thinking = None


class Filters:
    """The filters of a job, in their fixed order."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.pattern = re.compile(job.regex) if job.regex else None

    def drops(self, trajectory: Trajectory) -> str | None:
        """The name of the filter that drops it."""
        if self.job.since is not None:
            last = parse_time(trajectory.ended_at)
            if last is None or last < self.job.since:
                return "since"
        needs_system = self.job.require_system_first
        if needs_system is None:
            listless = LISTLESS.intersection(trajectory.partial or ())
            needs_system = sources.has_rendered_prompts(trajectory.source) and not listless
        first = trajectory.messages[0].role if trajectory.messages else ""
        if needs_system and first != "system":
            return "require-system-first"
        if self.pattern is not None and not any(
            self.pattern.search(m.content) or (m.typed and self.pattern.search(m.typed))
            for m in trajectory.messages
        ):
            return "regex"
        return None


def sampled(idents: Sequence[str], job: Job) -> set[int]:
    """The numbers of the conversations that the sample keeps."""
    numbers = range(len(idents))
    if job.sample is None or job.sample >= len(idents):
        return set(numbers)
    if job.sample_mode == "first":
        return set(numbers[: job.sample])

    def by_hash(number: int) -> tuple[bytes, int]:
        text = f"{job.seed}:{idents[number]}"
        return hashlib.sha256(text.encode("utf-8", "replace")).digest(), number

    return set(sorted(numbers, key=by_hash)[: job.sample])


class Written(msgspec.Struct):
    """What was written of one conversation, or of one with its descendants."""

    ident: str
    dropped: str | None = None
    """The filter that dropped it."""
    messages: int = 0
    pieces: list[tuple[str, Slot]] = []
    """(file name, where it lies); the name is empty where all goes into one file."""
    number: int = 0
    """Its place in the output."""


class Writer:
    """Conversations in the sink's shape, put into a file, from where they are written out."""

    def __init__(self, job: Job, names: Mapping[str, str], path: Path) -> None:
        self.job = job
        self.names = names
        self.spool = Spool(path)
        self.filters = Filters(job)
        self.sink = sinks.load(job.sink)
        self.scan = TagScan()

    def write(
        self, members: Sequence[tuple[Trajectory, Patch | None]], scanned: bool = False
    ) -> Written:
        """A conversation, with its descendants for sinks that want them, if the filters keep it.

        `scanned`: its prompt tags were counted when it was written before.
        """
        for trajectory, patch in members:
            finish(trajectory, patch, self.names)
        root, *descendants = (trajectory for trajectory, _ in members)
        dropped = self.filters.drops(root)
        if dropped is not None:
            return Written(root.conversation_id, dropped)
        written = self.put(sinks.Family(root, tuple(descendants)))
        if self.job.scan_tags and not scanned:
            for trajectory, _ in members:
                if sources.has_rendered_prompts(trajectory.source):
                    self.scan.add(trajectory)
        return written

    def put(self, family: sinks.Family) -> Written:
        """A conversation that is finished."""
        members = (family.root, *family.descendants)
        if not self.job.reasoning:
            for trajectory in members:
                drop_reasoning(trajectory)
        written = Written(family.root.conversation_id)
        written.messages = sum(len(trajectory.messages) for trajectory in members)
        for piece in self.sink.write(family, self.job.sink_options):
            written.pieces.append((piece.name, self.spool.put(piece.data)))
        return written
