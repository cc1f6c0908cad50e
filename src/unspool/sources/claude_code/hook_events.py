"""Hook events: what each event of Claude Code states."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact, Key, MessageSeen, ToolCalled, ToolReturned
from unspool.sources import hooklogs
from unspool.sources.claude_code.lines import Line, lenient_content
from unspool.sources.claude_code.place import COMMAND_GUESS, GUESS, NAME, Place, child_id, title_of
from unspool.sources.claude_code.results import flat_text, read_outcome
from unspool.sources.claude_code.transcript import files_of
from unspool.sources.claude_code.words import read_words

Payload = dict[str, Any]
RANK = 3
LATER = 4
"""The rank of what a second payload tells of the same thing."""

_COMMON = frozenset(
    (
        "session_id",
        "transcript_path",
        "cwd",
        "hook_event_name",
        "permission_mode",
        "agent_id",
        "agent_type",
        "prompt_id",
        "effort",
        "raw_input",
        *hooklogs.TIMES,
    )
)


def own_fields(payload: Payload, *without: str) -> Payload:
    return {
        name: value
        for name, value in payload.items()
        if name not in _COMMON and name not in without and value not in (None, "", [], {})
    }


def read_prompt(payload: Payload, place: Place) -> Iterator[AnyFact]:
    text = payload.get("prompt")
    if not isinstance(text, str):
        return
    words = read_words(text)
    extra = {"prompt_source": payload["source"]} if payload.get("source") else None
    yield MessageSeen(
        **place.common(),
        role="user",
        text=text,
        kind=words.kind,
        typed=words.typed,
        mode=str(payload.get("permission_mode") or ""),
        request=str(payload.get("prompt_id") or ""),
        rank=RANK,
        attachments=words.attachments,
        extra=extra,
    )
    if words.typed and words.kind in ("", "command"):
        rank = GUESS + 1 if words.kind == "" else COMMAND_GUESS
        yield place.note("title", title_of(words.typed), rank)
    yield from _title(payload, place)


def _called(payload: Payload, place: Place, extra: Payload | None = None) -> ToolCalled:
    found = payload.get("tool_input")
    arguments = b"" if found is None else msgspec.json.encode(found)
    name = str(payload.get("tool_name") or "")
    return ToolCalled(
        **place.common(),
        id=str(payload.get("tool_use_id") or ""),
        name=name,
        arguments=arguments.decode(),
        rank=RANK,
        request=str(payload.get("prompt_id") or ""),
        files=files_of(name, arguments),
        extra=extra,
    )


def read_call(payload: Payload, place: Place) -> Iterator[AnyFact]:
    yield _called(payload, place)


def read_result(payload: Payload, place: Place) -> Iterator[AnyFact]:
    called = _called(payload, place)
    if called.id:  # without one the result itself tells which call it answers
        yield called
    response = payload.get("tool_response", payload.get("tool_result"))
    yield ToolReturned(
        **place.common(),
        call=called.id,
        name=called.name,
        arguments=called.arguments,
        text=response_text(response),
        failed=False,
        details=None if isinstance(response, str) else response,
        duration_ms=_number(payload.get("duration_ms")),
        rank=RANK,
        files=_touched(response),
    )
    if called.id and isinstance(response, dict):
        agent, run = response.get("agentId"), response.get("runId")
        if isinstance(agent, str) and agent:
            child = child_id(place.key[1].partition("/")[0], agent)
            yield place.note_call(called.id, "child_id", child, RANK)
        if isinstance(run, str) and run:
            yield place.note_call(called.id, "run_id", run, RANK)


def _touched(response: Any) -> tuple[Payload, ...]:
    """What the tool did to a file, as its own patch tells."""
    if not isinstance(response, dict) or "filePath" not in response:
        return ()
    touch = read_outcome(msgspec.json.encode(response), "", False).touch
    return (touch,) if touch is not None else ()


def read_failure(payload: Payload, place: Place) -> Iterator[AnyFact]:
    called = _called(payload, place)
    if called.id:  # without one the result itself tells which call it answers
        yield called
    yield ToolReturned(
        **place.common(),
        call=called.id,
        name=called.name,
        arguments=called.arguments,
        text=str(payload.get("error") or ""),
        failed=True,
        status="interrupted" if payload.get("is_interrupt") is True else "",
        duration_ms=_number(payload.get("duration_ms")),
        rank=RANK,
    )


def read_batch(payload: Payload, place: Place) -> Iterator[AnyFact]:
    calls = payload.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield from read_result(call, place)


def read_request(payload: Payload, place: Place) -> Iterator[AnyFact]:
    """No call id: it is the call with this name and these arguments, in its own log too."""
    called = _called(payload, place, {"permission_requested": True})
    yield msgspec.structs.replace(called, rank=LATER + 1)


def read_denial(payload: Payload, place: Place) -> Iterator[AnyFact]:
    called = _called(payload, place)
    if called.id:  # without one the result itself tells which call it answers
        yield called
    yield ToolReturned(
        **place.common(), call=called.id, name=called.name, arguments=called.arguments,
        failed=True, status="denied", rank=RANK,
    )  # fmt: skip
    if called.id and payload.get("reason"):
        yield place.note_call(called.id, "denial_reason", payload["reason"], RANK)


def response_text(response: Any) -> str | None:
    """What the model will have been shown of a response; the transcript knows it better."""
    if response is None or isinstance(response, str):
        return response
    if isinstance(response, dict):
        if "stdout" in response:
            parts = (response.get("stdout"), response.get("stderr"))
            return "\n".join(part for part in parts if isinstance(part, str) and part)
        file = response.get("file")
        if isinstance(file, dict) and isinstance(file.get("content"), str):
            return str(file["content"])
        content = response.get("content")
        if isinstance(content, str | list):
            return flat_text(lenient_content(content))
    if isinstance(response, list):
        found = flat_text(lenient_content(response))
        if found:
            return found
    return msgspec.json.encode(response).decode()


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _last_words(payload: Payload, place: Place) -> Iterator[AnyFact]:
    text = payload.get("last_assistant_message")
    if isinstance(text, str) and text.strip():
        yield MessageSeen(**place.common(), role="assistant", text=text, rank=RANK)


def read_display(payload: Payload, place: Place) -> Iterator[AnyFact]:
    """A piece of an answer as it appeared: put together they are the answer's text, to the byte.

    The id is that of what was shown, not of the answer, which is known again by its words.
    """
    delta, message = payload.get("delta"), payload.get("message_id")
    if not isinstance(delta, str) or not delta:
        return
    ident = f"shown:{message}" if isinstance(message, str) and message else ""
    piece = MessageSeen(
        **place.common(), id=ident, role="assistant", text=delta, piece=True, rank=RANK
    )
    # A piece that two logs hold is one.
    entry = f"{ident}:{payload.get('index')}" if ident else ""
    yield msgspec.structs.replace(piece, entry=entry)


def read_stop(payload: Payload, place: Place) -> Iterator[AnyFact]:
    yield from _last_words(payload, place)
    yield place.mark("turn_end", own_fields(payload, "last_assistant_message"), rank=RANK)


def read_stop_failure(payload: Payload, place: Place) -> Iterator[AnyFact]:
    yield from _last_words(payload, place)
    yield place.mark("error", own_fields(payload, "last_assistant_message"), rank=RANK)


def _child(payload: Payload, place: Place) -> tuple[Key, Payload]:
    ident = child_id(place.key[1], str(payload.get("agent_id") or ""))
    link = {"conversation_id": ident, "kind": "subagent"}
    if payload.get("agent_type"):
        link["name"] = str(payload["agent_type"])
    return (NAME, ident), link


def read_subagent_start(payload: Payload, place: Place) -> Iterator[AnyFact]:
    if payload.get("agent_id"):
        yield place.mark("subagent_start", _child(payload, place)[1], rank=RANK)


def read_subagent_stop(payload: Payload, place: Place) -> Iterator[AnyFact]:
    """What the sub-agent said last goes to its own conversation."""
    if not payload.get("agent_id"):
        return
    key, link = _child(payload, place)
    yield place.mark("subagent_end", link, rank=RANK)
    at = Place(key, place.origin, place.offset, Line())
    at.time = place.time
    yield from _last_words(payload, at)
    parent = {**link, "conversation_id": place.key[1]}
    yield at.note("parent", parent, RANK)
    yield at.note("agent", NAME, RANK)
    yield at.note("session_id", place.key[1], RANK)
    if payload.get("agent_transcript_path"):
        yield at.note("transcript_path", payload["agent_transcript_path"], RANK)


def read_compact(payload: Payload, place: Place) -> Iterator[AnyFact]:
    yield place.mark("compaction", own_fields(payload), rank=RANK)


def read_compacted(payload: Payload, place: Place) -> Iterator[AnyFact]:
    data = own_fields(payload, "compact_summary")
    if payload.get("compact_summary"):
        data["summary"] = payload["compact_summary"]
    yield place.mark("compaction", data, rank=LATER)


def read_start(payload: Payload, place: Place) -> Iterator[AnyFact]:
    yield place.mark("start", own_fields(payload), rank=RANK)
    if payload.get("source") == "fork":
        yield place.note("forked", True, RANK)
    yield from _title(payload, place)


def _title(payload: Payload, place: Place) -> Iterator[AnyFact]:
    title = payload.get("session_title")
    if isinstance(title, str) and title.strip():
        yield place.note("title", title.strip(), RANK)


def read_end(payload: Payload, place: Place) -> Iterator[AnyFact]:
    yield place.mark("end", own_fields(payload), rank=RANK)


READERS: dict[str, Callable[[Payload, Place], Iterator[AnyFact]]] = {
    "SessionStart": read_start,
    "UserPromptSubmit": read_prompt,
    "PreToolUse": read_call,
    "PostToolUse": read_result,
    "PostToolUseFailure": read_failure,
    "PostToolBatch": read_batch,
    "PermissionRequest": read_request,
    "PermissionDenied": read_denial,
    "MessageDisplay": read_display,
    "Stop": read_stop,
    "StopFailure": read_stop_failure,
    "SubagentStart": read_subagent_start,
    "SubagentStop": read_subagent_stop,
    "PreCompact": read_compact,
    "PostCompact": read_compacted,
    "SessionEnd": read_end,
}
"""Events that state more than that they happened; all others become marks of their name."""
