"""The blobs of a conversation: a tree of protobuf nodes whose leaves are JSON messages.

The root names the messages of the conversation as it stands; what was rewound hangs on no root any
more. Nobody publishes the schema, so nodes are read by their wire format alone: a field of 32 bytes
that is the id of a blob is a reference to it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from unspool.io.times import parse_time
from unspool.io.values import field_of
from unspool.sources.cursor.entries import digest

_ID_BYTES = 32
_DEEPEST = 64
_MESSAGES = 1
_LEADING = (_MESSAGES, 2, 4, 8)
"""Fields that lead to what was said. Others hold files, plans, archives, the chats of sub-agents,
and states that were."""
_ARCHIVES = (11, 13)
_SUBAGENTS = 16

_TURNS, _AGENT, _USER, _STEP = 8, 1, 1, 2
_TEXT, _SIMULATED, _WHOLE_TEXT, _ASKED_AT, _SAID_AT = 1, 5, 18, 25, 2
_SAID, _THOUGHT = 1, 3
_LEAST, _MOST = 10**9, 10**17
"""The year 2001 in seconds, and one far away in microseconds."""

Fetch = Callable[[str], bytes | None]


class Node:
    """A protobuf message by its wire format; one without fields where the bytes are none."""

    def __init__(self, data: bytes) -> None:
        try:
            self.fields = list(_fields(data))
        except _BadWire:
            self.fields = []

    def all(self, number: int) -> list[bytes]:
        return [value for n, value in self.fields if n == number and isinstance(value, bytes)]

    def data(self, number: int) -> bytes:
        return next(iter(self.all(number)), b"")

    def node(self, number: int) -> "Node":
        return Node(self.data(number))

    def text(self, number: int) -> str:
        return _text(self.data(number))

    def number(self, number: int) -> int:
        return next((v for n, v in self.fields if n == number and isinstance(v, int)), 0)

    def time(self, number: int) -> int | None:
        moment = self.number(number)
        return parse_time(moment) if _LEAST <= moment < _MOST else None


class _BadWire(Exception):
    """Not protobuf."""


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """(number, value) of every field."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise _BadWire
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind, -1)
        if size < 0 or at + size > len(data):
            raise _BadWire
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
    raise _BadWire


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""  # a node, not words


def references(data: bytes, depth: int = 0) -> list[tuple[int, str]]:
    """(field, 32 bytes that may be an id) in order, from the node and the messages inside it."""
    ids: list[tuple[int, str]] = []
    for number, value in Node(data).fields:
        if isinstance(value, int) or number not in _LEADING:
            continue
        if len(value) == _ID_BYTES:
            ids.append((number, value.hex()))
        elif len(value) > _ID_BYTES and value[:1] != b"{" and depth < _DEEPEST:
            ids += [(number * 100 + n, name) for n, name in references(value, depth + 1)]
    return ids


def message_of(data: bytes | None) -> dict[str, Any] | None:
    """The message that a blob holds; None where it is a node."""
    if data is None or data[:1] != b"{":
        return None
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    is_message = isinstance(value, dict) and "role" in value and "content" in value
    return value if is_message else None


def is_summary(data: bytes | None) -> bool:
    own = field_of(field_of(message_of(data), "providerOptions"), "cursor")
    return field_of(own, "isSummary") is True


def messages_under(root: bytes, fetch: Fetch) -> list[str]:
    """The messages under a root, in order; those that a summary stands for, which its archive names,
    before the summary."""
    names = list(_walk("", root, fetch, {}, 0))
    for number, reference in Node(root).fields:
        if number in _ARCHIVES and isinstance(reference, bytes):
            archive = Node(fetch(reference.hex()) or b"")
            listed = (one.hex() for one in archive.all(_MESSAGES))
            history = [n for n in listed if n not in names and message_of(fetch(n)) is not None]
            summaries = {archive.data(4).hex()} & set(names) or filter(
                lambda name: is_summary(fetch(name)), names
            )
            at = names.index(next(iter(summaries), names[0])) if names else 0
            names[at:at] = history
    return names


def _walk(
    ident: str, data: bytes, fetch: Fetch, seen: dict[str, tuple[str, int]], depth: int
) -> Iterator[str]:
    """A message that a node lists twice was said twice; one that is met again by another way is not."""
    for number, child in references(data) if depth < _DEEPEST else ():
        way = (ident, number)
        if seen.setdefault(child, way) != way:
            continue
        inner = fetch(child)
        if inner is None:
            continue
        if inner[:1] != b"{":
            yield from _walk(child, inner, fetch, seen, depth + 1)
        elif number == _MESSAGES or message_of(inner) is not None:  # else a file that was read
            yield child


def subagents(ident: str, root: bytes, depth: int = 0) -> Iterator[tuple[str, str, bytes]]:
    """(id, id of the parent, root) of the chats of sub-agents that are kept with their parent's."""
    for entry in map(Node, Node(root).all(_SUBAGENTS) if depth < _DEEPEST else ()):
        name, state = entry.text(1), entry.node(2).data(1)
        if name and state:
            yield name, ident, state
            yield from subagents(name, state, depth + 1)


class Turned(NamedTuple):
    """One thing that was said in a turn: field 8 of a root names the turns, each with what was asked
    and the steps that answered. Their times are exact, where the messages have at most the minute,
    and chats without a message have at least these."""

    role: Literal["user", "assistant"]
    text: str
    thinking: str
    time: int | None


def turns(root: bytes, fetch: Fetch) -> Iterator[Turned]:
    def body(reference: bytes) -> bytes:
        """The node that a field names, or that stands in it."""
        return (fetch(reference.hex()) if len(reference) == _ID_BYTES else None) or reference

    for turn in Node(root).all(_TURNS):
        agent = Node(body(turn)).node(_AGENT)
        for asked in map(Node, map(body, agent.all(_USER)[:1])):
            whole = asked.data(_WHOLE_TEXT)
            text = _text(body(whole)) if whole else asked.text(_TEXT)
            if text.strip() and not asked.number(_SIMULATED):
                yield Turned("user", text, "", asked.time(_ASKED_AT))
        for step in map(Node, map(body, agent.all(_STEP))):
            said, thinking = step.node(_SAID), step.node(_THOUGHT).text(_TEXT)
            text = said.text(_TEXT)
            if text.strip() or thinking.strip():
                yield Turned("assistant", text, thinking, said.time(_SAID_AT))


class Clock:
    """When the k-th message with these words was said, by the turns."""

    def __init__(self, spoken: Iterable[Turned]) -> None:
        self._times: dict[tuple[str, bytes], list[int]] = defaultdict(list)
        for said in spoken:
            if said.time is not None and said.text.strip():
                self._times[(said.role, digest(said.text))].append(said.time)

    def time(self, role: str, words: str) -> int | None:
        times = self._times.get((role, digest(words))) if words.strip() else None
        return times.pop(0) if times else None
