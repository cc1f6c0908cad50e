"""What is sent beside a message list: the system prompt and the tools."""

import json
from typing import Any

from unspool.io.dirty_json import clean, recover_json
from unspool.prompts.shapes import to_messages


def decode_system(raw: bytes) -> str:
    """The text of `request.option.system`: JSON inside JSON, a string or text blocks."""
    value = _decode(raw)
    text = _text(value)
    return text or (_text(_decode(raw, recover=False)) if value else "")


def _text(value: Any) -> str:
    made = to_messages({"role": "system", "content": value}) if value != UNDEFINED else []
    return made[0].content if made else ""


def decode_tools(raw: bytes) -> list[dict[str, Any]] | None:
    value = _decode(raw)
    if not isinstance(value, list):
        return None
    return [tool for tool in value if isinstance(tool, dict)] or None


UNDEFINED = "undefined"
"""What the sender writes for an option that is not there."""


def _decode(raw: bytes, recover: bool = True) -> Any:
    """A value that stands as JSON in JSON strings, as far as it can be read."""
    value: Any = None
    try:
        value = json.loads(raw.decode("utf-8", "replace"), strict=False) if raw else None
        while isinstance(value, str) and value[:1] in ('"', "["):
            value = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        if isinstance(value, str) and recover:  # cut off, maybe: senders drop what is too long
            recovered = recover_json(value)
            value = value if recovered is None else recovered
    return clean(value)
