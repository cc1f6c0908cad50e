"""What a logged tool call gave: its content parts as the text of an ATIF observation."""

import base64
import binascii
import json
from typing import Any

from unspool.prompts.shapes import text as to_text


def observation_text(response: Any) -> str:
    """The parts of a logged tool response, one below the other."""
    content = response.get("content") if isinstance(response, dict) else response
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(made for part in parts if (made := _part_text(part)) is not None)


def _part_text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return None
    if "data" in part and ("mimeType" in part or "value" not in part):
        return _data_text(part)
    if "value" not in part:
        return None
    value = part["value"]
    if isinstance(value, str):
        return value
    tree = value.get("node") if isinstance(value, dict) else None
    if isinstance(tree, dict) and isinstance(tree.get("children"), list):
        return _render(tree).strip()
    return json_text(value)


def _data_text(part: dict[str, Any]) -> str:
    """An image as a data URI, anything else as the text that its bytes are."""
    mime = to_text(part.get("mimeType"))
    data = _bytes(part["data"])
    if mime.startswith("image/"):
        return f"data:{mime};base64,{base64.b64encode(data).decode()}"
    return data.decode("utf-8", "replace")


def _bytes(data: Any) -> bytes:
    """Bytes however JSON wrote them: a list, an object by index, Node's buffer, base64."""
    if isinstance(data, bytes | bytearray):
        return bytes(data)
    if isinstance(data, dict) and isinstance(data.get("data"), list):
        data = data["data"]
    elif isinstance(data, dict):
        data = [data[key] for key in sorted((k for k in data if k.isdigit()), key=int)]
    if isinstance(data, list):
        return bytes(n & 0xFF for n in data if isinstance(n, int))
    text = to_text(data)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace")


def _render(node: dict[str, Any]) -> str:
    """A prompt tree as its text, with the line breaks that its text nodes ask for."""
    text = node.get("text")
    if isinstance(text, str):
        return f"\n{text}" if node.get("lineBreakBefore") else text
    return "".join(
        _render(child) for child in node.get("children") or () if isinstance(child, dict)
    )


def json_text(value: Any) -> str:
    """JSON over lines, spelled as JavaScript spells it."""
    return json.dumps(_numbers(value), indent=2, ensure_ascii=False)


def _numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value
