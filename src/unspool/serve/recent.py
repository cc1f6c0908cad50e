"""Recent: what was made lately for one question stays at hand for the next, whichever thread asks."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Values by key, each as it was at one version; within a weight, and the last one in any case."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[Hashable, tuple[object, T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, version: object, make: Callable[[], T], weight: int = 1) -> T:
        with self._lock:
            known = self._kept.get(key)
            if known is not None and known[0] == version:
                self._kept.move_to_end(key)
                return known[1]
        value = make()
        with self._lock:
            self._kept[key] = (version, value, weight)
            self._kept.move_to_end(key)
            total = sum(weight for _, _, weight in self._kept.values())
            while total > self.most and len(self._kept) > 1:
                total -= self._kept.popitem(last=False)[1][2]
        return value
