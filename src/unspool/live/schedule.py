"""Schedule: when a conversation that changed is made anew.

One more line costs as much as the whole conversation, so changes are gathered: until nothing came
for 100 ms, but no longer than 500 ms, and not again before max(250 ms, four times what the last
time took). A turn or a session that ended goes first, and does not wait for quiet.
"""

import time
from collections.abc import Iterable

import msgspec

from unspool.facts import Key

QUIET_SECONDS = 0.1
LONGEST_SECONDS = 0.5
LEAST_BETWEEN_SECONDS = 0.25
COST = 4
MOST_AT_ONCE = 4
"""More would wait for each other; fewer would be linked more often."""


class Due(msgspec.Struct):
    """A conversation that waits."""

    first: float
    last: float
    urgent: bool = False
    arrived_ns: int = 0
    """When the oldest event arrived that it waits with; 0 where none did."""


class Schedule:
    def __init__(self) -> None:
        self.waiting: dict[Key, Due] = {}
        self._not_before: dict[Key, float] = {}

    def touch(self, keys: Iterable[Key], urgent: bool = False, arrived_ns: int = 0) -> None:
        now = time.monotonic()
        for key in keys:
            due = self.waiting.setdefault(key, Due(now, now))
            due.last = now
            due.urgent = due.urgent or urgent
            if arrived_ns and not 0 < due.arrived_ns <= arrived_ns:
                due.arrived_ns = arrived_ns

    def _due_at(self, key: Key, due: Due) -> float:
        ready = min(due.last + QUIET_SECONDS, due.first + LONGEST_SECONDS)
        return max(due.first if due.urgent else ready, self._not_before.get(key, 0))

    def take(self, only_urgent: bool = False) -> dict[Key, Due]:
        """What is due now, ends of turns first."""
        now = time.monotonic()
        ready = [
            key
            for key, due in self.waiting.items()
            if self._due_at(key, due) <= now and (due.urgent or not only_urgent)
        ]
        ready.sort(key=lambda key: (not self.waiting[key].urgent, self.waiting[key].first))
        return {key: self.waiting.pop(key) for key in ready[:MOST_AT_ONCE]}

    def done(self, keys: Iterable[Key], seconds: float) -> None:
        """They were made anew, which took so long for each."""
        now = time.monotonic()
        for key in keys:
            self._not_before[key] = now + max(LEAST_BETWEEN_SECONDS, COST * seconds)
        if len(self._not_before) > 10_000:
            self._not_before = {k: at for k, at in self._not_before.items() if at > now}

    def wait_seconds(self, most: float) -> float:
        """Until something is due."""
        if not self.waiting:
            return most
        now = time.monotonic()
        soonest = min(self._due_at(key, due) for key, due in self.waiting.items())
        return min(max(soonest - now, 0), most)
