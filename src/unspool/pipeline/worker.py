"""Worker: one process's share of a run.

1. begin: with a plan (`discover.Plan`);
2. read: files that may tell of any conversation become facts;
3. give: every family (a conversation with its sub-agents) belongs to one worker. The facts of those
   that belong to others go into a file for them;
4. reduce: the files of one family are one unit of work: read, reduced, and written at once as what
   linking makes of that family alone; behind them come the families that only shared files told of;
5. write: conversations of which linking, which sees all, knows more than their family did.

The same code runs in the calling process when there is one worker.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec

from unspool import sinks, sources
from unspool.facts import NOBODY, Key, Problem
from unspool.io.origins import Origin, Tally
from unspool.io.packing import tamed
from unspool.link import Card, Patch, link, make_card
from unspool.pipeline.collect import (
    Collection,
    Place,
    as_far_as_readable,
    problem_of,
    rebuild,
)
from unspool.pipeline.discover import Plan
from unspool.pipeline.finish import Writer, Written
from unspool.pipeline.job import Job
from unspool.pipeline.shuffle import (
    FactSlots,
    Slot,
    Slots,
    Spool,
    family_of,
    pack_facts,
    unpack_facts,
)
from unspool.prompts.census import TagScan
from unspool.trajectory import Trajectory, unpack_trajectory

PROGRESS_FACTS = 256
_pack = msgspec.msgpack.Encoder().encode


class Reduced(msgspec.Struct):
    """What the driver must know of a trajectory."""

    place: tuple[Place, Key, int]
    """Where it stands in the output."""
    card: Card
    slot: Slot
    """Where it lies in a spool file."""
    merged: bool
    partial: bool
    written: Written | None = None
    """What was written of it already,"""
    assumed: Patch | None = None
    """which stands if linking says this of it."""


class Outcome(msgspec.Struct):
    """What a worker has to tell when all its conversations are reduced."""

    reduced: list[Reduced] = []
    superseded: int = 0
    tally: Tally = msgspec.field(default_factory=Tally)
    strays: set[Key] = set()
    """Units of files that hold others' families, too (`Plan.share`)."""


