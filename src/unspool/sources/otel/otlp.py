"""OTLP JSON: spans and log records out of every form that exporters write them in.

    {"resourceSpans":[{"resource":{…},"scopeSpans":[{"scope":{…},"spans":[{"traceId":"5b8e…",…}]}]}]}
    {"resource":{…},"scopeSpans":[…]}                                     without the envelope
    {"name":"chat gpt","spanContext":{"traceId":"5b8e…"},"startTime":[1767000000,5],"attributes":{…}}
    {}                                                                    nothing

Names may be in camelCase, with underscores, or private (`_spanContext`); values plain or typed
(`{"intValue":"12"}`); ids in hex or base64; times as text, numbers or pairs.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from unspool.io.times import parse_time
from unspool.io.values import dict_of, dicts_of, list_of

_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{16}|[0-9a-fA-F]{32})")
_ERROR_STATUS = (2, "2", "ERROR", "STATUS_CODE_ERROR")
_ENVELOPES = (
    ("resourceSpans", ("scopeSpans", "instrumentationLibrarySpans"), "spans"),
    ("resourceLogs", ("scopeLogs", "instrumentationLibraryLogs"), "logRecords"),
)
_STARTS = ("startTimeUnixNano", "startTime")
_STAMPS = ("timeUnixNano", "timestamp", "time", "hrTime", "observedTimeUnixNano")
_ENDS = ("endTimeUnixNano", "endTime")


class Event(msgspec.Struct, gc=False):
    """An event on a span, or a log record that belongs to one."""

    name: str
    time: int | None
    attributes: dict[str, Any]


class Item(msgspec.Struct, gc=False):
    """A span or a log record, with what its resource and scope say of it."""

    name: str
    is_log: bool = False
    trace: str = ""
    id: str = ""
    """The span; of a log record, the one that it belongs to."""
    parent: str = ""
    start: int | None = None
    end: int | None = None
    failed: bool = False
    status: str = ""
    attributes: dict[str, Any] = {}
    events: list[Event] = []
    body: Any = None
    resource: dict[str, Any] = {}
    scope: str = ""
    product: str = ""
    """The agent that sent it (agents.py)."""
    number: int = 0
    """Its place among all items of the file, in order of time."""
    contents: tuple[int, int] | None = None
    """Where its attributes, events and body lie, of which only what is short is here."""
    logs: "list[Item]" = []
    """Log records that are events of it."""

    def text(self, *names: str) -> str:
        """The first of the attributes that says something, as text."""
        for name in names:
            value = self.attributes.get(name)
            if isinstance(value, str):
                if value:
                    return value
            elif value is not None:
                return msgspec.json.encode(value).decode()
        return ""

    def count(self, *names: str) -> int | None:
        """The first of the attributes that is a number; many senders write numbers as text."""
        for name in names:
            value = self.attributes.get(name)
            if isinstance(value, str) and value.isdecimal() and len(value) < 16:
                value = int(value)
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
                return int(value)
        return None


@lru_cache(1024)
def _in_camel_case(name: str) -> str:
    first, *words = name.strip("_").split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in words)


def _fields(value: Any) -> dict[str, Any]:
    """An object under the names of OTLP JSON."""
    if not isinstance(value, dict) or "_" not in "".join(value):
        return dict_of(value)
    return {_in_camel_case(name): field for name, field in value.items()}


def items_of(value: dict[str, Any]) -> Iterator[Item]:
    """The spans and log records of one JSON value."""
    envelope = _fields(value)
    if is_flat(envelope):
        is_log = not any(name in envelope for name in _STARTS)
        yield _item(envelope, _attributes_of(envelope.get("resource")), "", is_log)
        return
    for name, scopes, items in _ENVELOPES:
        is_bare = any(scope in envelope for scope in scopes)
        for resource in [envelope] if is_bare else map(_fields, dicts_of(envelope.get(name))):
            about = _attributes_of(resource.get("resource"))
            listed = next((resource[scope] for scope in scopes if resource.get(scope)), None)
            for scope in map(_fields, dicts_of(listed)):
                named = dict_of(scope.get("scope") or scope.get("instrumentationLibrary"))
                for item in map(_fields, dicts_of(scope.get(items))):
                    yield _item(item, about, str(named.get("name") or ""), items == "logRecords")


def is_flat(value: dict[str, Any]) -> bool:
    """Whether it is a span or log record as an SDK prints it."""
    fields = _fields(value)
    is_placed = bool(_context(fields)) or "timestamp" in fields
    return "attributes" in fields and ("name" in fields or "body" in fields) and is_placed


def _context(fields: dict[str, Any]) -> dict[str, Any]:
    """Where the ids of a span stand."""
    context = fields.get("spanContext") or fields.get("context")
    return _fields(context) if context else fields if "traceId" in fields else {}


def _item(value: dict[str, Any], resource: dict[str, Any], scope: str, is_log: bool) -> Item:
    context, above = _context(value), _fields(value.get("parentSpanContext"))
    parent = value.get("parentSpanId") or value.get("parentId") or above.get("spanId")
    status = value.get("status")
    status = _fields(status) if isinstance(status, dict) else {"code": status}
    attributes = _attributes(value.get("attributes"))
    body = plain_value(value.get("body"))
    name = value.get("eventName") or value.get("name") or attributes.get("event.name")
    scoped = value.get("instrumentationScope") or value.get("instrumentationLibrary")
    return Item(
        name=str(name or (body if isinstance(body, str) else "")),
        is_log=is_log,
        trace=_ident(context.get("traceId")),
        id=_ident(context.get("spanId")),
        parent=_ident(parent),
        start=_time(value, _STARTS + _STAMPS) or parse_time(attributes.get("event.timestamp")),
        end=_time(value, _ENDS),
        failed=status.get("code", status.get("statusCode")) in _ERROR_STATUS
        or bool(attributes.get("error.type")),
        status=str(status.get("message") or status.get("description") or ""),
        attributes=attributes,
        events=[
            Event(
                str(event.get("name") or ""),
                _time(event, _STAMPS),
                _attributes(event.get("attributes")),
            )
            for event in map(_fields, dicts_of(value.get("events")))
        ],
        body=body,
        resource=resource,
        scope=scope or str(dict_of(scoped).get("name") or ""),
    )


def _time(fields: dict[str, Any], names: tuple[str, ...]) -> int | None:
    """Nanoseconds as text or number, ISO text, or a pair of seconds and nanoseconds."""
    for value in filter(None, map(fields.get, names)):
        if isinstance(value, list) and len(value) == 2 and all(type(n) is int for n in value):
            return parse_time(value[0] * 1_000_000 + value[1] // 1000)
        if isinstance(value, str) and value.isdecimal() and 17 < len(value) < 20:
            return int(value) // 1000  # exactly: a float would lose the microseconds
        if isinstance(value, int) and 10**17 <= value < 10**20:
            return value // 1000
        if (time := parse_time(value)) is not None:
            return time
    return None


def _ident(value: Any) -> str:
    """An id in hex; base64 is how protobuf's own JSON writes it."""
    text = value if isinstance(value, str) else ""
    hexadecimal = _HEX.fullmatch(text)
    if hexadecimal:
        return hexadecimal[1].lower() if hexadecimal[1].strip("0") else ""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    return data.hex() if len(data) in (8, 16) else text


def _attributes_of(resource: Any) -> dict[str, Any]:
    return _attributes(_fields(resource).get("attributes"))


def _attributes(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {str(name): plain_value(one) for name, one in value.items()}
    return {str(p["key"]): plain_value(p.get("value")) for p in dicts_of(value) if "key" in p}


_TYPED = frozenset((
    "stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "kvlistValue", "bytesValue",
))  # fmt: skip


def plain_value(value: Any) -> Any:
    """A typed value as the plain one: `{"intValue":"12"}` is 12."""
    if isinstance(value, list):
        return [plain_value(one) for one in value]
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((name, inner),) = value.items()
    kind = _in_camel_case(name)
    if kind not in _TYPED:
        return value
    if kind == "intValue" and isinstance(inner, str):
        return int(inner) if inner.lstrip("-").isdecimal() else inner
    if kind == "arrayValue":
        return [plain_value(one) for one in list_of(dict_of(inner).get("values", inner))]
    if kind == "kvlistValue":
        return _attributes(dict_of(inner).get("values", inner))
    return inner
