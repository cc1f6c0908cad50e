"""Joining snapshots: a list that is the beginning of a longer one adds nothing but who saw it.

Every engine call logs the whole message list, so n calls log O(n²) text. The test is made on the
undecoded text, and a snapshot that adds nothing is never parsed. Joining is closed: workers join as
they read, and what they hand over is joined again.
"""

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from unspool.facts import SnapshotSeen, View


class Joined:
    """A list that is not the beginning of another, and all who saw a part of it."""

    __slots__ = ("first", "text", "views")

    def __init__(self, fact: SnapshotSeen, views: list[View]) -> None:
        self.first = fact
        self.text = fact.text
        self.views = views

    def covers(self, fact: SnapshotSeen) -> bool:
        """Whether the fact's list is this list's beginning, up to the end of a message."""
        at = len(fact.text)
        if at > len(self.text) or self.first.escaped != fact.escaped:
            return False
        if fact.broken or self.first.broken:
            return fact.broken == self.first.broken and fact.text == self.text
        return self.text.startswith(fact.text) and (
            at == len(self.text) or self.text[at : at + 1] == b","
        )

    def fact(self) -> SnapshotSeen:
        first = self.first
        return SnapshotSeen(
            key=first.key,
            origin=first.origin,
            offset=first.offset,
            number=first.number,
            time=first.time,
            text=self.text,
            escaped=first.escaped,
            broken=first.broken,
            views=tuple(self.views),
        )


class Row:
    """Lists in the order of their texts: what begins with a text stands right behind it, and since
    none begins another, what it begins with can only stand right before it."""

    __slots__ = ("latest", "lists", "texts")

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.lists: list[Joined] = []
        self.latest: dict[bytes, Joined] = {}
        """How a long list begins → the one that was put last."""

    def goes_on(self, new: Joined) -> bool:
        """Whether a list was put last that this one covers: then none covers this one."""
        latest = self.latest.get(new.text[:_BEGINNING]) if len(new.text) > _LONG else None
        return latest is not None and new.covers(latest.first)

    def find(self, fact: SnapshotSeen) -> Joined | None:
        """The list that covers the fact's."""
        if not self.lists:  # the text may be very long: no copy of it then
            return None
        for text in (fact.text, fact.text + b","):
            at = bisect_left(self.texts, text)
            if at < len(self.texts) and self.lists[at].covers(fact):
                return self.lists[at]
        return None

    def put(self, new: Joined) -> int:
        """Take in a list that none covers, in the place of those that it covers; their bytes."""
        at = bisect_left(self.texts, new.text)
        gone = 0
        while at and new.covers(self.lists[at - 1].first):
            at -= 1
            gone += len(self.texts.pop(at))
            new.views += self.lists.pop(at).views
        self.texts.insert(at, new.text)
        self.lists.insert(at, new)
        if len(new.text) > _LONG:
            self.latest[new.text[:_BEGINNING]] = new
        return gone


_LONG = 2048
_BEGINNING = 256


class Joiner:
    """The lists of one conversation, none the beginning of another."""

    __slots__ = ("_rows", "_shared")

    def __init__(self) -> None:
        self._rows: dict[tuple[bool, bool], Row] = {}
        self._shared: dict[bytes, bytes] = {}

    def add(self, fact: SnapshotSeen) -> int:
        """Take the fact in; by how many bytes the kept text grew."""
        form = (fact.escaped, fact.broken)
        row = self._rows.get(form)
        if row is None:
            row = self._rows[form] = Row()
        new = Joined(fact, [self._lean(view) for view in fact.views])
        known = None if row.goes_on(new) else row.find(fact)
        if known is not None:
            known.views += new.views
            return 0
        return len(fact.text) - row.put(new)

    def _lean(self, view: View) -> View:
        """The same system prompt and tools come with every call: hold them once."""
        system = self._shared.setdefault(view.system, view.system)
        tools = self._shared.setdefault(view.tools, view.tools)
        if system is view.system and tools is view.tools:
            return view
        return msgspec.structs.replace(view, system=system, tools=tools)

    def facts(self) -> list[SnapshotSeen]:
        return [joined.fact() for row in self._rows.values() for joined in row.lists]


def join(facts: Iterable[SnapshotSeen]) -> list[SnapshotSeen]:
    joiner = Joiner()
    for fact in facts:
        joiner.add(fact)
    return joiner.facts()
