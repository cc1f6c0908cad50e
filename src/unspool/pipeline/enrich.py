"""Enrich: what can be read out of a finished conversation, once per kept trajectory."""

from collections.abc import Sequence
from typing import Any

from unspool.prompts.catalogue import active
from unspool.prompts.context import message_context, summarise
from unspool.prompts.tags import Block, blocks
from unspool.prompts.typed import read_wording
from unspool.reduce.totals import NOT_TYPED
from unspool.trajectory import Message, Trajectory


def enrich(trajectory: Trajectory) -> None:
    """What the person typed, on every user message; and the context that the messages carry."""
    enrichment = Enrichment(trajectory)
    told = (enrichment.read(index, message) for index, message in enumerate(trajectory.messages))
    contexts = list(filter(None, told))
    enrichment.finish(trajectory, contexts)


class Enrichment:
    """The messages of a conversation, read one after the other."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._catalogue = active()
        # A list as it was sent to a model, so every message in it is as the program rendered it.
        self._rendered = trajectory.telemetry_type is not None
        self._fields: set[str] = set()

    def read(self, index: int, message: Message) -> dict[str, Any] | None:
        """What was typed is set; the context that the message carries, if any."""
        if message.role != "user":
            return None
        found = blocks(message.content)
        self._set_typed(message, found)
        if message.copied:
            return None
        made = message_context(message.content, found, message.typed, self._catalogue)
        if not made:
            return None
        self._fields.update(made)
        mode = {"mode": message.mode} if message.mode else {}
        return {"message_index": index, **mode, **made}

    def finish(self, trajectory: Trajectory, contexts: Sequence[Any]) -> None:
        """What is known when all messages were read; `contexts` may be JSON already."""
        if contexts:
            trajectory.context["message_contexts"] = contexts
            trajectory.context["message_context"] = summarise([self._fields])
        for branch in trajectory.branches or ():
            for message in branch.messages:
                if message.role == "user":
                    self._set_typed(message, blocks(message.content))

    def _set_typed(self, message: Message, found: list[Block]) -> None:
        if message.typed is None and message.kind not in NOT_TYPED:
            wording = read_wording(message.content, found, self._catalogue, self._rendered)
            message.kind = message.kind or wording.kind
            message.typed = wording.typed


def drop_reasoning(trajectory: Trajectory) -> None:
    """Leave the models' reasoning out, in the conversation and in its abandoned branches."""
    lists = [trajectory.messages, *(branch.messages for branch in trajectory.branches or ())]
    for messages in lists:
        for message in messages:
            message.thinking = None
