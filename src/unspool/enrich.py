"""Enrich: what can be read out of a finished conversation, once per trajectory."""

from unspool.tags import typed_text
from unspool.trajectory import Trajectory


def enrich(trajectory: Trajectory) -> None:
    """What the person typed, on every user message that does not say it."""
    for message in trajectory.messages:
        if message.role == "user" and message.kind is None and message.typed is None:
            message.typed = typed_text(message.content)
