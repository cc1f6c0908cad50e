"""Worker: one process's share of a run.

Every family (a conversation with its sub-agents) belongs to one worker: by the paths of its files, or,
where these tell nothing, to who has read most of it.

1. read: files that may tell of any conversation become facts;
2. give: those of families that belong to others go into a file for them;
3. reduce: the files of one family are one unit of work: read, reduced, and written at once as what
   linking makes of that family alone; behind them come the families that only shared files told of;
4. settle: a file may hold more than its path says. Families that were reduced too early for that are
   read once more, by the worker to whom they belong;
5. recall: families of whose conversations linking, which sees all, knows more are read once more;
6. write: those conversations.

The same code runs in the calling process when there is one worker.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path

import msgspec

from unspool import sinks, sources
from unspool.facts import NOBODY, AnyFact, Key, Problem
from unspool.io.origins import Origin, Tally
from unspool.link import Card, Patch, link, make_card
from unspool.pipeline.collect import NOWHERE, Collection, Place, rebuild
from unspool.pipeline.discover import Plan
from unspool.pipeline.finish import Writer, Written
from unspool.pipeline.job import Job
from unspool.pipeline.shuffle import (
    NO_SLOT,
    FactSlots,
    Slot,
    Slots,
    Spool,
    family_of,
    get_facts,
    put_facts,
)
from unspool.prompts.census import TagScan
from unspool.trajectory import Trajectory, pack_trajectory, unpack_trajectory

PROGRESS_FACTS = 256
SAMPLES_PER_CODE = 5
_pack_into = msgspec.msgpack.Encoder().encode_into
LONG_BYTES = 1 << 20


class Strays(msgspec.Struct):
    """Facts in files whose paths say that they hold another family."""

    late: set[Key] = set()
    """Families of which something was met after they were reduced, or by another worker."""
    told_by: dict[Key, list[Origin]] = {}
    """Family → the files of others that tell of it."""


Standing = tuple[Place, Key, int]
"""Where a conversation stands in the output."""


class Reduced(msgspec.Struct):
    """What the driver must know of a trajectory."""

    place: Standing
    card: Card
    slot: Slot = NO_SLOT
    """Where it lies in a spool file. One that was written at once lies in none, where its family's
    files are all that tells of it: they can be read once more."""
    merged: bool = False
    partial: bool = False
    written: Written | None = None
    """What was written of it already,"""
    assumed: Patch | None = None
    """which stands if linking says this of it."""


class FamilyResult(msgspec.Struct):
    """What came of a family."""

    reduced: list[Reduced] = []
    superseded: int = 0
    problems: list[Problem] = []


class Outcome(msgspec.Struct):
    """What a worker has to tell when all its conversations are reduced."""

    reduced: list[Reduced]
    superseded: int
    tally: Tally
    problems: dict[str, int]
    samples: list[Problem]


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
        plan: Plan,
        names: dict[str, str],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.number = number
        self.job = job
        self.plan = plan
        self.progress = progress
        self.limit = job.memory_bytes // job.workers
        if job.workers > 1:
            self.limit = self.limit // 2  # beside facts, every process has a heap of its own
        self.tally = Tally()
        self.collection = Collection()
        self.facts = Spool(folder / f"facts-{number}")
        self.fact_slots: FactSlots = {}
        self.firsts: dict[Key, Place] = {}
        """Where the first message-bearing records stand of conversations whose facts were put away."""
        self.slots = Slots()
        self.trajectories = Spool(folder / f"trajectories-{number}")
        self.writer = Writer(job, names, folder / f"pieces-{number}")
        self.problems = Spool(folder / f"problems-{number}")
        self.problem_counts: dict[str, int] = {}
        self.problem_samples: dict[str, list[Problem]] = {}
        self.failed: set[str] = set()
        """Files of which it was told that they cannot be read."""
        self.ready: list[Reduced] = []
        """Conversations that were read as such."""
        self.families: dict[Key, FamilyResult] = {}
        self.strays: dict[Key, list[Origin]] = {}
        self.early = False
        self.packed = bytearray()
        """A trajectory on its way into the spool, in memory that the next one uses again."""

    # 1. read

    def read(self, spans: Iterable[Origin]) -> dict[Key, int]:
        """Files that may tell of any conversation; of each family, how many bytes they told, about."""
        for span in spans:
            if span.source in sinks.READERS:
                self._read_ready(span)
            else:
                self._read_span(span)
            self._put_problems()
        self.collection.take_met()
        held: dict[Key, int] = defaultdict(int)
        for key, gathered in self.collection.conversations.items():
            held[family_of(key)] += gathered.weight
        for key, slots in self.fact_slots.items():
            held[family_of(key)] += sum(slot.size for slot in slots)
        return dict(held)

    # 2. give

    def give(self, owners: dict[Key, int]) -> list[FactSlots]:
        """Whose each family is; per worker, where the facts lie that were read for it here."""
        self.plan.owners.update(owners)
        for key in [key for key in self.collection.conversations if not self._is_mine(key)]:
            self._put_away(key)
        shares: list[FactSlots] = [{} for _ in range(self.job.workers)]
        for key in [key for key in self.fact_slots if not self._is_mine(key)]:
            shares[self.plan.owner(family_of(key))][key] = self.fact_slots.pop(key)
        self.facts.flush()
        return shares

    def _is_mine(self, key: Key) -> bool:
        return self.plan.owner(family_of(key)) == self.number

    def _read_span(
        self,
        span: Origin,
        only: Container[Key] | None = None,
        told: Callable[[], None] | None = None,
    ) -> None:
        """Its facts into the collection. Read once more, `only` some families count, and what was
        told of its records and problems stays as it is. `told` is called before another family
        begins."""
        collection, tally = self.collection, self.tally
        if only is not None:
            tally = Tally()
        count, done = 0, span.start
        key = NOBODY
        for fact in self._facts_of(span, tally, again=only is not None):
            if told is not None and fact.key is not key and fact.key != NOBODY:
                if family_of(fact.key) != family_of(key):
                    told()
                key = fact.key
            if only is not None and (type(fact) is Problem or family_of(fact.key) not in only):
                continue
            if collection.weight > self.limit:
                self._spill()  # not before the source is done with the record before
            collection.add(span.source, fact)
            count += 1
            if count % PROGRESS_FACTS or self.progress is None or fact.origin != span.path:
                continue
            self.progress(max(0, fact.offset - done))
            done = max(done, fact.offset)
        if collection.weight > self.limit:
            self._spill()
        if self.progress is not None and only is None:
            end = span.end if span.end is not None else span.size
            self.progress(max(0, end - done))

    def _facts_of(self, span: Origin, tally: Tally, again: bool) -> Iterator[AnyFact]:
        """What the source tells, as far as the file can be read: the other files go on. What fails in
        writing, between the facts, is no problem of the file."""
        try:
            yield from sources.read(span, tally, self.job.recover)
        except OSError as error:  # vanished, or no longer permitted
            self._unreadable(span, error, again)
        except Exception as error:  # a fault of ours
            self._fault(NOBODY, (span.path, span.start), error, again)

    def _spill(self) -> None:
        """Facts to disk, of those conversations first that were met first: they may be over."""
        for key in list(self.collection.conversations):
            self._put_away(key)
            if self.collection.weight <= self.limit // 2:
                break

    def _put_away(self, key: Key) -> None:
        gathered = self.collection.pop(key)
        if gathered is not None:
            self.firsts[key] = min(gathered.first, self.firsts.get(key, NOWHERE))
            self.fact_slots.setdefault(key, []).extend(put_facts(self.facts, gathered))

    def _read_ready(self, span: Origin) -> None:
        """A format that already is trajectories."""
        reader = sinks.load_reader(span.source)
        try:
            for number, item in enumerate(reader.read(span, self.tally)):
                if isinstance(item, Problem):
                    self.collection.problems.append(item)
                    continue
                key = (item.source, item.conversation_id)
                one = _reduced(item, make_card(item), ((span.path, span.start + number), key, 0))
                one.slot = self.trajectories.put(pack_trajectory(item))
                self.ready.append(one)
        except OSError as error:
            self._unreadable(span, error)

    def _unreadable(self, span: Origin, error: OSError, again: bool = False) -> None:
        if again and span.path in self.failed:
            return
        self.failed.add(span.path)
        self.tally.records += 1
        self.tally.problems += 1
        text = error.strerror or str(error)
        self.collection.problems.append(
            Problem(key=NOBODY, origin=span.path, offset=span.start, code="unreadable", sample=text)
        )

    def _fault(self, key: Key, place: Place, error: Exception, again: bool = False) -> None:
        if os.environ.get("UNSPOOL_DEBUG"):
            raise error
        if again and place[0] in self.failed:
            return
        if key == NOBODY:
            self.failed.add(place[0])
        text = f"{type(error).__name__}: {error}"
        self.collection.problems.append(
            Problem(key=key, origin=place[0], offset=place[1], code="internal-error", sample=text)
        )

    def _put_problems(self) -> None:
        for problem in self.collection.problems:
            self.problem_counts[problem.code] = self.problem_counts.get(problem.code, 0) + 1
            samples = self.problem_samples.setdefault(problem.code, [])
            if len(samples) < SAMPLES_PER_CODE:
                samples.append(problem)
            self.problems.put(msgspec.json.encode(problem) + b"\n")
        self.collection.problems.clear()

    # 3. reduce

    def reduce(self, share: FactSlots, early: bool) -> Strays:
        """All own families; what other workers read of them lies at the places in `share`.

        `early`: conversations are written as soon as their family is known.
        """
        self.early = early
        for key, places in share.items():
            self.fact_slots.setdefault(key, []).extend(places)
        waiting: dict[Key, list[Key]] = {}
        for key in {**self.collection.conversations, **self.fact_slots}:
            waiting.setdefault(family_of(key), []).append(key)
        late: set[Key] = set()
        if self.plan.last is not None:
            self._read_span(self.plan.last, told=lambda: self._reduce_told(waiting, late))
            self._reduce_told(waiting, late)
            self._put_problems()
        for family, spans in self.plan.families.items():
            if self.plan.owner(family) != self.number:
                continue
            for span in spans:
                self._read_span(span)
            keys = waiting.pop(family, [])
            elsewhere = bool(keys)
            for key in self.collection.take_met():
                told = family_of(key)
                if told == family:
                    keys.append(key)
                    continue
                self.strays.setdefault(told, []).extend(spans)
                if self.plan.owner(told) == self.number and told not in self.families:
                    waiting.setdefault(told, []).append(key)
                else:
                    late.add(told)
                    self.collection.pop(key)
                    self.fact_slots.pop(key, None)
            self._reduce_family(family, keys, elsewhere)
            self._put_problems()
        # As they stand in the output: a single worker's pieces are the output then, as they lie.
        for family, keys in sorted(
            waiting.items(), key=lambda item: min(map(self._first, item[1]))
        ):
            self._reduce_family(family, keys)
        return Strays(late, self.strays)

    def _first(self, key: Key) -> Place:
        gathered = self.collection.conversations.get(key)
        here = gathered.first if gathered is not None else NOWHERE
        return min(here, self.firsts.get(key, NOWHERE))

    def _reduce_told(self, waiting: dict[Key, list[Key]], late: set[Key]) -> None:
        """What the database that is read last has told to its end, unless files of its own follow."""
        families: dict[Key, None] = {}
        for key in self.collection.take_met():
            family = family_of(key)
            if family in self.families:
                late.add(family)
                self.collection.pop(key)
                self.fact_slots.pop(key, None)
                continue
            waiting.setdefault(family, []).append(key)
            if family not in self.plan.families:
                families[family] = None
        for family in families:
            self._reduce_family(family, waiting.pop(family))

    def _reduce_family(self, family: Key, keys: Iterable[Key], elsewhere: bool = True) -> None:
        """`elsewhere`: other files than the family's own tell of it."""
        outcome = self.families[family] = FamilyResult()
        members: list[tuple[Trajectory, Reduced]] = []
        spilled = False
        weight = 0
        for key in dict.fromkeys(keys):
            gathered = self.collection.pop(key)
            if key in self.fact_slots:
                self.facts.flush()
                spilled = True
                gathered = get_facts(self.slots, self.fact_slots.pop(key), gathered)
            if gathered is None:
                continue
            weight += gathered.weight
            try:
                rebuilt = rebuild(key, gathered, self.job.merge_tools)
            except Exception as error:  # a fault of ours: the other conversations go on
                self._fault(key, gathered.first, error)
                continue
            outcome.superseded += rebuilt.superseded
            outcome.problems += rebuilt.problems
            for number, (trajectory, card) in enumerate(rebuilt.conversations):
                reduced = _reduced(trajectory, card, (gathered.first, key, number))
                outcome.reduced.append(reduced)
                members.append((trajectory, reduced))
            # A large family that was beyond memory is not held whole. Most were put away because
            # others came behind them.
            if not self.early or (spilled and weight > self.limit // 4):
                for trajectory, reduced in members:
                    reduced.slot = self.trajectories.put(pack_trajectory(trajectory))
                members.clear()
        patches = link([reduced.card for _, reduced in members]) if members else {}
        for trajectory, reduced in members:
            try:
                if elsewhere:
                    _pack_into(trajectory, self.packed)
                else:  # it is only tried, in pieces: no second copy of it is in memory
                    for message in trajectory.messages:
                        _pack_into(message, self.packed)
                    _pack_into(msgspec.structs.replace(trajectory, messages=[]), self.packed)
            except (OverflowError, UnicodeEncodeError):
                # What no file can hold is left out, or mended.
                self.packed[:] = pack_trajectory(trajectory)
                trajectory = unpack_trajectory(self.packed)
            if elsewhere:
                reduced.slot = self.trajectories.put(self.packed)
            if len(self.packed) > LONG_BYTES:
                self.packed = bytearray()  # before the line is made, which is as long
            reduced.assumed = patches.get(reduced.card.key)
            if reduced.assumed is None or not reduced.assumed.absorbed:
                reduced.written = self.writer.write([(trajectory, reduced.assumed)])

    # 4. settle

    def settle(self, strays: Strays) -> Outcome:
        """Own families that were reduced too early are read once more, and reduced again."""
        late = {family for family in strays.late if self._is_mine(family)}
        if late:
            spans = [span for span in self.plan.shared if span.source not in sinks.READERS]
            spans += [self.plan.last] if self.plan.last is not None else []
            for family in sorted(late):
                spans += [*self.plan.families.get(family, ()), *strays.told_by.get(family, ())]
            for span in dict.fromkeys(spans):
                self._read_span(span, only=late)
            told: dict[Key, list[Key]] = {}
            for key in {**self.collection.conversations, **self.fact_slots}:
                told.setdefault(family_of(key), []).append(key)
            for family, keys in told.items():
                self._reduce_family(family, keys)
        reduced, superseded = self.ready, 0
        for outcome in self.families.values():
            reduced += outcome.reduced
            superseded += outcome.superseded
            self.collection.problems += outcome.problems
        self.families.clear()
        self._put_problems()
        self.problems.close()
        self.trajectories.close()
        samples = [problem for some in self.problem_samples.values() for problem in some]
        return Outcome(reduced, superseded, self.tally, self.problem_counts, samples)

    # 5. recall

    def recall(self, families: Iterable[Key]) -> dict[Standing, Slot]:
        """The conversations of families that were written at once, in the spool."""
        self.early = False
        slots: dict[Standing, Slot] = {}
        for family in families:
            for span in self.plan.families[family]:
                self._read_span(span, only=(family,))
            self._reduce_family(family, {**self.collection.conversations, **self.fact_slots})
            slots |= {one.place: one.slot for one in self.families.pop(family).reduced}
        self.trajectories.close()
        return slots

    # 6. write

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


def _reduced(trajectory: Trajectory, card: Card, place: Standing) -> Reduced:
    merged, partial = bool(trajectory.origins), bool(trajectory.partial)
    return Reduced(place, card, merged=merged, partial=partial)
