"""Long JSON: values of hundreds of megabytes, decoded and encoded without holding them many times.

One character beyond Latin makes a Python string twice as long as its bytes, an emoji four times. The
decoder's own copies come on top: the text between the quotes, what it reads as, and the same again
for a JSON string that holds JSON. Here a long string is worked on in pieces, each as narrow as its
own characters allow, and the text goes as the values come.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from unspool.io.dirty_json import clean, refuse_depth
from unspool.io.longtext import (
    Text,
    elements_of,
    find_elements,
    is_long,
    is_utf8,
    iter_cuts,
    mend,
)
from unspool.io.narrowtext import iter_steps, narrow, put_together, widen


def unescape(text: Text, before: bytes = b"", after: bytes = b"") -> bytes | bytearray:
    """The inside of a JSON string as it reads, between `before` and `after`; ValueError where the
    escapes are not JSON's."""
    if not is_long(len(text)):
        return b"".join((before, _read_string(text).encode(), after))
    made = bytearray(before)
    for piece in iter_cuts(text):
        made += _read_string(piece).encode()
    made += after
    return made


def _read_string(text: Text) -> str:
    quoted = b"".join((b'"', text, b'"'))
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.DecodeError:  # lone surrogates: real where a pair was cut in two
        inner: str = json.loads(quoted, strict=False)
        return inner.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def decode(text: bytes | bytearray) -> Any:
    """A value; raises ValueError (or RecursionError) where it is not clean JSON."""
    try:
        refuse_depth(text)
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return clean(json.loads(text, strict=False))


_encoder = msgspec.json.Encoder()
_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_GIVEN = "input"


def decode_text(text: bytearray) -> str:
    """A JSON string, narrow; what is wrong in it is mended. The text is empty afterwards."""
    with suppress(ValueError):
        return _decode_string(text)
    mended = mend(text).text
    text.clear()
    return _decode_string(mended)


def _decode_string(text: bytearray) -> str:
    made: str = decode_long(text)
    return made


class LongArray:
    """An array `[…]` that may be long. Raises ValueError where it is no clean JSON, RecursionError
    where it is nested too deep."""

    def __init__(self, text: bytes | bytearray) -> None:
        self._text = text if isinstance(text, bytearray) else bytearray(text)
        self._narrow = is_long(len(text))
        self._ends = find_elements(text)
        if not is_utf8(text):
            raise ValueError("not UTF-8")
        refuse_depth(text)

    def take(self) -> Iterator[Any]:
        """The elements, for good: decoded last first, so that the text goes as they come. If
        it is long indeed, their texts are narrow."""
        taken: list[Any] = []
        while self._ends:
            start, end = self._ends.pop()
            with memoryview(self._text) as text, text[start:end] as element:
                parts = _decode_parts(element, _GIVEN)
            del self._text[start:]
            taken.append(_put_together(parts) if self._narrow else parts)
            del parts
        while taken:
            yield taken.pop()


class _Pieces(list[str]):
    """A long string, not yet put together."""

    def take(self) -> Iterator[str]:
        self.reverse()
        while self:
            yield self.pop()


def _decode_parts(text: memoryview, given: str = "") -> Any:
    """A value with its long strings in pieces; what stands under the name `given` in a call of a
    tool stays JSON, as its reader wants it."""
    kind = _kind(text)
    if kind == b'"':
        return _Pieces(narrow(_read_string(piece)) for piece in iter_cuts(text[1:-1]))
    if kind == b"[":
        return [_decode_parts(memoryview(part), given) for part in elements_of(text)]
    if kind == b"{":
        made: dict[str, Any] = {}
        found = _fields_of(text)
        calls = bytes(found.get("type", b"")) == b'"tool_use"'
        for name, raw in found.items():
            part = memoryview(raw)
            as_text = calls and name == given and _kind(part) in (b"{", b"[")
            made[name] = _Pieces(_iter_text(part)) if as_text else _decode_parts(part, given)
        return made
    return decode(bytes(text))


def _kind(text: memoryview) -> bytes:
    """How a long value begins; nothing where it is not long."""
    return bytes(text[:1]) if is_long(len(text)) else b""


def _iter_text(text: memoryview) -> Iterator[str]:
    """JSON as the encoder would write it, in pieces that are narrow."""
    kind = _kind(text)
    if kind == b'"':
        yield '"'
        for piece in iter_cuts(text[1:-1]):
            yield narrow(_encoder.encode(_read_string(piece))[1:-1].decode())
        yield '"'
    elif kind == b"[":
        for number, part in enumerate(elements_of(text)):
            yield "," if number else "["
            yield from _iter_text(memoryview(part))
        yield "]"
    elif kind == b"{":
        for number, (name, part) in enumerate(_fields_of(text).items()):
            yield f"{',' if number else '{'}{_encoder.encode(name).decode()}:"
            yield from _iter_text(memoryview(part))
        yield "}"
    else:
        yield narrow(_encoder.encode(decode(bytes(text))).decode())


def _put_together(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return put_together(value.take())
    if isinstance(value, str):
        return narrow(value)
    if isinstance(value, list):
        return [_put_together(part) for part in value]
    if isinstance(value, dict):
        return {name: _put_together(part) for name, part in value.items()}
    return value


def decode_long(text: bytearray) -> Any:
    """One value, its texts narrow if it is long indeed; the text is empty afterwards."""
    long = is_long(len(text))
    with memoryview(text) as whole:
        parts = _decode_parts(whole)
    text.clear()
    return _put_together(parts) if long else parts


def encode(value: Any) -> bytes:
    """JSON of a value whose texts may be narrow."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return b"".join(encode_long(value))


def encode_long(value: Any) -> Iterator[bytes]:
    """The same in pieces that are JSON one after the other."""
    yield from _encode(value if isinstance(value, dict) else msgspec.to_builtins(value))


def _encode(value: Any) -> Iterator[bytes]:
    if isinstance(value, msgspec.Raw):  # JSON already
        yield bytes(value)
    elif isinstance(value, str) and is_long(len(value)):
        yield b'"'
        for piece in iter_steps(value):
            yield _encoder.encode(widen(piece))[1:-1]
        yield b'"'
    elif isinstance(value, dict) and value:
        for number, (name, part) in enumerate(value.items()):
            yield (b"," if number else b"{") + _encode_short(name) + b":"
            yield from _encode(part)
        yield b"}"
    elif isinstance(value, list) and value:
        for number, part in enumerate(value):
            yield b"," if number else b"["
            yield from _encode(part)
        yield b"]"
    else:
        yield _encode_short(value)


def _encode_short(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(clean(value))
