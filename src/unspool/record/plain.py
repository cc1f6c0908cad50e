"""Plain values out of what programs hand over: client objects, data classes, times, anything."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import msgspec

from unspool.records import clean


def plain(value: Any) -> Any:
    """A client's object as the dictionary that it stands for; what is plain stays as it is."""
    if value is None or isinstance(value, str | int | float | bool | dict | list | tuple):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True, warnings=False)
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict):
        return to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)


def table(value: Any) -> dict[str, Any]:
    """The value as a dictionary; an empty one where it is none."""
    made = plain(value)
    return made if isinstance(made, dict) else {}


def rows(value: Any) -> list[Any]:
    """The value as a list; an empty one where it is none."""
    return list(value) if isinstance(value, list | tuple) else []


def word(value: Any) -> str:
    """The value if it is text."""
    return value if isinstance(value, str) else ""


_encoder = msgspec.json.Encoder(enc_hook=plain)


def encode(value: Any) -> bytes:
    """JSON of anything: what JSON cannot hold is written as text, never raised."""
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return _encoder.encode(_tame(value, 0))


def _tame(value: Any, depth: int) -> Any:
    """The value without lone surrogates, odd keys, infinities and bottomless nesting."""
    if depth > 100:
        return "…"
    if isinstance(value, msgspec.Raw):
        return value
    if isinstance(value, msgspec.Struct):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
        value = {name: item for name, item in value.items() if item or item == 0}
    value = plain(value)
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _tame(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_tame(item, depth + 1) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


def json_or_text(value: Any) -> str:
    """Text as it is, anything else as its JSON."""
    return value if isinstance(value, str) else encode(value).decode()


def to_micros(value: datetime | float | int | None) -> int | None:
    """Microseconds since 1970 of a datetime (naive is UTC) or of seconds as time.time() gives."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1_000_000)
    return None if value is None else int(value * 1_000_000)
