"""Attachments: the variables of a request, of every kind and of the time before there were kinds."""

from collections.abc import Iterable
from typing import Any

from unspool.facts import Attachment
from unspool.sources.vscode_chat.model import Variables
from unspool.sources.vscode_chat.uris import lines_of, path_of, uri_of
from unspool.sources.vscode_chat.weights import inlined

_FLAGS = {
    "isFile": "file",
    "isDirectory": "directory",
    "isImage": "image",
    "isTool": "tool",
    "isSymbol": "symbol",
    "isPasted": "paste",
}
"""How old files tell the kind."""

_TEXTS = {
    "paste": "code",
    "promptText": "value",
    "string": "value",
    "workspace": "value",
    "terminalCommand": "output",
    "debugVariable": "value",
}
"""Where the text of a kind stands, if it is not the value."""

_MEDIA = ("mimeType", "mediaType", "outputMimeType")


def entries_of(held: Variables | None) -> list[dict[str, Any]]:
    """The entries of a request: a list, or their values by name."""
    variables = held.variables if held is not None else None
    if isinstance(variables, dict):
        return [{"name": name, "values": values} for name, values in variables.items()]
    return variables or []


def attachments_of(entries: Iterable[dict[str, Any]]) -> tuple[Attachment, ...]:
    return tuple(attachment_of(entry) for entry in entries)


def attachment_of(entry: dict[str, Any]) -> Attachment:
    kind = kind_of(entry)
    value = _value(entry)
    name = _text(entry.get("name"))
    media_type = next((_text(entry[m]) for m in _MEDIA if m in entry), "")
    data = inlined(kind, value, media_type, name)
    extra = {k: v for k, v in entry.items() if k not in ("kind", "name", "value", *_MEDIA)}
    if data is not None:
        return _with(data, extra, _first_reference(entry))
    where = _place(entry, value)
    text = _content(kind, entry, value)
    if value is not None and value != text:
        extra["value"] = value
    held = _TEXTS.get(kind, "value")
    if text and held != "value" and extra.get(held) == text:
        del extra[held]
    start, end = lines_of(value)
    return Attachment(
        kind=kind,
        name=name,
        path=path_of(where),
        uri=uri_of(where),
        media_type=media_type,
        text=text,
        start_line=start,
        end_line=end,
        extra=extra or None,
    )


def kind_of(entry: dict[str, Any]) -> str:
    kind = entry.get("kind")
    if isinstance(kind, str) and kind:
        return kind
    for flag, kind in _FLAGS.items():
        if entry.get(flag) is True:
            return kind
    if _text(entry.get("id")).startswith("vscode.implicit"):
        return "implicit"
    return "generic"


def _value(entry: dict[str, Any]) -> Any:
    """The value; the oldest files have a list of them."""
    if "value" not in entry and isinstance(values := entry.get("values"), list) and values:
        first = values[0]
        return first.get("value") if isinstance(first, dict) else first
    return entry.get("value")


def _place(entry: dict[str, Any], value: Any) -> Any:
    """What the attachment is at: its value, or a field of its own."""
    if isinstance(value, dict) and uri_of(value):
        return value
    for name in ("uri", "resource", "copiedFrom"):
        if uri_of(entry.get(name)):
            return entry[name]
    if isinstance(value, str) and value.startswith(("file:", "vscode-", "http:", "https:")):
        return value
    return None


def _content(kind: str, entry: dict[str, Any], value: Any) -> str:
    held = _TEXTS.get(kind)
    if held and isinstance(entry.get(held), str):
        return str(entry[held])
    if isinstance(value, str) and not value.startswith(("file:", "vscode-")):
        return value
    inner = value.get("value") if isinstance(value, dict) else None
    return inner if isinstance(inner, str) and not uri_of(value) else ""


def _first_reference(entry: dict[str, Any]) -> str:
    found = entry.get("references")
    return uri_of(found[0]) if isinstance(found, list) and found else ""


def _with(data: Attachment, extra: dict[str, Any], uri: str) -> Attachment:
    return Attachment(
        kind=data.kind,
        name=data.name,
        media_type=data.media_type,
        size_bytes=data.size_bytes,
        sha256=data.sha256,
        data=data.data,
        uri=uri,
        path=path_of(uri),
        extra={**extra, **(data.extra or {})} or None,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
