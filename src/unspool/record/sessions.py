"""Sessions: the ids of conversations that nobody named."""

from collections import OrderedDict

from unspool.record.identity import choose_session_id
from unspool.record.locks import new_lock
from unspool.record.spans import now

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
        made = self.choose(None, None, label)
        with self._lock:
            made = self._labels.setdefault(label, made)
            self._labels.move_to_end(label)
            while len(self._labels) > LABELS:
                self._labels.popitem(last=False)
        return made

    def clear(self) -> None:
        with self._lock:
            self._labels.clear()
