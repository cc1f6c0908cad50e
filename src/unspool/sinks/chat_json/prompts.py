"""The person's side of a request: the message with its parts, and what was attached."""

from typing import Any
from urllib.parse import unquote, urlsplit

from unspool.facts import Attachment
from unspool.io.values import field_of, list_of
from unspool.trajectory import Message, text_of

_NEEDED: dict[str, dict[str, type]] = {
    "agent": {"agent": dict},
    "subcommand": {"command": dict},
    "slash": {"slashCommand": dict},
    "tool": {"toolName": str, "toolId": str},
    "toolset": {"name": str, "tools": list},
    "dynamic": {"text": str, "id": str},
    "var": {"variableName": str},
    "prompt": {"name": str},
}
"""Kinds of message part that the importer knows, and what it takes out of them."""


def message_of(message: Message) -> dict[str, Any]:
    """Text and parts. Every part has a range in UTF-16 units, or the whole import is empty."""
    text = shown_text(message)
    mentions = [p for p in list_of((message.extra or {}).get("mentions")) if is_mention(p)]
    if not mentions:
        return {"text": text, "parts": [_text_part(text, 0, text)] if text else []}
    return {"text": text, "parts": _woven(text, mentions)}


def shown_text(message: Message) -> str:
    """What the chat shows of it: what was typed, or how the program put what it sent by itself."""
    shown = (message.extra or {}).get("shown")
    return shown if isinstance(shown, str) else text_of(message)


def is_mention(part: Any) -> bool:
    """Whether the part is of a kind that the importer knows, with all it needs and a range."""
    kind = field_of(part, "kind")
    needed = _NEEDED.get(kind) if isinstance(kind, str) else None
    if needed is None or not all(isinstance(part.get(n), kind) for n, kind in needed.items()):
        return False
    start, end = (field_of(part.get("range"), name) for name in ("start", "endExclusive"))
    return type(start) is int and type(end) is int and 0 <= start <= end


def _woven(text: str, mentions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mentions where they stand, and the text between them."""
    units = text.encode("utf-16-le", "surrogatepass")
    parts: list[dict[str, Any]] = []
    at = 0
    for mention in sorted(
        mentions, key=lambda p: (p["range"]["start"], p["range"]["endExclusive"])
    ):
        start, end = mention["range"]["start"], mention["range"]["endExclusive"]
        if start > at:
            between = units[2 * at : 2 * start].decode("utf-16-le", "replace")
            if between:
                parts.append(_text_part(text, at, between))
        parts.append(mention)
        at = max(at, end)
    rest = units[2 * at :].decode("utf-16-le", "replace")
    return [*parts, _text_part(text, at, rest)] if rest else parts


def _text_part(whole: str, start: int, text: str) -> dict[str, Any]:
    before = whole.encode("utf-16-le", "surrogatepass")[: 2 * start]
    before_text = before.decode("utf-16-le", "replace")
    first = before_text.count("\n") + 1
    column = utf16_length(before_text.rpartition("\n")[2]) + 1
    lines = text.count("\n")
    last_column = utf16_length(text.rpartition("\n")[2]) + (column if not lines else 1)
    return {
        "kind": "text",
        "text": text,
        "range": {"start": start, "endExclusive": start + utf16_length(text)},
        "editorRange": {
            "startLineNumber": first,
            "startColumn": column,
            "endLineNumber": first + lines,
            "endColumn": last_column,
        },
    }


def utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def variables_of(user: Message) -> list[dict[str, Any]]:
    """What was attached, but for the images that stand only in the rendered message."""
    rendered = user.content != shown_text(user)
    own = (a for a in user.attachments or () if not (rendered and _is_rendered_image(a)))
    return [_variable(attachment, number) for number, attachment in enumerate(own)]


def _variable(attachment: Attachment, number: int) -> dict[str, Any]:
    extra = dict(attachment.extra or {})
    variable: dict[str, Any] = {"kind": attachment.kind or "generic", "name": attachment.name}
    if attachment.media_type:
        variable["mimeType"] = attachment.media_type
    variable |= {k: v for k, v in extra.items() if isinstance(k, str)}
    text_at = {"paste": "code", "terminalCommand": "output"}.get(attachment.kind)
    if text_at and attachment.text:
        variable[text_at] = attachment.text
    elif "value" not in extra and (value := _value(attachment)) is not None:
        variable["value"] = value
    if not isinstance(variable.get("id"), str):
        variable["id"] = attachment.uri or attachment.path or f"attachment-{number}"
    return variable


def _value(attachment: Attachment) -> Any:
    if attachment.data:
        return {"$base64": attachment.data}
    if attachment.text:
        return attachment.text
    uri = attachment.uri or (f"file://{attachment.path}" if attachment.path[:1] == "/" else "")
    if not uri:
        return attachment.path or None
    if attachment.start_line is None:
        return uri_of(uri)
    first, last = attachment.start_line, attachment.end_line or attachment.start_line
    place = {"startLineNumber": first, "startColumn": 1, "endLineNumber": last, "endColumn": 1}
    return {"uri": uri_of(uri), "range": place}


def uri_of(text: str) -> dict[str, Any]:
    """A URI as VS Code writes it; without `$mid` it would stay a plain object."""
    try:
        parts = urlsplit(text)
        scheme, authority, path = parts.scheme or "file", parts.netloc, unquote(parts.path)
    except ValueError:
        scheme, authority, path = "file", "", text
    uri: dict[str, Any] = {"$mid": 1, "external": text, "path": path, "scheme": scheme}
    if authority:
        uri["authority"] = authority
    return uri


def _is_rendered_image(attachment: Any) -> bool:
    bare = attachment.kind == "image" and not attachment.extra and not attachment.name
    return bare and bool(attachment.data or attachment.uri)


def rendered(user: Message) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [text_part(user.content)]
    for attachment in user.attachments or ():
        if _is_rendered_image(attachment):
            data = f"data:{attachment.media_type};base64,{attachment.data}"
            parts.append(
                {"type": 0, "imageUrl": {"url": data if attachment.data else attachment.uri}}
            )
    return parts


def text_part(text: str) -> dict[str, Any]:
    return {"type": 1, "text": text}
