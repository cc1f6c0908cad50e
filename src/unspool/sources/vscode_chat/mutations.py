"""The mutation log of a stored chat: an initial state, then changes to it, one per line.

    kind 0  the state is v                       kind 2  at k: cut to length i, then append v
    kind 1  at k set v; no v: remove the key     kind 3  at k remove the key

VS Code refuses a log without its initial state; the data is still there and is read.
"""

from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Raw

from unspool.io.door import UNREADABLE
from unspool.io.values import str_of

INITIAL, SET, PUSH, DELETE = range(4)
LONGEST_PADDING = 100_000
"""An index further than this behind the end of a list is not a place that a log can mean."""

_ABSENT = Raw()
_NULL = Raw(b"null")


class Mutation(msgspec.Struct, gc=False):
    kind: int
    k: list[str | int] | None = None
    v: Raw = _ABSENT
    i: int | None = None


class _Named(msgspec.Struct, gc=False):
    requestId: Any = None


decode_mutation = msgspec.json.Decoder(Mutation).decode
_decode_container = msgspec.json.Decoder(dict[str, Raw] | list[Raw]).decode
_decode_named = msgspec.json.Decoder(_Named).decode


class Replay:
    """The state so far, and the requests that it no longer holds.

    Values stay as they stand in their lines until a later line reaches into them: in the end the state
    is written out as the one document that VS Code would have, and is read like any other.
    """

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.started = False
        """Whether an initial state was seen."""
        self.removed: dict[str, tuple[Any, str]] = {}
        """Requests that a later change took out, by their ids, and the one that each stood behind."""
        self.lines: dict[int | None, int] = {}
        """Number of a request (None: the chat) → where the line stands that changed it last."""

    def apply(self, mutation: Mutation, offset: int = 0) -> bool:
        """Make the change; False where it cannot be made."""
        path = mutation.k or []
        if len(path) > 1:
            if path[0] == "requests" and isinstance(path[1], int):
                self.lines[path[1]] = offset
            return self._change(mutation, path)
        if path and path != ["requests"]:
            return self._change(mutation, path)
        before = list(self._requests())
        changed = self._change(mutation, path)
        now = self._requests()
        self.lines.setdefault(None, offset)
        cut = len(before) if mutation.i is None else max(0, mutation.i)
        changed_from = cut if mutation.kind == PUSH else 0
        self.lines.update(dict.fromkeys(range(changed_from, len(now)), offset))
        if self.removed or now[: len(before)] != before:
            kept = {_ident(request) for request in now}
            for ident in kept:
                self.removed.pop(ident, None)
            after = ""
            for request in before:
                ident = _ident(request)
                if ident and ident not in kept:
                    self.removed[ident] = (request, after)
                after = ident or after
        return changed

    def document(self) -> bytes:
        """The chat as VS Code would keep it in a flat file."""
        return msgspec.json.encode(self.state)

    def _change(self, mutation: Mutation, path: list[str | int]) -> bool:
        kind, value = mutation.kind, mutation.v
        if kind == INITIAL:
            state = _opened(value)
            if isinstance(state, dict):
                self.state, self.started = state, True
            return isinstance(state, dict)
        if kind not in (SET, PUSH, DELETE):
            return False
        if not path:
            return kind == SET  # VS Code ignores it
        at: Any = self.state
        for step, following in pairwise(path):
            at = _enter(at, step, list if isinstance(following, int) else dict)
        step = path[-1]
        if kind == PUSH:
            target = _enter(at, step, list)
            if not isinstance(target, list):
                return False
            if mutation.i is not None and mutation.i >= 0:
                del target[mutation.i :]
            items = [] if value in (_ABSENT, _NULL) else _opened(value)
            if isinstance(items, list):
                target += items
            return isinstance(items, list)
        if kind == SET and value is not _ABSENT:
            return _assign(at, step, value)
        if isinstance(at, dict):
            at.pop(str(step), None)
            return True
        return _get(at, step) is not None and _assign(at, step, _NULL)

    def _requests(self) -> list[Any]:
        requests = _enter(self.state, "requests", None)
        return requests if isinstance(requests, list) else []


def _opened(value: Any) -> Any:
    """A value with its own values as they stand; anything but an object or an array as it is."""
    try:
        return _decode_container(value)
    except UNREADABLE:
        return value


def _enter(container: Any, step: str | int, missing: type | None) -> Any:
    """What stands at the step, to be changed; made there where there is nothing."""
    value = _get(container, step)
    if type(value) is dict or type(value) is list:
        return value
    if value is not None and value != _NULL:
        inner = _opened(value)
    else:
        inner = missing() if missing is not None else None
    return inner if inner is not None and _assign(container, step, inner) else None


def _ident(request: Any) -> str:
    try:
        if isinstance(request, dict):
            return str_of(msgspec.json.decode(msgspec.json.encode(request.get("requestId"))))
        return str_of(_decode_named(request).requestId)
    except UNREADABLE:
        return ""


def _get(container: Any, step: str | int) -> Any:
    if type(container) is dict:
        return container.get(step if type(step) is str else str(step))
    if type(container) is list and type(step) is int and 0 <= step < len(container):
        return container[step]
    return None


def _assign(container: Any, step: str | int, value: Any) -> bool:
    if isinstance(container, dict):
        container[str(step)] = value
        return True
    if not isinstance(container, list) or not isinstance(step, int) or step < 0:
        return False
    if step > len(container) + LONGEST_PADDING:
        return False
    container.extend([_NULL] * (step + 1 - len(container)))
    container[step] = value
    return True
