"""What the person typed, and what the model got to see of it."""

import re
from collections.abc import Iterator
from typing import Any

from unspool.facts import Attachment
from unspool.io.values import field_of, list_of, str_of
from unspool.sources.vscode_chat.attachments import from_bytes


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
    return "".join(_part_text(p) for p in parts) if isinstance(parts, list) else ""


_MENTIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "agent": ("@", "agent", ("name", "id")),
    "subcommand": ("/", "command", ("name",)),
    "slash": ("/", "slashCommand", ("command", "name")),
    "prompt": ("/", "", ("name",)),
    "tool": ("#", "", ("toolName", "toolId")),
    "var": ("#", "", ("variableName",)),
}
"""Kind of part → the mark before it, the field that holds its name, and the names in that."""


def _part_text(part: Any) -> str:
    """The text of a part. VS Code computes it for mentions and does not store it."""
    if not isinstance(part, dict):
        return str_of(part)
    text = part.get("text")
    if isinstance(text, str):
        return text
    mark, field, names = _MENTIONS.get(str(part.get("kind")), ("#", "", ("name", "id")))
    name = _first_text(part.get(field) if field else part, *names)
    argument = _first_text(part, "variableArg") if part.get("kind") == "var" else ""
    return (mark + name if name else "") + (f":{argument}" if argument else "")


def _first_text(value: Any, *names: str) -> str:
    if isinstance(value, str):
        return value
    texts = (value.get(name) for name in names) if isinstance(value, dict) else ()
    return next((text for text in texts if isinstance(text, str) and text), "")


def mentions(message: Any) -> list[dict[str, Any]]:
    """The parts of the message that are more than text."""
    parts = field_of(message, "parts")
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
            image = from_bytes("image", url, str_of(part["imageUrl"].get("mediaType")))
            if image is not None:
                images.append(image)
            elif isinstance(url, str):
                images.append(Attachment(kind="image", uri=url))
    return "\n".join(texts), images


def thinking_text(thinking: Any) -> str:
    """Thinking in any of its shapes: a text, its pieces, or {"id": "…", "text": either}."""
    text = thinking.get("text") if isinstance(thinking, dict) else thinking
    if isinstance(text, list):
        return "".join(piece for piece in text if isinstance(piece, str))
    return str_of(text)


def wrong_message(message: Any) -> Iterator[str]:
    """The paths of values in a message that are of a wrong type, and were passed over."""
    if not isinstance(message, dict):
        if message is not None and not isinstance(message, str):
            yield "message"
        return
    parts = message.get("parts")
    if not message.keys() & {"text", "parts"}:
        yield "message"
    if not isinstance(message.get("text"), str | None):
        yield "message.text"
    if not isinstance(parts, list | None):
        yield "message.parts"
    for part in list_of(parts):
        if isinstance(part, dict):
            yield from (
                f"message.parts.{name}"
                for name in ("kind", "text")
                if not isinstance(part.get(name), str | None)
            )
        elif not isinstance(part, str):
            yield "message.parts"


def wrong_rendered(path: str, value: Any) -> Iterator[str]:
    """The same for a rendered message."""
    if value is None or isinstance(value, str):
        return
    for part in value if isinstance(value, list) else (value,):
        if isinstance(part, dict) and part.keys() & {"type", "text", "imageUrl"}:
            if not isinstance(part.get("text"), str | None):
                yield f"{path}.text"
        elif not isinstance(part, str):
            yield path


_FOLDERS = re.compile(
    r"<workspace_info>\s*I am working in a workspace with the following folders:\n- (.+)"
)


def workspace_told(text: str) -> str:
    """The first folder that a prompt tells: an export names none elsewhere (workspace_told).

    <workspace_info>
    I am working in a workspace with the following folders:
    - /home/me/project
    """
    match = _FOLDERS.search(text) if "<workspace_info>" in text else None
    return match[1].strip() if match is not None else ""
