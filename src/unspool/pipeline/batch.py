"""Batch: the driver of `extract`. Reads everything, then reduces, links and writes.

The output does not depend on the number of workers: conversations go out in the order of their first
message-bearing record by (path, offset), whoever reduced them.
"""

import logging
import os
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path

import msgspec

from unspool import sinks, sources
from unspool.errors import NothingToRead, OutputError, UsageError, unwritable
from unspool.facts import Key, Problem
from unspool.io.origins import Tally
from unspool.io.temporary import scratch
from unspool.link import Patch, Patches, link
from unspool.pipeline.discover import Found, discover_with_streams, make_plan
from unspool.pipeline.finish import FILTERS, Written, finish, sampled
from unspool.pipeline.job import Job, Progress, Summary
from unspool.pipeline.shuffle import Slot, Slots
from unspool.pipeline.worker import Outcome, Reduced, Task
from unspool.pipeline.workers import Processes, Workers
from unspool.prompts.census import TagScan
from unspool.trajectory import Trajectory, unpack_trajectory

_log = logging.getLogger("unspool")
SAMPLES = 20
SAMPLES_PER_CODE = 5


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
        kind = Workers if self.job.workers == 1 else Processes
        self.workers = kind(folder, self.job, self.names, progress)
        self.problem_codes: Counter[str] = Counter()
        self.scan = TagScan()

    def _reduce(self, early: bool) -> tuple[list[Reduced], Patches]:
        """All conversations that are not another's copy, in output order; what linking says of them.

        `early`: each is written at once, as far as its family knows it.
        """
        outcomes: list[Outcome] = []
        strays: set[Key] = set()
        while strays or not outcomes:
            self.plan.share(strays)
            self.workers.ask("begin", self.plan, early)
            held = self.workers.share("read", self.plan.shared)
            given = self.workers.ask("give", self.plan.deal(held))
            outcomes = self.workers.ask("reduce", given)
            strays = set().union(*(outcome.strays for outcome in outcomes))
        reduced = sorted((r for o in outcomes for r in o.reduced), key=lambda one: one.place)
        patches = link(one.card for one in reduced)
        kept = []
        for one in reduced:
            patch = patches.get(one.card.key)
            if patch is None or not patch.absorbed:
                kept.append(one)
        summary = self.summary
        tally = Tally()
        for outcome in outcomes:
            tally.add(outcome.tally)
            summary.superseded += outcome.superseded
        summary.bytes = sum(origin.size for origin in self.found.origins)
        summary.count(tally)
        summary.conversations = len(kept)
        summary.merged = sum(one.merged for one in kept)
        summary.partial = sum(one.partial for one in kept)
        summary.sources = dict(sorted(Counter(one.card.source for one in kept).items()))
        self._count_problems()
        return kept, patches

    def write(self) -> list[Written]:
        """Everything that goes out, in order; filters and samples counted."""
        sink = sinks.load(self.job.sink)
        reduced, patches = self._reduce(early=not sink.FAMILIES)
        written: list[Written] = []
        tasks: list[Task] = []
        if sink.FAMILIES:
            tasks = _family_tasks(reduced, patches)
        else:
            for number, one in enumerate(reduced):
                patch = patches.get(one.card.key)
                if one.written is not None and one.assumed == patch:
                    one.written.number = number
                    written.append(one.written)
                else:
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

    def trajectories(self) -> Iterator[Trajectory]:
        """The conversations as objects instead, in order, one at a time."""
        return self._finished(*self._reduce(early=False))

    def _finished(self, reduced: list[Reduced], patches: Patches) -> Iterator[Trajectory]:
        with closing(Slots()) as slots:
            for one in reduced:
                trajectory = unpack_trajectory(slots.read(one.slot))
                finish(trajectory, patches.get(one.card.key), self.names)
                yield trajectory

    def problems(self) -> Iterator[Problem]:
        """All problems of the run, in order of place."""
        yield from sorted(self._problems(), key=lambda problem: problem.place)

    def _problems(self) -> Iterator[Problem]:
        yield from self.found.problems
        decode = msgspec.json.Decoder(Problem).decode
        for path in sorted(self.folder.glob("problems-*")):
            with open(path, "rb") as file:
                for problem in map(decode, file):
                    name = problem.origin
                    if Path(name).parent == self.folder:  # standard input lies in a temporary file
                        name = self.names.get(name, name)
                    yield msgspec.structs.replace(problem, origin=name)

    def _count_problems(self) -> None:
        """How many of each kind there are, and the first places of each."""
        samples: dict[str, list[Problem]] = {}
        for problem in self._problems():
            self.problem_codes[problem.code] += 1
            first = samples.setdefault(problem.code, [])
            insort(first, problem, key=lambda one: one.place)
            del first[SAMPLES_PER_CODE:]
        everything = sorted(chain(*samples.values()), key=lambda problem: problem.place)
        self.summary.problems = dict(sorted(self.problem_codes.items()))
        self.summary.samples = everything[:SAMPLES]

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


