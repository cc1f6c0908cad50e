"""Printed streams: what an agent prints, one JSON object per line, while it runs without a screen.

It is another form of the session, of which the agent's own files know more (`codex exec --json`,
`gemini --output-format stream-json`).

A source says what its events state (`Stream`); `read_stream` does the rest.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from unspool.facts import AnyFact
from unspool.io.door import iter_json_lines
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape
from unspool.sources.scribe import Scribe


class Event(msgspec.Struct, gc=False):
    type: str = ""


EventType = TypeVar("EventType", bound=Event)


class Stream(Generic[EventType]):
    """The stream so far: what a line belongs to may be told by those before it."""

    def scribe(self, event: EventType, data: bytes, path: str, offset: int) -> Scribe:
        """Of the conversation that the event is of; its id is empty where none was named yet."""
        raise NotImplementedError

    def tell(self, event: EventType, scribe: Scribe) -> int | None:
        """What the event states, and what waited for it. How many lines, this one and those that had
        waited, turn out to say nothing by themselves; None where its kind is not known."""
        raise NotImplementedError

    def close(self) -> Iterable[AnyFact]:
        """What waits for more when the stream ends."""
        return ()


def read_stream(
    origin: Origin, tally: Tally, recover: bool, shape: Shape[EventType], stream: Stream[EventType]
) -> Iterator[AnyFact]:
    for offset, data, event in iter_json_lines(origin, shape, tally, recover):
        scribe = stream.scribe(event, data, origin.path, offset)
        if not scribe.key[1]:
            tally.problems += 1
            scribe.problem("missing-conversation-id", data)
        elif (silent := stream.tell(event, scribe)) is None:
            tally.unrecognise(event.type or "no type", origin.path, offset)
        else:
            tally.noise += silent
        yield from scribe.facts
    yield from stream.close()
