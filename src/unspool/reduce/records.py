"""Records: the facts of one native unit, together."""

from unspool.facts import AnyFact, MessageSeen, ToolCalled, ToolReturned
from unspool.trajectory import Message

LIST = "\0list:"
"""The origin of what message lists tell, which as a channel stand apart from the files that they lie
in; and how the ids of their records begin, which nobody else knows."""


class Listed(MessageSeen, frozen=True, kw_only=True):
    """A message that a message list told, ready made."""

    ready: Message


class Record:
    """The facts of one record. A record seen in several places is one, its richest copy."""

    __slots__ = (
        "after", "edition", "entry", "facts", "offset", "origin", "others", "richness", "side",
        "time", "withdrawn",
    )  # fmt: skip

    def __init__(self, entry: str, origin: str, offset: int) -> None:
        self.entry = entry
        self.origin = origin
        self.offset = offset
        self.facts: list[AnyFact] = []
        self.after: str | None = None
        self.time: int | None = None
        self.richness = 0
        self.side = False
        """Whether it stands on a side thread."""
        self.withdrawn = False
        """Whether it was taken out of the conversation again."""
        self.edition = 0
        self.others: tuple[str, ...] = ()
        """The other origins that hold it too."""

    def add(self, fact: AnyFact) -> None:
        self.facts.append(fact)
        if fact.after is not None:
            self.after = fact.after
        if self.time is None:
            self.time = fact.time
        self.richness += 1
        if isinstance(fact, MessageSeen):
            self.richness += len(fact.text) + len(fact.thinking)
            self.withdrawn = self.withdrawn or fact.withdrawn
            self.edition = max(self.edition, fact.edition)
        elif isinstance(fact, ToolReturned):
            self.richness += len(fact.text or "")
        elif isinstance(fact, ToolCalled):
            self.richness += len(fact.arguments)
        else:
            return
        self.side = self.side or fact.side

    @property
    def worth(self) -> tuple[bool, int]:
        """Which copy to keep: one that knows its place in the tree, then the richest."""
        return (self.after is not None, self.richness)
