"""Attachments: the variables of a request, and the bytes that stand in chats and tool results.

{"kind": "file", "id": "vscode.file", "name": "a.py", "value": {"$mid": 1, "path": "/p/a.py", …}}
{"isFile": true, "name": "a.py", "values": [{"value": "…"}]}          (2024: no kind, but flags)
"""

import base64
import re
from typing import Any

import msgspec

from unspool.facts import Attachment
from unspool.io.door import LONGEST_BYTES
from unspool.io.values import field_of, str_of
from unspool.prompts.shapes import binary, digest_base64
from unspool.sources.vscode_chat.model import Variables
from unspool.sources.vscode_chat.uris import lines_of, path_of, uri_of

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


def entries_of(given: Variables | None) -> list[dict[str, Any]]:
    """The entries of a request: a list, or (early 2024) their values by name."""
    variables = given.variables if given is not None else None
    if isinstance(variables, dict):
        return [{"name": name, "values": values} for name, values in variables.items()]
    return variables or []


def attachment_of(entry: dict[str, Any]) -> Attachment:
    kind = _kind(entry)
    value = entry.get("value")
    if "value" not in entry and isinstance(values := entry.get("values"), list) and values:
        value = values[0].get("value") if isinstance(values[0], dict) else values[0]
    name = str_of(entry.get("name"))
    media_type = next((str_of(entry[m]) for m in _MEDIA if m in entry), "")
    extra = {
        k: v
        for k, v in entry.items()
        if k != "value" and not (k in ("kind", "name", *_MEDIA) and isinstance(v, str | None))
    }
    data = from_bytes(kind, value, media_type, name)
    if data is not None:
        references = entry.get("references")
        uri = uri_of(references[0]) if isinstance(references, list) and references else ""
        extra |= data.extra or {}
        return msgspec.structs.replace(data, uri=uri, path=path_of(uri), extra=extra or None)
    where = _place(entry, value)
    text = _content(kind, entry, value)
    if value is not None and value != text:
        extra["value"] = value
    text_field = _TEXTS.get(kind, "value")
    if text and text_field != "value" and extra.get(text_field) == text:
        del extra[text_field]
    start, end = lines_of(value)
    return Attachment(
        kind=kind, name=name, path=path_of(where), uri=uri_of(where), media_type=media_type,
        text=text, start_line=start, end_line=end, extra=extra or None,
    )  # fmt: skip


def _kind(entry: dict[str, Any]) -> str:
    kind = entry.get("kind")
    if isinstance(kind, str) and kind:
        return kind
    for flag, flagged in _FLAGS.items():
        if entry.get(flag) is True:
            return flagged
    return "implicit" if str_of(entry.get("id")).startswith("vscode.implicit") else "generic"


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
    text_field = _TEXTS.get(kind)
    if text_field and isinstance(entry.get(text_field), str):
        return str(entry[text_field])
    if isinstance(value, str) and not value.startswith(("file:", "vscode-")):
        return value
    inner = field_of(value, "value")
    return inner if isinstance(inner, str) and not uri_of(value) else ""


def from_bytes(kind: str, value: Any, media_type: str = "", name: str = "") -> Attachment | None:
    """An attachment out of any way in which VS Code writes bytes; None where the value is none.

    `{"$base64": "…"}` and data URLs now; arrays, objects of numbered bytes and Buffers in old files.
    """
    if isinstance(value, str):
        if not value.startswith("data:"):
            return None
        head, _, data = value[5:].partition(",")
        return _from_base64(kind, data, head.split(";")[0] or media_type, name)
    if isinstance(value, dict):
        if isinstance(value.get("$base64"), str):
            return _from_base64(kind, value["$base64"], media_type, name)
        if value.get("type") == "Buffer":
            value = value.get("data")
        elif "0" in value and all(key.isdigit() for key in value):
            value = [value[key] for key in sorted(value, key=int)]
    if not isinstance(value, list) or not value:
        return None
    try:
        raw = bytes(value)
    except (TypeError, ValueError):
        return None
    return binary(kind, base64.b64encode(raw).decode(), media_type, name)


_LONG_BASE64 = re.compile(rb'"(data:[^",]{1,200},)?+([A-Za-z0-9+/]{%d,}=*)"' % LONGEST_BYTES)
_REFERENCE = re.compile(r"sha256:([0-9a-f]{64});size:(\d+)")


def without_long_images(data: bytes) -> bytes:
    """JSON in which `sha256:…;size:…` stands for base64 that is too long to pass the door: what is
    kept of such an image is the same."""
    if len(data) <= LONGEST_BYTES:
        return data

    def reference(match: re.Match[bytes]) -> bytes:
        digest = digest_base64(match[2].decode())
        stand_in = b"sha256:%b;size:%d" % (digest[1].encode(), digest[0]) if digest else match[2]
        return b'"%b%b"' % (match[1] or b"", stand_in)

    return _LONG_BASE64.sub(reference, data)


def _from_base64(kind: str, text: str, media_type: str, name: str = "") -> Attachment:
    reference = _REFERENCE.fullmatch(text) if text.startswith("sha256:") else None
    if reference is None:
        return binary(kind, text, media_type, name)
    return Attachment(
        kind=kind,
        name=name,
        media_type=media_type,
        size_bytes=int(reference[2]),
        sha256=reference[1],
    )


def from_typed_data(media_type: Any, data: Any) -> Attachment | None:
    """What a tool returned with its media type: base64, or any other way of writing bytes."""
    media_type = str_of(media_type)
    kind = "image" if media_type.startswith("image/") else "data"
    if isinstance(data, str) and not data.startswith("data:"):
        return _from_base64(kind, data, media_type)
    return from_bytes(kind, data, media_type)