class Task(msgspec.Struct):
    """One unit of output: a conversation, with its descendants for sinks that want them."""

    number: int
    members: list[tuple[Slot, Patch | None]]
    scanned: bool = False


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
        self.job = job
        self.progress = progress
        self.limit = job.memory_bytes // job.workers
        if job.workers > 1:
            self.limit = self.limit // 2  # beside facts, every process has a heap of its own
        self.facts = Spool(folder / f"facts-{number}")
        self.trajectories = Spool(folder / f"trajectories-{number}")
        self.problems = Spool(folder / f"problems-{number}")
        self.writer = Writer(job, names, folder / f"pieces-{number}")
        self.slots = Slots()

    # 1. begin

    def begin(self, plan: Plan, early: bool) -> None:
        """Also anew, where the plan before proved wrong. `early`: conversations are written as soon
        as their family is known."""
        self.plan = plan
        self.early = early
        self.owners: dict[Key, int] = {}
        self.outcome = Outcome()
        self.collection = Collection()
        self.fact_slots: FactSlots = {}
        self.reduced: set[Key] = set()
        """Families that files of their own told to their end."""
        self.writer.scan = TagScan()
        self.slots.close()
        for spool in (self.facts, self.trajectories, self.problems, self.writer.spool):
            spool.clear()

    # 2. read

    def read(self, spans: Iterable[Origin]) -> dict[Key, int]:
        """Files that may tell of any conversation; of each family, how many bytes they told, about."""
        for span in spans:
            if span.source in sinks.READERS:
                self._read_ready(span)
            else:
                self._read_span(span)
        self.collection.take_met()
        held: dict[Key, int] = defaultdict(int)
        for key, gathered in self.collection.conversations.items():
            held[family_of(key)] += gathered.weight
        for key, slots in self.fact_slots.items():
            held[family_of(key)] += sum(slot.size for slot in slots)
        return dict(held)

    def _read_span(self, span: Origin, next_family: Callable[[], None] | None = None) -> None:
        """Its facts into the collection. `next_family` is called before another family begins."""
        collection, limit, source = self.collection, self.limit, span.source
        done = span.start
        key = NOBODY
        # What fails in writing, between the facts, is no problem of the file.
        told = sources.read(span, self.outcome.tally, self.job.recover)
        for number, fact in enumerate(as_far_as_readable(told, span, self.outcome.tally), 1):
            if fact.key is not key and fact.key != NOBODY:
                if next_family and key is not NOBODY and family_of(fact.key) != family_of(key):
                    next_family()
                key = fact.key
            if collection.weight > limit:
                self._spill()  # not before the source is done with the record before
            collection.add(source, fact)
            if number % PROGRESS_FACTS == 0 and self.progress and fact.origin == span.path:
                self.progress(max(0, fact.offset - done))
                done = max(done, fact.offset)
        if collection.weight > self.limit:
            self._spill()
        if self.progress is not None:
            end = span.end if span.end is not None else span.size
            self.progress(max(0, end - done))
        self._put_problems()

    def _spill(self) -> None:
        """Facts to disk, of those conversations first that were met first: they may be over."""
        for key in list(self.collection.conversations):
            self._put_away(key)
            if self.collection.weight <= self.limit // 2:
                break

    def _put_away(self, key: Key) -> None:
        gathered = self.collection.pop(key)
        if gathered is not None:
            slots = self.fact_slots.setdefault(key, [])
            slots += [self.facts.put(data) for data in pack_facts(gathered)]

    def _read_ready(self, span: Origin) -> None:
        """A format that already is trajectories."""
        tally = self.outcome.tally
        told = sinks.load_reader(span.source).read(span, tally)
        for number, item in enumerate(as_far_as_readable(told, span, tally)):
            if isinstance(item, Problem):
                self.collection.problems.append(item)
                continue
            key = (item.source, item.conversation_id)
            self._keep(item, make_card(item), ((span.path, span.start + number), key, 0))
        self._put_problems()

    def _keep(
        self, trajectory: Trajectory, card: Card, place: tuple[Place, Key, int]
    ) -> tuple[Trajectory, Reduced]:
        """The trajectory, such as files can hold it, put into one; and what is to be known of it."""
        try:
            data = _pack(trajectory)
        except (OverflowError, UnicodeEncodeError):
            trajectory = tamed(trajectory)
            data = _pack(trajectory)
        slot = self.trajectories.put(data)
        one = Reduced(place, card, slot, bool(trajectory.origins), bool(trajectory.partial))
        self.outcome.reduced.append(one)
        return trajectory, one

    def _put_problems(self) -> None:
        for problem in self.collection.problems:
            self.problems.put(msgspec.json.encode(problem) + b"\n")
        self.collection.problems.clear()

    # 3. give

    def give(self, owners: dict[Key, int]) -> list[FactSlots]:
        """Whose each family is; per worker, where the facts lie that were read for it here."""
        self.owners = owners
        shares: list[FactSlots] = [{} for _ in range(self.job.workers)]
        for key in {**self.collection.conversations, **self.fact_slots}:
            owner = owners[family_of(key)]
            if owner != self.number:
                self._put_away(key)
                shares[owner][key] = self.fact_slots.pop(key)
        self.facts.flush()
        return shares

    # 4. reduce

    def reduce(self, given: list[list[FactSlots]]) -> Outcome:
        """All own families; `given` is what each worker gave to each."""
        for shares in given:
            for key, places in shares[self.number].items():
                self.fact_slots.setdefault(key, []).extend(places)
        waiting: dict[Key, list[Key]] = {}
        for key in {**self.collection.conversations, **self.fact_slots}:
            waiting.setdefault(family_of(key), []).append(key)
        for unit, spans in self.plan.families.items():
            if self.owners[unit] == self.number:
                reduce_told = partial(self._reduce_told, unit, waiting)
                for span in spans:
                    self._read_span(span, reduce_told)
                reduce_told()
        for keys in waiting.values():
            self._reduce_family(keys)
        self.problems.close()
        self.trajectories.close()
        return self.outcome

    def _reduce_told(self, unit: Key, waiting: dict[Key, list[Key]]) -> None:
        """What a unit of files has told to its end. Nobody but its own worker may reduce a family, and
        nothing may come behind that."""
        told: dict[Key, list[Key]] = {}
        for key in self.collection.take_met():
            told.setdefault(family_of(key), []).append(key)
        for family, keys in told.items():
            others = family != unit and (family in self.plan.families or self.job.workers > 1)
            if others or family in self.reduced:
                self.outcome.strays.add(unit)
            else:
                self.reduced.add(family)
                self._reduce_family(waiting.pop(family, []) + keys)

    def _reduce_family(self, keys: Iterable[Key]) -> None:
        members: list[tuple[Trajectory, Reduced]] = []
        weight = 0
        for key in dict.fromkeys(keys):
            gathered = self.collection.pop(key)
            if key in self.fact_slots:
                self.facts.flush()
                for slot in self.fact_slots.pop(key):
                    gathered = unpack_facts(self.slots.read(slot), gathered)
            if gathered is None:
                continue
            weight += gathered.weight
            try:
                rebuilt = rebuild(key, gathered, self.job.merge_tools)
            except Exception as error:  # the other conversations go on
                self.collection.problems.append(problem_of(error, key, gathered.first))
                continue
            self.outcome.superseded += rebuilt.superseded
            self.collection.problems += rebuilt.problems
            first = gathered.first
            del gathered  # the facts: a large conversation is not held twice while it is written
            for number, (trajectory, card) in enumerate(rebuilt.conversations):
                members.append(self._keep(trajectory, card, (first, key, number)))
            if not self.early or weight > self.limit:
                members.clear()  # a family beyond memory is not held whole
        patches = link([one.card for _, one in members]) if members else {}
        for trajectory, one in members:
            one.assumed = patches.get(one.card.key)
            if one.assumed is None or not one.assumed.absorbed:
                one.written = self.writer.write([(trajectory, one.assumed)])
        self._put_problems()

    # 5. write

    def write(self, tasks: Iterable[Task]) -> tuple[list[Written], TagScan]:
        """What was not written early, or not as linking wants it; and the prompt tags of all."""
        done: list[Written] = []
        for task in tasks:
            members = [
                (unpack_trajectory(self.slots.read(slot)), patch) for slot, patch in task.members
            ]
            done.append(self.writer.write(members, task.scanned))
            done[-1].number = task.number
        self.writer.spool.close()
        return done, self.writer.scan
