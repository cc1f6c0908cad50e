"""Collect: the facts of every conversation, kept until all origins are read.

Snapshots are joined as they come; the rest is kept as it is.
"""

from collections.abc import Callable, Iterable, Iterator
from sys import getsizeof
from typing import Any, cast

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
    long_text,
)
from unspool.reduce.joining import Joiner

Place = tuple[str, int]
NOWHERE: Place = ("\U0010ffff", 0)
_BEARING = frozenset(MESSAGE_BEARING)
FACT_BYTES = 500
"""What a fact weighs in memory beside its texts (measured: 350 to 700)."""


class Gathered:
    """The facts of one conversation."""

    __slots__ = ("aside", "facts", "first", "joiner", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.facts: list[AnyFact] = []
        self.joiner: Joiner | None = None
        self.first: Place = NOWHERE
        """Where its first message-bearing record stands: its place in the output."""
        self.aside: str | bytes = b""
        """The long text that was read back last: several facts may have it in common."""

    def add(self, fact: AnyFact) -> int:
        """Take the fact in; by how many bytes this grew, about."""
        kind = type(fact)
        if kind in _BEARING and fact.origin <= self.first[0]:
            self.first = min(self.first, (fact.origin, fact.offset))
        if kind is SnapshotSeen:
            return self._join(cast(SnapshotSeen, fact)) + FACT_BYTES
        self.facts.append(fact)
        return FACT_BYTES + weigh(fact)

    def _join(self, fact: SnapshotSeen) -> int:
        if self.joiner is None:
            self.joiner = Joiner()
        return self.joiner.add(fact)

    def all_facts(self) -> list[AnyFact]:
        return self.facts + list(self.joiner.facts() if self.joiner else ())

    def hand_out(self) -> Iterator[AnyFact]:
        """The same, each for good: a list may be hundreds of megabytes, and whoever takes it
        decides how long it stays."""
        facts, self.facts, self.joiner, self.aside = self.all_facts(), [], None, b""
        facts.reverse()
        while facts:
            yield facts.pop()


def weigh(fact: AnyFact) -> int:
    """Bytes of its texts: one character beyond Latin-1 doubles a whole text, an emoji quadruples it."""
    weigh = _WEIGHTS.get(type(fact))
    return weigh(fact) if weigh is not None else 0


_WEIGHTS: dict[type, Callable[[Any], int]] = {
    MessageSeen: lambda fact: getsizeof(fact.text) + getsizeof(fact.thinking),
    ToolReturned: lambda fact: getsizeof(fact.text) + (500 if fact.details is not None else 0),
    ToolCalled: lambda fact: getsizeof(fact.arguments),
    SnapshotSeen: lambda fact: len(fact.text),
    PieceSeen: lambda fact: len(fact.body),
    Noted: lambda fact: getsizeof(fact.value) if isinstance(fact.value, str) else 0,
}
"""By kind: a look-up, because every fact is weighed."""


class Collection:
    """All conversations that were read, and the problems."""

    def __init__(self) -> None:
        self.conversations: dict[Key, Gathered] = {}
        self.problems: list[Problem] = []
        self.weight = 0

    def take(self, source: str, facts: Iterable[AnyFact]) -> None:
        for fact in facts:
            self.add(source, fact)

    def add(self, source: str, fact: AnyFact) -> None:
        if isinstance(fact, Problem):
            self.problems.append(fact)
            if fact.key == NOBODY:
                return
        gathered = self.conversations.get(fact.key)
        if gathered is None:
            gathered = self.conversations[fact.key] = Gathered(source)
        self.weight += gathered.add(fact)

    def has_text_of(self, fact: AnyFact) -> bool:
        """Whether the fact before has the same long text: that is kept, and written, once."""
        gathered = self.conversations.get(fact.key)
        known = gathered.facts[-1] if gathered is not None and gathered.facts else None
        text = long_text(fact)
        return bool(text) and known is not None and text is long_text(known)

    def in_order(self) -> Iterator[tuple[Key, Gathered]]:
        """Conversations by their first message-bearing record; those without any come last."""
        yield from sorted(self.conversations.items(), key=lambda item: (item[1].first, item[0]))
