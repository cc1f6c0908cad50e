"""Steps: which parts of Cursor's flat streams one model call gave.

Hooks and bubbles come one by one: a thought, a text, a tool call. A step is at most one stretch of
thinking, then one text, then calls; calls of one model call share its id where the format has it,
or run side by side.
"""

from typing import Literal

_ORDER = {"thinking": 0, "text": 1, "call": 2}


class Steps:
    """The step that is open in one conversation."""

    def __init__(self) -> None:
        self._step = ""
        self._stage = -1
        self._group = ""
        self._running: set[str] = set()

    def close(self) -> None:
        """Somebody else spoke, or the turn ended."""
        self._step, self._stage, self._group = "", -1, ""
        self._running.clear()

    def part(self, kind: Literal["thinking", "text", "call"], ident: str, group: str = "") -> str:
        """The step that the part belongs to, named after its first part."""
        if not self._step or not self._goes_on(_ORDER[kind], group):
            self.close()
            self._step = ident
        self._stage = _ORDER[kind]
        self._group = group or self._group
        return self._step

    def began(self, like: str) -> None:
        """A call is running: what is called before it comes back was called beside it."""
        self._running.add(like)

    def ended(self, like: str) -> None:
        self._running.discard(like)

    def _goes_on(self, stage: int, group: str) -> bool:
        if group and self._group:
            return group == self._group
        if stage == _ORDER["call"] == self._stage:
            return bool(self._running)
        return stage > self._stage
