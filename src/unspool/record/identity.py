"""Names of sessions and files, as Copilot Chat's trajectory logger made them."""

import os
import random
import re
import time
from collections import OrderedDict

from unspool.record.locks import new_lock

_OTHER = re.compile(r"[^a-z0-9]+")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LABEL_CHARS = 30
_NAME_CHARS = 50


# A generator of our own: uuid4 asks the system every time, which is most of its cost.
_random = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def now() -> int:
    return time.time_ns() // 1000


def new_id() -> str:
    return f"{_random.getrandbits(128):032x}"


def slug(text: str) -> str:
    """Lower-case letters and digits, everything else one dash."""
    return _OTHER.sub("-", text.lower()).strip("-")


def short_hash(text: str) -> str:
    """The 32-bit string hash of JavaScript programs, over UTF-16 units, in base 36."""
    number = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        number = (number * 31 + units[at] + (units[at + 1] << 8)) & 0xFFFFFFFF
    number, digits = abs(number - (1 << 32) if number & 0x80000000 else number), ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def choose_session_id(
    invocation_id: str | None, session_id: str | None, label: str, moment: int | None
) -> str:
    """The sub-agent's invocation first, then the chat's session, else a readable id out of the label
    and the moment (microseconds) that it was first used."""
    if invocation_id or session_id:
        return invocation_id or session_id or ""
    name = f"{slug(label)[:_LABEL_CHARS]}-{short_hash(label)}"
    return name if moment is None else f"{name}-{moment // 1000}"


def subagent_file(name: str, session_id: str) -> str:
    return f"{(slug(name) or 'subagent')[:_NAME_CHARS]}-{session_id}.trajectory.json"


LABELS = 256
"""Labels that are remembered; one that was forgotten begins a new session."""


class Sessions:
    """Generated ids, one per label."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._lock = new_lock()
        self._labels: OrderedDict[str, str] = OrderedDict()
        self._last = 0

    def __len__(self) -> int:
        return len(self._labels)

    def choose(self, invocation_id: str | None, session_id: str | None, label: str) -> str:
        """The sub-agent's invocation, else the chat's session, else a new id from the label."""
        with self._lock:
            # Two of one label in one millisecond are still two.
            self._last = moment = max(now(), self._last + 1000)
        return choose_session_id(invocation_id, session_id, label or self._agent, moment)

    def find(self, invocation_id: str | None, session_id: str | None, label: str) -> str:
        """The same, but the id that was generated for the label before stands for it."""
        if invocation_id or session_id:
            return choose_session_id(invocation_id, session_id, label, None)
        label = label or self._agent
        session = self.choose(None, None, label)
        with self._lock:
            session = self._labels.setdefault(label, session)
            self._labels.move_to_end(label)
            while len(self._labels) > LABELS:
                self._labels.popitem(last=False)
        return session

    def clear(self) -> None:
        with self._lock:
            self._labels.clear()
