"""Hooks: payloads that Claude Code hands to hook commands, as loggers wrote them down.

They know less than the transcript: everything here is an echo of what stands there. Payloads have no
time of their own; a logger may have put one beside or before them.

    {"session_id":"s1","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"toolu_1",…}
    {"session_id":"s1","hook_event_name":"PostToolUse","tool_use_id":"toolu_1","tool_response":{…},…}
"""

import re
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import msgspec

from unspool.facts import NO_ZONE, ZONE, AnyFact, Key, Rank
from unspool.io.origins import Head
from unspool.io.values import list_of
from unspool.sources import hooklogs
from unspool.sources.claude_code.handback import read_handback
from unspool.sources.claude_code.lines import (
    NAME,
    child_id,
    convert_blocks,
    decode_raws,
    flat_text,
)
from unspool.sources.claude_code.results import read_outcome
from unspool.sources.claude_code.transcript import COMMAND_GUESS, files_of
from unspool.sources.claude_code.words import read_words
from unspool.sources.scribe import Scribe, title_of

Payload = dict[str, Any]
LATER = Rank.ECHO + 1
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
_OF_OTHERS = (
    "cursor_version", "conversation_id", "generation_id",  # Cursor, which runs these hooks too
    "submitted_prompt", "tool_call_id", "context_usage", "crons",  # Qwen Code
)  # fmt: skip
_OTHER_HOMES = frozenset((".codex", ".qwen", ".gemini", ".cursor"))
_COMMON = frozenset((
    "session_id", "transcript_path", "cwd", "hook_event_name", "permission_mode", "agent_id",
    "agent_type", "prompt_id", "effort", "raw_input", "workspace_hash", *hooklogs.TIMES,
))  # fmt: skip


def event_of(payload: Payload) -> str:
    """The event's name, whatever its case; before 1.0.41 it is told by the fields."""
    name = payload.get("hook_event_name")
    if isinstance(name, str) and name:
        return _BY_NAME.get(name.replace("_", "").replace("-", "").lower(), "")
    if "tool_name" in payload:
        returned = "tool_response" in payload or "tool_result" in payload
        return "PostToolUse" if returned else "PreToolUse"
    if "stop_hook_active" in payload:
        return "Stop"
    return "Notification" if isinstance(payload.get("message"), str) else ""


def is_payload(value: Payload) -> bool:
    if not isinstance(value.get("session_id"), str) or any(name in value for name in _OF_OTHERS):
        return False
    if "hook_event_name" not in value and "transcript_path" not in value:
        return False
    event = event_of(value)
    if "turn_id" in value and event != "MessageDisplay":
        return False  # Codex names its turns in every payload
    return bool(event) and not _is_elsewhere(value.get("transcript_path"))


def _is_elsewhere(path: Any) -> bool:
    """Whether the transcript lies in another agent's home: Codex and Qwen Code have the same events."""
    if not isinstance(path, str) or "." not in path:
        return False
    pure = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
    return not _OTHER_HOMES.isdisjoint(pure.parts)


def unwrap(value: Payload) -> Payload | None:
    """The payload: the object itself, or the field of it that a logger put it in."""
    if is_payload(value):
        return value
    for inner in (hooklogs.unwrap(value)[0], *value.values()):
        if isinstance(inner, dict) and is_payload(inner):
            return inner
    return None


def may_be_log(head: Head) -> bool:
    """Whether a word stands there that every payload, or what a script put around it, has."""
    return head.names_hook or b"transcript_path" in head.data or b"hook_type" in head.data


def is_log(values: Iterable[Payload]) -> bool:
    return any(unwrap(value) is not None for value in values)


