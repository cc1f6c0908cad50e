"""One event of a log: the envelope around it, and what it says.

    {"type":"user.message","data":{"content":"hi"},"id":"…","timestamp":"2026-…Z","parentId":"…"}

`parentId` is the event before, not what this one answers, and in older logs a third of them lead
nowhere: order is the order of the file.
"""

import zlib
from typing import Any

import msgspec

from unspool.facts import PREVIOUS, Key
from unspool.io.times import parse_time
from unspool.sources.copilot_cli.texts import snake, whole_number
from unspool.sources.scribe import Scribe


class Envelope(msgspec.Struct, gc=False):
    type: str = ""
    data: Any = None
    id: str | int | None = None
    timestamp: str | int | float | None = None
    agentId: str | None = None
    ephemeral: bool | None = None
    model: str | None = None


_EMPTY: tuple[Any, ...] = ("", [], {})


class Event(Scribe):
    """One event, and the scribe of the facts that it states about its own agent."""

    __slots__ = ("agent", "data", "ephemeral", "model", "root", "type")

    def __init__(
        self, envelope: Envelope, data: dict[str, Any], key: Key, root: Key, origin: str,
        offset: int, rank: int = 0,
    ) -> None:  # fmt: skip
        # As Scribe does, without the call: there is an event for every line.
        self.facts = []
        self.key = key
        self.origin = origin
        self.offset = offset
        self.time = parse_time(envelope.timestamp)
        self.entry = str(envelope.id)
        self.after = PREVIOUS
        self.rank = rank
        self.side = False
        self.type = envelope.type
        self.data = data
        self.agent = envelope.agentId or ""
        self.ephemeral = bool(envelope.ephemeral)
        self.model = (envelope.model or "").strip()
        self.root = root
        """The session; `key` is the sub-agent where the event is one's."""

    @property
    def place(self) -> str:
        return f"{self.origin}:{self.offset}"

    def text(self, name: str) -> str:
        value = self.data.get(name)
        return value.strip() if isinstance(value, str) else ""

    def number_of(self, name: str) -> int | None:
        return whole_number(self.data.get(name))

    def chosen(self, *names: str) -> dict[str, Any]:
        """These fields of the data, as far as they are there."""
        fields: dict[str, Any] = {}
        for name in names:
            value = self.data.get(name)
            if value or (value is not None and value not in _EMPTY):
                fields[snake(name)] = value
        return fields


def made_id(offset: int, line: bytes) -> str:
    """For events without an id (flat streams): the same line at the same place is the same event."""
    return f"{offset}-{zlib.crc32(line):08x}"
