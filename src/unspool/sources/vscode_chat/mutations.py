"""The mutation log of a stored chat: an initial state, then changes to it, one per line.

    kind 0  the state is v                       kind 2  at k: cut to length i, then append v
    kind 1  at k set v; no v: remove the key     kind 3  at k remove the key

VS Code refuses a log without its initial state; the data is still there and is read.
"""

from itertools import pairwise
from typing import Any

import msgspec
from msgspec import UNSET

from unspool.io.structs import Shape
from unspool.io.values import field_of, list_of, str_of

INITIAL, SET, PUSH, DELETE = range(4)
LONGEST_PADDING = 100_000
"""An index further than this behind the end of a list is not a place that a log can mean."""


class Mutation(msgspec.Struct, gc=False):
    kind: int | None = None
    k: list[str | int] | None = None
    v: Any = UNSET
    i: int | None = None


MUTATION = Shape(Mutation)


class Replay:
    """The state so far, and the requests that it no longer holds."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.started = False
        """Whether an initial state was seen."""
        self.removed: dict[str, tuple[Any, str]] = {}
        """Requests that a later change took out, by their ids, and the one that each stood behind."""

    def apply(self, mutation: Mutation) -> bool:
        """Make the change; False where it cannot be made."""
        path = mutation.k or []
        if path and path != ["requests"]:
            return self._change(mutation, path)
        before = list(list_of(self.state.get("requests")))
        changed = self._change(mutation, path)
        now = list_of(self.state.get("requests"))
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

    def _change(self, mutation: Mutation, path: list[str | int]) -> bool:
        kind, value = mutation.kind, mutation.v
        if kind == INITIAL:
            if isinstance(value, dict):
                self.state, self.started = value, True
            return isinstance(value, dict)
        if not path:
            return kind == SET  # VS Code ignores it
        holder: Any = self.state
        for step, following in pairwise(path):
            holder = _enter(holder, step, list if isinstance(following, int) else dict)
        if kind == PUSH:
            target = _enter(holder, path[-1], list)
            items = [] if value is UNSET or value is None else value
            if not isinstance(target, list) or not isinstance(items, list):
                return False
            if mutation.i is not None and mutation.i >= 0:
                del target[mutation.i :]
            target += items
            return True
        return kind in (SET, DELETE) and _assign(
            holder, path[-1], UNSET if kind == DELETE else value
        )


def _enter(container: Any, step: str | int, missing: type) -> Any:
    """What stands at the step, to be changed; made there where there is nothing."""
    try:
        value = container[step]
    except (LookupError, TypeError):
        value = None
    if value is None:
        made = missing()
        value = made if _assign(container, step, made) else None
    return value


def _assign(container: Any, step: str | int, value: Any) -> bool:
    if isinstance(container, dict) and isinstance(step, str):
        container[step] = value
        if value is UNSET:
            del container[step]
        return True
    if not isinstance(container, list) or not isinstance(step, int):
        return False
    if not 0 <= step <= len(container) + LONGEST_PADDING:
        return False
    container.extend([None] * (step + 1 - len(container)))
    container[step] = None if value is UNSET else value
    return True


def _ident(request: Any) -> str:
    return str_of(field_of(request, "requestId"))
