"""Hook events as live capture meets them: whose a payload is, and what its agent does from then on.

Every source whose agent has hooks declares it, as `HOOKS` in its module. Payloads are not read for it:
only the few fields are looked at by which they are told apart.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec


class Fields(msgspec.Struct):
    """The fields that tell whose a payload is, whatever their types are."""

    hook_event_name: Any = None
    hookEventName: Any = None
    session_id: Any = None
    sessionId: Any = None
    conversation_id: Any = None
    generation_id: Any = None
    prompt_id: Any = None
    tool_use_id: Any = None
    transcript_path: Any = None
    transcriptPath: Any = None
    cursor_version: Any = None
    timestamp: Any = None


class Told(msgspec.Struct):
    """What a payload says of its agent's state beside the event."""

    status: Any = None
    tool_name: Any = None
    notification_type: Any = None
    message: Any = None
    input: Any = None


class Hooks(NamedTuple):
    """What a source says of its agent's hooks."""

    states: Mapping[str, str]
    """Event, in lower case without `_` and `-` → working, waiting, idle, failed or ended. Others tell
    nothing."""
    folders: tuple[str, ...] = ()
    """Where the transcripts lie that its payloads name."""
    is_own: Callable[[Fields], bool] = lambda fields: False
    """Whether it is its own by its fields; else the name of the hook, or the folder of the transcript,
    tells."""
    sessions: tuple[str, ...] = ("session_id", "sessionId")
    """The fields that may name the conversation, the best first."""
    settle: Callable[[str, Told, str], str] = lambda event, told, state: state
    """(event, payload, what the table says) → the state."""
    calls: str = "pretooluse"
    """The event at which a tool begins,"""
    tool: Callable[[Told], Any] = lambda told: told.tool_name
    """and which it is."""


CLAUDE_STATES = {
    "sessionstart": "idle",
    "userpromptsubmit": "working",
    "pretooluse": "working",
    "posttooluse": "working",
    "posttoolusefailure": "working",
    "subagentstart": "working",
    "subagentstop": "working",
    "precompact": "working",
    "postcompact": "working",
    "permissiondenied": "working",
    "permissionrequest": "waiting",
    "notification": "waiting",
    "stop": "idle",
    "stopfailure": "failed",
    "erroroccurred": "failed",
    "sessionend": "ended",
}
"""The events under Claude Code's own names, which several agents took over."""


def settle_notification(event: str, told: Told, state: str) -> str:
    """`Notification` is a question, a reminder, or neither; its words tell."""
    if event != "notification":
        return state
    text = f"{told.notification_type or ''} {told.message or ''}".lower()
    if "idle" in text or "waiting for your input" in text:
        return "idle"  # a reminder, a minute after its turn was over
    asks = ("permission", "elicitation", "needs your")
    return state if any(word in text for word in asks) else ""
