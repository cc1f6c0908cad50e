"""What tools gave back: to the model, and to the person who looked on."""

from typing import Any

import msgspec

from unspool.facts import Attachment
from unspool.prompts.shapes import arguments_text
from unspool.sources.vscode_chat.model import Item, Node, ToolResult, Value
from unspool.sources.vscode_chat.uris import markdown
from unspool.sources.vscode_chat.weights import from_base64, inlined

_TEXT_NODE = 2
_IMAGE_PIECE = 3


class Outcome(msgspec.Struct):
    """What the model got (None where nothing tells), with its images."""

    text: str | None = None
    images: list[Attachment] = []


def model_result(result: ToolResult) -> Outcome:
    content = result.content
    if content is None or isinstance(content, str):
        return Outcome(content)
    made = Outcome("")
    texts: list[str] = []
    for item in content:
        _take(item, texts, made.images)
    made.text = "\n".join(texts)
    return made


def _take(item: Item | str, texts: list[str], images: list[Attachment]) -> None:
    """By the shape of the value: the numbers of `$mid` have changed their meaning."""
    if isinstance(item, str):
        texts.append(item)
        return
    value = item.value
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, Value) and value.node is not None:
        texts.append(render(value.node))
    elif isinstance(value, Value) and isinstance(value.value, str):
        texts.append(value.value)
    elif isinstance(value, list):
        texts.append("".join(piece for piece in value if isinstance(piece, str)))
    elif isinstance(item.text, str):
        texts.append(item.text)
    else:
        holder = value if isinstance(value, Value) and value.mimeType else item
        data = _data(holder.mimeType or "", holder.data)
        if data is not None:
            images.append(data)


def _data(media_type: str, data: Any) -> Attachment | None:
    kind = "image" if media_type.startswith("image/") else "data"
    if isinstance(data, str) and not data.startswith("data:"):
        return from_base64(kind, data, media_type)
    return inlined(kind, data, media_type)


def render(node: Node) -> str:
    """The text of a rendered prompt tree."""
    pieces: list[str] = []
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.type == _TEXT_NODE or at.children is None:
            if at.lineBreakBefore:
                pieces.append("\n")
            pieces.append(at.text or "")
        elif at.ctor == _IMAGE_PIECE:
            pieces.append("<image>")
        else:
            waiting.extend(reversed(at.children))
    return "".join(pieces)


class Shown(msgspec.Struct):
    """What the response part of a tool call tells about its arguments and its end."""

    arguments: str = ""
    text: str | None = None
    details: Any = None
    failed: bool | None = None
    duration_ms: float | None = None
    images: list[Attachment] = []
    plain: bool = False
    """The text is the part's `result`."""


def shown_result(part: dict[str, Any]) -> Shown:
    made = Shown()
    _take_details(made, part.get("resultDetails"))
    specific = part.get("toolSpecificData")
    if isinstance(specific, dict):
        _take_specific(made, specific)
    result = part.get("result")
    if result is not None and made.text is None:
        made.text = result if isinstance(result, str) else arguments_text(result)
        made.plain = True
    return made


def _take_details(made: Shown, details: Any) -> None:
    made.details = details
    if not isinstance(details, dict):
        return
    if isinstance(details.get("input"), str):
        made.arguments = details["input"]
    if isinstance(details.get("isError"), bool):
        made.failed = details["isError"]
    output = details.get("output")
    if isinstance(output, list):
        texts = [text for part in output if (text := _embedded(part, made.images)) is not None]
        made.text = "\n".join(texts) if texts or not made.images else None
        if made.images:
            made.details = {**details, "output": [_without_data(part) for part in output]}
    elif isinstance(output, dict) and isinstance(output.get("base64Data"), str):
        media_type = output.get("mimeType")
        media_type = media_type if isinstance(media_type, str) else ""
        kind = "image" if media_type.startswith("image/") else "data"
        made.images.append(from_base64(kind, output["base64Data"], media_type))
        made.details = {**details, "output": _without_data(output)}


def _embedded(part: Any, images: list[Attachment]) -> str | None:
    if not isinstance(part, dict) or not isinstance(part.get("value"), str):
        return None
    media_type = part.get("mimeType")
    if part.get("isText") is False or (
        isinstance(media_type, str) and media_type.startswith("image/")
    ):
        images.append(from_base64("image", part["value"], str(media_type or "")))
        return None
    return str(part["value"])


def _without_data(part: Any) -> Any:
    """The part with its bytes left out: they are an attachment."""
    if not isinstance(part, dict):
        return part
    is_data = "base64Data" in part or part.get("isText") is False
    media_type = part.get("mimeType")
    if not is_data and not (isinstance(media_type, str) and media_type.startswith("image/")):
        return part
    return {k: v for k, v in part.items() if k not in ("base64Data", "value")}


def _take_specific(made: Shown, data: dict[str, Any]) -> None:
    kind = data.get("kind")
    if kind == "terminal":
        command = command_line(data)
        made.arguments = made.arguments or (arguments_text({"command": command}) if command else "")
        output, state = data.get("terminalCommandOutput"), data.get("terminalCommandState")
        if isinstance(output, dict) and isinstance(output.get("text"), str) and made.text is None:
            made.text = output["text"]
        if isinstance(state, dict) and isinstance(state.get("duration"), int | float):
            made.duration_ms = float(state["duration"])
    elif kind == "input":
        made.arguments = made.arguments or arguments_text(data.get("rawInput"))
    elif kind == "simpleToolInvocation":
        made.arguments = made.arguments or arguments_text(data.get("input"))
        made.text = made.text if made.text is not None else arguments_text(data.get("output"))
    elif kind == "subagent":
        prompt = {k: data[k] for k in ("prompt", "description", "agentName") if data.get(k)}
        made.arguments = made.arguments or (arguments_text(prompt) if prompt else "")
        if isinstance(data.get("result"), str) and made.text is None:
            made.text = data["result"]
        if isinstance(data.get("duration"), int | float):
            made.duration_ms = float(data["duration"])
    elif kind == "todoList" and "todoList" in data:
        made.arguments = made.arguments or arguments_text({"todoList": data["todoList"]})


def command_line(data: dict[str, Any]) -> str:
    """The command of a terminal call, as it was run at last."""
    line = data.get("commandLine")
    if isinstance(line, dict):
        for name in ("userEdited", "toolEdited", "original"):
            if isinstance(line.get(name), str) and line[name]:
                return str(line[name])
    return line if isinstance(line, str) else markdown(data.get("command"))
