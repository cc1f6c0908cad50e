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
        self.rest: list[str] = []
        """What there is where nothing tells an order."""
        self._is_summary = is_summary

    def add(self, earlier: list[str]) -> None:
        """The messages that an earlier root names; the latest such root comes first."""
        known = set(self.main)
        at = 0
        lost: list[str] = []
        for name in earlier:
            if name not in known:
                lost.append(name)
                continue
            at = self._put(at, lost)
            lost = []
            at = self._behind(name, at)
        self._put(at, lost)

    def _behind(self, name: str, at: int) -> int:
        """The place behind a message, where it stands at this one or later."""
        if at < len(self.main) and self.main[at] == name:
            return at + 1
        try:
            return self.main.index(name, at) + 1
        except ValueError:
            return at

    def _put(self, at: int, lost: list[str]) -> int:
        """What stood at a place: before a summary it is history, else it was taken back."""
        if not lost:
            return at
        if at < len(self.main) and self._is_summary(self.main[at]):
            self._insert(at, lost)
            return at + len(lost)
        # A root in the middle of what was taken back names the beginning of it.
        self.branches = [
            (fork, names)
            for fork, names in self.branches
            if fork != at or lost[: len(names)] != names
        ]
        self.branches.append((at, lost))
        return at

    def recall(self, archived: list[str], summary: str) -> None:
        """The messages that a summary stands for, as the root's own archive names them; those of an
        earlier summary come first."""
        known = set(self.main)
        rest = [name for name in archived if name not in known]
        if summary in known:
            at = self.main.index(summary)
        else:
            at = next((i for i, name in enumerate(self.main) if self._is_summary(name)), 0)
        self._insert(at, rest)

    def _insert(self, at: int, names: list[str]) -> None:
        self.main[at:at] = names
        self.branches = [
            (fork + len(names) if fork > at else fork, kept) for fork, kept in self.branches
        ]

    def before(self, place: int) -> list[Branch]:
        """The branches to be told before the message at a place: those that it came instead of.

        What was taken back without anything said since is told before the last message, though it
        follows it: the last message that is told is the end of the thread.
        """
        last = place == len(self.main) - 1
        return [
            branch for branch in self.branches if branch[0] == place or (last and branch[0] > place)
        ]
