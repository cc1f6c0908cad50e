"""Reduction: what comes of the facts of one conversation."""

import msgspec

from unspool.facts import Problem
from unspool.trajectory import Trajectory


class Reduction(msgspec.Struct):
    """The trajectory of a conversation, those of its side threads, and what fell away."""

    trajectories: list[Trajectory]
    superseded: int = 0
    problems: list[Problem] = []
    """What only showed when message lists were decoded."""
