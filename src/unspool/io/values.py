"""Values of decoded JSON, of which nobody knows the type: what is of another counts as absent."""

from typing import Any

import msgspec


def dict_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def dicts_of(value: Any) -> list[dict[str, Any]]:
    return [item for item in list_of(value) if isinstance(item, dict)]


def str_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def field_of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def parse_object(text: str) -> dict[str, Any] | None:
    """The object that a text is the JSON of, as a tool's arguments are; None where it is none."""
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
