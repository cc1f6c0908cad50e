"""One event of a log: the envelope around it, and what it says.

    {"type":"user.message","data":{"content":"hi"},"id":"…","timestamp":"2026-…Z","parentId":"…"}

`parentId` is the event before, not what this one answers, and in older logs a third of them lead
nowhere: order is the order of the file.
"""

from typing import Any

import msgspec

from unspool.facts import Key
from unspool.io.times import parse_time
from unspool.sources.copilot_cli.texts import whole_number
from unspool.sources.scribe import Scribe, chosen


class Envelope(msgspec.Struct, gc=False):
    type: str = ""
    data: Any = None
    id: str | int | None = None
    timestamp: str | int | float | None = None
    agentId: str | None = None
    ephemeral: bool | None = None
    model: str | None = None


class Event(Scribe, kw_only=True, eq=False, gc=False):
    """The scribe of a log, at one event after the other; the facts are about the event's own agent."""

    root: Key
    """The session; `key` is the sub-agent where the event is one's."""
    envelope: Envelope = msgspec.field(default_factory=Envelope)
    data: dict[str, Any] = msgspec.field(default_factory=dict)

    def begin(self, offset: int, envelope: Envelope, data: dict[str, Any], key: Key) -> None:
        self.facts = []
        self.offset = offset
        self.envelope = envelope
        self.data = data
        self.key = key
        self.time = parse_time(envelope.timestamp)
        self.entry = str(envelope.id)

    @property
    def type(self) -> str:
        return self.envelope.type

    def text(self, name: str) -> str:
        value = self.data.get(name)
        return value.strip() if isinstance(value, str) else ""

    def note_text(self, native: str, name: str, rank: int = 0, **place: Any) -> None:
        """What a field says, where it says anything."""
        if text := self.text(native):
            self.note(name, text, rank, **place)

    def number_of(self, name: str) -> int | None:
        return whole_number(self.data.get(name))

    def count_for_session(self, **report: Any) -> None:
        """What a run reports holds its sub-agents; so must what stands in for a report."""
        if self.key != self.root:
            self.usage(key=self.root, on="call", **report)
            self.note("usage_includes_subagents", True, key=self.root)

    def chosen(self, *names: str) -> dict[str, Any]:
        """These fields of the data, as far as they are there."""
        return chosen(self.data, names)
