"""Batches: changed origins read and put together, apart from the store.

Nothing here asks the store, so worker processes do it beside the one that writes. What comes out is
a stream: for every origin `Began`, its blocks and problems, `Ended`; then the conversations of which
this batch has all facts, reduced, linked with each other, and as rows. Whether they are right is for
the store to say: it may have more facts of them, or more conversations to link.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from unspool.facts import AnyFact, Key, Problem
from unspool.io.databases import is_spare
from unspool.io.origins import Origin, Tally
from unspool.io.packing import Packer
from unspool.link import Card, Patch, link
from unspool.pipeline.collect import Collection, Gathered, rebuild
from unspool.pipeline.finish import finish
from unspool.store.blocks import FactBlock, RawBlock, fact_block, moved, raw_blocks
from unspool.store.reading import Owners, iter_records, parts_of, read_items, trouble
from unspool.store.rows import Rows, make_rows
from unspool.store.survey import (
    Changed,
    is_database,
    is_log,
    recognised,
    tail_hash,
    whole_records_end,
)
from unspool.trajectory import Trajectory, pack_trajectory

FACTS_BYTES = 16 * 1024 * 1024
"""Facts beyond this are packed and let go of."""
FRESH_BYTES = 48 * 1024 * 1024
"""Facts of a batch that are still at hand when its conversations are reduced."""

pack = Packer().encode


class Began(NamedTuple):
    """An origin; where there is nothing to read, no more is said of it."""

    changed: Changed
    origin: Origin | None = None
    """None: of no known format, or there is trouble."""
    end: int = 0
    """Up to where its records are whole."""
    tail: str = ""
    is_database: bool = False
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
        return cls(card.key, pack(card), pack(patch) if patch is not None else None, rows)


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
        collection, tally, owners = Collection(), Tally(), Owners(is_log(origin))
        problems = collection.problems
        for part in parts_of(origin, owners.in_lines, problems):
            for item in read_items(part, tally):
                if isinstance(item, Trajectory):
                    if path and item.file_path == origin.path:
                        item.file_path = path
                    yield Whole(pack_trajectory(item))
                    continue
                owners.add(item)
                fact: AnyFact = moved(item, path) if path else item
                collection.add(origin.source, fact)
                if collection.weight > FACTS_BYTES:
                    yield from self._pack_facts(collection)
                    keys = list(collection.conversations)
                    self._let_go(keys)
                    for key in keys:
                        collection.pop(key)
                if problems:
                    yield from problems
                    problems.clear()
            if self.raw and not origin.only:
                yield from raw_blocks(iter_records(part, end, owners, problems))
            owners.of.clear()
        yield from self._pack_facts(collection)
        self._stay(collection, origin.start > 0)
        yield from problems
        yield Ended(tally.records)

    def _pack_facts(self, collection: Collection) -> Iterator[FactBlock]:
        for key, gathered in collection.conversations.items():
            yield fact_block(key, gathered.source, gathered.all_facts())

    def _stay(self, collection: Collection, is_tail: bool) -> None:
        """The facts of an origin that was read to its end stay for reducing, if they are all."""
        first = collection.conversations.keys() - self.met
        self._let_go(collection.conversations)
        if not is_tail and self._fresh_bytes + collection.weight <= FRESH_BYTES:
            self._fresh_bytes += collection.weight
            self.fresh |= {key: collection.conversations[key] for key in first}

    def _let_go(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.fresh.pop(key, None)
            self.met.add(key)

    def reduce(self) -> Iterator[Conversation]:
        """The conversations all of whose facts are at hand, linked with each other, as rows."""
        rebuilt = {key: rebuild(key, self.fresh.pop(key)) for key in sorted(self.fresh)}
        patches = link([card for one in rebuilt.values() for _, card in one.conversations])
        for key in list(rebuilt):
            whole = rebuilt.pop(key)
            reduced = [Reduced.of(*one, patches.get(one[1].key)) for one in whole.conversations]
            yield Conversation(key, reduced, whole.problems)


def _begin(changed: Changed) -> Began:
    try:
        origin = recognised(changed)
        if origin is None:
            return Began(changed)
        end = changed.size_bytes
        if is_log(origin):
            end = whole_records_end(origin.path, changed.size_bytes)
        spare = changed.known is not None and is_spare(changed.path)
        tail = tail_hash(changed.path, end)
        return Began(changed, origin, end, tail, is_database(changed.path), spare)
    except OSError as error:
        return Began(changed, trouble=trouble(changed.path, "unreadable", error))
