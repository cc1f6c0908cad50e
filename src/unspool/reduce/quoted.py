"""Quoted: JSON that stands inside of a JSON string, unescaped without holding it many times.

The text may be hundreds of megabytes long. Decoded as one string it would be there four times over
(with its quotes, in the decoder's buffer, as a string, as bytes again), and one emoji makes a string
four times as wide; in pieces it is there once.
"""

import json
import re

import msgspec

STEP = 1 << 20
_CUT = re.compile(rb"(?<=[^\\]{12})(?![\x80-\xbf])|(?<!\\)(?=\\)(?!\\u[dD][c-fC-F])")
"""Where no escape goes on: twelve bytes (a pair of surrogates) without a backslash, not inside of a
character, or the first backslash of a row that is not the second half of a pair."""


def unescape(
    text: bytes | memoryview, before: bytes = b"", after: bytes = b""
) -> bytes | bytearray:
    """The inner text between `before` and `after`; ValueError where the escapes are not JSON's."""
    if len(text) <= STEP:
        return b"".join((before, _unescape(text), after))
    made = bytearray(before)
    at = 0
    while at < len(text):
        found = _CUT.search(text, at + STEP)
        end = found.start() if found else len(text)
        made += _unescape(text[at:end])
        at = end
    made += after
    return made


def _unescape(text: bytes | memoryview) -> bytes:
    quoted = b"".join((b'"', text, b'"'))
    try:
        return msgspec.json.decode(quoted, type=str).encode()
    except msgspec.DecodeError:  # lone surrogates: real where a pair was cut in two
        inner: str = json.loads(quoted, strict=False)
        return inner.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