def read_payload(
    payload: Payload,
    origin: str,
    offset: int,
    moment: hooklogs.Moment | None,
    noted: dict[tuple[Key, str], Any],
) -> list[AnyFact]:
    """`noted`: what was noted so far, so that nothing is noted twice."""
    event = event_of(payload)
    session = str(payload["session_id"])
    agent = payload.get("agent_id")
    # That a sub-agent starts and stops is told in the conversation that called it.
    own = isinstance(agent, str) and agent and event not in ("SubagentStart", "SubagentStop")
    key = (NAME, child_id(session, str(agent)) if own else session)
    time = moment.time if moment is not None else None
    scribe = Scribe(key, origin, offset, time=time, rank=Rank.ECHO)
    notes = (
        (ZONE, NO_ZONE if moment is not None and not moment.zoned else None, Rank.ECHO),
        ("agent", NAME, Rank.ECHO),
        ("session_id", session, Rank.ECHO),
        ("workspace.path", payload.get("cwd"), Rank.GUESS + 1),
        ("workspace.hash", payload.get("workspace_hash"), Rank.ECHO),
        ("transcript_path", payload.get("transcript_path"), Rank.GUESS),  # the first one holds
        # SubagentStop also tells the name: it holds, whichever comes last.
        ("parent", session if own else None, LATER),
    )
    for name, value, rank in notes:
        if isinstance(value, str) and value and noted.get((key, f"hook:{name}")) != value:
            noted[(key, f"hook:{name}")] = value
            link = {"conversation_id": session, "kind": "subagent"}
            scribe.note(name, link if name == "parent" else value, rank)
    reader = READERS.get(event)
    if reader is not None:
        reader(payload, scribe)
    else:
        scribe.mark(_snake(event), _own_fields(payload), rank=Rank.ECHO)
    return scribe.facts


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _own_fields(payload: Payload, *without: str) -> Payload:
    return {
        name: value
        for name, value in payload.items()
        if name not in _COMMON and name not in without and value not in (None, "", [], {})
    }


def _prompt(payload: Payload, scribe: Scribe) -> None:
    text = payload.get("prompt")
    if not isinstance(text, str):
        return
    words = read_words(text)
    scribe.message(
        role="user",
        text=text,
        kind=words.kind,
        typed=words.typed,
        mode=str(payload.get("permission_mode") or ""),
        request=str(payload.get("prompt_id") or ""),
        attachments=words.attachments,
        extra={"prompt_source": payload["source"]} if payload.get("source") else None,
    )
    if words.typed and words.kind in ("", "command"):
        rank = Rank.GUESS + 1 if words.kind == "" else COMMAND_GUESS
        scribe.note("title", title_of(words.typed), rank)
    _session_title(payload, scribe)


def _session_title(payload: Payload, scribe: Scribe) -> None:
    title = payload.get("session_title")
    if isinstance(title, str) and title.strip():
        scribe.note("title", title.strip(), Rank.ECHO)


def _called(payload: Payload) -> Payload:
    """The call that a payload is about, as the fields of ToolCalled."""
    given = payload.get("tool_input")
    arguments = b"" if given is None else msgspec.json.encode(given)
    name = str(payload.get("tool_name") or "")
    return {
        "id": str(payload.get("tool_use_id") or ""),
        "name": name,
        "arguments": arguments.decode(),
        "request": str(payload.get("prompt_id") or ""),
        "files": files_of(name, arguments),
    }


def _call(payload: Payload, scribe: Scribe) -> None:
    scribe.call(**_called(payload))


def _permission(payload: Payload, scribe: Scribe) -> None:
    """No call id: it is the call with this name and these arguments, in its own log too."""
    extra = {"permission_requested": True}
    scribe.call(**_called(payload), extra=extra, rank=LATER + 1)


def _returned(payload: Payload, scribe: Scribe, **outcome: Any) -> str:
    """The call and what came of it; the call's id."""
    called = _called(payload)
    call: str = called["id"]
    if call:  # without one the result itself tells which call it answers
        scribe.call(**called)
    duration = payload.get("duration_ms")
    scribe.returned(
        call=call,
        name=called["name"],
        arguments=called["arguments"],
        duration_ms=float(duration) if isinstance(duration, int | float) else None,
        **outcome,
    )
    return call


