"""Hook logs: what scripts wrote down of the payloads that an agent handed to them.

Nobody prescribes their shape. Seen: JSONL; lines with a date, or a date and some text, before the
object; one JSON array; objects over many lines; and the payload inside an envelope of the script's.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from unspool.io.door import clean, read_json, sample
from unspool.io.origins import Head, Origin, Tally, iter_lines, open_origin
from unspool.io.times import Moment, find_moment, parse_time
from unspool.io.values import parse_object

__all__ = [
    "Logged",
    "Moment",
    "head_payloads",
    "iter_payloads",
    "noted_moment",
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
    """The payload, out of what the script put around it."""
    written: dict[str, Any] | None = None
    """The object as it was written."""
    moment: Moment | None = None
    code: str = ""
    lost: bool = True
    """Of what is wrong: nothing came of it; else it was mended."""
    text: bytes = b""

    @property
    def time(self) -> int | None:
        return self.moment.time if self.moment is not None else None


def read_log(origin: Origin, recover: bool = False) -> Iterator[Logged]:
    """Every payload of the log in order; text without any brace only tells the time of the next."""
    with open_origin(origin.path) as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if _ARRAY.match(start):
        if not origin.start:
            with open_origin(origin.path) as file:
                yield from _parse(file.read(), 0, None, recover)
        return
    before: Moment | None = None
    # Objects over many lines need their commas.
    for offset, prefix, data in _objects(iter_lines(origin, ends=b"\r\n\0 \t")):
        moment = find_moment(prefix.decode("utf-8", "replace")) if prefix else None
        if data:
            yield from _parse(data, offset, moment if moment is not None else before, recover)
        before = None if data else moment


def iter_payloads(
    origin: Origin, tally: Tally, recover: bool
) -> Iterator[tuple[dict[str, Any], Logged]]:
    """Every payload, cleaned, with where and when it was logged; a stretch that is none is counted."""
    for logged in read_log(origin, recover):
        tally.records += 1
        if logged.value is not None:
            yield clean(logged.value), logged
        else:
            tally.lose(logged.code, origin.path, logged.offset, sample(logged.text))


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
    salvage = read_json(data, recover)
    values = [
        item for value in salvage.values for item in (value if isinstance(value, list) else [value])
    ]
    for number, value in enumerate(values, offset):
        if isinstance(value, dict):
            payload, noted = unwrap(value)
            yield Logged(number, payload, value, moment if moment is not None else noted)
        else:
            yield Logged(number, code="invalid-json", text=repr(value).encode())
    if salvage.code:
        # A byte that is no UTF-8 spoils one character, not the payload.
        code, lost = salvage.code, salvage.lost
        yield Logged(offset + len(values), code=code, text=data, lost=lost)


def unwrap(value: dict[str, Any]) -> tuple[dict[str, Any], Moment | None]:
    """The payload inside what the logging script put around it, and the time that it noted.

    What the script knows of the payload may stand beside it only (cases/claude_code/hooks_envelope):

        {"hook_type":"Stop","session_id":"s1","workspace_hash":"a1b2","payload":{"reason":"done"}}
    """
    moment = noted_moment(value)
    if "hook_event_name" in value or "conversation_id" in value:
        return value, moment
    event = value.get("hook_type")
    beside = {name: value[name] for name in ("session_id", "workspace_hash") if value.get(name)}
    if event:
        beside["hook_event_name"] = event
    is_told = "session_id" in beside and "hook_event_name" in beside
    for name in (*_ENVELOPES, *(name for name in value if name not in _ENVELOPES)):
        payload = value.get(name)
        if isinstance(payload, str):
            payload = parse_object(payload)
        if not isinstance(payload, dict):
            continue
        named = "session_id" in payload or "conversation_id" in payload
        if named or (is_told and name in _ENVELOPES):
            payload = {**beside, **payload} if beside else payload
            return payload, moment if moment is not None else noted_moment(payload)
    return value, moment


def noted_moment(value: Mapping[str, Any]) -> Moment | None:
    """The time that a script put among a payload's fields."""
    for name in TIMES:
        time = parse_time(given := value.get(name))
        if time is not None:
            zoned = not isinstance(given, str) or _ZONED.search(given.strip()) is not None
            return Moment(time, zoned)
    return None


def head_payloads(head: Head) -> Iterator[dict[str, Any]]:
    """The first twenty payloads of a file that may be a hook log."""
    if b"{" not in head.data or head.data[:16] == b"SQLite format 3\0":
        return
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    # The head may end inside an array: without the bracket its objects can be read.
    if _ARRAY.match(data):
        objects: Iterable[bytes] = [data.lstrip(b"[ \t\r\n")]
    else:
        lines = ((0, line.strip()) for line in data.split(b"\n"))
        objects = (part for _, _, part in _objects(lines))
    stretches = (
        logged for part in objects if part for logged in _parse(part, 0, None, recover=False)
    )
    yield from islice((logged.value for logged in stretches if logged.value is not None), 20)
