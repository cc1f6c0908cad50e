"""Long JSON: values of hundreds of megabytes, decoded and encoded without holding them many times.

One character beyond Latin makes a Python string twice as long as its bytes, an emoji four times. The
decoder's own copies come on top: the text between the quotes, what it reads as, and the same again
for a JSON string that holds JSON. Here a long string is worked on in pieces, each as narrow as its
own characters allow, and the text goes as the values come.
"""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.records import clean, may_be_deep, refuse_depth

LONG = 16 << 20
"""A shorter text is worked on at once: that is faster, and there is room."""

STEP = 1 << 20
_CUT = re.compile(rb"(?<=[^\\]{12})(?![\x80-\xbf])|(?<!\\)(?=\\)(?!\\u[dD][c-fC-F])")
"""Where no escape goes on: twelve bytes (a pair of surrogates) without a backslash, not inside of a
character, or the first backslash of a row that is not the second half of a pair."""

Text = bytes | bytearray | memoryview


def is_long(size: int) -> bool:
    return size > LONG


def unescape(text: Text, before: bytes = b"", after: bytes = b"") -> bytes | bytearray:
    """The inside of a JSON string as it reads, between `before` and `after`; ValueError where the
    escapes are not JSON's."""
    if len(text) <= STEP:
        return b"".join((before, _read_string(text).encode(), after))
    made = bytearray(before)
    for piece in _iter_strings(text):
        made += piece.encode()
    made += after
    return made


def _iter_strings(text: Text) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _CUT.search(text, at + STEP)
        end = found.start() if found else len(text)
        yield _read_string(text[at:end])
        at = end


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


_elements = msgspec.json.Decoder(list[msgspec.Raw])
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class LongArray:
    """A long array `[…]`. Raises ValueError where it is no clean JSON, RecursionError where it is
    nested too deep."""

    def __init__(self, text: bytes | bytearray) -> None:
        self._text = text if isinstance(text, bytearray) else bytearray(text)
        self._ends = _find_ends(text)
        _refuse_encoding(text)
        if may_be_deep(text):
            for start, end in self._ends:
                refuse_depth(text[start:end])

    def take(self) -> Iterator[Any]:
        """The elements, for good: decoded last first, so that the text goes as they come."""
        taken: list[Any] = []
        while self._ends:
            start, end = self._ends.pop()
            with memoryview(self._text) as text, text[start:end] as element:
                parts = _decode_parts(element)
            del self._text[start:]
            taken.append(_put_together(parts))
            del parts
        while taken:
            yield taken.pop()


def _find_ends(text: bytes | bytearray) -> list[tuple[int, int]]:
    """Where each element begins and ends."""
    made: list[tuple[int, int]] = []
    at = 1
    for element in _elements.decode(text):
        while text[at] in b" \t\r\n,":
            at += 1
        made.append((at, at + len(memoryview(element))))
        at = made[-1][1]
    return made


def _refuse_encoding(text: bytes | bytearray) -> None:
    """Raise UnicodeDecodeError where it is no UTF-8, which the decoder does not look at so far."""
    decoder = getincrementaldecoder("utf-8")()
    for at in range(0, len(text), STEP):
        decoder.decode(text[at : at + STEP])
    decoder.decode(b"", final=True)


class _Pieces(list[str]):
    """A long string, not yet put together."""


def _decode_parts(text: memoryview) -> Any:
    """A value with its long strings in pieces."""
    kind = bytes(text[:1]) if is_long(len(text)) else b""
    if kind == b'"':
        return _Pieces(_iter_strings(text[1:-1]))
    if kind == b"[":
        return [_decode_parts(memoryview(part)) for part in _elements.decode(text)]
    if kind == b"{":
        found = _fields.decode(text)
        return {name: _decode_parts(memoryview(part)) for name, part in found.items()}
    return decode(bytes(text))


def _put_together(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, list):
        return [_put_together(part) for part in value]
    if isinstance(value, dict):
        return {name: _put_together(part) for name, part in value.items()}
    return value


def decode_long(text: bytearray) -> Any:
    """One value; the text is empty afterwards."""
    with memoryview(text) as whole:
        parts = _decode_parts(whole)
    text.clear()
    return _put_together(parts)


_encoder = msgspec.json.Encoder()


def encode_long(value: Any) -> Iterator[bytes]:
    """A value that is msgspec's or plain, in pieces that are JSON one after the other."""
    yield from _encode(msgspec.to_builtins(value))


def _encode(value: Any) -> Iterator[bytes]:
    if isinstance(value, str) and len(value) > STEP:
        yield b'"'
        for at in range(0, len(value), STEP):
            yield _encoder.encode(value[at : at + STEP])[1:-1]
        yield b'"'
    elif isinstance(value, dict) and value:
        for number, (name, part) in enumerate(value.items()):
            yield (b"," if number else b"{") + _encoder.encode(name) + b":"
            yield from _encode(part)
        yield b"}"
    elif isinstance(value, list) and value:
        for number, part in enumerate(value):
            yield b"," if number else b"["
            yield from _encode(part)
        yield b"]"
    else:
        yield _encoder.encode(value)
