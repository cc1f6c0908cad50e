"""Recorder journals: what `unspool.record` writes while an agent runs.

One JSON object per line, every one whole by itself: `kind`, `session`, `time` (microseconds) and what
the kind has. A request names only the messages that the conversation had not yet; the answer, the
calls and what they gave have records of their own. `docs/formats/recorder.md` lists the kinds.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import (
    NOBODY,
    AnyFact,
    Key,
    Link,
    Marked,
    MessageSeen,
    Noted,
    Problem,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.io.dirty_json import salvage, sample
from unspool.io.origins import Head, Origin, Tally, iter_lines
from unspool.io.times import format_time
from unspool.prompts.shapes import arguments_text, to_messages
from unspool.sources.recorder.entries import FORMAT, Entry, Item, Tokens

NAME = "recorder"
RANGES = True

_RESERVED = {
    "agent",
    "agent_version",
    "checkpoints",
    "children",
    "ended_at",
    "file_path",
    "model_usage",
    "parent",
    "partial",
    "references",
    "session_id",
    "started_at",
    "telemetry_type",
    "title",
    "tool_definitions",
    "usage",
}
"""Notes by these names become fields of the trajectory."""

_decode = msgspec.json.Decoder(Entry).decode


def claims(head: Head) -> bool:
    """The first record says so; where it is torn, any record with our three fields."""
    objects = head.objects
    if any(value.get("journal") == FORMAT for value in objects[:3]):
        return True
    return bool(objects) and all(
        str(value.get("kind")) in READERS
        and isinstance(value.get("session"), str)
        and isinstance(value.get("time"), int)
        for value in objects
    )


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    """None of its own: the program that records says where."""
    return []


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    for offset, line in iter_lines(origin):
        try:
            entry = _decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            yield from _read_odd(origin, tally, offset, line, recover)
            continue
        tally.records += 1
        yield from read_entry(entry, origin.path, offset, tally)


def _read_odd(
    origin: Origin, tally: Tally, offset: int, line: bytes, recover: bool
) -> Iterator[AnyFact]:
    """A torn record (the process was killed in the middle of it), or one with wrong types."""
    found = salvage(line, recover)
    for number, value in enumerate(found.values):
        tally.records += 1
        try:
            entry = msgspec.convert(value, Entry)
        except (msgspec.ValidationError, RecursionError):
            tally.problems += 1
            yield _problem(NOBODY, origin.path, offset + number, "wrong-types", line)
            continue
        yield from read_entry(entry, origin.path, offset + number, tally)
    if found.lost:
        tally.records += 1
        tally.problems += 1
    if found.code:
        yield _problem(NOBODY, origin.path, offset, found.code, line)


def _problem(key: Key, origin: str, offset: int, code: str, data: bytes | str) -> Problem:
    return Problem(
        key=key, origin=origin, offset=offset, number=9999, code=code, sample=sample(data)
    )


class Place:
    """Where a record stands; gives every fact of it a number of its own."""

    __slots__ = ("key", "number", "offset", "origin", "time")

    def __init__(self, entry: Entry, origin: str, offset: int) -> None:
        self.key: Key = (NAME, entry.session)
        self.origin = origin
        self.offset = offset
        self.time = entry.time
        self.number = -1

    def __call__(self) -> dict[str, Any]:
        self.number += 1
        return {
            "key": self.key,
            "origin": self.origin,
            "offset": self.offset,
            "number": self.number,
            "time": self.time,
        }


def read_entry(entry: Entry, origin: str, offset: int, tally: Tally) -> Iterator[AnyFact]:
    """The facts of one record: what the live recorder reduces, too."""
    reader = READERS.get(entry.kind)
    if reader is None:
        tally.unrecognise(entry.kind or "no kind", origin, offset)
    elif not entry.session:
        tally.problems += 1
        yield _problem(NOBODY, origin, offset, "missing-session", entry.kind)
    else:
        yield from reader(entry, Place(entry, origin, offset))


def read_conversation(entry: Entry, place: Place) -> Iterator[AnyFact]:
    notes: dict[str, Any] = {
        "agent": entry.agent,
        "agent_version": entry.version,
        "session_id": entry.session,
        "title": entry.title,
        **{_own_name(name): value for name, value in (entry.data or {}).items()},
    }
    if entry.parent:
        notes["parent"] = _link(entry.parent, entry)
    for name, value in notes.items():
        if value not in ("", None):
            yield Noted(**place(), name=name, value=value)


def _own_name(name: str) -> str:
    """A name of the program's own metadata: it must not pass for one that the reducer knows."""
    return f"metadata.{name}" if name in _RESERVED or "." in name else name


