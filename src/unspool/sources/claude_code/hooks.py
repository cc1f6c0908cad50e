"""Hooks: payloads that Claude Code hands to hook commands, as loggers wrote them down.

They know less than the transcript: everything here is an echo (rank above 0) of what stands there.
Payloads have no time of their own; a logger may have put one beside or before them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from unspool import hooklogs
from unspool.facts import NO_ZONE, ZONE, AnyFact, Key, MessageSeen, ToolCalled, ToolReturned
from unspool.sources.claude_code.lines import Line, lenient_content
from unspool.sources.claude_code.place import COMMAND_GUESS, GUESS, NAME, Place, child_id, title_of
from unspool.sources.claude_code.results import flat_text, read_outcome
from unspool.sources.claude_code.transcript import files_of
from unspool.sources.claude_code.words import read_words

Payload = dict[str, Any]
RANK = 3
LATER = 4
"""The rank of what a second payload tells of the same thing."""

EVENTS = (
    "SessionStart", "Setup", "UserPromptSubmit", "UserPromptExpansion", "PreToolUse",
    "PermissionRequest", "PermissionDenied", "PostToolUse", "PostToolUseFailure", "PostToolBatch",
    "Notification", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact",
    "PostCompact", "PreModelSwitch", "PostModelSwitch", "TaskCreated", "TaskCompleted",
    "TeammateIdle", "Elicitation", "ElicitationResult", "ConfigChange", "InstructionsLoaded",
    "CwdChanged", "FileChanged", "DirectoryAdded", "WorktreeCreate", "WorktreeRemove",
    "MessageDisplay", "SessionEnd",
)  # fmt: skip
_BY_NAME = {name.lower(): name for name in EVENTS}
_OTHERS = ("cursor_version", "conversation_id", "generation_id")
"""Fields that only Cursor's payloads have; it runs Claude Code's hooks too."""
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


def event_of(payload: Payload) -> str:
    """The event's name, whatever its case; before 1.0.41 it is told by the fields."""
    name = payload.get("hook_event_name")
    if isinstance(name, str) and name:
        return _BY_NAME.get(name.replace("_", "").replace("-", "").lower(), "")
    if "tool_name" in payload:
        return (
            "PostToolUse"
            if "tool_response" in payload or "tool_result" in payload
            else "PreToolUse"
        )
    if "stop_hook_active" in payload:
        return "Stop"
    return "Notification" if isinstance(payload.get("message"), str) else ""


def is_payload(value: Payload) -> bool:
    if not isinstance(value.get("session_id"), str) or any(name in value for name in _OTHERS):
        return False
    if "hook_event_name" not in value and "transcript_path" not in value:
        return False
    return bool(event_of(value))


def unwrap(value: Payload) -> Payload | None:
    """The payload: the object itself, or the field of it that a logger put it in."""
    if is_payload(value):
        return value
    for inner in (hooklogs.unwrap(value)[0], *value.values()):
        if isinstance(inner, dict) and is_payload(inner):
            return inner
    return None


def is_log(values: list[Payload]) -> bool:
    return any(unwrap(value) is not None for value in values)


def read_payload(
    payload: Payload,
    outer: Payload,
    origin: str,
    offset: int,
    logged: hooklogs.Moment | None,
    noted: dict[tuple[Key, str], Any],
) -> Iterator[AnyFact]:
    event = event_of(payload)
    session = str(payload["session_id"])
    agent = payload.get("agent_id")
    agent = agent if isinstance(agent, str) else ""
    own = event not in ("SubagentStart", "SubagentStop")
    key = (NAME, child_id(session, agent) if agent and own else session)
    place = Place(key, origin, offset, Line())
    moment = logged or hooklogs.noted_moment(payload) or hooklogs.noted_moment(outer)
    place.time = moment.time if moment is not None else None
    place.rank = RANK
    if moment is not None and not moment.zoned and (key, "hook:zone") not in noted:
        noted[(key, "hook:zone")] = True
        yield place.note(ZONE, NO_ZONE, RANK)
    yield from _notes(payload, place, session, agent if own else "", noted)
    reader = READERS.get(event)
    if reader is not None:
        yield from reader(payload, place)
    elif event != "MessageDisplay":  # pieces of text as they appear on the screen
        yield place.mark(_snake(event), _rest(payload), rank=RANK)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _rest(payload: Payload, *without: str) -> Payload:
    return {
        name: value
        for name, value in payload.items()
        if name not in _COMMON and name not in without and value not in (None, "", [], {})
    }


def _notes(
    payload: Payload, place: Place, session: str, agent: str, noted: dict[tuple[Key, str], Any]
) -> Iterator[AnyFact]:
    key = place.key
    known = (
        ("agent", NAME, RANK),
        ("session_id", session, RANK),
        ("workspace.path", payload.get("cwd"), GUESS + 1),
        ("transcript_path", payload.get("transcript_path"), RANK),
    )
    for name, value, rank in known:
        if isinstance(value, str) and value and noted.get((key, f"hook:{name}")) != value:
            noted[(key, f"hook:{name}")] = value
            yield place.note(name, value, rank)
    if agent and (key, "hook:parent") not in noted:
        noted[(key, "hook:parent")] = True
        yield place.note("parent", {"conversation_id": session, "kind": "subagent"}, RANK)


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


def read_stop(payload: Payload, place: Place) -> Iterator[AnyFact]:
    yield from _last_words(payload, place)
    yield place.mark("turn_end", _rest(payload, "last_assistant_message"), rank=RANK)


def read_stop_failure(payload: Payload, place: Place) -> Iterator[AnyFact]:
    yield from _last_words(payload, place)
    yield place.mark("error", _rest(payload, "last_assistant_message"), rank=RANK)


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
    yield place.mark("compaction", _rest(payload), rank=RANK)


def read_compacted(payload: Payload, place: Place) -> Iterator[AnyFact]:
    data = _rest(payload, "compact_summary")
    if payload.get("compact_summary"):
        data["summary"] = payload["compact_summary"]
    yield place.mark("compaction", data, rank=LATER)


def read_start(payload: Payload, place: Place) -> Iterator[AnyFact]:
    yield place.mark("start", _rest(payload), rank=RANK)
    yield from _title(payload, place)


def _title(payload: Payload, place: Place) -> Iterator[AnyFact]:
    title = payload.get("session_title")
    if isinstance(title, str) and title.strip():
        yield place.note("title", title.strip(), RANK)


def read_end(payload: Payload, place: Place) -> Iterator[AnyFact]:
    yield place.mark("end", _rest(payload), rank=RANK)


READERS: dict[str, Callable[[Payload, Place], Iterator[AnyFact]]] = {
    "SessionStart": read_start,
    "UserPromptSubmit": read_prompt,
    "PreToolUse": read_call,
    "PostToolUse": read_result,
    "PostToolUseFailure": read_failure,
    "PostToolBatch": read_batch,
    "PermissionRequest": read_request,
    "PermissionDenied": read_denial,
    "Stop": read_stop,
    "StopFailure": read_stop_failure,
    "SubagentStart": read_subagent_start,
    "SubagentStop": read_subagent_stop,
    "PreCompact": read_compact,
    "PostCompact": read_compacted,
    "SessionEnd": read_end,
}
"""Events that state more than that they happened; all others become marks of their name."""
