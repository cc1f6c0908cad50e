"""`agentKv:blob:` in the editor's global database: what was sent to the model, by the hash of it.

A composer's `conversationState` is the root that names its messages. Older composers have none:
their messages are told by the request that they were made in, and stand in the order of their rows
(a blob is written once and never changed).
"""

import base64
import binascii
from collections.abc import Iterator
from itertools import chain, count
from typing import Any

import msgspec

from unspool.facts import AnyFact, Key
from unspool.io.dirty_json import clean
from unspool.sources.cursor.blobs import archives, message_of, walk
from unspool.sources.cursor.entries import request_id
from unspool.sources.cursor.kv import Keys
from unspool.sources.cursor.sent import Sent
from unspool.sources.cursor.turns import Clock, turns

PREFIX = "agentKv:blob:"
RANK = 2
"""The bubbles are what the person saw of it, and know better."""


class _Cursor(msgspec.Struct):
    requestId: Any = None


class _Options(msgspec.Struct):
    cursor: _Cursor | None = None


class _Peek(msgspec.Struct):
    """As much of a message as tells whose it is."""

    role: str
    content: msgspec.Raw = msgspec.Raw(b"")
    providerOptions: _Options | None = None


_peek = msgspec.json.Decoder(_Peek).decode
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def root_of(composer: dict[str, Any]) -> bytes:
    """The root that a composer holds, as `~` and base64 or in hexadecimal; empty where it has none."""
    state = composer.get("conversationState")
    if not isinstance(state, str):
        return b""
    try:
        if not state.startswith("~"):
            return bytes.fromhex(state)
        return base64.b64decode(state[1:] + "==")
    except (binascii.Error, ValueError):
        return b""


class Sendings:
    """What one database holds of what was sent, told conversation by conversation."""

    def __init__(self, rows: Keys, origin: str, offsets: "count[int]") -> None:
        self._rows = rows
        self._origin = origin
        self._offsets = offsets
        self._reached: set[str] = set()
        self.requests: dict[str, Key] = {}
        """Request → the conversation, of those without a root."""
        self.calls: dict[str, Key] = {}
        """Calls → the conversation, of the same."""
        self.unanswered: dict[str, Key] = {}
        """Of these, those whose result the bubbles do not hold."""

    def under(self, root: bytes, key: Key) -> Iterator[list[AnyFact]]:
        """The facts of each message under a root."""
        clock = Clock(turns(root, self._blob))
        sent = Sent(key, self._origin, RANK, self._offsets, clock=clock)
        summed_up = (name for names, _ in archives(root, self._blob) for name in names)
        archived = ((name, self._blob(name) or b"") for name in summed_up)
        for name, data in chain(archived, walk(root, self._blob)):
            self._reached.add(name)
            yield _facts(sent, name, data)

    def rest(self) -> Iterator[list[AnyFact]]:
        """The facts of each message that no root names, but a request or a call does."""
        sent: dict[Key, Sent] = {}
        for key, _, name in sorted(self._owned()) if self.requests or self.calls else ():
            if key not in sent:
                sent[key] = Sent(key, self._origin, RANK, self._offsets)
            yield _facts(sent[key], name, self._blob(name) or b"")

    def _blob(self, name: str) -> bytes | None:
        return self._rows.get(PREFIX + name)

    def _owned(self) -> Iterator[tuple[Key, int, str]]:
        """(whose it is, its row, its name), in any order."""
        answers: list[tuple[int, str, list[str]]] = []
        wanted = dict(self.unanswered)
        for number, row, data in self._rows.numbered(PREFIX):
            name = row[len(PREFIX) :]
            if data is None or data[:1] != b"{" or name in self._reached:
                continue
            try:
                value = _peek(data)
            except _DAMAGE:
                continue
            if value.role == "tool":
                answers.append((number, name, _call_ids(value)))
                continue
            own = value.providerOptions.cursor if value.providerOptions is not None else None
            idents = _call_ids(value) if value.role == "assistant" else []
            key = self.requests.get(request_id(own.requestId)) if own is not None else None
            key = key or _owner(idents, self.calls)
            if key is not None:
                yield key, number, name
                wanted.update((ident, key) for ident in idents if ident not in self.calls)
        for number, name, idents in answers:
            key = _owner(idents, wanted)
            if key is not None:
                yield key, number, name


def _owner(calls: list[str], owners: dict[str, Key]) -> Key | None:
    return next((owners[call] for call in calls if call in owners), None)


def _facts(sent: Sent, name: str, data: bytes) -> list[AnyFact]:
    value = message_of(data)
    return list(sent.read(clean(value), sent.ident(name))) if value is not None else []


def _call_ids(value: _Peek) -> list[str]:
    try:
        parts: Any = msgspec.json.decode(value.content)
    except _DAMAGE:
        return []
    found = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [ident for part in found if isinstance(ident := part.get("toolCallId"), str)]
