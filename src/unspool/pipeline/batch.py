"""Batch: the driver of `extract`. Reads everything, then reduces, links and writes.

The output does not depend on the number of workers: conversations go out in the order of their first
message-bearing record by (path, offset), whoever reduced them.
"""

import logging
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from unspool import sinks
from unspool.errors import NothingToRead, OutputError, unwritable
from unspool.facts import Key, Problem
from unspool.io.compression import packed_as
from unspool.io.origins import Tally
from unspool.io.temporary import scratch
from unspool.link import Patch, Patches, link
from unspool.pipeline.crew import Alone, Crew, Team
from unspool.pipeline.discover import STDIN, Found, cut, discover, told_of
from unspool.pipeline.filters import FILTERS, sampled
from unspool.pipeline.job import Job, Summary
from unspool.pipeline.spool import Slot, Slots
from unspool.pipeline.worker import SAMPLES_PER_CODE, Reduced
from unspool.pipeline.writing import Finisher, Task, Written
from unspool.prompts.census import TagScan
from unspool.trajectory import Trajectory

Progress = Callable[[int], None]
_log = logging.getLogger("unspool")
SAMPLES = 20
PEEK_BYTES = 4096
COPY_BYTES = 1 << 20


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
        self.spans = list(cut(found.origins))
        self.job.workers = max(1, min(job.workers, len(self.spans)))
        crew = Alone if self.job.workers == 1 else Team
        self.crew: Crew = crew(folder, self.job, self.names, progress)
        self.problem_codes: Counter[str] = Counter()
        self.scan = TagScan()

    def reduce(self) -> list[Reduced]:
        """Steps 1 and 2: every conversation reduced, in output order."""
        reports = self.crew.read(self.spans)
        tally = Tally()
        samples = list(self.found.problems)
        self.problem_codes.update(problem.code for problem in self.found.problems)
        for report in reports:
            tally.add(report.tally)
        self.crew.hand_over(_owners([report.keys for report in reports]))
        reduced: list[Reduced] = []
        for outcome in self.crew.reduce():
            reduced += outcome.reduced
            self.summary.superseded += outcome.superseded
            self.problem_codes.update(outcome.problems)
            samples += outcome.samples
        reduced.sort(key=lambda item: item.place)
        self._count(reduced, tally, samples)
        return reduced

    def _count(self, reduced: list[Reduced], tally: Tally, samples: list[Problem]) -> None:
        summary = self.summary
        summary.bytes = sum(origin.size for origin in self.found.origins)
        summary.count(tally)
        summary.conversations = len(reduced)
        summary.merged = sum(item.merged for item in reduced)
        summary.partial = sum(item.partial for item in reduced)
        summary.sources = dict(sorted(Counter(item.card.source for item in reduced).items()))
        summary.problems = dict(sorted(self.problem_codes.items()))
        summary.samples = [self._shown(problem) for problem in _first_of_each(samples)[:SAMPLES]]

    def write(self, reduced: list[Reduced]) -> list[Written]:
        """Step 3: everything that goes out, in order; filters and samples counted."""
        families = sinks.load(self.job.sink).FAMILIES
        reduced, patches = self._linked(reduced)
        tasks = _tasks(reduced, patches, families)
        written: list[Written] = []
        for part in self.crew.write(tasks):
            written += part.written
            if part.scan is not None:
                self.scan.merge(part.scan)
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

    def trajectories(self, reduced: list[Reduced]) -> Iterator[Trajectory]:
        """The conversations as objects instead, in order, one at a time."""
        reduced, patches = self._linked(reduced)
        slots = Slots()
        finisher = Finisher(self.job, self.names, slots)
        try:
            for item in reduced:
                yield finisher.load(item.slot, patches.get(item.card.key))
        finally:
            slots.close()

    def _linked(self, reduced: list[Reduced]) -> tuple[list[Reduced], Patches]:
        """What linking found out, and the conversations without those that are another's copies."""
        patches = link(item.card for item in reduced)
        absorbed = {key for key, patch in patches.items() if patch.absorbed}
        kept = [item for item in reduced if item.card.key not in absorbed]
        self.summary.conversations -= len(reduced) - len(kept)
        for item in reduced:
            if item.card.key in absorbed:
                self.summary.sources[item.card.source] -= 1
                self.summary.merged -= item.merged
                self.summary.partial -= item.partial
        self.summary.sources = {name: n for name, n in self.summary.sources.items() if n}
        return kept, patches

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


