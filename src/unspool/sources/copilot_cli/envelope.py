"""The event log's lines: one event each, save where a crash or a second writer spoiled them.

Seen in the wild: NUL tails, raw U+2028, literal newlines inside strings (one event over several
lines), a cut-off event with a whole one behind it on the same line, torn last lines.
"""

import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from unspool.facts import NOBODY, Fact, Key, Problem
from unspool.io.dirty_json import salvage, sample
from unspool.io.origins import Origin, Tally, iter_lines, open_origin
from unspool.io.times import parse_time
from unspool.sources.copilot_cli.noise import NOISE

_STARTS = tuple(
    f'{{{space}"{name}"'.encode()
    for name in ("type", "data", "id", "timestamp", "parentId", "agentId", "ephemeral", "model")
    for space in ("", " ")
)
"""How an event's line begins. Any other line goes on from the one before it, or is no event."""

FactType = TypeVar("FactType", bound=Fact)


class Envelope(msgspec.Struct, gc=False):
    type: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")
    id: str | int | None = None
    timestamp: str | int | float | None = None
    agentId: str | None = None
    ephemeral: bool | None = None
    model: str | None = None


_decode = msgspec.json.Decoder(Envelope).decode
_decode_data = msgspec.json.Decoder().decode


class Event:
    """One event. It makes the facts about itself, each with its own number."""

    __slots__ = ("agent", "data", "ephemeral", "id", "key", "model", "number", "offset", "origin",
                 "rank", "root", "time", "type")  # fmt: skip

    def __init__(self, envelope: Envelope, data: dict[str, Any], origin: str, offset: int) -> None:
        self.type = envelope.type
        self.data = data
        self.id = "" if envelope.id is None else str(envelope.id)
        self.time = parse_time(envelope.timestamp)
        self.agent = envelope.agentId or ""
        self.ephemeral = bool(envelope.ephemeral)
        self.model = (envelope.model or "").strip()
        self.origin = origin
        self.offset = offset
        self.number = 0
        self.key: Key = NOBODY
        self.root: Key = NOBODY
        self.rank = 0

    def fact(self, made: type[FactType], /, key: Key | None = None, **fields: Any) -> FactType:
        """A fact with the event's place, time and id; about its own agent unless a key is given."""
        self.number += 1
        return made(
            key=self.key if key is None else key,
            origin=self.origin,
            offset=self.offset,
            number=self.number,
            time=self.time,
            entry=self.id,
            **fields,
        )

    def text(self, name: str) -> str:
        value = self.data.get(name)
        return value.strip() if isinstance(value, str) else ""

    def number_of(self, name: str) -> int | None:
        return whole_number(self.data.get(name))

    def chosen(self, *names: str) -> dict[str, Any]:
        """These fields of the data, as far as they are there."""
        made: dict[str, Any] = {}
        for name in names:
            value = self.data.get(name)
            if value or (value is not None and value not in _EMPTY):
                made[snake(name)] = value
        return made


_EMPTY: tuple[Any, ...] = ("", [], {})


def whole_number(value: Any) -> int | None:
    """A count; unknown where it is no number (logs hold nulls and, rarely, strings)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value)


@lru_cache(maxsize=1024)
def snake(name: str) -> str:
    """camelCase as the words of our own output."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class Group(NamedTuple):
    """A line that begins an event, and the lines behind it that begin none."""

    offset: int
    line: bytes
    others: list[tuple[int, bytes]]
    end: int | None
    """Where the next event begins; None at the end of the file."""


def iter_groups(origin: Origin) -> Iterator[Group]:
    """Lines with what goes on from them. A group belongs to the range that its first line is in."""
    offset, line = -1, b""
    others: list[tuple[int, bytes]] = []
    for at, found in iter_lines(origin):
        if found.startswith(_STARTS):
            if line:
                yield Group(offset, line, others, at)
                others = []
            offset, line = at, found
        elif line:
            others.append((at, found))
        elif not origin.start:
            yield Group(at, found, [], None)
    if not line:
        return
    end: int | None = None
    if origin.end is not None:
        for at, found in iter_lines(msgspec.structs.replace(origin, start=origin.end, end=None)):
            if found.startswith(_STARTS):
                end = at
                break
            others.append((at, found))
    yield Group(offset, line, others, end)


