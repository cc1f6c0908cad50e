"""Tool calls as the parts that VS Code shows, and what the tools gave back."""

from typing import Any

from unspool.facts import Attachment
from unspool.sources.vscode_chat.fields import CALL, NATIVE
from unspool.trajectory import Message, ToolCall, Trajectory, text_of

_DENIED = {"type": 0}
_ALLOWED = {"type": 1}


def call_part(call: ToolCall, result: Message | None, child: Trajectory | None) -> dict[str, Any]:
    """The part of one call: as it was, or made from what is known."""
    extra = call.extra or {}
    made: dict[str, Any] = {"kind": "toolInvocationSerialized"}
    if isinstance(extra.get("tool_id"), str):
        made |= {theirs: extra[ours] for ours, theirs in CALL.items() if ours in extra}
        made["toolCallId"] = call.id
        if result is not None and result.details is not None:
            made["resultDetails"] = _with_data(result.details, result.attachments or [])
        made.setdefault("invocationMessage", call.name)
        held = extra.get(NATIVE)
        made = {**held, **made} if isinstance(held, dict) else made
    else:
        made |= _described(call, result, child)
    made.setdefault("isComplete", True)
    return made


def _described(call: ToolCall, result: Message | None, child: Trajectory | None) -> dict[str, Any]:
    name = call.name or "tool"
    made: dict[str, Any] = {
        "toolId": name,
        "toolCallId": call.id,
        "invocationMessage": name,
        "pastTenseMessage": name,
        "isConfirmed": _DENIED if call.status == "denied" else _ALLOWED,
        "source": {"type": "external", "label": "External"},
        "resultDetails": _details(call, result),
    }
    if child is not None:
        made["toolSpecificData"] = _sub_agent(child)
    return made


def _details(call: ToolCall, result: Message | None) -> dict[str, Any]:
    failed = call.status == "failed" or bool(result is not None and result.is_error)
    output: list[dict[str, Any]] = []
    if result is not None:
        output.append({"type": "embed", "isText": True, "value": result.content})
        for attachment in result.attachments or ():
            if attachment.data:
                output.append(
                    {
                        "type": "embed",
                        "isText": False,
                        "mimeType": attachment.media_type or "application/octet-stream",
                        "value": attachment.data,
                    }
                )
    return {"input": call.arguments, "output": output, "isError": failed}


def _sub_agent(child: Trajectory) -> dict[str, Any]:
    users = [text_of(m) for m in child.messages if m.role == "user"]
    answers = [m.content for m in child.messages if m.role == "assistant" and m.content]
    made: dict[str, Any] = {"kind": "subagent"}
    name = child.parent.name if child.parent is not None else None
    for field, value in (
        ("agentName", name or child.agent),
        ("description", child.title),
        ("prompt", users[0] if users else None),
        ("result", answers[-1] if answers else None),
    ):
        if value:
            made[field] = value
    return made


def _with_data(details: Any, attachments: list[Attachment]) -> Any:
    """Result details with the bytes that were taken out of them."""
    if not isinstance(details, dict):
        return details if isinstance(details, list) else None
    if not holds_data(details, attachments):
        return details
    waiting = [a.data for a in attachments]
    output = details["output"]
    if isinstance(output, dict):
        return {**details, "output": {**output, "base64Data": waiting[0]}}
    filled = [{**part, "value": waiting.pop(0)} if _is_empty(part) else part for part in output]
    return {**details, "output": filled}


def _is_empty(part: Any) -> bool:
    """Whether the bytes of the part were taken out of it."""
    return isinstance(part, dict) and part.get("type") == "embed" and "value" not in part


def holds_data(details: Any, attachments: list[Attachment]) -> bool:
    """Whether the images of a result have their places in its details."""
    output = details.get("output") if isinstance(details, dict) else None
    if isinstance(output, dict):
        return len(attachments) == 1 and "base64Data" not in output
    places = sum(map(_is_empty, output)) if isinstance(output, list) else 0
    return 0 < places == len(attachments)


def result_of(result: Message) -> dict[str, Any]:
    """What the model got, as Copilot keeps it."""
    content: list[dict[str, Any]] = [{"$mid": 21, "value": result.content}]
    attachments = result.attachments or []
    if not holds_data(result.details, attachments):
        for attachment in attachments:
            if attachment.data:
                data = {"mimeType": attachment.media_type, "data": {"$base64": attachment.data}}
                content.append({"$mid": 24, "value": data})
    return {"$mid": 20, "content": content}
