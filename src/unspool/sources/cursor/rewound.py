"""What the root of a chat does not name any more: history that a summary stands for, and what the
person took back. The nodes that were roots before it still do."""

from collections.abc import Callable, Iterable

Branch = tuple[int, list[str]]
"""(how many messages of the chat stand before its fork, the messages that were abandoned)."""


class Layout:
    """The messages of a chat in order, and its abandoned branches."""

    def __init__(self, current: Iterable[str], is_summary: Callable[[str], bool]) -> None:
        self.main = list(current)
        self.branches: list[Branch] = []
        self._is_summary = is_summary

    def add(self, earlier: list[str]) -> None:
        """The messages that an earlier root names; the latest such root comes first."""
        main = self.main
        at = 0
        while at < min(len(main), len(earlier)) and main[at] == earlier[at]:
            at += 1
        rest = earlier[at:]
        if not rest:
            return
        if at < len(main) and self._is_summary(main[at]):
            main[at:at] = rest
            self.branches = [
                (fork + len(rest) if fork > at else fork, names) for fork, names in self.branches
            ]
            return
        # A root in the middle of what was taken back names the beginning of it.
        self.branches = [
            (fork, names)
            for fork, names in self.branches
            if fork != at or rest[: len(names)] != names
        ]
        self.branches.append((at, rest))

    def before(self, place: int) -> list[Branch]:
        """The branches to be told before the message at a place: those that it came instead of.

        What was taken back without anything said since is told before the last message, though it
        follows it: the last message that is told is the end of the thread.
        """
        last = place == len(self.main) - 1
        return [
            branch for branch in self.branches if branch[0] == place or (last and branch[0] > place)
        ]
