"""`agentKv:blob:` in the editor's global database: what was sent to the model, by the hash of it.

A composer's `conversationState` is the root that names its messages: `~` and base64 of a protobuf
node whose field 1 repeats their ids, in order.
"""

import base64
import binascii
from collections.abc import Iterator
from itertools import chain, count
from typing import Any

from unspool.facts import AnyFact, Key
from unspool.io.dirty_json import clean
from unspool.sources.cursor.blobs import archives, message_of, walk
from unspool.sources.cursor.sent import Sent
from unspool.sources.cursor.tables import Keys
from unspool.sources.cursor.turns import Clock, turns

PREFIX = "agentKv:blob:"
RANK = 2
"""The bubbles are what the person saw of it, and know better."""


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

    def under(self, root: bytes, key: Key) -> Iterator[list[AnyFact]]:
        """The facts of each message under a root."""
        clock = Clock(turns(root, self._blob))
        sent = Sent(key, self._origin, RANK, self._offsets, clock=clock)
        summed_up = (name for names, _ in archives(root, self._blob) for name in names)
        archived = ((name, self._blob(name) or b"") for name in summed_up)
        for name, data in chain(archived, walk(root, self._blob)):
            yield _facts(sent, name, data)

    def _blob(self, name: str) -> bytes | None:
        return self._rows.get(PREFIX + name)


def _facts(sent: Sent, name: str, data: bytes) -> list[AnyFact]:
    value = message_of(data)
    return list(sent.read(clean(value), sent.ident(name))) if value is not None else []
