"""Packing: values as msgpack, for a trip through a file, and as JSON, whatever they hold."""

from typing import Any

import msgspec

from unspool.io.door import clean, clean_text

_MOST = 2**53
"""Beyond it JSON's own programs cannot tell a whole number from the next: nothing counts so far."""


class Packer:
    """Encodes like msgspec's, and what that refuses: whole numbers of more than 64 bits, which JSON
    may hold, become floating-point ones, as they are in the programs that wrote them. Where a count
    belongs they count nothing, and are left out."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()

    def encode(self, value: Any) -> bytes:
        try:
            return self._encoder.encode(value)
        except (OverflowError, UnicodeEncodeError):
            return self._encoder.encode(tamed(value))


def tamed(value: Any) -> Any:
    """The value with all its whole numbers such that 64 bits hold them, and sums of them too, and
    all its texts such that UTF-8 can."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, msgspec.Struct):
        fields: dict[str, Any] = {}
        for field in msgspec.structs.fields(value):
            inner = getattr(value, field.name)
            fields[field.name] = None if field.type is not Any and _is_wild(inner) else tamed(inner)
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, dict):
        return {tamed(key): tamed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [tamed(item) for item in value]
    if _is_wild(value):
        try:
            return float(value)
        except OverflowError:
            return str(value)
    return value


def _is_wild(value: Any) -> bool:
    return isinstance(value, int) and not -_MOST <= value <= _MOST


_json = msgspec.json.Encoder()


def encode_json(value: Any) -> bytes:
    """The value as JSON; half a surrogate pair, which UTF-8 cannot hold, is replaced."""
    try:
        return _json.encode(value)
    except UnicodeEncodeError:
        return _json.encode(clean(msgspec.to_builtins(value)))


def append_json(value: Any, buffer: bytearray) -> None:
    """The same, behind what the buffer holds."""
    end = len(buffer)
    try:
        _json.encode_into(value, buffer, -1)
    except UnicodeEncodeError:
        buffer[end:] = encode_json(value)
