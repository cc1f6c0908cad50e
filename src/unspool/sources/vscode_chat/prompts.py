"""What the person typed, and what the model got to see of it."""

from typing import Any

from unspool.facts import Attachment
from unspool.sources.vscode_chat.weights import inlined


def typed_text(message: Any) -> str:
    """The text; else its parts, rebuilt where they have none; else the plain string of old files."""
    if isinstance(message, str):
        return message
    if not isinstance(message, dict):
        return ""
    text = message.get("text")
    if isinstance(text, str) and text:
        return text
    parts = message.get("parts")
    return "".join(part_text(p) for p in parts) if isinstance(parts, list) else ""


def part_text(part: Any) -> str:
    """The text of a part. VS Code computes it for mentions and does not store it."""
    if not isinstance(part, dict):
        return part if isinstance(part, str) else ""
    text = part.get("text")
    if isinstance(text, str):
        return text
    kind = part.get("kind")
    if kind == "agent":
        return _mention("@", _inner(part.get("agent"), "name", "id"))
    if kind == "subcommand":
        return _mention("/", _inner(part.get("command"), "name"))
    if kind == "slash":
        return _mention("/", _inner(part.get("slashCommand"), "command", "name"))
    if kind == "prompt":
        return _mention("/", _inner(part, "name"))
    if kind == "tool":
        return _mention("#", _inner(part, "toolName", "toolId"))
    if kind == "var":
        argument = _inner(part, "variableArg")
        return _mention("#", _inner(part, "variableName")) + (f":{argument}" if argument else "")
    return _mention("#", _inner(part, "name", "id"))


def _mention(mark: str, name: str) -> str:
    return mark + name if name else ""


def _inner(value: Any, *names: str) -> str:
    if isinstance(value, str):
        return value
    for name in names if isinstance(value, dict) else ():
        found = value.get(name)
        if isinstance(found, str) and found:
            return found
    return ""


def mentions(message: Any) -> list[dict[str, Any]]:
    """The parts of the message that are more than text."""
    parts = message.get("parts") if isinstance(message, dict) else None
    if not isinstance(parts, list):
        return []
    return [p for p in parts if isinstance(p, dict) and p.get("kind") not in ("text", None)]


def rendered(parts: Any) -> tuple[str, list[Attachment]]:
    """The text and the images of a rendered message."""
    texts: list[str] = []
    images: list[Attachment] = []
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and isinstance(part.get("imageUrl"), dict):
            url = part["imageUrl"].get("url")
            media = part["imageUrl"].get("mediaType")
            found = inlined("image", url, media if isinstance(media, str) else "")
            if found is not None:
                images.append(found)
            elif isinstance(url, str):
                images.append(Attachment(kind="image", uri=url))
    return "\n".join(texts), images
