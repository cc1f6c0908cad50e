"""The scribe: writes down the facts that one record states.

A source makes one scribe per record and tells it what the record says; key, place, time, id and rank
are then the same for all facts of the record:

    scribe = Scribe(key, origin.path, offset, time=time, entry=line.uuid, after=line.parentUuid)
    scribe.message(id=line.uuid, role="user", text="fix the test")
    scribe.note("title", "fix the test", rank=Rank.GUESS)
    yield from scribe.facts

Any field of the fact may be given; those of its place (`key`, `time`, `entry`, `after`, `number` …)
override the record's own.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import EllipsisType, MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from unspool.facts import (
    NOBODY,
    PREVIOUS,
    AnyFact,
    Attachment,
    Key,
    Link,
    Marked,
    MessageSeen,
    Noted,
    On,
    Problem,
    ToolCalled,
    ToolReturned,
    UsageOf,
    UsageReported,
)
from unspool.io.door import sample


class Scribe(msgspec.Struct, eq=False, gc=False):
    """The facts of one record, in the order in which they are told."""

    key: Key
    origin: str
    offset: int
    time: int | None = None
    entry: str = ""
    after: str | None = PREVIOUS
    rank: int = 0
    side: bool = False
    facts: list[AnyFact] = []

    def at(self, *, entry: str, after: str | None) -> "Scribe":
        """A scribe for a record of this line that has an id; both write to the same facts."""
        other = Scribe(
            self.key, self.origin, self.offset,
            time=self.time, entry=entry, after=after, rank=self.rank, side=self.side,
        )  # fmt: skip
        other.facts = self.facts
        return other

    # All fields by position, in the order of facts.py: more than 15 by name, or a dictionary of them,
    # take three times as long, and this is done for every fact.

    def message(
        self, *, id: str = "", role: str = "user", text: str = "", thinking: str = "",
        kind: str = "", typed: str | None = None, shown: str = "", model: str = "", mode: str = "",
        rank: int | None = None, joins: bool = False, piece: bool = False, withdrawn: bool = False,
        edition: int = 0, request: str = "", stop: str = "", status: str = "",
        attachments: tuple[Attachment, ...] = (), extra: dict[str, Any] | None = None,
        time: int | EllipsisType | None = ..., **place: Any,
    ) -> None:  # fmt: skip
        """A message, or a part of one: the fields of MessageSeen."""
        facts = self.facts
        facts.append(MessageSeen(
            self.key, self.origin, self.offset, len(facts), self.time if time is ... else time,
            self.entry, self.after,
            id, role, text, thinking, kind, typed, shown, model, mode,  # type: ignore[arg-type]
            self.rank if rank is None else rank, self.side, joins, piece, withdrawn, edition,
            request, stop, status, attachments, extra,
        ))  # fmt: skip
        if place:
            facts[-1] = replace(facts[-1], **place)

    def call(
        self, *, id: str = "", message: str = "", name: str = "", arguments: str = "",
        index: int | None = None, rank: int | None = None, by_user: bool = False,
        request: str = "", like: str = "", files: tuple[dict[str, Any], ...] = (),
        extra: dict[str, Any] | None = None, **place: Any,
    ) -> None:  # fmt: skip
        """A tool call: the fields of ToolCalled."""
        facts = self.facts
        facts.append(ToolCalled(
            self.key, self.origin, self.offset, len(facts), self.time, self.entry, self.after,
            id, message, name, arguments, index, self.rank if rank is None else rank, self.side,
            by_user, request, like, files, extra,
        ))  # fmt: skip
        if place:
            facts[-1] = replace(facts[-1], **place)

    def returned(
        self, *, call: str = "", name: str = "", arguments: str = "", text: str | None = None,
        failed: bool | None = None, status: str = "", details: Any = None,
        duration_ms: float | None = None, rank: int | None = None, like: str = "",
        files: tuple[dict[str, Any], ...] = (), attachments: tuple[Attachment, ...] = (),
        extra: dict[str, Any] | None = None, **place: Any,
    ) -> None:  # fmt: skip
        """What a call returned: the fields of ToolReturned."""
        facts = self.facts
        facts.append(ToolReturned(
            self.key, self.origin, self.offset, len(facts), self.time, self.entry, self.after,
            call, name, arguments, text, failed, status, details, duration_ms,
            self.rank if rank is None else rank, self.side, like, files, attachments, extra,
        ))  # fmt: skip
        if place:
            facts[-1] = replace(facts[-1], **place)

    def usage(
        self, *, on: UsageOf = "message", subject: str = "", model: str = "",
        prompt: int | None = None, completion: int | None = None, cached: int | None = None,
        cache_write: int | None = None, reasoning: int | None = None, cost_usd: float | None = None,
        requests: int | None = None, rank: int | None = None, extra: dict[str, Any] | None = None,
        **place: Any,
    ) -> None:  # fmt: skip
        """Tokens or cost: the fields of UsageReported."""
        facts = self.facts
        facts.append(UsageReported(
            self.key, self.origin, self.offset, len(facts), self.time, self.entry, self.after,
            on, subject, model, prompt, completion, cached, cache_write, reasoning, cost_usd,
            requests, self.rank if rank is None else rank, extra,
        ))  # fmt: skip
        if place:
            facts[-1] = replace(facts[-1], **place)

    def note(
        self, name: str, value: Any, rank: int = 0, on: On = "conversation", subject: str = "",
        **place: Any,
    ) -> None:  # fmt: skip
        """`name` = `value` of the conversation, or of the message, call or request named."""
        facts = self.facts
        facts.append(Noted(
            self.key, self.origin, self.offset, len(facts), self.time, self.entry, self.after,
            on, subject, name, value, rank,
        ))  # fmt: skip
        if place:
            facts[-1] = replace(facts[-1], **place)

    def notes(self, values: Mapping[str, Any], rank: int = 0) -> None:
        """Notes on the conversation; what is empty was not told."""
        for name, value in values.items():
            if value:
                self.note(name, value, rank)

    def parent(
        self, conversation: str, kind: str = "subagent", rank: int = 0, *, call: str | None = "",
        name: str | None = "", **place: Any,
    ) -> None:  # fmt: skip
        """The conversation that this one is a sub-agent or a fork of, and the call that began it."""
        about = {"kind": kind, "tool_call_id": call, "name": name}
        link = {field: value for field, value in about.items() if value}
        self.note("parent", {"conversation_id": conversation, **link}, rank, **place)

    def mark(
        self, kind: str, data: dict[str, Any] | None = None, subject: str = "", rank: int = 0,
        **place: Any,
    ) -> None:  # fmt: skip
        """Something that happened between messages."""
        facts = self.facts
        facts.append(Marked(
            self.key, self.origin, self.offset, len(facts), self.time, self.entry, self.after,
            kind, subject, data or None, rank,
        ))  # fmt: skip
        if place:
            facts[-1] = replace(facts[-1], **place)

    def shell(
        self, id: str, command: str, output: str, failed: bool = False, status: str = ""
    ) -> None:
        """A command that the person ran, with what it printed."""
        arguments = msgspec.json.encode({"command": command}).decode()
        self.message(id=id, role="user", text=command, kind="shell")
        self.call(id=id, message=id, name="bash", arguments=arguments, by_user=True)
        self.returned(call=id, text=output, failed=failed, status=status)

    def link(self) -> None:
        """The record only holds the chain together."""
        facts = self.facts
        facts.append(Link(
            self.key, self.origin, self.offset, len(facts), self.time, self.entry, self.after
        ))  # fmt: skip

    def problem(self, code: str, found: bytes | str) -> None:
        """Something in the record is not as it should be; `found` is shown, clipped."""
        self.facts.append(Problem(
            NOBODY, self.origin, self.offset, len(self.facts), self.time, self.entry, self.after,
            code, sample(found),
        ))  # fmt: skip


class Notebook:
    """What was noted so far: lines repeat what they say of their session."""

    def __init__(self) -> None:
        self._noted: dict[tuple[Key, str], Any] = {}

    def is_new(self, key: Key, name: str, value: Any) -> bool:
        """Whether it says something, and something else than what was noted last."""
        if not value or self._noted.get((key, name)) == value:
            return False
        self._noted[(key, name)] = value
        return True

    def note(self, scribe: Scribe, values: Mapping[str, Any], rank: int = 0) -> None:
        for name, value in values.items():
            if self.is_new(scribe.key, name, value):
                scribe.note(name, value, rank)


@lru_cache(maxsize=1024)
def snake(name: str) -> str:
    """camelCase as the words of our own output."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def chosen(
    fields: Mapping[str, Any], names: Iterable[str], ours: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """These fields of a record, as far as they say something, under our own names: `hookCount` as
    `hook_count`, or as `ours` has it."""
    return {
        ours.get(name) or snake(name): value
        for name in names
        if name in fields and ((value := fields[name]) or value == 0)
    }


