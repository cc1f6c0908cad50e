"""The blobs of a conversation: a tree of protobuf nodes whose leaves are JSON messages.

The root names the messages of the conversation as it stands; what was rewound hangs on no root any
more. Nobody publishes the schema, so nodes are read by their wire format alone: a field of 32 bytes
that is the id of a blob is a reference to it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from unspool.io.values import field_of

_ID_BYTES = 32
_DEEPEST = 64
_MESSAGES = 1
_LEADING = (_MESSAGES, 2, 4, 8)
"""Fields that lead to what was said. Others hold files, plans, archives, the chats of sub-agents,
and states that were."""
_ARCHIVES = (11, 13)
_SUBAGENTS = 16

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
        return self.data(number).decode("utf-8", "replace")

    def number(self, number: int) -> int:
        return next((v for n, v in self.fields if n == number and isinstance(v, int)), 0)


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
    """The messages under a root, in order: those that it lists (one that is listed twice was said
    twice), or all that any of its fields leads to, where these are more. Those that a summary stands
    for, which its archive names, come before the summary."""
    names = list(_walk(root, fetch, (_MESSAGES,), set()))
    everything = dict.fromkeys(_walk(root, fetch, _LEADING, set()))
    if everything.keys() - set(names):
        names = list(everything)
    for number, reference in Node(root).fields:
        if number in _ARCHIVES and isinstance(reference, bytes):
            archive = Node(fetch(reference.hex()) or b"")
            listed = (one.hex() for one in archive.all(_MESSAGES))
            history = [n for n in listed if n not in names and message_of(fetch(n)) is not None]
            summary = archive.data(4).hex()
            if summary not in names:
                summary = next((name for name in names if is_summary(fetch(name))), "")
            at = names.index(summary) if summary else 0
            names[at:at] = history
    return names


def _walk(
    data: bytes, fetch: Fetch, fields: tuple[int, ...], seen: set[str], depth: int = 0
) -> Iterator[str]:
    """The messages that a node, those inside it and those that it names lead to."""
    for number, value in Node(data).fields if depth < _DEEPEST else ():
        if number not in fields or isinstance(value, int) or len(value) < _ID_BYTES:
            continue
        if len(value) > _ID_BYTES:
            yield from _walk(value, fetch, fields, seen, depth + 1)
            continue
        name = value.hex()
        inner = fetch(name) or b""
        if inner[:1] == b"{":
            is_listed = number == _MESSAGES and not depth
            if is_listed or message_of(inner) is not None:  # else a file that was read
                yield name
        elif name not in seen:
            seen.add(name)
            yield from _walk(inner, fetch, fields, seen, depth + 1)


def subagents(ident: str, root: bytes, depth: int = 0) -> Iterator[tuple[str, str, bytes]]:
    """(id, id of the parent, root) of the chats of sub-agents that are kept with their parent's."""
    for entry in map(Node, Node(root).all(_SUBAGENTS) if depth < _DEEPEST else ()):
        name, state = entry.text(1), entry.node(2).data(1)
        if name and state:
            yield name, ident, state
            yield from subagents(name, state, depth + 1)
