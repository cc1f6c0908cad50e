"""What a tool was given and what it gave back, in code blocks."""

import json

from unspool.sinks.markdown.extras import attached
from unspool.sinks.markdown.prose import fenced
from unspool.trajectory import Message, ToolCall
from unspool.views.calls import arguments_of

_COMMANDS = ("command", "cmd", "script")


def given(call: ToolCall) -> str:
    """The arguments: a command as such, other objects as JSON over lines, plain text as it is."""
    if not call.arguments:
        return ""
    values = arguments_of(call)
    if values is None:
        return f"Input:\n\n{fenced(call.arguments)}"
    blocks: list[str] = []
    for name in _COMMANDS:
        if isinstance(values.get(name), str):
            blocks.append(fenced(str(values.pop(name)), "sh"))
            break
    if values:
        blocks.append(fenced(json.dumps(values, indent=2, ensure_ascii=False), "json"))
    return "Input:\n\n" + "\n\n".join(blocks) if blocks else ""


def returned(result: Message) -> str:
    """What the model got; what the tool returned besides, where the model got nothing."""
    blocks: list[str] = []
    if result.content:
        blocks.append(fenced(result.content))
    elif result.details is not None:
        blocks.append(fenced(_shown(result.details), "json"))
    if result.attachments:
        blocks.append(attached(result.attachments))
    if not blocks:
        return "Output: none"
    return "Output:\n\n" + "\n\n".join(blocks)


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=1, ensure_ascii=False, default=str)
