"""Recorder journals: what `unspool.record` writes while an agent runs.

One JSON object per line, every one whole by itself: `kind`, `session`, `time` (microseconds) and what
the kind has. A request names only the messages that the conversation had not yet; the answer, the
calls and what they gave have records of their own. `docs/formats/recorder.md` lists the kinds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import LIST_NOTES, TEXT_NOTES, VALUE_NOTES, AnyFact
from unspool.io.door import iter_json_lines
from unspool.io.origins import Head, Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import format_time
from unspool.io.values import dicts_of, parse_object
from unspool.prompts.shapes import arguments_text, to_messages
from unspool.sources.recorder.entries import FORMAT, Entry, Tokens
from unspool.sources.scribe import Scribe

NAME = "recorder"
RANGES = True

_RESERVED = TEXT_NOTES | VALUE_NOTES | LIST_NOTES | {"parent", "usage"}
"""Notes by these names become fields of the trajectory."""

_SHAPE = Shape(Entry)


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
    for offset, _, entry in iter_json_lines(origin, _SHAPE, tally, recover):
        reader = READERS.get(entry.kind)
        if reader is None:
            tally.unrecognise(entry.kind or "no kind", origin.path, offset)
        elif not entry.session:
            tally.lose("missing-session", origin.path, offset, entry.kind)
        else:
            scribe = Scribe((NAME, entry.session), origin.path, offset, time=entry.time)
            reader(entry, scribe)
            yield from scribe.facts


def _read_conversation(entry: Entry, scribe: Scribe) -> None:
    scribe.notes({"agent": entry.agent, "agent_version": entry.version,
                  "session_id": entry.session, "title": entry.title})  # fmt: skip
    for name, value in (entry.data or {}).items():
        if value not in ("", None):
            # A name of the program's own metadata must not pass for one that the reducer knows.
            is_ours = name in _RESERVED or "." in name
            scribe.note(f"metadata.{name}" if is_ours else name, value)
    if entry.parent:
        scribe.parent(entry.parent, call=entry.call, name=entry.name)


def _read_request(entry: Entry, scribe: Scribe) -> None:
    if entry.change:
        scribe.mark(entry.change, {"request": entry.id, "messages": entry.seen})
    for item in entry.items:
        # A message that the request sent and that the conversation had not yet.
        messages = to_messages(item.message)
        if item.edits:
            text = "\n".join(message.content for message in messages)
            scribe.note("sent_as", text, on="message", subject=item.edits)
            continue
        # Thinking that only the provider can read says nothing.
        bare = isinstance(item.message, dict) and item.message.get("type") == "reasoning"
        if not messages and not bare:
            scribe.mark("unrecognised", {"item": item.message}, item.id)
        for number, message in enumerate(messages):
            ident = f"{item.id}.{number}" if number else item.id
            at: dict[str, Any] = {"entry": ident, "time": None if item.old else entry.time}
            if message.role == "tool" and message.tool_call_id:
                scribe.returned(
                    **at, call=message.tool_call_id, name=message.name or "", text=message.content,
                    failed=message.is_error, attachments=tuple(message.attachments or ()),
                )  # fmt: skip
                continue
            scribe.message(
                **at, id=ident, role=message.role, text=message.content,
                kind="summary" if item.summary else "", thinking=message.thinking or "",
                attachments=tuple(message.attachments or ()), extra=message.extra,
                request="" if item.old else entry.id,
            )  # fmt: skip
            _state_calls(scribe, ident, message.tool_calls or (), at)
    if not scribe.facts:
        scribe.link()


def _read_response(entry: Entry, scribe: Scribe) -> None:
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
    scribe.message(
        entry=ident, time=entry.time if entry.started is None else entry.started, id=ident,
        role="assistant", kind="error" if bare else "",
        text=_error_text(entry.error) if bare and entry.error else entry.text,
        thinking=entry.thinking, model=entry.answered or entry.model, stop=entry.stop,
        status=entry.status, request=entry.id, extra=extra or None,
    )  # fmt: skip
    _state_calls(scribe, ident, entry.calls, {"entry": ident})
    if entry.usage is not None:
        usage = {name: getattr(entry.usage, name) for name in Tokens.__struct_fields__}
        # Beside the tokens, where a replayed request log has them.
        times = {"duration_ms": entry.duration_ms, "time_to_first_token_ms": entry.first_token_ms}
        measured = {name: value for name, value in times.items() if value is not None}
        usage["extra"] = {**measured, **(entry.usage.extra or {})} or None
        scribe.usage(entry=ident, subject=ident, **usage)
    if entry.duration_ms is not None:
        scribe.note("duration_ms", entry.duration_ms, on="message", subject=ident, entry=ident)


def _state_calls(scribe: Scribe, message: str, calls: Iterable[Any], at: dict[str, Any]) -> None:
    for index, call in enumerate(calls):
        scribe.call(
            **at, id=call.id, message=message, name=call.name, arguments=call.arguments,
            index=index, like=_likeness(call.name, call.arguments),
        )  # fmt: skip


def _error_text(error: dict[str, Any]) -> str:
    kind, message = error.get("type") or "", error.get("message") or ""
    return f"{kind}: {message}" if kind and message else str(kind or message)


def _read_tool(entry: Entry, scribe: Scribe) -> None:
    """A call as it was run: an echo of the call that the model asked for."""
    arguments = arguments_text(entry.arguments)
    scribe.call(
        id=entry.id, message=entry.message, name=entry.name, arguments=arguments,
        like=_likeness(entry.name, arguments), rank=1, extra=entry.data,
    )  # fmt: skip
    # When the tool really ran: when it was asked for, and when the model was told, are other times.
    scribe.note("started_at", format_time(entry.time), -1, "call", entry.id)


def _likeness(name: str, arguments: str) -> str:
    """A program that runs a tool need not pass on the id that the model gave the call: then the run
    has an id of the recorder's own (cases/recorder/runs_without_ids).

    {"kind":"response",…,"calls":[{"id":"call_1","name":"read","arguments":"{\\"path\\": \\"a\\"}"}]}
    {"kind":"tool",…,"id":"3f0c…","name":"read","arguments":"{\\"path\\":\\"a\\"}"}
    """
    given = parse_object(arguments)
    if given is not None:
        arguments = msgspec.json.encode(given, order="deterministic").decode()
    return f"{name} {arguments}"


def _read_result(entry: Entry, scribe: Scribe) -> None:
    """What the tool gave. What the model got of it comes with the next request and knows better."""
    text = entry.result
    if text is None and entry.error is not None:
        text = _error_text(entry.error)
    scribe.returned(
        call=entry.id, name=entry.name, text=text,
        failed=True if entry.status == "failed" else None,
        status=entry.status if entry.status != "failed" else "",
        details=entry.details, duration_ms=entry.duration_ms, rank=1,
        extra={"error": entry.error} if entry.error is not None else None,
    )  # fmt: skip
    scribe.note("ended_at", format_time(entry.time), -1, "call", entry.id)


def _read_subagent(entry: Entry, scribe: Scribe) -> None:
    child = {"conversation_id": entry.child, "kind": "subagent"}
    about = {"tool_call_id": entry.call, "name": entry.name}
    scribe.note("children", child | {name: value for name, value in about.items() if value})
    if entry.call:
        scribe.note("child_id", entry.child, on="call", subject=entry.call)


def _read_mark(entry: Entry, scribe: Scribe) -> None:
    """An element of the prompt, a request that is no part of the conversation, a failure."""
    data: dict[str, Any] = dict(entry.data or {})
    for name in ("name", "model", "text", "tokens", "max_tokens", "status", "error"):
        value = getattr(entry, name)
        if value not in ("", None):
            data[name] = value
    if entry.usage is not None:
        data["usage"] = msgspec.to_builtins(entry.usage)
    scribe.mark(entry.kind, data, entry.id)


READERS: dict[str, Callable[[Entry, Scribe], None]] = {
    "conversation": _read_conversation,
    "tools": lambda entry, scribe: scribe.note("tool_definitions", dicts_of(entry.tools)),
    "request": _read_request,
    "response": _read_response,
    "tool": _read_tool,
    "result": _read_result,
    "subagent": _read_subagent,
    # the journal's limits took earlier parts of the conversation
    "evicted": lambda entry, scribe: scribe.note("partial", "evicted"),
    "element": _read_mark,
    "utility": _read_mark,
    "error": _read_mark,
}
