"""Collect: the facts of every conversation, kept until all origins that may tell of it are read.

Two of the driver's four seams meet here. `sources.read` turns a span into facts; a Collection sorts
them by conversation, joining message lists as they come; `rebuild` makes of the facts of one
conversation its trajectory and its card.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from sys import getsizeof
from typing import Any, TypeVar

import msgspec

from unspool.facts import (
    MESSAGE_BEARING,
    NOBODY,
    AnyFact,
    Key,
    MessageSeen,
    Noted,
    PieceSeen,
    Problem,
    SnapshotSeen,
    ToolCalled,
    ToolReturned,
)
from unspool.io.origins import Origin, Tally
from unspool.link import Card, make_card
from unspool.reduce import Provenance, reduce_facts
from unspool.reduce.joining import Joiner
from unspool.trajectory import Trajectory

Place = tuple[str, int]
NOWHERE: Place = ("\U0010ffff", 0)
_BEARING = frozenset(MESSAGE_BEARING)
FACT_BYTES = 500
"""What a fact weighs in memory beside its texts (measured: 350 to 700)."""
UNREADABLE = "unreadable"
VIEW_BYTES = 450
"""What each call that saw a list adds to that."""


T = TypeVar("T")


def as_far_as_readable(
    items: Iterable[T], origin: Origin, tally: Tally, tolerant: bool = True
) -> Iterator[T | Problem]:
    """What a source or a reader tells of an origin; where it cannot be read, or (if `tolerant`) for a
    fault of ours, that is a problem, and the other files go on."""
    try:
        yield from items
    except Exception as error:
        problem = problem_of(error, NOBODY, (origin.path, origin.start), tolerant)
        if problem.code == UNREADABLE:
            tally.records += 1
            tally.problems += 1
        yield problem


def problem_of(error: Exception, key: Key, place: Place, tolerant: bool = True) -> Problem:
    """A file that vanished, is damaged or no longer permitted; or a fault of ours."""
    if isinstance(error, OSError | sqlite3.Error):
        code, text = UNREADABLE, getattr(error, "strerror", None) or str(error)
    elif tolerant and not os.environ.get("UNSPOOL_DEBUG"):
        code, text = "internal-error", f"{type(error).__name__}: {error}"
    else:
        raise error
    return Problem(key=key, origin=place[0], offset=place[1], code=code, sample=text)


class Gathered:
    """The facts of one conversation."""

    __slots__ = ("facts", "first", "joiner", "source", "weight")

    def __init__(self, source: str) -> None:
        self.source = source
        self.facts: list[AnyFact] = []
        self.joiner: Joiner | None = None
        self.first: Place = NOWHERE
        """Where its first message-bearing record stands: its place in the output."""
        self.weight = 0
        """Bytes in memory, about."""

    def add(self, fact: Any) -> int:
        """Take the fact in; by how many bytes this grew, about."""
        kind = type(fact)
        if kind in _BEARING:
            origin, offset = self.first
            if fact.offset < offset or fact.origin is not origin:
                self.first = min(self.first, (fact.origin, fact.offset))
        grown = FACT_BYTES
        if kind is SnapshotSeen:
            if self.joiner is None:
                self.joiner = Joiner()
            grown += self.joiner.add(fact) + VIEW_BYTES * len(fact.views)
        else:
            self.facts.append(fact)
            if kind in _TEXTS_OF:
                grown += _TEXTS_OF[kind](fact)
        self.weight += grown
        return grown

    def take(self, facts: list[AnyFact], first: Place, weight: int) -> None:
        """Facts that were gathered before, and what is known of them together."""
        if self.joiner is None:
            self.joiner = Joiner()
        for fact in facts:
            if type(fact) is SnapshotSeen:
                self.joiner.add(fact)
            else:
                self.facts.append(fact)
        self.first = min(self.first, first)
        self.weight += weight

    def all_facts(self) -> list[AnyFact]:
        return [*self.facts, *self.joiner.facts()] if self.joiner is not None else self.facts


def weigh(fact: Any) -> int:
    """Bytes of its texts, and of the calls that saw them: one character beyond Latin-1 doubles a whole
    text, an emoji quadruples it."""
    texts = _TEXTS_OF.get(type(fact))
    return texts(fact) if texts is not None else 0


_TEXTS_OF: dict[type, Callable[[Any], int]] = {
    MessageSeen: lambda fact: getsizeof(fact.text) + getsizeof(fact.thinking),
    ToolReturned: lambda fact: getsizeof(fact.text) + (500 if fact.details is not None else 0),
    ToolCalled: lambda fact: getsizeof(fact.arguments),
    Noted: lambda fact: getsizeof(fact.value) if type(fact.value) is str else 0,
    SnapshotSeen: lambda fact: len(fact.text) + VIEW_BYTES * len(fact.views),
    PieceSeen: lambda fact: len(fact.body),
}


class Collection:
    """All conversations that were read, and the problems."""

    def __init__(self) -> None:
        self.conversations: dict[Key, Gathered] = {}
        self.problems: list[Problem] = []
        self.weight = 0
        self.met: dict[Key, None] = {}
        """Conversations of which facts came, in order; whoever asks for them clears it."""
        self._last: Key = NOBODY
        self._gathered = Gathered("")
        """What there is of the conversation of the fact before."""

    def add(self, source: str, fact: AnyFact) -> None:
        if type(fact) is Problem:
            self.problems.append(fact)
            if fact.key == NOBODY:
                return
        key = fact.key
        if key is not self._last:
            self._last = key
            self.met[key] = None
            if key not in self.conversations:
                self.conversations[key] = Gathered(source)
            self._gathered = self.conversations[key]
        self.weight += self._gathered.add(fact)

    def take_met(self) -> list[Key]:
        """The conversations of which facts came since this was asked before."""
        met, self.met, self._last = list(self.met), {}, NOBODY
        return met

    def pop(self, key: Key) -> Gathered | None:
        gathered = self.conversations.pop(key, None)
        self._last, self._gathered = NOBODY, Gathered("")  # which else would hold the facts
        if gathered is not None:
            self.weight -= gathered.weight
        return gathered


class Rebuilt(msgspec.Struct):
    """What came of the facts of one key."""

    conversations: list[tuple[Trajectory, Card]]
    """The conversation and its side threads, each with what linking needs to know of it."""
    superseded: int
    """Records that said nothing new."""
    problems: list[Problem]


def rebuild(
    key: Key,
    gathered: Gathered,
    merge_tools: bool = True,
    provenance: Provenance | None = None,
) -> Rebuilt:
    """The second seam: the facts of one key become trajectories and cards."""
    reduction = reduce_facts(key, gathered.facts, merge_tools, gathered.joiner, provenance)
    conversations = [
        (trajectory, make_card(trajectory, naming))
        for trajectory, naming in reduction.conversations()
    ]
    return Rebuilt(conversations, reduction.superseded, reduction.problems)
