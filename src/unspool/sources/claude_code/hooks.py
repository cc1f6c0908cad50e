"""Hooks: payloads that Claude Code hands to hook commands, as loggers wrote them down.

They know less than the transcript: everything here is an echo of what stands there. Payloads have no
time of their own; a logger may have put one beside or before them.

    {"session_id":"s1","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"toolu_1",…}
    {"session_id":"s1","hook_event_name":"PostToolUse","tool_use_id":"toolu_1","tool_response":{…},…}
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.facts import Rank
from unspool.io.origins import Head
from unspool.io.values import dict_of, dicts_of, field_of, str_of
from unspool.sources import hook_payloads, hooklogs
from unspool.sources.claude_code.lines import (
    NAME,
    child_id,
    text_of,
)
from unspool.sources.claude_code.results import CHANGED, refusal, touch_of
from unspool.sources.claude_code.stream import read_handback
from unspool.sources.claude_code.transcript import COMMAND_GUESS
from unspool.sources.claude_code.words import read_words
from unspool.sources.hook_payloads import LATER, Dialect, Payload, own_fields
from unspool.sources.scribe import Scribe, chosen, snake, title_of

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
    # The transcript may lie in another agent's home: Codex and Qwen Code have the same events.
    folders = re.split(r"[/\\]", str_of(value.get("transcript_path")))
    return bool(event) and _OTHER_HOMES.isdisjoint(folders)


def unwrap(value: Payload) -> Payload | None:
    """The payload: the object itself, or the field of it that a logger put it in."""
    if is_payload(value):
        return value
    inner = hooklogs.unwrap(value)[0]
    return inner if is_payload(inner) else None


def may_be_log(head: Head) -> bool:
    """Whether a word stands there that every payload, or what a script put around it, has."""
    return head.names_hook or b"transcript_path" in head.data or b"hook_type" in head.data


def _prompt(payload: Payload, scribe: Scribe) -> None:
    text = str_of(payload.get("prompt"))
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
    scribe.notes({"title": str_of(payload.get("session_title")).strip()}, Rank.ECHO)


def _permission(payload: Payload, scribe: Scribe) -> None:
    """No call id: it is the call with this name and these arguments, in its own log too."""
    hook_payloads.call(payload, scribe, extra={"permission_requested": True}, rank=LATER + 1)


def _result(payload: Payload, scribe: Scribe, rank: int = LATER) -> None:
    """What a tool returned; what the model got of it, the batch knows better."""
    response = payload.get("tool_response", payload.get("tool_result"))
    if isinstance(response, str):
        # The batch alone tells of a call that a rule denied (2.1.325; cases/claude_code/hooks_denied):
        # {"hook_event_name":"PostToolBatch","tool_calls":[{"tool_use_id":"toolu_1",
        #  "tool_response":"Permission to use Bash with command x has been denied."}]}
        denied = refusal(response)[0] == "denied" and response.rstrip().endswith("denied.")
        hook_payloads.ended(
            payload, scribe, text=response, failed=denied, status="denied" if denied else ""
        )
        return
    fields = dict_of(response)
    touch = touch_of(fields) if not CHANGED.isdisjoint(fields) else None
    files = (touch,) if touch is not None else ()
    told = {"text": response_text(response), "details": response, "files": files}
    hook_payloads.ended(payload, scribe, failed=False, rank=rank, **told)
    asked = str_of(payload.get("tool_use_id"))
    if asked and (agent := str_of(fields.get("agentId"))):
        session = scribe.key[1].partition("/")[0]
        scribe.note("child_id", child_id(session, agent), Rank.ECHO, "call", asked)
        read_handback(asked, response, scribe, session, LATER)
    if asked and (run := str_of(fields.get("runId"))):
        scribe.note("run_id", run, Rank.ECHO, "call", asked)


def response_text(response: Any) -> str | None:
    """What the model will have been shown of a response; the transcript knows it better."""
    if response is None:
        return None
    fields = dict_of(response)
    if "stdout" in fields:
        parts = (fields.get("stdout"), fields.get("stderr"))
        return "\n".join(part for part in parts if isinstance(part, str) and part)
    content = field_of(fields.get("file"), "content")
    if isinstance(content, str):
        return content
    blocks = fields.get("content", response)
    if isinstance(blocks, str) or (
        isinstance(blocks, list) and (fields or all(field_of(b, "type") for b in blocks))
    ):
        return text_of(blocks)
    return msgspec.json.encode(response).decode()


def _denial(payload: Payload, scribe: Scribe) -> None:
    hook_payloads.ended(payload, scribe, failed=True, status="denied")
    if payload.get("tool_use_id") and payload.get("reason"):
        reason, denied = payload["reason"], str(payload["tool_use_id"])
        scribe.note("denial_reason", reason, Rank.ECHO, "call", denied)


def _batch(payload: Payload, scribe: Scribe) -> None:
    for asked in dicts_of(payload.get("tool_calls")):
        _result(asked, scribe, Rank.ECHO)


def _display(payload: Payload, scribe: Scribe) -> None:
    """A piece of an answer as it appeared: put together they are the answer's text, to the byte.

    The id is that of what was shown, not of the answer, which is known again by its words.
    """
    delta, message = str_of(payload.get("delta")), str_of(payload.get("message_id"))
    if delta:
        ident = f"shown:{message}" if message else ""
        # A piece that two logs hold is one.
        entry = f"{ident}:{payload.get('index')}" if ident else ""
        scribe.message(id=ident, role="assistant", text=delta, piece=True, entry=entry)


def _stop(payload: Payload, scribe: Scribe) -> None:
    hook_payloads.last_words(payload, scribe)
    scribe.mark("turn_end", own_fields(payload), rank=Rank.ECHO)
    if payload.get("reason"):  # some loggers know no other end (cases/claude_code/hooks_envelope)
        scribe.mark("end", {"reason": payload["reason"]}, rank=LATER)


def _stop_failure(payload: Payload, scribe: Scribe) -> None:
    hook_payloads.last_words(payload, scribe, kind="error")  # the program's words, not the model's
    scribe.mark("error", own_fields(payload), rank=Rank.ECHO)


def _subagent_start(payload: Payload, scribe: Scribe) -> None:
    if "child" in payload and payload.get("agent_type") != "":
        hook_payloads.mark_subagent("subagent_start", payload, scribe)


def _subagent_stop(payload: Payload, scribe: Scribe) -> None:
    if "child" not in payload or payload.get("agent_type") == "":
        # A compaction ends like an agent, one of no type, which never started and keeps no file
        # (cases/claude_code/hooks_all_events).
        scribe.mark("subagent_end", chosen(payload, ("agent_id",)), rank=Rank.ECHO)
        return
    hook_payloads.CLAUDE_EVENTS["SubagentStop"](payload, scribe)
    child, path = (NAME, payload["child"]), str_of(payload.get("agent_transcript_path"))
    notes = {"agent": NAME, "session_id": scribe.key[1], "transcript_path": path}
    for name, value in notes.items():
        if value:
            scribe.note(name, value, Rank.ECHO, key=child)


def _compacted(payload: Payload, scribe: Scribe) -> None:
    names = {"trigger": "trigger", "compact_summary": "summary"}
    scribe.mark("compaction", chosen(payload, names, names), rank=LATER)


def _start(payload: Payload, scribe: Scribe) -> None:
    data = own_fields(payload) | chosen(payload, ("model",))
    scribe.mark("start", data, rank=Rank.ECHO)
    if payload.get("source") == "fork":
        scribe.note("forked", True, Rank.ECHO)
    scribe.notes({"title": str_of(payload.get("session_title")).strip()}, Rank.ECHO)


def _notes(payload: Payload) -> Iterable[tuple[str, Any, int]]:
    yield "agent", NAME, Rank.ECHO
    yield "session_id", payload["session_id"], Rank.ECHO
    yield "workspace.path", str_of(payload.get("cwd")), Rank.GUESS + 1
    yield "workspace.hash", str_of(payload.get("workspace_hash")), Rank.ECHO
    yield "transcript_path", str_of(payload.get("transcript_path")), Rank.GUESS  # the first holds


DIALECT = Dialect(
    product=NAME,
    is_own=is_payload,
    events={
        **{name: hook_payloads.marked(snake(name)) for name in EVENTS},
        "SessionStart": _start,
        "UserPromptSubmit": _prompt,
        "PreToolUse": hook_payloads.call,
        "PostToolUse": _result,
        "PostToolUseFailure": hook_payloads.failed,
        "PostToolBatch": _batch,
        "PermissionRequest": _permission,
        "PermissionDenied": _denial,
        "MessageDisplay": _display,
        "Stop": _stop,
        "StopFailure": _stop_failure,
        "SubagentStart": _subagent_start,
        "SubagentStop": _subagent_stop,
        "PreCompact": hook_payloads.compaction,
        "PostCompact": _compacted,
        "SessionEnd": hook_payloads.end,
    },
    notes=_notes,
)
"""Events that state no more than that they happened become marks of their name."""
