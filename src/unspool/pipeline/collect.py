"""Collect: the facts of every conversation, kept until all origins are read.

Snapshots are joined as they come. The rest is kept as it is.
"""

from collections.abc import Iterable, Iterator

from unspool.facts import MESSAGE_BEARING, NOBODY, AnyFact, Key, Problem, SnapshotSeen
from unspool.joining import Joiner

Place = tuple[str, int]
_LAST: Place = ("\U0010ffff", 0)


class Gathered:
    """The facts of one conversation."""

    __slots__ = ("facts", "first", "joiner", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.facts: list[AnyFact] = []
        self.joiner: Joiner | None = None
        self.first: Place = _LAST
        """Where its first message-bearing record stands: its place in the output."""

    def add(self, fact: AnyFact) -> None:
        if isinstance(fact, MESSAGE_BEARING) and (fact.origin, fact.offset) < self.first:
            self.first = (fact.origin, fact.offset)
        if isinstance(fact, SnapshotSeen):
            if self.joiner is None:
                self.joiner = Joiner()
            self.joiner.add(fact)
        else:
            self.facts.append(fact)

    def all_facts(self) -> list[AnyFact]:
        return self.facts + list(self.joiner.facts() if self.joiner else ())


class Collection:
    """All conversations of a run, and the problems that belong to none."""

    def __init__(self) -> None:
        self.conversations: dict[Key, Gathered] = {}
        self.problems: list[Problem] = []

    def take(self, source: str, facts: Iterable[AnyFact]) -> None:
        conversations = self.conversations
        for fact in facts:
            if isinstance(fact, Problem):
                self.problems.append(fact)
                if fact.key == NOBODY:
                    continue
            gathered = conversations.get(fact.key)
            if gathered is None:
                gathered = conversations[fact.key] = Gathered(source)
            gathered.add(fact)

    def in_order(self) -> Iterator[tuple[Key, Gathered]]:
        """Conversations by their first message-bearing record; those without any come last."""
        yield from sorted(self.conversations.items(), key=lambda item: (item[1].first, item[0]))
