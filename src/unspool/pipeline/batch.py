"""Batch: the driver of `extract`. Reads everything, then reduces, links and writes.

The output does not depend on the number of workers: conversations go out in the order of their first
message-bearing record by (path, offset), whoever reduced them.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import msgspec

from unspool import sinks
from unspool.errors import NothingToRead, OutputError, unwritable
from unspool.facts import Key, Problem
from unspool.io.origins import Tally
from unspool.io.temporary import scratch
from unspool.link import Patch, Patches, link
from unspool.pipeline.discover import STDIN, Found, discover_with_streams, make_plan
from unspool.pipeline.finish import FILTERS, Written, drop_reasoning, finish, sampled
from unspool.pipeline.job import Job, Progress, Summary
from unspool.pipeline.shuffle import NO_SLOT, FactSlots, Slot, Slots, family_of
from unspool.pipeline.worker import SAMPLES_PER_CODE, Outcome, Reduced, Strays, Task
from unspool.pipeline.workers import OneHere, Several, Workers
from unspool.prompts.census import TagScan
from unspool.trajectory import Trajectory, unpack_trajectory

_log = logging.getLogger("unspool")
SAMPLES = 20


class Run:
    """One run of a job, step by step, in a temporary folder of its own."""

    def __init__(
        self, job: Job, folder: Path, found: Found, progress: Progress | None = None
    ) -> None:
        self.job = job
        self.folder = folder
        self.found = found
        self.summary = Summary(files=found.files, files_skipped=found.skipped)
        self.started = time.monotonic()
        self.names = {origin.path: origin.name for origin in found.origins}
        self.plan = make_plan(found.origins, job.workers)
        self.job.workers = self.plan.workers
        kind = OneHere if self.job.workers == 1 else Several
        self.workers: Workers = kind(folder, self.job, self.plan, self.names, progress)
        self.problem_codes: Counter[str] = Counter()
        self.scan = TagScan()

    def _reduce(self, early: bool) -> tuple[list[Reduced], Patches]:
        """All conversations that are not another's copy, in output order; what linking says of them.

        `early`: each is written at once, as far as its family knows it.
        """
        held: list[dict[Key, int]] = self.workers.share("read", self.plan.shared)
        shares: list[FactSlots] = [{} for _ in held]
        owners = self.plan.deal(held)
        for by_worker in self.workers.ask("give", [(owners,)] * len(held)):
            for share, more in zip(shares, by_worker, strict=True):
                for key, places in more.items():
                    share.setdefault(key, []).extend(places)
        strays = Strays()
        for met in self.workers.ask("reduce", [(share, early) for share in shares]):
            strays.late |= met.late
            for family, spans in met.told_by.items():
                strays.told_by.setdefault(family, []).extend(spans)
        outcomes: list[Outcome] = self.workers.ask("settle", [(strays,)] * len(shares))
        reduced = sorted((r for o in outcomes for r in o.reduced), key=lambda one: one.place)
        patches = link(one.card for one in reduced)
        kept = []
        for one in reduced:
            patch = patches.get(one.card.key)
            if patch is None or not patch.absorbed:
                kept.append(one)
        summary = self.summary
        tally = Tally()
        problems = list(self.found.problems)
        self.problem_codes.update(problem.code for problem in problems)
        for outcome in outcomes:
            tally.add(outcome.tally)
            summary.superseded += outcome.superseded
            self.problem_codes.update(outcome.problems)
            problems += outcome.samples
        summary.bytes = sum(origin.size for origin in self.found.origins)
        summary.count(tally)
        summary.conversations = len(kept)
        summary.merged = sum(one.merged for one in kept)
        summary.partial = sum(one.partial for one in kept)
        summary.sources = dict(sorted(Counter(one.card.source for one in kept).items()))
        summary.problems = dict(sorted(self.problem_codes.items()))
        summary.samples = [self._shown(problem) for problem in _first_of_each(problems)[:SAMPLES]]
        return kept, patches

    def write(self) -> list[Written]:
        """Everything that goes out, in order; filters and samples counted."""
        sink = sinks.load(self.job.sink)
        families = sink.FAMILIES
        if self.job.workers > 1 and hasattr(sink, "prepare"):
            # Workers are forked by now: a thread does them no harm.
            Thread(target=sink.prepare, daemon=True).start()
        reduced, patches = self._reduce(early=not families)
        written: list[Written] = []
        tasks: list[Task] = []
        if families:
            tasks = _family_tasks(reduced, patches)
        else:
            self._recall(reduced, patches)
            for number, one in enumerate(reduced):
                patch = patches.get(one.card.key)
                # (Where the files of its family are gone by now, what was written of it stands.)
                is_final = one.assumed == patch or one.slot == NO_SLOT
                if one.written is not None and is_final:
                    one.written.number = number
                    written.append(one.written)
                elif one.slot != NO_SLOT:
                    scanned = one.written is not None and one.written.dropped is None
                    tasks.append(Task(number, [(one.slot, patch)], scanned))
        for more, scan in self.workers.share("write", tasks):
            written += more
            self.scan.merge(scan)
        self.workers.close()  # what is left to do needs the memory that its workers hold
        written.sort(key=lambda item: item.number)
        dropped = Counter(item.dropped for item in written if item.dropped is not None)
        kept = [item for item in written if item.dropped is None]
        chosen = sampled([item.ident for item in kept], self.job)
        if len(chosen) < len(kept):
            dropped["sample"] = len(kept) - len(chosen)
        kept = [item for number, item in enumerate(kept) if number in chosen]
        self.summary.filtered = {name: dropped[name] for name in FILTERS if dropped[name]}
        self.summary.written = sum(1 for item in kept if item.pieces)
        self.summary.empty = [item.ident for item in kept if not item.pieces]
        self.summary.messages = sum(item.messages for item in kept if item.pieces)
        return kept

    def _recall(self, reduced: list[Reduced], patches: Patches) -> None:
        """Conversations of which linking knows more than their family did into the spool, from where
        they are written again."""
        changed = [
            one
            for one in reduced
            if one.slot == NO_SLOT and one.assumed != patches.get(one.card.key)
        ]
        families = list(dict.fromkeys(family_of(one.place[1]) for one in changed))
        for slots in self.workers.share("recall", families) if families else ():
            for one in changed:
                one.slot = slots.get(one.place, one.slot)

    def trajectories(self) -> Iterator[Trajectory]:
        """The conversations as objects instead, in order, one at a time."""
        return self._finished(*self._reduce(early=False))

    def _finished(self, reduced: list[Reduced], patches: Patches) -> Iterator[Trajectory]:
        slots = Slots()
        try:
            for one in reduced:
                trajectory = unpack_trajectory(slots.read(one.slot))
                if not self.job.reasoning:
                    drop_reasoning(trajectory)
                finish(trajectory, patches.get(one.card.key), self.names)
                yield trajectory
        finally:
            slots.close()

    def problems(self) -> Iterator[Problem]:
        """All problems of the run, in order of place."""
        found = list(self.found.problems)
        decode = msgspec.json.Decoder(Problem).decode
        for path in sorted(self.folder.glob("problems-*")):
            with open(path, "rb") as file:
                found += [decode(line) for line in file]
        for problem in sorted(found, key=lambda problem: problem.place):
            yield self._shown(problem)

    def _shown(self, problem: Problem) -> Problem:
        """With the origin as a person gave it: standard input lies in a temporary file."""
        if Path(problem.origin).parent != self.folder:
            return problem
        return msgspec.structs.replace(problem, origin=self.names.get(problem.origin, STDIN))

    def reads(self, path: str) -> bool:
        """Whether the path is one of the files that are read."""
        try:
            status = Path(path).stat()
            return any(os.path.samestat(status, Path(o.path).stat()) for o in self.found.origins)
        except OSError:
            return False

    def finish(self) -> Summary:
        self.summary.seconds = time.monotonic() - self.started
        return self.summary


def _first_of_each(problems: list[Problem]) -> list[Problem]:
    """As many of a kind as one worker keeps, however many there were."""
    kept: list[Problem] = []
    counts: Counter[str] = Counter()
    for problem in sorted(problems, key=lambda problem: problem.place):
        counts[problem.code] += 1
        if counts[problem.code] <= SAMPLES_PER_CODE:
            kept.append(problem)
    return kept


def _family_tasks(reduced: list[Reduced], patches: Patches) -> list[Task]:
    """A task per conversation that no other one started, with all that it started."""
    members: _Members = {}
    doubles: list[Reduced] = []
    for item in reduced:
        if item.card.key in members:
            doubles.append(item)
        else:
            members[item.card.key] = (item.slot, patches.get(item.card.key))
    tasks: list[Task] = []
    placed: set[Key] = set()
    roots = [item for item in reduced if not _has_parent(item.card.key, members, patches)]
    for item in [*roots, *reduced]:  # the second round: circles, of which none is the root
        if item.card.key in placed:
            continue
        keys = _descent(item.card.key, patches, members, placed)
        tasks.append(Task(len(tasks), [members[key] for key in keys]))
    # Files that already hold trajectories may hold several of one id (a run's id, a constant).
    for item in doubles:
        tasks.append(Task(len(tasks), [(item.slot, patches.get(item.card.key))]))
    return tasks


_Members = dict[Key, tuple[Slot, Patch | None]]


def _has_parent(key: Key, members: _Members, patches: Patches) -> bool:
    patch = patches.get(key)
    if patch is None or patch.parent is None:
        return False
    if patch.parent.kind != "subagent":
        return False
    return (patch.parent.source or key[0], patch.parent.conversation_id) in members


def _descent(root: Key, patches: Patches, members: _Members, placed: set[Key]) -> list[Key]:
    """The root and all its descendants, each once."""
    placed.add(root)
    keys = [root]
    for key in keys:
        patch = patches.get(key)
        for child in patch.children if patch is not None else ():
            child_key = (child.source or key[0], child.conversation_id)
            if child.kind == "subagent" and child_key in members and child_key not in placed:
                placed.add(child_key)
                keys.append(child_key)
    return keys


@contextmanager
def open_run(job: Job, progress: Callable[[int], Progress] | None = None) -> Iterator[Run]:
    """A run with its temporary folder; both are gone afterwards, whatever happens.

    `progress` gets the number of bytes that there are and gives what is told the bytes done.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(scratch(job.temporary))
        except OSError as error:
            raise OutputError(
                f"cannot make a temporary folder: {error.strerror or error}"
            ) from None
        found = discover_with_streams(job.paths, folder, job.source)
        if not found.origins:
            raise NothingToRead(found.nothing_in(job.paths))
        total = sum(origin.size for origin in found.origins)
        # Workers are forked in here, before a progress display may start a thread.
        try:
            run = Run(job, folder, found, progress(total) if progress else None)
        except OSError as error:  # what workers share lies in a file, and the disk may be full
            raise unwritable(error) from None
        stack.callback(run.workers.close)
        yield run


def iter_trajectories(job: Job) -> Iterator[Trajectory]:
    """The conversations of a job as objects, in order, one at a time."""
    with open_run(job) as run:
        trajectories = run.trajectories()
        if run.summary.problems:  # who reads objects sees no summary
            _log.warning("not wholly readable: %s", run.summary.problems_told)
        yield from trajectories
