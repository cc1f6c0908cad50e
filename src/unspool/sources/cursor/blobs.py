"""The blobs of a command-line chat: a tree of protobuf nodes whose leaves are JSON messages.

The root names the messages of the conversation as it stands; what was rewound hangs on no root any
more. Nobody publishes the schema, so nodes are read by their wire format alone: a field of 32 bytes
that is the id of a blob is a reference to it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

_ID_BYTES = 32
DEEPEST = 64
_MESSAGES = 1
_LEADING = (_MESSAGES, 2, 4, 8)
"""Fields that lead to what was said. Others hold files, plans, archives, the chats of sub-agents,
and states that were."""
_ARCHIVES = (11, 13)
_SUBAGENTS = 16

Fetch = Callable[[str], bytes | None]


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
        found = list(fields(data))
    except BadWire:
        return [] if depth else _scanned(data)
    made: list[tuple[int, bytes]] = []
    for number, value in found:
        if isinstance(value, int) or number not in _LEADING:
            continue
        if len(value) == _ID_BYTES:
            made.append((number, value))
        elif len(value) > _ID_BYTES and value[:1] != b"{" and depth < DEEPEST:
            made += [(number * 100 + n, ref) for n, ref in references(value, depth + 1)]
    return made


def _scanned(data: bytes) -> list[tuple[int, bytes]]:
    """Ids by the two bytes before them, in a node that cannot be read as a whole."""
    made: list[tuple[int, bytes]] = []
    at = 0
    while at + 2 + _ID_BYTES <= len(data):
        if data[at + 1] == _ID_BYTES and data[at] in (0x0A, 0x12):
            made.append((data[at] >> 3, data[at + 2 : at + 2 + _ID_BYTES]))
            at += 2 + _ID_BYTES
        else:
            at += 1
    return made


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
        known = dict(node_fields(entry))
        name, kept = known.get(1), known.get(2)
        state = dict(node_fields(kept)).get(1) if isinstance(kept, bytes) else None
        if isinstance(name, bytes) and name and isinstance(state, bytes):
            yield name.decode("utf-8", "replace"), state


def node_fields(data: bytes) -> list[tuple[int, bytes | int]]:
    """The fields of a node; none where it is no node."""
    try:
        return list(fields(data))
    except BadWire:
        return []
