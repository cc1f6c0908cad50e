"""Anchors: where the records of an origin stand among those of the others, by what they share."""

from bisect import bisect_right
from typing import Protocol

Channel = tuple[int, str]
"""(rank, origin): those who say the same thing as well as each other, in one order."""


class Placed(Protocol):
    """A message or call in the making: where it stands may still change."""

    place: float


class Anchors:
    """Where the records of an origin stand among those of the others, by what they share."""

    def __init__(self) -> None:
        self._pairs: dict[str, list[tuple[float, Placed | float]]] = {}
        self._untimed: set[str] = set()
        self._inner: dict[Channel, list[tuple[float, Placed | float]]] = {}
        """Of a channel that stands apart in its origin: its ties are not those of the others there."""

    def tie_inside(self, channel: Channel, place: float, target: Placed) -> None:
        self._inner.setdefault(channel, []).append((place, target))

    def tie(self, origin: str, place: float, target: Placed | float, timed: bool) -> None:
        self._pairs.setdefault(origin, []).append((place, target))
        if not timed:
            self._untimed.add(origin)

    def knows(self, origin: str) -> bool:
        return origin in self._pairs

    def settle(self) -> None:
        """No more ties will come. Origins whose ties all have times were woven in by time."""
        self._pairs = {
            origin: sorted(pairs, key=lambda pair: pair[0])
            for origin, pairs in self._pairs.items()
            if origin in self._untimed
        }
        for pairs in self._inner.values():
            pairs.sort(key=lambda pair: pair[0])

    def place(self, channel: Channel, place: float, total: int) -> float:
        """The place of an unmatched record: right behind the last one before it that matched.

        What it is tied to must have its own place by then: better channels are settled first.
        """
        pairs = self._inner.get(channel) or self._pairs.get(channel[1])
        if not pairs:
            return place
        at = bisect_right(pairs, place, key=lambda pair: pair[0])
        if not at:
            return _place_of(pairs[0][1]) - 1 + (place + 1) / (total + 2)
        # Of the last few: tools that run side by side come back in another order.
        base = max(_place_of(target) for _, target in pairs[max(at - SIDE_BY_SIDE, 0) : at])
        return base + (place + 1) / (total + 2)


SIDE_BY_SIDE = 4


def _place_of(target: Placed | float) -> float:
    return target if isinstance(target, int | float) else target.place
