"""Reduction: what comes of the facts of one conversation."""

import msgspec

from unspool.facts import Problem
from unspool.reduce.naming import Naming
from unspool.trajectory import Trajectory


class Reduction(msgspec.Struct):
    """The trajectory of a conversation, those of its side threads, and what fell away."""

    trajectories: list[Trajectory]
    superseded: int = 0
    problems: list[Problem] = []
    """What only showed when message lists were decoded."""
    naming: Naming = msgspec.field(default_factory=Naming)
    """Titles that the conversation has for others, and what they know it by."""

    def conversations(self) -> list[tuple[Trajectory, Naming]]:
        """Those that hold something, be it only another one's title."""
        return [
            (made, naming)
            for number, made in enumerate(self.trajectories)
            for naming in [self.naming if number == 0 else Naming()]
            if made.messages or made.checkpoints or naming.offered
        ]
