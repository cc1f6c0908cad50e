"""OTLP JSON: spans and log records out of every form that exporters write them in.

    {"resourceSpans":[{"resource":{…},"scopeSpans":[{"scope":{…},"spans":[{"traceId":"5b8e…",…}]}]}]}
    {"resource":{…},"scopeSpans":[…]}                                     without the envelope
    {"name":"chat gpt","spanContext":{"traceId":"5b8e…"},"startTime":[1767000000,5],"attributes":{…}}
    {}                                                                    nothing

Names may be in camelCase or with underscores, values typed (`{"intValue":"12"}`) or plain, ids in hex
or base64, times as text, numbers or pairs.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.io.times import parse_time

_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{16}|[0-9a-fA-F]{32})")
_ERROR_STATUS = (2, "2", "ERROR", "STATUS_CODE_ERROR")


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


def items_of(value: dict[str, Any]) -> Iterator[Item]:
    """The spans and log records of one JSON value."""
    spans = _list(value, "resourceSpans", "resource_spans")
    logs = _list(value, "resourceLogs", "resource_logs")
    scopes = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
    log_scopes = ("scopeLogs", "scope_logs", "instrumentationLibraryLogs")
    if any(name in value for name in (*scopes, *log_scopes)):
        spans = logs = [value]
    elif not spans and not logs and is_flat(value):
        is_log = not any(name in value for name in _STARTS)
        yield _item(value, attributes_of(value.get("resource")), "", is_log)
        return
    for resource in spans:
        for scope in _list(resource, *scopes):
            for span in _list(scope, "spans"):
                yield _item(span, attributes_of(resource.get("resource")), _scope_name(scope))
    for resource in logs:
        for scope in _list(resource, *log_scopes):
            for log in _list(scope, "logRecords", "log_records", "logs"):
                yield _item(
                    log, attributes_of(resource.get("resource")), _scope_name(scope), is_log=True
                )


def is_flat(value: dict[str, Any]) -> bool:
    """Whether it is a span or log record as an SDK prints it."""
    context = _context(value)
    named = "name" in value or "body" in value or "_body" in value
    return "attributes" in value and named and bool(context or "timestamp" in value)


def _context(value: dict[str, Any]) -> dict[str, Any]:
    """Where the ids of a span stand."""
    for name in ("spanContext", "_spanContext", "context", "span_context"):
        if isinstance(value.get(name), dict):
            return dict(value[name])
    return value if "traceId" in value or "trace_id" in value else {}


def _item(
    value: dict[str, Any], resource: dict[str, Any], scope: str, is_log: bool = False
) -> Item:
    context = _context(value)
    status = value.get("status")
    status = status if isinstance(status, dict) else {"code": status}
    code = _first(status, "code", "status_code")
    parent = _first(value, "parentSpanId", "parent_span_id", "parent_id", "parentId")
    parent_context = value.get("parentSpanContext")
    if not parent and isinstance(parent_context, dict):
        parent = _first(parent_context, "spanId", "span_id")
    attributes = _attributes(value.get("attributes"))
    body = plain_value(_first(value, "body", "_body"))
    stamp = next((time for name in _STARTS + _STAMPS if (time := _time(value.get(name)))), None)
    name = str(
        _first(value, "eventName", "event_name", "name") or attributes.get("event.name") or ""
    )
    if not name and isinstance(body, str):
        name = body
    scoped = value.get("instrumentationScope") or value.get("instrumentationLibrary")
    return Item(
        name=name,
        is_log=is_log,
        trace=_ident(_first(context, "traceId", "trace_id")),
        id=_ident(_first(context, "spanId", "span_id")),
        parent=_ident(parent),
        start=stamp or parse_time(attributes.get("event.timestamp")),
        end=next((time for name in _ENDS if (time := _time(value.get(name)))), None),
        failed=code in _ERROR_STATUS or bool(attributes.get("error.type")),
        status=str(_first(status, "message", "description") or ""),
        attributes=attributes,
        events=[
            Event(
                str(event.get("name") or ""),
                next((time for name in _STAMPS if (time := _time(event.get(name)))), None),
                _attributes(event.get("attributes")),
            )
            for event in _list(value, "events")
        ],
        body=body,
        resource=resource,
        scope=scope or (str(scoped.get("name") or "") if isinstance(scoped, dict) else ""),
    )  # fmt: skip


_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "startTime", "start_time")
_STAMPS = (
    "timeUnixNano", "time_unix_nano", "timestamp", "time", "hrTime",
    "observedTimeUnixNano", "observed_time_unix_nano",
)  # fmt: skip
_ENDS = ("endTimeUnixNano", "end_time_unix_nano", "endTime", "end_time")


def _time(value: Any) -> int | None:
    """Nanoseconds as text or number, ISO text, or a pair of seconds and nanoseconds."""
    if isinstance(value, list) and len(value) == 2:
        seconds, nanos = value
        if isinstance(seconds, int) and isinstance(nanos, int):
            return parse_time(seconds * 1_000_000 + nanos // 1000)
        return None
    if isinstance(value, str) and value.isdecimal() and 17 < len(value) < 20:
        return int(value) // 1000  # exactly: a float would lose the microseconds
    if isinstance(value, int) and 10**17 <= value < 10**20:
        return value // 1000
    return parse_time(value)


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


def _first(value: dict[str, Any], *names: str) -> Any:
    for name in names:
        found = value.get(name)
        if found is not None and found != "":
            return found
    return None


def _list(value: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    listed = _first(value, *names)
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _scope_name(value: dict[str, Any]) -> str:
    scope = _first(value, "scope", "instrumentationLibrary")
    return str(scope.get("name") or "") if isinstance(scope, dict) else ""


def attributes_of(holder: Any) -> dict[str, Any]:
    """The attributes of a resource."""
    if not isinstance(holder, dict):
        return {}
    return _attributes(holder.get("attributes", holder.get("_attributes")))


def _attributes(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {str(name): plain_value(one) for name, one in value.items()}
    pairs = value if isinstance(value, list) else []
    return {
        str(pair["key"]): plain_value(pair.get("value"))
        for pair in pairs
        if isinstance(pair, dict) and "key" in pair
    }


_TYPED = frozenset((
    "stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "kvlistValue", "bytesValue",
    "string_value", "int_value", "double_value", "bool_value", "array_value", "kvlist_value",
    "bytes_value",
))  # fmt: skip


def plain_value(value: Any) -> Any:
    """A typed value as the plain one: `{"intValue":"12"}` is 12."""
    if isinstance(value, list):
        return [plain_value(one) for one in value]
    if not isinstance(value, dict) or len(value) != 1 or not _TYPED.issuperset(value):
        return value
    ((kind, inner),) = value.items()
    kind = kind.replace("_v", "V")
    if kind == "intValue" and isinstance(inner, str):
        return int(inner) if inner.lstrip("-").isdecimal() else inner
    if kind == "arrayValue":
        values = inner.get("values") if isinstance(inner, dict) else inner
        return [plain_value(one) for one in values or ()] if isinstance(values, list | None) else []
    if kind == "kvlistValue":
        return _attributes(inner.get("values") if isinstance(inner, dict) else inner)
    return inner