def _result(payload: Payload, scribe: Scribe, rank: int = LATER) -> None:
    """What a tool returned; what the model got of it, the batch knows better."""
    response = payload.get("tool_response", payload.get("tool_result"))
    if isinstance(response, str):
        # The batch alone tells of a call that a rule denied (2.1.325; cases/claude_code/hooks_denied):
        # {"hook_event_name":"PostToolBatch","tool_calls":[{"tool_use_id":"toolu_1",
        #  "tool_response":"Permission to use Bash with command x has been denied."}]}
        refused = read_outcome(msgspec.UNSET, response, failed=True).status == "denied"
        status = "denied" if refused and response.rstrip().endswith("denied.") else ""
        _returned(payload, scribe, text=response, failed=bool(status), status=status)
        return
    touch = None
    if isinstance(response, dict) and "filePath" in response:
        touch = read_outcome(decode_raws(msgspec.json.encode(response)), "", failed=False).touch
    call = _returned(
        payload,
        scribe,
        text=response_text(response),
        failed=False,
        rank=rank,
        details=response,
        files=(touch,) if touch is not None else (),
    )
    if call and isinstance(response, dict):
        agent, run = response.get("agentId"), response.get("runId")
        if isinstance(agent, str) and agent:
            session = scribe.key[1].partition("/")[0]
            scribe.note("child_id", child_id(session, agent), Rank.ECHO, "call", call)
            read_handback(call, response, scribe, session, LATER)
        if isinstance(run, str) and run:
            scribe.note("run_id", run, Rank.ECHO, "call", call)


def response_text(response: Any) -> str | None:
    """What the model will have been shown of a response; the transcript knows it better."""
    if response is None:
        return None
    if isinstance(response, dict):
        if "stdout" in response:
            parts = (response.get("stdout"), response.get("stderr"))
            return "\n".join(part for part in parts if isinstance(part, str) and part)
        file = response.get("file")
        if isinstance(file, dict) and isinstance(file.get("content"), str):
            return str(file["content"])
        if isinstance(response.get("content"), str | list):
            return flat_text(convert_blocks(response["content"]))
    if isinstance(response, list) and all(isinstance(b, dict) and "type" in b for b in response):
        return flat_text(convert_blocks(response))
    return msgspec.json.encode(response).decode()


def _failure(payload: Payload, scribe: Scribe) -> None:
    status = "interrupted" if payload.get("is_interrupt") is True else ""
    _returned(payload, scribe, text=str(payload.get("error") or ""), failed=True, status=status)


def _denial(payload: Payload, scribe: Scribe) -> None:
    call = _returned(payload, scribe, failed=True, status="denied")
    if call and payload.get("reason"):
        scribe.note("denial_reason", payload["reason"], Rank.ECHO, "call", call)


def _batch(payload: Payload, scribe: Scribe) -> None:
    for call in list_of(payload.get("tool_calls")):
        if isinstance(call, dict):
            _result(call, scribe, Rank.ECHO)


def _display(payload: Payload, scribe: Scribe) -> None:
    """A piece of an answer as it appeared: put together they are the answer's text, to the byte.

    The id is that of what was shown, not of the answer, which is known again by its words.
    """
    delta, message = payload.get("delta"), payload.get("message_id")
    if isinstance(delta, str) and delta:
        ident = f"shown:{message}" if isinstance(message, str) and message else ""
        # A piece that two logs hold is one.
        entry = f"{ident}:{payload.get('index')}" if ident else ""
        scribe.message(id=ident, role="assistant", text=delta, piece=True, entry=entry)


def _last_words(payload: Payload, scribe: Scribe, key: Key, kind: str = "") -> None:
    text = payload.get("last_assistant_message")
    if isinstance(text, str) and text.strip():
        scribe.message(role="assistant", text=text, kind=kind, key=key)


