"""Derived: fields that follow from the messages, and so need not be told."""

import msgspec

from unspool.reduce.runs import Runs
from unspool.reduce.totals import add_model_usage, count_modes, number_segments, number_turns
from unspool.trajectory import Mark, Message, Trajectory

FOREIGN = "atif"
"""The source of a trajectory that was read from a document which is not ours."""


def derive(trajectory: Trajectory) -> None:
    """Fill in what follows from the messages, where it is not known already."""
    messages = trajectory.messages
    if all(message.turn is None for message in messages):
        number_turns(messages)
    if not any(message.segment for message in messages):
        number_segments(trajectory)
    if not trajectory.mode_distribution and not trajectory.metadata:
        count_modes(trajectory)
    times = [message.timestamp for message in messages if message.timestamp]
    trajectory.started_at = trajectory.started_at or min(times, default=None)
    trajectory.ended_at = trajectory.ended_at or max(times, default=None)
    if trajectory.model_usage is None:
        add_model_usage(trajectory, Runs())


def without_derived(trajectory: Trajectory) -> Trajectory:
    """A copy in which what `derive` would find is absent; its messages are copies too."""
    bare = msgspec.structs.replace(
        trajectory,
        messages=[_bare(message) for message in trajectory.messages],
        started_at=None,
        ended_at=None,
        model_usage=None,
    )
    if trajectory.source == FOREIGN:
        _drop_enrichment(bare)
    again = msgspec.structs.replace(bare, messages=[_bare(m) for m in bare.messages])
    derive(again)
    for name in ("started_at", "ended_at", "model_usage"):
        known = getattr(trajectory, name)
        if known is not None and known != getattr(again, name):
            setattr(bare, name, known)
    pairs = list(zip(bare.messages, trajectory.messages, again.messages, strict=True))
    if any(message.turn != found.turn for _, message, found in pairs):
        for made, message, _ in pairs:
            made.turn = message.turn
    if any(message.segment != found.segment for _, message, found in pairs):
        for made, message, _ in pairs:
            made.segment = message.segment
    return bare


def _drop_enrichment(bare: Trajectory) -> None:
    """No foreign document says what was typed, what is injected, what the context was: we do."""
    bare.context = {k: v for k, v in bare.context.items() if not k.startswith("message_context")}
    for message in bare.messages:
        message.typed = None
        if message.kind != "summary":
            message.kind = None


def _bare(message: Message) -> Message:
    return msgspec.structs.replace(message, turn=None, segment=0)


def untold(marks: list[Mark], told: list[Mark]) -> list[Mark]:
    """The marks that no step tells of, as they are."""
    return [mark for mark in marks if mark not in told]