def _link(session: str, entry: Entry) -> dict[str, Any]:
    made = {"conversation_id": session, "kind": "subagent"}
    more = {"tool_call_id": entry.call, "name": entry.name}
    return {**made, **{name: value for name, value in more.items() if value}}


def read_tools(entry: Entry, place: Place) -> Iterator[AnyFact]:
    tools = [tool for tool in entry.tools or () if isinstance(tool, dict)]
    yield Noted(**place(), name="tool_definitions", value=tools)


def read_request(entry: Entry, place: Place) -> Iterator[AnyFact]:
    if entry.change:
        data = {"request": entry.id, "messages": entry.seen}
        yield Marked(**place(), kind=entry.change, data=data)
    for item in entry.items:
        yield from read_item(item, entry, place)
    if place.number < 0:
        yield Link(**place())


def read_item(item: Item, entry: Entry, place: Place) -> Iterator[AnyFact]:
    """A message that the request sent and that the conversation had not yet."""
    found = to_messages(item.message)
    if item.edits:
        text = "\n".join(message.content for message in found)
        yield Noted(**place(), on="message", subject=item.edits, name="sent_as", value=text)
        return
    if not found and not _is_bare_reasoning(item.message):
        yield Marked(**place(), kind="unrecognised", subject=item.id, data={"item": item.message})
    for number, message in enumerate(found):
        ident = f"{item.id}.{number}" if number else item.id
        at = {**place(), "entry": ident}
        if item.old:
            at["time"] = None
        if message.role == "tool" and message.tool_call_id:
            yield ToolReturned(
                **at, call=message.tool_call_id, name=message.name or "", text=message.content,
                failed=message.is_error, attachments=tuple(message.attachments or ()),
            )  # fmt: skip
            continue
        yield MessageSeen(
            **at, id=ident, role=message.role, text=message.content,
            kind="summary" if item.summary else "", thinking=message.thinking or "",
            attachments=tuple(message.attachments or ()), extra=message.extra,
            request="" if item.old else entry.id,
        )  # fmt: skip
        for index, call in enumerate(message.tool_calls or ()):
            yield ToolCalled(
                **{**place(), "entry": ident, "time": at["time"]}, id=call.id, message=ident,
                name=call.name, arguments=call.arguments, index=index,
            )  # fmt: skip


def _is_bare_reasoning(message: Any) -> bool:
    """Thinking that only the provider can read says nothing."""
    return isinstance(message, dict) and message.get("type") == "reasoning"


