"""Plain values out of what programs hand over: client objects, data classes, anything."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec

from unspool.io.door import clean

Number = TypeVar("Number", int, float)

_PLAIN = (str, int, float, bool, dict, list, tuple)


def plain(value: Any) -> Any:
    """The value as JSON holds it: a client's object is the dictionary that it stands for, and what
    JSON cannot hold is text."""
    if value is None or type(value) is str:
        return value
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_stands_for)
    except (
        Exception
    ):  # odd keys, bottomless nesting, or the program's own code, which may do anything
        return text_of(value)


def _stands_for(value: Any) -> Any:
    dumped = None
    if callable(dump := getattr(value, "model_dump", None)):
        dumped = dump(mode="json", exclude_none=True, warnings=False)
    elif callable(to_dict := getattr(value, "to_dict", None)):
        dumped = to_dict()
    elif isinstance(value, Mapping):
        dumped = dict(value)
    elif isinstance(value, SimpleNamespace):
        dumped = vars(value)
    # What stands in for a client in tests gives another such object for whatever is asked of it.
    return dumped if isinstance(dumped, _PLAIN) else text_of(value)


def text_of(value: Any) -> str:
    """The value in words; its type alone where it cannot tell them."""
    try:
        return str(value)
    except Exception:  # the program's own code
        return f"<{type(value).__name__}>"


def name_of(value: Any) -> str:
    """A name or an id as text: programs also have numbers, UUIDs and members of an Enum for it."""
    if isinstance(value, str):
        return value
    return "" if value is None else text_of(plain(value))


def number_of(value: Any, kind: type[Number]) -> Number | None:
    """A count or a measure; None where it is none."""
    try:
        return kind(plain(value))
    except (TypeError, ValueError, OverflowError):
        return None


def listed(value: Any) -> list[Any]:
    """Messages, tools or calls as a list of plain values, however they are handed over."""
    try:
        items = [value] if isinstance(value, str | Mapping) else list(value)
    except Exception:  # not iterable, or the program's own code
        items = [] if value is None else [value]
    return [plain(item) for item in items]


def encode(value: Any) -> bytes:
    """JSON of a plain value or a record."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):  # half a surrogate pair; an integer beyond 64 bits
        return json.dumps(clean(plain(value))).encode()


def json_or_text(value: Any) -> str:
    """Text as it is, anything else as its JSON."""
    value = plain(value)
    return value if isinstance(value, str) else encode(value).decode()