def _family_tasks(reduced: list[Reduced], patches: Patches) -> list[Task]:
    """A task per conversation that no other one started, with all that it started."""
    members: dict[Key, tuple[Slot, Patch | None]] = {}
    # Files that already hold trajectories may hold several of one id (a run's id, a constant).
    doubles: list[tuple[Slot, Patch | None]] = []
    for one in reduced:
        member = (one.slot, patches.get(one.card.key))
        if members.setdefault(one.card.key, member) is not member:
            doubles.append(member)
    children: dict[Key, list[Key]] = {}
    for key, (_, patch) in members.items():
        links = patch.children if patch is not None else ()
        agents = [(a.source or key[0], a.conversation_id) for a in links if a.kind == "subagent"]
        children[key] = [agent for agent in agents if agent in members]
    started = set(chain(*children.values()))
    families: list[list[tuple[Slot, Patch | None]]] = []
    placed: set[Key] = set()
    roots = (key for key in members if key not in started)
    for root in (*roots, *members):  # the second round: circles, of which none is the root
        family = [root] if root not in placed else []
        for key in family:
            placed.add(key)
            family += [agent for agent in children[key] if agent not in placed]
        if family:
            families.append([members[key] for key in dict.fromkeys(family)])
    families += [[double] for double in doubles]
    return [Task(number, family) for number, family in enumerate(families)]


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


Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def extract(
    paths: Paths,
    *,
    source: str | None = None,
    workers: int = 1,
    recover: bool = False,
    merge_tool_metadata: bool = True,
) -> Iterator[Trajectory]:
    """The conversations in files and folders, whole, in a stable order.

    `source` names the format where it should not be found out from the content; `recover` repairs
    JSON that was cut off; with several `workers`, processes share the reading; without
    `merge_tool_metadata`, a message list gets no calls from another one of the conversation. Raises
    NothingToRead where no file is of a known format. Temporary files are gone when the iterator ends or
    is closed. Bad data is told, counted by its kind, to the logger `unspool`.
    """
    if source is not None and source not in {*sources.SOURCES, *sinks.READERS}:
        raise UsageError(f"no source is called {source!r}")
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    job = Job(
        paths=[os.path.expanduser(path) for path in paths],  # noqa: PTH111 - may be text
        source=source,
        workers=workers,
        recover=recover,
        merge_tools=merge_tool_metadata,
    )
    return _iter_trajectories(job)


def _iter_trajectories(job: Job) -> Iterator[Trajectory]:
    """The conversations of a job as objects, in order, one at a time."""
    with open_run(job) as run:
        trajectories = run.trajectories()
        if run.summary.problems:  # who reads objects sees no summary
            _log.warning("not wholly readable: %s", run.summary.problems_told)
        yield from trajectories
