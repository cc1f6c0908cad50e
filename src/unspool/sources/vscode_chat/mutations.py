"""The mutation log of a stored chat: an initial state, then changes to it, one per line.

    kind 0  the state is v                       kind 2  at k: cut to length i, then append v
    kind 1  at k set v; no v: remove the key     kind 3  at k remove the key

VS Code refuses a log without its initial state; the data is still there and is read.
"""

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import structs

from unspool.io.door import UNREADABLE
from unspool.io.values import field_of, str_of
from unspool.sources.vscode_chat.model import CHAT, Request

INITIAL, SET, PUSH, DELETE = range(4)
LONGEST_PADDING = 100_000
"""An index further than this behind the end of a list is not a place that a log can mean."""


_ABSENT = msgspec.Raw()


class Mutation(msgspec.Struct, gc=False):
    kind: int
    k: list[str | int] | None = None
    v: msgspec.Raw = _ABSENT
    i: int | None = None

    def value(self) -> Any:
        """Raises where it is nested too deep. Whole requests that fit go straight into their shape."""
        if self.v is _ABSENT:
            return msgspec.UNSET
        try:
            if self.kind == INITIAL:
                chat = CHAT.decode(self.v)
                return {name: v for name, v in structs.asdict(chat).items() if v is not None}
            if self.k == ["requests"]:
                return _decode_requests(self.v)
        except UNREADABLE:
            pass
        return msgspec.json.decode(self.v)


decode_mutation = msgspec.json.Decoder(Mutation).decode
_decode_requests = msgspec.json.Decoder(list[Request]).decode

_CHANGE = re.compile(rb'\{"kind":([12]),"k":\["requests",\d+,"(\w+)"\],"v":')


@cache
def _decoder_of(kind: bytes, name: bytes) -> Callable[[bytes], Any] | None:
    """For the changes that a log is made of: a field of a request is set, its response goes on. Such a
    line is decoded in one go, the value in its shape; any other twice, first without its value."""
    types = {field.name: field.type for field in structs.fields(Request)}
    value = types.get(name.decode()) if kind == b"1" else list[Any] if name == b"response" else None
    if value is None:
        return None
    fields: list[Any] = [
        ("kind", int),
        ("k", list[str | int]),
        ("v", value),
        ("i", int | None, None),
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Change", fields, gc=False)).decode


class Replay:
    """The state so far, and the requests that it no longer holds."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.started = False
        """Whether an initial state was seen."""
        self.removed: dict[str, tuple[Any, str]] = {}
        """Requests that a later change took out, by their ids, and the one that each stood behind."""
        self.lines: dict[int | None, int] = {}
        """Number of a request (None: the chat) → where the line stands that changed it last."""

    def apply_line(self, line: bytes, offset: int) -> bool:
        """Make the change that a line tells; False where it cannot be made. Raises where the line is
        none."""
        match = _CHANGE.match(line)
        decode = _decoder_of(match[1], match[2]) if match is not None else None
        if match is not None and decode is not None:
            try:
                if self._change_request(match[2].decode(), decode(line), offset):
                    return True
            except UNREADABLE:
                pass
        return self.apply(decode_mutation(line), offset)

    def _change_request(self, name: str, change: Any, offset: int) -> bool:
        """False where the request is not in its shape: then it becomes plain JSON (_walk)."""
        number = change.k[1]
        request = _get(self.state.get("requests"), number)
        if not isinstance(request, Request):
            return False
        if change.kind == SET:
            setattr(request, name, change.v)
        elif isinstance(request.response, list):
            if change.i is not None and change.i >= 0:
                del request.response[change.i :]
            request.response += change.v
        else:
            return False
        self.lines[number] = offset
        return True

    def apply(self, mutation: Mutation, offset: int = 0) -> bool:
        """Make the change; False where it cannot be made."""
        path = mutation.k or []
        if path and path != ["requests"]:
            if path[0] == "requests" and isinstance(path[1], int):
                self.lines[path[1]] = offset
            return self._change(mutation.kind, path, mutation.value(), mutation.i)
        value = mutation.value()
        before = self._requests()
        changed = self._change(mutation.kind, path, value, mutation.i)
        self.lines.setdefault(None, offset)
        first = (
            0 if mutation.kind != PUSH else mutation.i if mutation.i is not None else len(before)
        )
        for number in range(max(first, 0), len(self._requests())):
            self.lines[number] = offset
        now = self._requests()
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

    def _change(self, kind: int, path: list[str | int], value: Any, cut: int | None) -> bool:
        if kind == INITIAL:
            if not isinstance(value, dict):
                return False
            self.state, self.started = value, True
            return True
        if kind not in (SET, PUSH, DELETE):
            return False
        if not path:
            return kind == SET  # VS Code ignores it
        if kind == PUSH:
            parent = self._walk(path)
            if parent is None:
                return False
            target = _get(parent, path[-1])
            if target is None:
                target = []
                if not _assign(parent, path[-1], target):
                    return False
            if not isinstance(target, list):
                return False
            if cut is not None and cut >= 0:
                del target[cut:]
            if isinstance(value, list):
                target.extend(value)
            return value is msgspec.UNSET or value is None or isinstance(value, list)
        parent = self._walk(path)
        if parent is None:
            return False
        if kind == DELETE or value is msgspec.UNSET:
            step = path[-1]
            if isinstance(parent, dict):
                parent.pop(str(step), None)
                return True
            if isinstance(parent, list) and isinstance(step, int) and 0 <= step < len(parent):
                parent[step] = None
                return True
            return False
        return _assign(parent, path[-1], value)

    def _walk(self, path: list[str | int]) -> Any:
        """The container that the path's last step is in; parents that are missing are made."""
        at: Any = self.state
        for step, following in pairwise(path):
            inner = _get(at, step)
            if inner is None or isinstance(inner, msgspec.Struct):
                missing: Any = [] if isinstance(following, int) else {}
                inner = missing if inner is None else msgspec.to_builtins(inner)
                if not _assign(at, step, inner):
                    return None
            at = inner
        return at

    def _requests(self) -> list[Any]:
        requests = self.state.get("requests")
        return list(requests) if isinstance(requests, list) else []


def _ident(request: Any) -> str:
    if isinstance(request, Request):
        return request.requestId or ""
    return str_of(field_of(request, "requestId"))


def _get(container: Any, step: str | int) -> Any:
    if isinstance(container, dict):
        return container.get(str(step))
    if isinstance(container, list) and isinstance(step, int) and 0 <= step < len(container):
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
    container.extend([None] * (step + 1 - len(container)))
    container[step] = value
    return True