def _stop(payload: Payload, scribe: Scribe) -> None:
    _last_words(payload, scribe, scribe.key)
    scribe.mark("turn_end", _own_fields(payload, "last_assistant_message"), rank=Rank.ECHO)
    if payload.get("reason"):  # some loggers know no other end (cases/claude_code/hooks_envelope)
        scribe.mark("end", {"reason": payload["reason"]}, rank=LATER)


def _stop_failure(payload: Payload, scribe: Scribe) -> None:
    _last_words(payload, scribe, scribe.key, "error")  # the program's words, not the model's
    scribe.mark("error", _own_fields(payload, "last_assistant_message"), rank=Rank.ECHO)


def _child(payload: Payload, scribe: Scribe) -> Payload:
    """The link to the sub-agent that a payload is about; nothing where it names none. A compaction ends
    like an agent, one of no type, which never started and keeps no file
    (cases/claude_code/hooks_all_events)."""
    if not payload.get("agent_id") or payload.get("agent_type") == "":
        return {}
    link = {"conversation_id": child_id(scribe.key[1], str(payload["agent_id"]))}
    link["kind"] = "subagent"
    if payload.get("agent_type"):
        link["name"] = str(payload["agent_type"])
    return link


def _subagent_start(payload: Payload, scribe: Scribe) -> None:
    if link := _child(payload, scribe):
        scribe.mark("subagent_start", link, rank=Rank.ECHO)


def _subagent_stop(payload: Payload, scribe: Scribe) -> None:
    """What the sub-agent said last goes to its own conversation."""
    link = _child(payload, scribe)
    if not link:
        ended = {"agent_id": str(payload["agent_id"])} if payload.get("agent_id") else None
        scribe.mark("subagent_end", ended, rank=Rank.ECHO)
        return
    scribe.mark("subagent_end", link, rank=Rank.ECHO)
    session = scribe.key[1]
    child = (NAME, str(link["conversation_id"]))
    _last_words(payload, scribe, child)
    scribe.note("parent", {**link, "conversation_id": session}, Rank.ECHO, key=child)
    scribe.note("agent", NAME, Rank.ECHO, key=child)
    scribe.note("session_id", session, Rank.ECHO, key=child)
    if payload.get("agent_transcript_path"):
        scribe.note("transcript_path", payload["agent_transcript_path"], Rank.ECHO, key=child)


def _compact(payload: Payload, scribe: Scribe) -> None:
    scribe.mark("compaction", _own_fields(payload), rank=Rank.ECHO)


def _compacted(payload: Payload, scribe: Scribe) -> None:
    data = _own_fields(payload, "compact_summary")
    if payload.get("compact_summary"):
        data["summary"] = payload["compact_summary"]
    scribe.mark("compaction", data, rank=LATER)


def _start(payload: Payload, scribe: Scribe) -> None:
    scribe.mark("start", _own_fields(payload), rank=Rank.ECHO)
    if payload.get("source") == "fork":
        scribe.note("forked", True, Rank.ECHO)
    _session_title(payload, scribe)


def _end(payload: Payload, scribe: Scribe) -> None:
    scribe.mark("end", _own_fields(payload), rank=Rank.ECHO)


READERS: dict[str, Callable[[Payload, Scribe], None]] = {
    "SessionStart": _start,
    "UserPromptSubmit": _prompt,
    "PreToolUse": _call,
    "PostToolUse": _result,
    "PostToolUseFailure": _failure,
    "PostToolBatch": _batch,
    "PermissionRequest": _permission,
    "PermissionDenied": _denial,
    "MessageDisplay": _display,
    "Stop": _stop,
    "StopFailure": _stop_failure,
    "SubagentStart": _subagent_start,
    "SubagentStop": _subagent_stop,
    "PreCompact": _compact,
    "PostCompact": _compacted,
    "SessionEnd": _end,
}
"""Events that state more than that they happened; all others become marks of their name."""
