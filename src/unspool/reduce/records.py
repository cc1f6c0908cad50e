"""Records: the facts of one native unit (a line, a row, a message of a list), together.

{"uuid": "2", "parentUuid": "1", "message": {…}}    entry "2", after "1": a message and a call
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact, Marked, MessageSeen, Noted, ToolCalled, ToolReturned
from unspool.trajectory import Message

THINGS = (MessageSeen, ToolCalled, ToolReturned)
"""What is said, called and returned, as against what is noted of it."""

SPOKEN = (MessageSeen, ToolCalled)

NOT_TYPED = frozenset(("injected", "summary", "output", "notification", "interruption", "error"))
"""Kinds of user message that are no turn of the person's."""

LIST = "\0list:"
"""The origin of what message lists tell, which as a channel stand apart from the files that they lie
in; and how the ids of their records begin, which nobody else knows."""


class Listed(MessageSeen, frozen=True, kw_only=True, gc=False):
    """A message that a message list told, ready made, where other records tell of it too."""

    ready: Message


class Record(msgspec.Struct, eq=False, gc=False):
    """The facts of one record. A record seen in several places is one, its richest copy."""

    entry: str
    origin: str
    offset: int
    facts: list[AnyFact] = []
    ready: list[Message] = []
    """The messages that it is, where nobody but a message list tells of the conversation."""
    after: str | None = None
    time: int | None = None
    spoken: bool = False
    """Whether it holds a message, or a part of one."""
    telling: bool = False
    """Whether somebody says something of their own in it, calls, returns, or goes back to what it
    follows."""
    side: bool = False
    """Whether it stands on a side thread."""
    withdrawn: bool = False
    """Whether it was taken out of the conversation again."""
    noted: bool = False
    """Whether it holds notes."""
    others: tuple[str, ...] = ()
    """The other origins that hold it too."""

    def add(self, fact: Any) -> None:
        self.facts.append(fact)
        if fact.after is not None:
            self.after = fact.after
        if self.time is None:
            self.time = fact.time
        # (A look at the type is several times faster than `isinstance` where the answer is no.)
        kind = type(fact)
        if kind is MessageSeen:
            self.spoken = True
            if fact.kind != "injected" and fact.role != "system":
                self.telling = True
            if fact.side:
                self.side = True
            if fact.withdrawn:
                self.withdrawn = True
        elif kind is ToolCalled or kind is ToolReturned:
            self.telling = True
            if fact.side:
                self.side = True
        elif kind is Noted:
            self.noted = True
        elif kind is Marked and fact.kind == "rewind":
            self.telling = True

    @property
    def edition(self) -> int:
        return max((f.edition for f in self.facts if isinstance(f, MessageSeen)), default=0)

    @property
    def worth(self) -> tuple[bool, int]:
        """Which copy to keep: one that knows its place in the tree, then the richest."""
        richness = len(self.facts)
        for fact in self.facts:
            if isinstance(fact, MessageSeen):
                richness += len(fact.text) + len(fact.thinking)
            elif type(fact) is ToolReturned:
                richness += len(fact.text or "")
            elif type(fact) is ToolCalled:
                richness += len(fact.arguments)
        return (self.after is not None, richness)


Evidence = tuple[str, str]


def known_by(fact: AnyFact) -> Iterator[Evidence]:
    """What a fact is recognised by in another channel: its request, its words by their role, its call
    by id or likeness, the sub-agent that it tells of."""
    if isinstance(fact, MessageSeen):
        yield "request", fact.request
        yield fact.role, fact.text.strip()
        yield fact.role, (fact.typed or "").strip()
        yield fact.role, fact.thinking.strip()
    elif isinstance(fact, THINGS):
        yield "call", fact.id if isinstance(fact, ToolCalled) else fact.call
        yield "like", fact.like
    elif type(fact) is Marked:
        yield "agent", str((fact.data or {}).get("conversation_id") or "")
    elif type(fact) is Noted and fact.name == "child_id":
        yield "agent", str(fact.value)


def evidence_of(facts: Iterable[AnyFact]) -> set[Evidence]:
    """All that the facts are known by."""
    return {evidence for fact in facts for evidence in known_by(fact) if evidence[1]}
