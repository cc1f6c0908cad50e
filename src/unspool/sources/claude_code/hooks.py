"""Hooks: payloads that Claude Code hands to hook commands, as loggers wrote them down.

They know less than the transcript: everything here is an echo (rank above 0) of what stands there.
Payloads have no time of their own; a logger may have put one beside or before them.
"""

from collections.abc import Iterator
from typing import Any

from unspool.facts import NO_ZONE, ZONE, AnyFact, Key
from unspool.sources import hooklogs
from unspool.sources.claude_code.hook_events import RANK, READERS, Payload, own_fields
from unspool.sources.claude_code.lines import Line
from unspool.sources.claude_code.place import GUESS, NAME, Place, child_id

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
    else:
        yield place.mark(_snake(event), own_fields(payload), rank=RANK)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


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
