"""Joining snapshots: a list that is the beginning of a longer one adds nothing but who saw it.

Every engine call logs the whole message list, so n calls log O(n²) text. The test is made on the
undecoded text, and a snapshot that adds nothing is never parsed. Joining is closed: workers join as
they read, and what they hand over is joined again.
"""

import msgspec

from unspool.facts import SnapshotSeen, View

_BEGINNING = 256
_SHORT = 2048
"""An answer, most often: not worth a look for what it goes on from while others still come in."""
_OPEN = 16
"""How many lists that begin alike may grow side by side (two spellings, several sub-agents)."""


class Joined:
    """A list, and all who saw a part of it."""

    __slots__ = ("fact", "views")

    def __init__(self, fact: SnapshotSeen, views: list[View]) -> None:
        self.fact = fact
        self.views = views

    def to_fact(self) -> SnapshotSeen:
        views = self.views
        if len(views) == 1 and views[0] is self.fact.views[0]:
            return self.fact
        return msgspec.structs.replace(self.fact, views=tuple(views))


def _covers(longer: SnapshotSeen, other: SnapshotSeen) -> bool:
    """Whether the other list is this list's beginning, up to the end of a message."""
    if longer.broken or other.broken:
        return longer.broken == other.broken and longer.text == other.text
    at = len(other.text)
    return longer.text.startswith(other.text) and longer.text[at : at + 1] in (b"", b",")


class Joiner:
    """The lists of one conversation; asked for, none is the beginning of another."""

    __slots__ = ("_lists", "_loose", "_open", "_shared")

    def __init__(self) -> None:
        self._lists: list[Joined] = []
        self._loose: list[SnapshotSeen] = []
        """Short lists that were not compared with any."""
        self._open: dict[bytes, list[Joined]] = {}
        """How long lists begin → those that came last, the latest first."""
        self._shared: dict[bytes, bytes] = {}

    def add(self, fact: SnapshotSeen) -> int:
        """Take the fact in; by how many bytes the kept text grew."""
        fact = self._lean(fact)
        size = len(fact.text)
        if size <= _SHORT or fact.broken:
            self._loose.append(fact)
        else:
            latest = self._open.setdefault(fact.text[:_BEGINNING], [])
            for known in latest:
                if _covers(fact, known.fact):
                    grown = size - len(known.fact.text)
                    known.fact = fact
                    known.views += fact.views
                    return grown
                if _covers(known.fact, fact):
                    known.views += fact.views
                    return 0
            latest.insert(0, Joined(fact, list(fact.views)))
            self._lists.append(latest[0])
            del latest[_OPEN:]
        return size

    def _lean(self, fact: SnapshotSeen) -> SnapshotSeen:
        """The same system prompt and tools come with every call: hold them once."""
        views: list[View] = []
        shared = self._shared
        is_same = True
        for view in fact.views:
            if view.system or view.tools:
                system = shared.setdefault(view.system, view.system)
                tools = shared.setdefault(view.tools, view.tools)
                if system is not view.system or tools is not view.tools:
                    view = msgspec.structs.replace(view, system=system, tools=tools)
                    is_same = False
            views.append(view)
        return fact if is_same else msgspec.structs.replace(fact, views=tuple(views))

    def _settle(self) -> None:
        """Every list into the one that it is the beginning of.

        In the order of their texts, those that one begins with stand before it; `begun` are these.
        """
        kept: list[Joined] = []
        begun: list[Joined] = []
        loose = [Joined(fact, list(fact.views)) for fact in self._loose]
        for joined in sorted(self._lists + loose, key=_by_text):
            while begun and not joined.fact.text.startswith(begun[-1].fact.text):
                kept.append(begun.pop())
            for known in reversed(begun):
                if _covers(joined.fact, known.fact):
                    joined.views += known.views
                    begun.remove(known)
            begun.append(joined)
        self._lists = kept + begun
        self._loose = []
        self._open.clear()

    def facts(self) -> list[SnapshotSeen]:
        self._settle()
        return [joined.to_fact() for joined in self._lists]

    def take(self) -> list[SnapshotSeen]:
        """The same for the last time: whoever takes the facts may let go of them one by one."""
        facts = self.facts()
        self._lists, self._shared = [], {}
        return facts


def _by_text(joined: Joined) -> tuple[bool, bytes]:
    return joined.fact.broken, joined.fact.text
