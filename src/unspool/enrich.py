"""Enrich: what can be read out of a finished conversation, once per kept trajectory."""

from typing import Any

from unspool.catalogue import Catalogue, active
from unspool.context import message_context, summarise
from unspool.reduce.totals import NOT_TYPED
from unspool.tags import Block, blocks
from unspool.trajectory import Message, Trajectory
from unspool.typed import read_wording


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
        _set_typed(message, found, catalogue, rendered)
        if message.copied:
            continue
        made = message_context(message.content, found, message.typed, catalogue)
        if made:
            mode = {"mode": message.mode} if message.mode else {}
            contexts.append({"message_index": index, **mode, **made})
    if contexts:
        trajectory.context["message_contexts"] = contexts
        trajectory.context["message_context"] = summarise(contexts)
    for branch in trajectory.branches or ():
        for message in branch.messages:
            if message.role == "user":
                _set_typed(message, blocks(message.content), catalogue, rendered)


def _set_typed(message: Message, found: list[Block], catalogue: Catalogue, rendered: bool) -> None:
    if message.typed is None and message.kind not in NOT_TYPED:
        wording = read_wording(message.content, found, catalogue, rendered)
        message.kind = message.kind or wording.kind
        message.typed = wording.typed


def drop_reasoning(trajectory: Trajectory) -> None:
    """Leave the models' reasoning out, in the conversation and in its abandoned branches."""
    lists = [trajectory.messages, *(branch.messages for branch in trajectory.branches or ())]
    for messages in lists:
        for message in messages:
            message.thinking = None
