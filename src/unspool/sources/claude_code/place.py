"""Place: where a record stands, what all its facts have in common, and how things are named."""

from typing import Any

from unspool.facts import ROOT, Key, Link, Marked, Noted
from unspool.io.times import parse_time
from unspool.sources.claude_code.lines import Line

NAME = "claude-code"
GUESS = 8
"""The rank of notes that are drawn from the content: of those the first stays."""
COMMAND_GUESS = GUESS + 2
"""A slash command says what a session was about where nothing else was typed."""


class Place:
    """Where a line stands: what all its facts have in common."""

    __slots__ = ("_common", "key", "number", "offset", "origin", "rank", "side")

    def __init__(
        self, key: Key, origin: str, offset: int, line: Line, rank: int = 0, side: bool = False
    ) -> None:
        self.key = key
        self.origin = origin
        self.offset = offset
        self.rank = rank
        self.side = side
        self.number = 0
        self._common: dict[str, Any] = {
            "key": key,
            "origin": origin,
            "offset": offset,
            "number": 0,
            "time": parse_time(line.timestamp),
            "entry": line.uuid or "",
            # Only lines with an id hang in the tree; a missing parent of such a line is a root.
            "after": (line.parentUuid or ROOT) if line.uuid and not rank else None,
        }

    @property
    def entry(self) -> str:
        found: str = self._common["entry"]
        return found

    @property
    def time(self) -> int | None:
        found: int | None = self._common["time"]
        return found

    @time.setter
    def time(self, time: int | None) -> None:
        self._common["time"] = time

    def common(self) -> dict[str, Any]:
        """The fields that every fact has, to be unpacked at once; each call is one fact further."""
        self._common["number"] = self.number
        self.number += 1
        return self._common

    def link(self) -> Link:
        return Link(**self.common())

    def note(self, name: str, value: Any, rank: int = 0) -> Noted:
        return Noted(**self.common(), name=name, value=value, rank=rank)

    def note_call(self, call: str, name: str, value: Any, rank: int = 0) -> Noted:
        return Noted(**self.common(), on="call", subject=call, name=name, value=value, rank=rank)

    def mark(
        self, kind: str, data: dict[str, Any] | None, subject: str = "", rank: int = 0
    ) -> Marked:
        return Marked(**self.common(), kind=kind, data=data or None, subject=subject, rank=rank)


def child_id(session: str, agent: str) -> str:
    """The id of a sub-agent's conversation: agent ids are unique within their session only."""
    return f"{session}/{agent}"


def title_of(text: str) -> str:
    """The first line of a prompt, as a title."""
    first = text.strip().split("\n", 1)[0].strip()
    return first if len(first) <= 100 else first[:99].rstrip() + "…"
