"""The blobs of a command-line chat: a tree of protobuf nodes whose leaves are JSON messages.

The root names the messages of the conversation as it stands; what was rewound hangs on no root any
more. Nobody publishes the schema, so nodes are read by their wire format alone: a field of 32 bytes
that is the id of a blob is a reference to it.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from unspool.io.times import parse_time
from unspool.sources.cursor.entries import digest

_ID_BYTES = 32
DEEPEST = 64
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
Node = dict[int, list[bytes | int]]


class BadWire(Exception):
    """Not protobuf."""


def fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """(number, value) of every field; raises BadWire where the bytes are no message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise BadWire
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind, -1)
        if size < 0 or at + size > len(data):
            raise BadWire
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
    raise BadWire


def references(data: bytes, depth: int = 0) -> list[tuple[int, bytes]]:
    """(field, 32 bytes) that may be ids, in order, from the node and the messages inside it."""
    try:
        node = list(fields(data))
    except BadWire:
        return [] if depth else _scanned(data)
    ids: list[tuple[int, bytes]] = []
    for number, value in node:
        if isinstance(value, int) or number not in _LEADING:
            continue
        if len(value) == _ID_BYTES:
            ids.append((number, value))
        elif len(value) > _ID_BYTES and value[:1] != b"{" and depth < DEEPEST:
            ids += [(number * 100 + n, ref) for n, ref in references(value, depth + 1)]
    return ids


def _scanned(data: bytes) -> list[tuple[int, bytes]]:
    """Ids by the two bytes before them, in a node that cannot be read as a whole."""
    ids: list[tuple[int, bytes]] = []
    at = 0
    while at + 2 + _ID_BYTES <= len(data):
        if data[at + 1] == _ID_BYTES and data[at] in (0x0A, 0x12):
            ids.append((data[at] >> 3, data[at + 2 : at + 2 + _ID_BYTES]))
            at += 2 + _ID_BYTES
        else:
            at += 1
    return ids


def message_of(data: bytes) -> dict[str, Any] | None:
    """The message that a blob holds; None where it is a node."""
    if data[:1] != b"{":
        return None
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    is_message = isinstance(value, dict) and "role" in value and "content" in value
    return value if is_message else None


def walk(root: bytes, fetch: Fetch) -> Iterator[tuple[str, bytes]]:
    """(id, message) of the leaves under a root, in order.

    A message that a node lists twice was said twice; one that it meets again by another way is not.
    """
    seen: dict[str, tuple[str, int]] = {}
    yield from _walk("", root, fetch, seen, 0)


def _walk(
    ident: str, data: bytes, fetch: Fetch, seen: dict[str, tuple[str, int]], depth: int
) -> Iterator[tuple[str, bytes]]:
    for number, reference in references(data) if depth < DEEPEST else ():
        child = reference.hex()
        way = (ident, number)
        if seen.setdefault(child, way) != way:
            continue
        inner = fetch(child)
        if inner is None:
            continue
        if inner[:1] != b"{":
            yield from _walk(child, inner, fetch, seen, depth + 1)
        elif number == _MESSAGES or message_of(inner) is not None:  # else a file that was read
            yield child, inner


def archives(root: bytes, fetch: Fetch) -> Iterator[tuple[list[str], str]]:
    """(messages that a summary stands for, the summary), the earliest first."""
    for number, reference in node_fields(root):
        node = (
            fetch(reference.hex()) if number in _ARCHIVES and isinstance(reference, bytes) else b""
        )
        inner = [(n, v.hex()) for n, v in node_fields(node or b"") if isinstance(v, bytes)]
        names = [name for n, name in inner if n == _MESSAGES and message_of(fetch(name) or b"")]
        if names:
            yield names, next((name for n, name in inner if n == 4), "")


