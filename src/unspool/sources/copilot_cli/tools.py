"""Tools: what was run, by whom, and what came back."""

import re
from collections.abc import Iterator
from typing import Any

from unspool.facts import AnyFact, Marked, MessageSeen, Noted, ToolCalled, ToolReturned
from unspool.sources.copilot_cli.attachments import attachments
from unspool.sources.copilot_cli.envelope import Event
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.speech import task_prompt
from unspool.sources.copilot_cli.texts import arguments_text, plain
from unspool.sources.copilot_cli.touches import measured, touched

_STATUS = {
    "interrupted": "interrupted",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "aborted": "interrupted",
    "denied": "denied",
    "rejected": "denied",
}
_COMMIT = re.compile(
    r"^\[(\S+)(?: \(root-commit\))? ([0-9a-f]{7,40})\] .*\n(?:.*\n){0,3}? \d+ files? changed",
    re.MULTILINE,
)
"""What `git commit` prints: the branch, the commit, its subject, and how much it changed."""

_NO_MODEL = ("", "resumed")
"""What the log writes for the results that a resumption makes up is no model."""


def read_start(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """How and when a call was run. The call itself is the assistant message's."""
    data = event.data
    call, name = event.text("toolCallId"), event.text("toolName")
    arguments = data.get("arguments")
    extra = {
        ours: data[native]
        for ours, native in (("mcp_server", "mcpServerName"), ("mcp_tool", "mcpToolName"))
        if data.get(native)
    }
    yield event.fact(
        ToolCalled,
        id=call,
        name=name,
        arguments=arguments_text(arguments),
        rank=event.rank + 1,
        files=touched(name, arguments),
        extra=extra or None,
    )
    if not call:
        return
    yield from _model(event, call)
    yield from task_prompt(event, call, name, arguments, lookup)


def _model(event: Event, call: str) -> Iterator[AnyFact]:
    model = event.text("model")
    if model not in _NO_MODEL:
        yield event.fact(Noted, on="call", subject=call, name="model", value=model, rank=event.rank)


def read_complete(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    data = event.data
    call = event.text("toolCallId")
    result, error = data.get("result"), data.get("error")
    code = plain(error.get("code")) if isinstance(error, dict) else ""
    success = data.get("success")
    failed = not success if isinstance(success, bool) else (True if error else None)
    extra = event.chosen("interactionId", "isUserRequested", "sandboxed", "mcpMeta", "fusion")
    if code:
        extra["error_code"] = code
    text = _text(result, error, bool(failed))
    if text is None and success is True and not event.rank:
        text = ""  # as the CLI replays it; a transcript of the editor's never holds results
    yield event.fact(
        ToolReturned,
        call=call,
        name=event.text("toolName"),
        text=text,
        failed=failed,
        status=_STATUS.get(code, ""),
        details=_details(data, result) or None,
        rank=event.rank,
        files=measured(data.get("toolTelemetry")),
        attachments=_binaries(result, lookup),
        extra=extra or None,
    )
    if call:
        yield from _model(event, call)
    if text and not failed and " changed" in text:
        for branch, commit in dict.fromkeys(_COMMIT.findall(text)):
            data = {"type": "commit", "value": commit, "branch": branch, "tool_call_id": call}
            yield event.fact(Marked, kind="reference", subject=commit, data=data)


def _text(result: Any, error: Any, failed: bool) -> str | None:
    """What the model got; None where the record does not hold it."""
    if failed:
        return (plain(error) if error else plain(result)) or "Tool execution failed"
    if result is None:
        return None
    if isinstance(result, dict):
        return plain(result.get("content")) if "content" in result else plain(result)
    return plain(result)


def _details(data: dict[str, Any], result: Any) -> dict[str, Any]:
    """What the tool returned beside that: the screen's text, typed blocks, the exit code."""
    made: dict[str, Any] = {}
    if isinstance(result, dict) and len(result) > 1:
        content = result.get("content")
        for native, value in result.items():
            if native in _RESULT and value and value != content:
                made[_RESULT[native]] = value
    for ours, native in (("shell", "shellExecution"), ("file_edits", "fileEdits")):
        if data.get(native):
            made[ours] = data[native]
    return made


_RESULT = {
    "detailedContent": "detailed",
    "contents": "contents",
    "structuredContent": "structured",
    "uiResource": "ui",
}


def _binaries(result: Any, lookup: Lookup) -> tuple[Any, ...]:
    if not isinstance(result, dict) or not result.get("binaryResultsForLlm"):
        return ()
    return attachments(result.get("binaryResultsForLlm"), lookup)


def read_user_requested(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """A tool that the person ran in the chat (`! ls`)."""
    arguments = event.data.get("arguments")
    command = arguments.get("command") if isinstance(arguments, dict) else arguments
    call, name = event.text("toolCallId"), event.text("toolName")
    yield event.fact(
        MessageSeen, id=event.id, role="user", kind="shell", text=plain(command) or name
    )
    yield event.fact(
        ToolCalled, id=call, message=event.id, name=name, arguments=arguments_text(arguments),
        by_user=True, files=touched(name, arguments),
    )  # fmt: skip


def read_permission(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """Who allowed a call: kept with the call."""
    asked = event.data.get("permissionRequest")
    call = event.text("toolCallId") or (
        plain(asked.get("toolCallId")) if isinstance(asked, dict) else ""
    )
    result = event.data.get("result")
    kind = plain(result.get("kind")) if isinstance(result, dict) else plain(result)
    name = "permission"
    if not kind and isinstance(asked, dict):
        name, kind = "permission_request", plain(asked.get("kind"))
    if call and kind:
        yield event.fact(Noted, on="call", subject=call, name=name, value=kind)
    else:
        yield event.fact(Marked, kind="permission", data=event.chosen("requestId") or None)


def read_human_response(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    data = event.chosen("actor", "response", "requestId")
    yield event.fact(Marked, kind="human_response", subject=event.text("toolCallId"), data=data)
