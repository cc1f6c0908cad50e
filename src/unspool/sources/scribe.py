"""The scribe: writes down the facts that one record states.

A source makes one scribe per record and tells it what the record says; key, place, time, id and rank
are then the same for all facts of the record:

    scribe = Scribe(key, origin.path, offset, time=time, entry=line.uuid, after=line.parentUuid)
    scribe.message(id=line.uuid, role="user", text="fix the test")
    scribe.note("title", "fix the test", rank=Rank.GUESS)
    yield from scribe.facts

Any field of the fact may be given; `key`, `time`, `entry`, `after`, `rank` and `side` override those
of the record.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from unspool.facts import (
    NOBODY,
    PREVIOUS,
    AnyFact,
    Key,
    Link,
    Marked,
    MessageSeen,
    Noted,
    On,
    Problem,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.io.door import sample


class Scribe:
    """The facts of one record, in the order in which they are told."""

    __slots__ = ("after", "entry", "facts", "key", "offset", "origin", "rank", "side", "time")

    def __init__(
        self,
        key: Key,
        origin: str,
        offset: int,
        *,
        time: int | None = None,
        entry: str = "",
        after: str | None = PREVIOUS,
        rank: int = 0,
        side: bool = False,
    ) -> None:
        self.facts: list[AnyFact] = []
        self.key = key
        self.origin = origin
        self.offset = offset
        self.time = time
        self.entry = entry
        self.after = after
        self.rank = rank
        self.side = side

    def at(self, *, entry: str, after: str | None) -> "Scribe":
        """A scribe for a record of this line that has an id; both write to the same facts."""
        other = Scribe(
            self.key, self.origin, self.offset,
            time=self.time, entry=entry, after=after, rank=self.rank, side=self.side,
        )  # fmt: skip
        other.facts = self.facts
        return other

    def _place(self) -> dict[str, Any]:
        return {
            "key": self.key, "origin": self.origin, "offset": self.offset, "time": self.time,
            "entry": self.entry, "after": self.after, "number": len(self.facts),
        }  # fmt: skip

    def _write(self, kind: type[AnyFact], fields: dict[str, Any]) -> None:
        """A fact of which the record's own place, rank or side is overridden."""
        place = self._place() | {"rank": self.rank}
        if kind is not UsageReported:
            place["side"] = self.side
        self.facts.append(kind(**place | fields))

    def message(
        self, *, time: int | UnsetType | None = UNSET, rank: int | None = None, **fields: Any
    ) -> None:
        """A message, or a part of one: the fields of MessageSeen."""
        facts = self.facts
        time = self.time if time is UNSET else time
        rank = self.rank if rank is None else rank
        try:
            facts.append(MessageSeen(
                key=self.key, origin=self.origin, offset=self.offset, number=len(facts),
                time=time, entry=self.entry, after=self.after, rank=rank, side=self.side,
                **fields,
            ))  # fmt: skip
        except (TypeError, KeyError):  # another field of the place is given too
            self._write(MessageSeen, {"time": time, "rank": rank, **fields})

    def call(
        self, *, time: int | UnsetType | None = UNSET, rank: int | None = None, **fields: Any
    ) -> None:
        """A tool call: the fields of ToolCalled."""
        facts = self.facts
        time = self.time if time is UNSET else time
        rank = self.rank if rank is None else rank
        try:
            facts.append(ToolCalled(
                key=self.key, origin=self.origin, offset=self.offset, number=len(facts),
                time=time, entry=self.entry, after=self.after, rank=rank, side=self.side,
                **fields,
            ))  # fmt: skip
        except (TypeError, KeyError):  # another field of the place is given too
            self._write(ToolCalled, {"time": time, "rank": rank, **fields})

    def returned(
        self, *, time: int | UnsetType | None = UNSET, rank: int | None = None, **fields: Any
    ) -> None:
        """What a call returned: the fields of ToolReturned."""
        facts = self.facts
        time = self.time if time is UNSET else time
        rank = self.rank if rank is None else rank
        try:
            facts.append(ToolReturned(
                key=self.key, origin=self.origin, offset=self.offset, number=len(facts),
                time=time, entry=self.entry, after=self.after, rank=rank, side=self.side,
                **fields,
            ))  # fmt: skip
        except (TypeError, KeyError):  # another field of the place is given too
            self._write(ToolReturned, {"time": time, "rank": rank, **fields})

    def usage(
        self, *, time: int | UnsetType | None = UNSET, rank: int | None = None, **fields: Any
    ) -> None:
        """Tokens or cost: the fields of UsageReported."""
        facts = self.facts
        time = self.time if time is UNSET else time
        rank = self.rank if rank is None else rank
        try:
            facts.append(UsageReported(
                key=self.key, origin=self.origin, offset=self.offset, number=len(facts),
                time=time, entry=self.entry, after=self.after, rank=rank,
                **fields,
            ))  # fmt: skip
        except (TypeError, KeyError):  # another field of the place is given too
            self._write(UsageReported, {"time": time, "rank": rank, **fields})

    def note(
        self, name: str, value: Any, rank: int = 0, on: On = "conversation", subject: str = "",
        **fields: Any,
    ) -> None:  # fmt: skip
        """`name` = `value` of the conversation, or of the message, call or request named."""
        if fields:  # of the place: they override the record's own
            given = {"name": name, "value": value, "rank": rank, "on": on, "subject": subject}
            self.facts.append(Noted(**{**self._place(), **given, **fields}))
            return
        self.facts.append(Noted(
            key=self.key, origin=self.origin, offset=self.offset, number=len(self.facts),
            time=self.time, entry=self.entry, after=self.after,
            on=on, subject=subject, name=name, value=value, rank=rank,
        ))  # fmt: skip

    def mark(
        self, kind: str, data: dict[str, Any] | None = None, subject: str = "", rank: int = 0,
        **fields: Any,
    ) -> None:  # fmt: skip
        """Something that happened between messages."""
        given = {"kind": kind, "data": data or None, "subject": subject, "rank": rank}
        self.facts.append(Marked(**{**self._place(), **given, **fields}))

    def link(self) -> None:
        """The record only holds the chain together."""
        self.facts.append(Link(
            key=self.key, origin=self.origin, offset=self.offset, number=len(self.facts),
            time=self.time, entry=self.entry, after=self.after,
        ))  # fmt: skip

    def problem(self, code: str, found: bytes | str) -> None:
        """Something in the record is not as it should be; `found` is shown, clipped."""
        place = self._place() | {"key": NOBODY}
        self.facts.append(Problem(**place, code=code, sample=sample(found)))


def title_of(prompt: str) -> str:
    """The first line of a prompt, short enough for a title: noted with `Rank.GUESS`."""
    first = prompt.strip().split("\n", 1)[0].strip()
    return first if len(first) <= 100 else first[:99].rstrip() + "…"


def all_input(fresh: int | None, *cached: int | None) -> int | None:
    """The prompt's tokens, for `Scribe.usage`, where an agent counts what came from the cache, or
    went there, apart from the rest."""
    return None if fresh is None else fresh + sum(count or 0 for count in cached)


def touched(
    operations: Mapping[str, str], tool: str, arguments: Any, *names: str
) -> tuple[dict[str, Any], ...]:
    """The file that a call is about: `operations` are those of the agent's tools for files, `names`
    what they call the path. The arguments are an object, or its JSON."""
    operation = operations.get(tool)
    if operation is None:
        return ()
    if isinstance(arguments, str | bytes):
        try:
            arguments = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            return ()
    given = arguments if isinstance(arguments, dict) else {}
    path = next((given[name] for name in names if given.get(name)), None)
    if not isinstance(path, str):
        return ()
    return ({"path": path, "operation": operation, "tool": tool},)