def iter_events(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[Event | Problem]:
    """The events of the origin, and what was no event."""
    for group in iter_groups(origin):
        if group.line.startswith(_HOOK) and group.line.endswith(b"}") and not group.others:
            tally.records += 1
            tally.noise += 1
            continue
        try:
            envelope = _decode(group.line)
            if envelope.type in NOISE and not group.others:
                tally.records += 1
                tally.noise += 1
                continue
            data = _data(envelope, group.line)
        except (ValueError, RecursionError):
            yield from _spoiled(origin, tally, group, recover)
            continue
        tally.records += 1
        if envelope.id is None:
            envelope.id = _made_id(group.offset, group.line)
        yield Event(envelope, data, origin.path, group.offset)
        for at, line in group.others:
            yield from _odd(origin, tally, at, line, recover)


def _made_id(offset: int, line: bytes) -> str:
    """For events without an id (flat streams): the same line at the same place is the same event."""
    return f"{offset}-{zlib.crc32(line):08x}"


_HOOK = b'{"type":"hook.start"'
"""Not even looked into: its input repeats a whole tool result (37 % of all bytes in real logs)."""


def _data(envelope: Envelope, line: bytes) -> dict[str, Any]:
    """What the event says; where there is no `data`, whatever lies beside the type."""
    data = _decode_data(envelope.data or line)
    return data if isinstance(data, dict) else {"value": data}


def _spoiled(
    origin: Origin, tally: Tally, group: Group, recover: bool
) -> Iterator[Event | Problem]:
    """A first line that is no clean event: try it with the lines that go on from it."""
    if group.others:
        with open_origin(origin.path) as file:
            file.seek(group.offset)
            whole = file.read() if group.end is None else file.read(group.end - group.offset)
        found = salvage(whole)
        whole_events = all(isinstance(value, dict) for value in found.values)
        if found.values and whole_events and not found.code:
            yield from _events(origin, tally, group.offset, found.values)
            return
    yield from _odd(origin, tally, group.offset, group.line, recover)
    for at, line in group.others:
        yield from _odd(origin, tally, at, line, recover)


def _odd(
    origin: Origin, tally: Tally, offset: int, line: bytes, recover: bool
) -> Iterator[Event | Problem]:
    found = salvage(line, recover)
    yield from _events(origin, tally, offset, [v for v in found.values if isinstance(v, dict)])
    strange = [v for v in found.values if not isinstance(v, dict)]
    if found.lost or strange:
        tally.records += 1
        tally.problems += 1
    if found.code or strange:
        code = found.code or "not-an-event"
        yield Problem(
            key=NOBODY, origin=origin.path, offset=offset, number=99, code=code, sample=sample(line)
        )


def _events(origin: Origin, tally: Tally, offset: int, values: list[Any]) -> Iterator[Event]:
    for number, value in enumerate(values):
        tally.records += 1
        yield event_of(value, origin.path, offset + number)


def event_of(value: dict[str, Any], origin: str, offset: int) -> Event:
    """An event out of a decoded object, whatever types its fields have."""
    data = value.get("data", value)
    stamp, ident = value.get("timestamp"), value.get("id")
    agent, model = value.get("agentId"), value.get("model")
    envelope = Envelope(
        type=str(value.get("type") or ""),
        id=ident if isinstance(ident, str | int) else _made_id(offset, msgspec.json.encode(value)),
        timestamp=stamp if isinstance(stamp, str | int | float) else None,
        agentId=agent if isinstance(agent, str) else None,
        ephemeral=value.get("ephemeral") is True,
        model=model if isinstance(model, str) else None,
    )
    return Event(envelope, data if isinstance(data, dict) else {"value": data}, origin, offset)
