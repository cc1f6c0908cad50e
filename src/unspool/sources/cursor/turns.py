"""The turns under the root of a chat: who said what, and when, beside the messages that were sent.

Field 8 of a root names the turns; a turn is what was asked and the steps that answered. Their times
are exact, where the messages have at most the minute. Chats without a message have at least these.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal, NamedTuple

from unspool.io.times import parse_time
from unspool.sources.cursor.blobs import BadWire, Fetch, fields

_ID_BYTES = 32
_TURNS, _AGENT, _USER, _STEP = 8, 1, 1, 2
_TEXT, _SIMULATED, _WHOLE_TEXT, _ASKED_AT, _SAID_AT = 1, 5, 18, 25, 2
_SAID, _THOUGHT = 1, 3
_LEAST, _MOST = 10**9, 10**17
"""The year 2001 in seconds, and one far away in microseconds."""

Node = dict[int, list[bytes | int]]


class Turned(NamedTuple):
    """One thing that was said in a turn."""

    role: Literal["user", "assistant"]
    text: str
    thinking: str
    time: int | None
    name: str


def turns(root: bytes, fetch: Fetch) -> Iterator[Turned]:
    for turn in _node(root).get(_TURNS, ()):
        agent = _node(_first(_node(_body(turn, fetch)), _AGENT))
        for asked in agent.get(_USER, ())[:1]:
            yield from _asked(asked, fetch)
        for step in agent.get(_STEP, ()):
            yield from _said(step, fetch)


def _asked(reference: bytes | int, fetch: Fetch) -> Iterator[Turned]:
    node = _node(_body(reference, fetch))
    if any(node.get(_SIMULATED, ())):
        return
    whole = _first(node, _WHOLE_TEXT)
    text = _text(_body(whole, fetch)) if whole else _text(_first(node, _TEXT))
    if text.strip():
        yield Turned("user", text, "", _time(node.get(_ASKED_AT)), _name(reference))


def _said(reference: bytes | int, fetch: Fetch) -> Iterator[Turned]:
    node = _node(_body(reference, fetch))
    told, thought = _node(_first(node, _SAID)), _node(_first(node, _THOUGHT))
    text, thinking = _text(_first(told, _TEXT)), _text(_first(thought, _TEXT))
    if text.strip() or thinking.strip():
        yield Turned("assistant", text, thinking, _time(told.get(_SAID_AT)), _name(reference))


def _body(reference: bytes | int, fetch: Fetch) -> bytes:
    """What stands in a field: the node that it names, or one of its own."""
    if not isinstance(reference, bytes):
        return b""
    return (fetch(reference.hex()) if len(reference) == _ID_BYTES else None) or reference


def _name(reference: bytes | int) -> str:
    return hashlib.sha256(reference if isinstance(reference, bytes) else b"").hexdigest()


def _node(data: bytes) -> Node:
    made: Node = {}
    try:
        for number, value in fields(data):
            made.setdefault(number, []).append(value)
    except BadWire:
        return {}
    return made


def _first(node: Node, number: int) -> bytes:
    found = node.get(number, [b""])[0]
    return found if isinstance(found, bytes) else b""


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

    def __init__(self, found: Iterator[Turned]) -> None:
        self._times: dict[tuple[str, bytes], list[int]] = defaultdict(list)
        for said in found:
            if said.time is not None and said.text.strip():
                self._times[(said.role, _digest(said.text))].append(said.time)

    def time(self, role: str, words: str) -> int | None:
        times = self._times.get((role, _digest(words))) if words.strip() else None
        return times.pop(0) if times else None


def _digest(words: str) -> bytes:
    return hashlib.blake2b(words.strip().encode("utf-8", "replace"), digest_size=16).digest()