def subagents(root: bytes) -> Iterator[tuple[str, bytes]]:
    """(id, root) of the chats of sub-agents that are kept with their parent's."""
    for number, entry in node_fields(root):
        if number != _SUBAGENTS or not isinstance(entry, bytes):
            continue
        entry_fields = dict(node_fields(entry))
        name, kept = entry_fields.get(1), entry_fields.get(2)
        state = dict(node_fields(kept)).get(1) if isinstance(kept, bytes) else None
        if isinstance(name, bytes) and name and isinstance(state, bytes):
            yield name.decode("utf-8", "replace"), state


def node_fields(data: bytes) -> list[tuple[int, bytes | int]]:
    """The fields of a node; none where it is no node."""
    try:
        return list(fields(data))
    except BadWire:
        return []


class Turned(NamedTuple):
    """One thing that was said in a turn: field 8 of a root names the turns, each with what was asked
    and the steps that answered. Their times are exact, where the messages have at most the minute,
    and chats without a message have at least these."""

    role: Literal["user", "assistant"]
    text: str
    thinking: str
    time: int | None
    name: str


def turns(root: bytes, fetch: Fetch) -> Iterator[Turned]:
    for turn in _node(root).get(_TURNS, ()):
        agent = _node(_first(_node(_body(turn, fetch)), _AGENT))
        for asked in agent.get(_USER, ())[:1]:
            node = _node(_body(asked, fetch))
            if any(node.get(_SIMULATED, ())):
                continue
            whole = _first(node, _WHOLE_TEXT)
            text = _text(_body(whole, fetch)) if whole else _text(_first(node, _TEXT))
            if text.strip():
                yield Turned("user", text, "", _time(node.get(_ASKED_AT)), _name(asked))
        for step in agent.get(_STEP, ()):
            yield from _said(step, fetch)


def _said(reference: bytes | int, fetch: Fetch) -> Iterator[Turned]:
    node = _node(_body(reference, fetch))
    words, thought = _node(_first(node, _SAID)), _node(_first(node, _THOUGHT))
    text, thinking = _text(_first(words, _TEXT)), _text(_first(thought, _TEXT))
    if text.strip() or thinking.strip():
        yield Turned("assistant", text, thinking, _time(words.get(_SAID_AT)), _name(reference))


def _body(reference: bytes | int, fetch: Fetch) -> bytes:
    """What stands in a field: the node that it names, or one of its own."""
    if not isinstance(reference, bytes):
        return b""
    return (fetch(reference.hex()) if len(reference) == _ID_BYTES else None) or reference


def _name(reference: bytes | int) -> str:
    return hashlib.sha256(reference if isinstance(reference, bytes) else b"").hexdigest()


def _node(data: bytes) -> Node:
    node: Node = {}
    for number, value in node_fields(data):
        node.setdefault(number, []).append(value)
    return node


def _first(node: Node, number: int) -> bytes:
    value = node.get(number, [b""])[0]
    return value if isinstance(value, bytes) else b""


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""  # a node, not words


def _time(values: list[bytes | int] | None) -> int | None:
    """A number, or a message that begins with the seconds; None where it is no likely time."""
    value: bytes | int | None = values[0] if values else None
    if isinstance(value, bytes) and len(value) == 8:
        value = int.from_bytes(value, "little")
    if isinstance(value, bytes):
        value = next((v for v in _node(value).get(1, ()) if isinstance(v, int)), None)
    return parse_time(value) if isinstance(value, int) and _LEAST <= value < _MOST else None


class Clock:
    """When the k-th message with these words was said, by the turns."""

    def __init__(self, spoken: Iterator[Turned]) -> None:
        self._times: dict[tuple[str, bytes], list[int]] = defaultdict(list)
        for said in spoken:
            if said.time is not None and said.text.strip():
                self._times[(said.role, digest(said.text))].append(said.time)

    def time(self, role: str, words: str) -> int | None:
        times = self._times.get((role, digest(words))) if words.strip() else None
        return times.pop(0) if times else None