def _owners(keys: list[set[Key]]) -> list[dict[Key, int]]:
    """Per worker: of the conversations that it shares with others, whose each is."""
    holders: dict[Key, list[int]] = {}
    seen: set[Key] = set()
    for known in keys:
        again = seen & known
        seen |= known
        for key in again:
            holders.setdefault(key, [])
    for number, known in enumerate(keys):
        for key in holders.keys() & known:
            holders[key].append(number)
    made: list[dict[Key, int]] = [{} for _ in keys]
    for count, (key, numbers) in enumerate(sorted(holders.items())):
        owner = numbers[count % len(numbers)]
        for number in numbers:
            made[number][key] = owner
    return made


def _tasks(reduced: list[Reduced], patches: Patches, families: bool) -> list[Task]:
    if not families:
        made = [(item.slot, patches.get(item.card.key)) for item in reduced]
        return [Task(number, [member]) for number, member in enumerate(made)]
    members: _Members = {}
    doubles: list[Reduced] = []
    for item in reduced:
        if item.card.key in members:
            doubles.append(item)
        else:
            members[item.card.key] = (item.slot, patches.get(item.card.key))
    tasks: list[Task] = []
    placed: set[tuple[str, str]] = set()
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


_Members = dict[tuple[str, str], tuple[Slot, Patch | None]]


def _has_parent(key: tuple[str, str], members: _Members, patches: Patches) -> bool:
    patch = patches.get(key)
    if patch is None or patch.parent is None:
        return False
    if patch.parent.kind != "subagent":
        return False
    return (patch.parent.source or key[0], patch.parent.conversation_id) in members


def _descent(
    root: tuple[str, str], patches: Patches, members: _Members, placed: set[tuple[str, str]]
) -> list[tuple[str, str]]:
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
        found = _discover(job, folder)
        if not found.origins:
            raise NothingToRead(found.nothing_in(job.paths))
        total = sum(origin.size for origin in found.origins)
        # Workers are forked in here, before a progress display may start a thread.
        try:
            run = Run(job, folder, found, progress(total) if progress else None)
        except OSError as error:  # what workers share lies in a file, and the disk may be full
            raise unwritable(error) from None
        stack.callback(run.crew.close)
        yield run


def _discover(job: Job, folder: Path) -> Found:
    """The origins of the job; standard input and pipes are first put into files, to have a size."""
    spooled = {
        _spool(path, folder / f"stream-{number}"): path
        for number, path in enumerate(job.paths)
        if _is_stream(path)
    }
    places = {path: place for place, path in spooled.items()}
    found = discover([places.get(path, path) for path in job.paths], job.source)
    found.origins = [
        msgspec.structs.replace(origin, name=spooled.get(origin.path, origin.name))
        for origin in found.origins
    ]
    found.problems = [
        msgspec.structs.replace(problem, origin=spooled.get(problem.origin, problem.origin))
        for problem in found.problems
    ]
    return found


def _is_stream(path: str) -> bool:
    """Standard input, or a pipe: `<(zcat log.gz)`."""
    try:
        return path == STDIN or Path(path).is_fifo()
    except OSError:
        return False  # it may not be looked at: opening it says why


def _spool(path: str, place: Path) -> str:
    try:
        with ExitStack() as stack:
            source = sys.stdin.buffer if path == STDIN else stack.enter_context(open(path, "rb"))
            head = source.read(PEEK_BYTES)
            place = place.with_suffix(packed_as(head))
            target = stack.enter_context(open(place, "wb"))
            target.write(head)
            shutil.copyfileobj(source, target, COPY_BYTES)
    except OSError as error:
        raise OutputError(f"cannot keep {told_of(path)}: {error.strerror or error}") from None
    return str(place)


def iter_trajectories(job: Job) -> Iterator[Trajectory]:
    """The conversations of a job as objects, in order, one at a time."""
    with open_run(job) as run:
        reduced = run.reduce()
        if run.summary.problems:  # who reads objects sees no summary
            _log.warning("not wholly readable: %s", run.summary.told)
        yield from run.trajectories(reduced)
