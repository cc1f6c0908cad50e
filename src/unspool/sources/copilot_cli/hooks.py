"""Hook payloads of Copilot CLI and of VS Code: Claude Code's shape, each with a time of its own.

    {"hook_event_name":"UserPromptSubmit","session_id":"ffbe…","timestamp":"2026-…Z","cwd":"/w","prompt":"…"}
    {"hook_event_name":"PostToolUse","session_id":"ffbe…","timestamp":"…","tool_name":"Write",
     "tool_input":{…},"tool_result":{"result_type":"success","text_result_for_llm":"Created file …"}}

Calls have no ids, and some of the CLI's tools stand under Claude Code's names: they count only where
the session's log is gone. What a sub-agent does is told in its session's log (cases/copilot_cli/hooks).
"""

from collections.abc import Callable

from unspool.facts import Rank
from unspool.io.values import dict_of
from unspool.sources import hook_payloads
from unspool.sources.hook_payloads import Dialect, Payload
from unspool.sources.scribe import Scribe

_FOLDER = "session-state"
_EDITOR = ("workspaceStorage", "globalStorage")
_NAMES = {"Write": "create", "Bash": "bash", "Edit": "edit", "Read": "view", "Agent": "task"}


def _path(payload: Payload) -> list[str]:
    return str(payload.get("transcript_path") or "").replace("\\", "/").split("/")


def _is_own(payload: Payload) -> bool:
    """Claude Code's payloads name their transcript always, and have no time."""
    path = _path(payload)
    if len(path) > 1:
        return _FOLDER in path
    modes = {"permission_mode", "turn_id", "cursor_version", "generation_id", "tool_use_id"}
    return isinstance(payload.get("timestamp"), str) and not modes & payload.keys()


def _is_editors(payload: Payload) -> bool:
    return any(folder in _path(payload) for folder in _EDITOR)


def _returned(payload: Payload, scribe: Scribe) -> None:
    """`PostToolUse`, or `PostToolUseFailure` with an `error`."""
    name, error = str(payload.get("tool_name") or ""), payload.get("error")
    result = dict_of(payload.get("tool_result"))
    failed = result.get("result_type", "success") != "success"
    text = result.get("text_result_for_llm", payload.get("tool_response"))
    if payload["hook_event_name"] == "PostToolUseFailure":
        failed, text = True, str(dict_of(error).get("message") or error or "")
    told = {**payload, "tool_name": _NAMES.get(name, name), "tool_response": text}
    hook_payloads.returned(told, scribe, failed=failed, rank=Rank.STANDIN)


def dialect(product: str, is_own: Callable[[Payload], bool]) -> Dialect:
    return Dialect(
        product=product,
        is_own=is_own,
        events={
            "SessionStart": hook_payloads.start,
            "UserPromptSubmit": hook_payloads.prompt,
            "PostToolUse": _returned,
            "PostToolUseFailure": _returned,
            "PreCompact": hook_payloads.compaction,
            "Stop": hook_payloads.happened("turn_end"),
            "SessionEnd": hook_payloads.end,
        },
        follow=lambda: lambda payload: not payload.get("agent_id"),
    )


DIALECT = dialect("copilot-cli", _is_own)
EDITORS = dialect("vscode-chat", _is_editors)
"""Of VS Code, which hands them over for its own chats."""
