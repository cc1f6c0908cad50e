"""Enrich: what can be read out of a finished conversation, once per kept trajectory."""

from typing import Any

from unspool.catalogue import active
from unspool.context import message_context, summarise
from unspool.reduce.totals import NOT_TYPED
from unspool.tags import Block, blocks
from unspool.trajectory import Message, Trajectory
from unspool.typed import context_kind, typed_text


def enrich(trajectory: Trajectory) -> None:
    """What the person typed, on every user message; and the context that the messages carry."""
    catalogue = active()
    # A list as it was sent to a model, so every message in it is as the program rendered it.
    rendered = trajectory.telemetry_type is not None
    contexts: list[dict[str, Any]] = []
    for index, message in enumerate(trajectory.messages):
        if message.role != "user":
            continue
        found = blocks(message.content)
        set_typed(message, rendered, found)
        if message.copied:
            continue
        made = message_context(message.content, found, message.typed, catalogue)
        if made:
            mode = {"mode": message.mode} if message.mode else {}
            contexts.append({"message_index": index, **mode, **made})
    if contexts:
        trajectory.context["message_contexts"] = contexts
        trajectory.context["message_context"] = summarise(contexts)


def set_typed(message: Message, rendered: bool, found: list[Block]) -> None:
    if message.typed is not None or message.kind in NOT_TYPED:
        return
    if message.kind is None:
        message.kind = context_kind(message.content, rendered, found)
    if message.kind not in NOT_TYPED:
        message.typed = typed_text(message.content, rendered, found)


def drop_reasoning(trajectory: Trajectory) -> None:
    """Leave the models' reasoning out, in the conversation and in its abandoned branches."""
    lists = [trajectory.messages, *(branch.messages for branch in trajectory.branches or ())]
    for messages in lists:
        for message in messages:
            message.thinking = None
