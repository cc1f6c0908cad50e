"""What the person typed, and what the model got to see of it."""

import re
from typing import Any

from unspool.facts import Attachment
from unspool.io.values import str_of
from unspool.sources.vscode_chat.attachments import from_bytes
from unspool.sources.vscode_chat.model import Message, RenderedMessage, Thinking


def typed_text(message: Message | str | None) -> str:
    """The text; else its parts, rebuilt where they have none; else the plain string of old files."""
    if message is None or isinstance(message, str):
        return message or ""
    return message.text or "".join(map(_part_text, message.parts or ()))


_MENTIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "agent": ("@", "agent", ("name", "id")),
    "subcommand": ("/", "command", ("name",)),
    "slash": ("/", "slashCommand", ("command", "name")),
    "prompt": ("/", "", ("name",)),
    "tool": ("#", "", ("toolName", "toolId")),
    "var": ("#", "", ("variableName",)),
}
"""Kind of part → the mark before it, the field that holds its name, and the names in that."""


def _part_text(part: dict[str, Any]) -> str:
    """The text of a part. VS Code computes it for mentions and does not store it."""
    text = part.get("text")
    if isinstance(text, str):
        return text
    mark, field, names = _MENTIONS.get(str(part.get("kind")), ("#", "", ("name", "id")))
    name = _first_text(part.get(field) if field else part, *names)
    argument = _first_text(part, "variableArg") if part.get("kind") == "var" else ""
    return (mark + name if name else "") + (f":{argument}" if argument else "")


def _first_text(value: Any, *names: str) -> str:
    texts = (value.get(name) for name in names) if isinstance(value, dict) else ()
    return next((text for text in texts if isinstance(text, str) and text), "")


def mentions(message: Message | str | None) -> list[dict[str, Any]]:
    """The parts of the message that are more than text (or else than a text should be)."""
    parts = message.parts if isinstance(message, Message) else None
    return [
        part
        for part in parts or ()
        if part.get("kind") not in ("text", None) or not isinstance(part.get("text"), str | None)
    ]


def rendered(parts: RenderedMessage) -> tuple[str, list[Attachment]]:
    """The text and the images of a rendered message."""
    texts: list[str] = []
    images: list[Attachment] = []
    if isinstance(parts, str):
        return parts, []
    for part in parts or ():
        if part.text is not None:
            texts.append(part.text)
        elif part.imageUrl is not None and (url := part.imageUrl.url):
            image = from_bytes("image", url, part.imageUrl.mediaType or "")
            images.append(image or Attachment(kind="image", uri=url))
    return "\n".join(texts), images


def thinking_text(thinking: Any) -> str:
    """Thinking in any of its shapes: a text, its pieces, or {"id": "…", "text": either}."""
    if thinking is None:
        return ""
    if isinstance(thinking, Thinking):
        thinking = thinking.text
    text = thinking.get("text") if isinstance(thinking, dict) else thinking
    if isinstance(text, list):
        return "".join(piece for piece in text if isinstance(piece, str))
    return str_of(text)


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