def read_response(entry: Entry, place: Place) -> Iterator[AnyFact]:
    """The answer, stamped with the start of its request; a failure is an error in its place."""
    extra: dict[str, Any] = dict(entry.data or {})
    if entry.error is not None:
        extra["error"] = entry.error
    if entry.first_token_ms is not None:
        extra["time_to_first_token_ms"] = entry.first_token_ms
    if entry.answered:
        extra["requested_model"] = entry.model
    bare = entry.error is not None and not (entry.text or entry.calls or entry.thinking)
    ident = entry.message or entry.id
    at = {**place(), "entry": ident}
    if entry.started is not None:
        at["time"] = entry.started
    yield MessageSeen(
        **at, id=ident, role="assistant", kind="error" if bare else "",
        text=_error_text(entry.error) if bare and entry.error else entry.text,
        thinking=entry.thinking, model=entry.answered or entry.model, stop=entry.stop,
        status=entry.status, request=entry.id, extra=extra or None,
    )  # fmt: skip
    for index, call in enumerate(entry.calls):
        yield ToolCalled(
            **{**place(), "entry": ident}, id=call.id, message=ident, name=call.name,
            arguments=call.arguments, index=index,
        )  # fmt: skip
    if entry.usage is not None:
        usage = {name: getattr(entry.usage, name) for name in Tokens.__struct_fields__}
        yield UsageReported(**{**place(), "entry": ident}, subject=ident, **usage)
    if entry.duration_ms is not None:
        yield Noted(
            **{**place(), "entry": ident}, on="message", subject=ident, name="duration_ms",
            value=entry.duration_ms,
        )  # fmt: skip


def _error_text(error: dict[str, Any]) -> str:
    kind, message = error.get("type") or "", error.get("message") or ""
    return f"{kind}: {message}" if kind and message else str(kind or message)


def read_tool(entry: Entry, place: Place) -> Iterator[AnyFact]:
    """A call as it was run: an echo of the call that the model asked for."""
    yield ToolCalled(
        **place(), id=entry.id, message=entry.message, name=entry.name,
        arguments=arguments_text(entry.arguments), rank=1, extra=entry.data,
    )  # fmt: skip
    yield _moment(place, entry.id, "started_at")


def read_result(entry: Entry, place: Place) -> Iterator[AnyFact]:
    """What the tool gave. What the model got of it comes with the next request and knows better."""
    extra = {"error": entry.error} if entry.error is not None else None
    text = entry.result
    if text is None and entry.error is not None:
        text = _error_text(entry.error)
    yield ToolReturned(
        **place(), call=entry.id, name=entry.name, text=text,
        failed=True if entry.status == "failed" else None,
        status=entry.status if entry.status != "failed" else "",
        details=entry.details, duration_ms=entry.duration_ms, rank=1, extra=extra,
    )  # fmt: skip
    yield _moment(place, entry.id, "ended_at")


def _moment(place: Place, call: str, name: str) -> Noted:
    """When the tool really ran: before it was asked for and after it was told are others' times."""
    return Noted(
        **place(), on="call", subject=call, name=name, value=format_time(place.time), rank=-1
    )


def read_subagent(entry: Entry, place: Place) -> Iterator[AnyFact]:
    yield Noted(**place(), name="children", value=_link(entry.child, entry))
    if entry.call:
        yield Noted(**place(), on="call", subject=entry.call, name="child_id", value=entry.child)


def read_evicted(entry: Entry, place: Place) -> Iterator[AnyFact]:
    """The journal's limits took earlier parts of the conversation."""
    yield Noted(**place(), name="partial", value="evicted")


def read_mark(entry: Entry, place: Place) -> Iterator[AnyFact]:
    """An element of the prompt, a request that is no part of the conversation, a failure."""
    data: dict[str, Any] = dict(entry.data or {})
    for name in ("name", "model", "text", "tokens", "max_tokens", "status", "error"):
        value = getattr(entry, name)
        if value not in ("", None):
            data[name] = value
    if entry.usage is not None:
        data["usage"] = msgspec.to_builtins(entry.usage)
    yield Marked(**place(), kind=entry.kind, subject=entry.id, data=data or None)


READERS: dict[str, Callable[[Entry, Place], Iterator[AnyFact]]] = {
    "conversation": read_conversation,
    "tools": read_tools,
    "request": read_request,
    "response": read_response,
    "tool": read_tool,
    "result": read_result,
    "subagent": read_subagent,
    "evicted": read_evicted,
    "element": read_mark,
    "utility": read_mark,
    "error": read_mark,
}
