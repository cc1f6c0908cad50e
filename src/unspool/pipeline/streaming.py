"""Streaming: a long conversation goes out some messages at a time, and is never held whole."""

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

import msgspec

from unspool import sinks
from unspool.io.longjson import encode
from unspool.io.longtext import is_long
from unspool.link import Patch, give_children
from unspool.pipeline.enrich import Enrichment
from unspool.pipeline.job import Job
from unspool.pipeline.spool import Slot
from unspool.sinks import Piece
from unspool.trajectory import Message, Trajectory, widened


@runtime_checkable
class StreamingSink(Protocol):
    """A sink whose shape has the messages one after the other."""

    def write_long(
        self, trajectory: Trajectory, batches: Iterable[list[Message]]
    ) -> Iterator[Piece]:
        """The conversation, whose messages come some at a time."""


def streaming_sink(job: Job, members: list[tuple[Slot, Patch | None]]) -> StreamingSink | None:
    """The sink, if it can stream what is so long that it should be."""
    sink = sinks.load(job.sink)
    slot, patch = members[0]
    if not isinstance(sink, StreamingSink) or len(members) > 1 or not is_long(slot.size):
        return None
    return None if patch is not None and patch.needs_messages else sink


class Stream:
    """The messages of a conversation, finished as they come."""

    def __init__(
        self,
        trajectory: Trajectory,
        batches: Iterator[list[Message]],
        patch: Patch | None,
        reasoning: bool,
    ) -> None:
        self.trajectory = trajectory
        self.count = 0
        self._batches = batches
        self._patch = patch
        self._reasoning = reasoning

    def batches(self) -> Iterator[list[Message]]:
        """When all have gone out, the trajectory knows what was read in them."""
        enrichment = Enrichment(self.trajectory)
        contexts: list[msgspec.Raw] = []
        for batch in self._batches:
            for message in batch:
                context = enrichment.read(self.count, message)
                if context is not None:
                    contexts.append(msgspec.Raw(encode(context)))
                self._finish(message)
                self.count += 1
            yield batch
        enrichment.finish(self.trajectory, contexts)

    def messages(self) -> Iterator[Message]:
        """One at a time, as whoever looks for words in them needs them: with whole texts."""
        for batch in self.batches():
            yield from map(widened, batch)

    def _finish(self, message: Message) -> None:
        if self._patch is not None:
            give_children(message.tool_calls or (), self._patch)
        if not self._reasoning:
            message.thinking = None
