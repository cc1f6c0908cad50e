"""What is sent beside a message list: the system prompt and the tools."""

import json
from typing import Any

from unspool.shapes import to_messages


def decode_system(raw: bytes) -> str:
    """The text of `request.option.system`: JSON inside JSON, a string or text blocks."""
    if not raw:
        return ""
    try:
        value: Any = json.loads(raw, strict=False)
        while isinstance(value, str) and value[:1] in ('"', "["):
            value = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return value if isinstance(value, str) else ""
    made = to_messages({"role": "system", "content": value})
    return made[0].content if made else ""


def decode_tools(raw: bytes) -> list[dict[str, Any]] | None:
    try:
        value: Any = json.loads(raw, strict=False) if raw else None
        if isinstance(value, str):
            value = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list):
        return None
    return [tool for tool in value if isinstance(tool, dict)] or None
