"""Plain values out of what programs hand over: client objects, data classes, times, anything."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import Any

import msgspec

from unspool.io.door import clean
from unspool.io.times import parse_time

_PLAIN = (str, int, float, bool, dict, list, tuple)
_FAR = datetime.max.replace(tzinfo=UTC).timestamp()


def plain(value: Any) -> Any:
    """A client's object as the dictionary that it stands for; what is plain stays as it is."""
    if value is None or isinstance(value, _PLAIN):
        return value
    dumped = None
    with suppress(Exception):  # the program's own code, which may do anything
        if callable(dump := getattr(value, "model_dump", None)):
            dumped = dump(mode="json", exclude_none=True, warnings=False)
        elif callable(to_dict := getattr(value, "to_dict", None)):
            dumped = to_dict()
        elif isinstance(value, Mapping):
            dumped = dict(value)
        elif isinstance(value, SimpleNamespace):
            dumped = vars(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            dumped = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    # What stands in for a client in tests gives another such object for whatever is asked of it.
    return dumped if isinstance(dumped, _PLAIN) else text_of(value)


def text_of(value: Any) -> str:
    """The value in words; its type alone where it cannot tell them."""
    try:
        return str(value)
    except Exception:  # as above
        return f"<{type(value).__name__}>"


def table(value: Any) -> dict[str, Any]:
    """The value as a dictionary; an empty one where it is none."""
    value_or_table = plain(value)
    return value_or_table if isinstance(value_or_table, dict) else {}


def rows(value: Any) -> list[Any]:
    """The value as a list; an empty one where it is none."""
    return list(value) if isinstance(value, list | tuple) else []


def name_of(value: Any) -> str:
    """A name or an id as text: programs also have numbers, UUIDs and members of an Enum for it."""
    if isinstance(value, str):
        return value
    if isinstance(value, Enum):
        return name_of(value.value)
    return "" if value is None else text_of(value)


def listed(value: Any) -> Sequence[Any]:
    """Messages or tools as a list, however they are handed over."""
    if isinstance(value, list | tuple):
        return value
    if value is None:
        return ()
    if isinstance(value, str | Mapping):
        return [value]
    try:
        return list(value)
    except Exception:  # not iterable, or the program's own code
        return [value]


def details_of(value: Any) -> dict[str, Any]:
    """Metadata as a dictionary; what is none stands in one."""
    details = plain(value)
    if isinstance(details, dict):
        return dict(details)
    return {} if details is None else {"value": details}


def count_of(value: Any) -> int | None:
    """A count; None where it is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def figure_of(value: Any) -> float | None:
    """A finite number; None where it is none."""
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


_encoder = msgspec.json.Encoder(enc_hook=plain, decimal_format="number")


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


def to_micros(value: datetime | float | str | None) -> int | None:
    """Microseconds since 1970 of a datetime (naive is UTC), of seconds as time.time() gives, or of
    ISO text; None where it is no time."""
    if isinstance(value, str):
        return parse_time(value)
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        value = moment.timestamp()
    seconds = figure_of(value)
    return int(seconds * 1_000_000) if seconds is not None and 0 < seconds < _FAR else None
