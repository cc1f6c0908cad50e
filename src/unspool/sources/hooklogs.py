"""Hook logs: what scripts wrote down of the payloads that an agent handed to them.

Nobody prescribes their shape. Seen: JSONL; lines with a date, or a date and some text, before the
object; one JSON array; objects over many lines; and the payload inside an envelope of the script's.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from unspool.io.dirty_json import salvage
from unspool.io.origins import Head, Origin, iter_lines, open_origin
from unspool.io.stamps import Moment, find_moment
from unspool.io.times import parse_time

__all__ = [
    "Logged",
    "Moment",
    "head_payloads",
    "noted_moment",
    "prefix_moment",
    "read_log",
    "unwrap",
]

_ZONED = re.compile(r"(?:[Zz]|UTC|GMT|[+-]\d\d:?\d\d|^\d+)$")
TIMES = (
    "_logged_at", "logged_at", "_timestamp", "timestamp", "ts", "time", "received_at", "recorded_at",
    "captured_at", "created_at", "datetime",
)  # fmt: skip
_ENVELOPES = ("payload", "hook_input", "input", "data", "event", "raw")
_ARRAY = re.compile(rb"\[\s*(\{|\])")
"""How a file begins that holds one array."""
_STRING = re.compile(rb'"(?:\\.|[^"\\])*"')


class Logged(msgspec.Struct):
    """One payload, or a stretch of the log that is none (then `code` says what is wrong)."""

    offset: int
    value: dict[str, Any] | None = None
    moment: Moment | None = None
    code: str = ""
    text: bytes = b""

    @property
    def time(self) -> int | None:
        return self.moment.time if self.moment is not None else None


def read_log(origin: Origin, recover: bool = False) -> Iterator[Logged]:
    """Every payload of the log in order; text without any brace only tells the time of the next."""
    with open_origin(origin.path) as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if _ARRAY.match(start) and not origin.start:
        with open_origin(origin.path) as file:
            yield from _parse(file.read(), 0, None, recover)
        return
    before: Moment | None = None
    for offset, prefix, data in _objects(iter_lines(origin)):
        moment = prefix_moment(prefix)
        if data:
            yield from _parse(data, offset, moment if moment is not None else before, recover)
        before = None if data else moment


def _objects(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes, bytes]]:
    """(offset, text before it, object) of each line with a brace, of others only the text. An object
    whose first line is no more than its brace goes on to the one that closes it."""
    rest = iter(lines)
    for offset, line in rest:
        at = line.find(b"{")
        data = line[at:] if at >= 0 else b""
        if data == b"{":
            data = b"\n".join([data, *_inside(rest)])
        yield offset, line[:at] if at >= 0 else line, data


def _inside(lines: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    depth = 1
    for _, line in lines:
        yield line
        plain = _STRING.sub(b"", line)
        depth += plain.count(b"{") - plain.count(b"}")
        if depth <= 0:
            return


def _parse(data: bytes, offset: int, moment: Moment | None, recover: bool) -> Iterator[Logged]:
    code = ""
    try:
        values: list[Any] = [msgspec.json.decode(data)]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = salvage(data, recover)
        values, code = found.values, found.code
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    for number, value in enumerate(flat):
        if isinstance(value, dict):
            inner, logged = unwrap(value)
            yield Logged(offset + number, inner, moment if moment is not None else logged)
        else:
            yield Logged(offset + number, code="invalid-json", text=repr(value).encode())
    # A byte that is no UTF-8 spoils one character, not the payload.
    if code and not (flat and code in ("invalid-utf8", "recovered")):
        yield Logged(offset + len(flat), code=code, text=data)


def prefix_moment(prefix: bytes) -> Moment | None:
    """The time that a script wrote before a payload."""
    return find_moment(prefix.decode("utf-8", "replace")) if prefix else None


def _moment(value: Any) -> Moment | None:
    time = parse_time(value)
    if time is None:
        return None
    return Moment(time, not isinstance(value, str) or _ZONED.search(value.strip()) is not None)


def unwrap(value: dict[str, Any]) -> tuple[dict[str, Any], Moment | None]:
    """The payload inside what the logging script put around it, and the time that it noted."""
    moment = noted_moment(value)
    if "hook_event_name" in value or "conversation_id" in value:
        return value, moment
    for name in (*_ENVELOPES, *(name for name in value if name not in _ENVELOPES)):
        inner = value.get(name)
        if isinstance(inner, str) and inner.lstrip()[:1] == "{":
            try:
                inner = msgspec.json.decode(inner)
            except (msgspec.DecodeError, RecursionError):
                continue
        if isinstance(inner, dict) and ("session_id" in inner or "conversation_id" in inner):
            event = value.get("hook_event_name", value.get("hook_type"))
            named = {"hook_event_name": event, **inner} if event else inner
            return named, moment if moment is not None else noted_moment(inner)
    return value, moment


def noted_moment(value: Mapping[str, Any]) -> Moment | None:
    """The time that a script put among a payload's fields."""
    for name in TIMES:
        found = _moment(value.get(name))
        if found is not None:
            return found
    return None


def head_payloads(head: Head, most: int = 20) -> Iterator[dict[str, Any]]:
    """The payloads at the beginning of a file that may be a hook log."""
    if b"{" not in head.data or head.data[:16] == b"SQLite format 3\0":
        return
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    # The head may end inside an array: without the bracket its objects can be read.
    if _ARRAY.match(data):
        found: Iterable[bytes] = [data.lstrip(b"[ \t\r\n")]
    else:
        lines = ((0, line.strip()) for line in data.split(b"\n"))
        found = (part for _, _, part in _objects(lines))
    for part in found:
        for logged in _parse(part, 0, None, recover=False) if part else ():
            if logged.value is not None:
                yield logged.value
                most -= 1
                if not most:
                    return
