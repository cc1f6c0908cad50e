"""Heavy values: inlined images become references, so that no chat is held twice in memory."""

import base64
import re
from typing import Any

from unspool.facts import Attachment
from unspool.prompts.shapes import DATA_LIMIT, binary, digest_base64

BIG_BYTES = 1024 * 1024
"""Documents and lines longer than this are searched for inlined data."""

_REFERENCE = re.compile(r"sha256:([0-9a-f]{64});size:(\d+)")


def lighten(value: Any) -> Any:
    """The value with every inlined image that is too long to travel replaced by a reference."""
    if isinstance(value, str):
        return _light_text(value) if len(value) > DATA_LIMIT else value
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str | dict | list):
                value[key] = lighten(item)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            if isinstance(item, str | dict | list):
                value[number] = lighten(item)
    return value


def _light_text(text: str) -> str:
    """`sha256:…;size:…` in place of base64, also behind the head of a data URL."""
    head, data = "", text
    if text.startswith("data:"):
        comma = text.find(",", 0, 200)
        if comma < 0:
            return text
        head, data = text[: comma + 1], text[comma + 1 :]
    found = digest_base64(data)
    if found is None:
        return text
    size, digest = found
    return f"{head}sha256:{digest};size:{size}"


def inlined(kind: str, value: Any, media_type: str = "", name: str = "") -> Attachment | None:
    """An attachment out of any way in which VS Code writes bytes; None where it is none."""
    if isinstance(value, dict) and isinstance(value.get("$base64"), str):
        return from_base64(kind, value["$base64"], media_type, name)
    if isinstance(value, str):
        if value.startswith("data:"):
            head, _, data = value[5:].partition(",")
            return from_base64(kind, data, head.split(";")[0] or media_type, name)
        return None
    raw = _bytes(value)
    if raw is None:
        return None
    return binary(kind, base64.b64encode(raw).decode(), media_type, name)


def from_base64(kind: str, text: str, media_type: str = "", name: str = "") -> Attachment:
    """An attachment out of base64, or out of the reference that stands for it."""
    known = _REFERENCE.fullmatch(text) if text.startswith("sha256:") else None
    if known is None:
        return binary(kind, text, media_type, name)
    return Attachment(
        kind=kind, name=name, media_type=media_type, size_bytes=int(known[2]), sha256=known[1]
    )


def _bytes(value: Any) -> bytes | None:
    """Bytes as an array, as an object of numbered bytes, or as a Buffer (all seen in old files)."""
    if isinstance(value, dict):
        if value.get("type") == "Buffer":
            value = value.get("data")
        elif "0" in value and all(key.isdigit() for key in value):
            value = [value[key] for key in sorted(value, key=int)]
    if not isinstance(value, list) or not value:
        return None
    try:
        return bytes(value)
    except (TypeError, ValueError):
        return None