def title_of(prompt: str) -> str:
    """The first line of a prompt, short enough for a title: noted with `Rank.GUESS`."""
    first = prompt.strip().split("\n", 1)[0].strip()
    return first if len(first) <= 100 else first[:99].rstrip() + "…"


def all_input(fresh: int | None, *cached: int | None) -> int | None:
    """The prompt's tokens, for `Scribe.usage`, where an agent counts what came from the cache, or
    went there, apart from the rest; or those of an answer whose reasoning is counted apart."""
    if fresh is None:
        return None
    for count in cached:
        fresh += count or 0
    return fresh


def touched(
    operations: Mapping[str, str], tool: str, arguments: Any, *names: str
) -> tuple[dict[str, Any], ...]:
    """The file that a call is about: `operations` are those of the agent's tools for files, `names`
    what they call the path. The arguments are an object, or its JSON."""
    operation = operations.get(tool)
    if operation is None:
        return ()
    if isinstance(arguments, str | bytes):
        try:  # all but the path stays undecoded: it may be the whole file
            arguments = _decode_fields(arguments)
        except msgspec.DecodeError:
            return ()
    given = arguments if isinstance(arguments, dict) else {}
    for name in names:
        path = given.get(name)
        path = msgspec.json.decode(path) if isinstance(path, Raw) else path
        if path:
            known = isinstance(path, str)
            return ({"path": path, "operation": operation, "tool": tool},) if known else ()
    return ()


_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
