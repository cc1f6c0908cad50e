"""Long text: JSON of hundreds of megabytes, cut, split and mended as bytes.

What works on Python's strings takes a multiple of the text: a string with an emoji in it is four times
as long as its bytes, and a string that is put together escape by escape is many small ones before.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

LONG = 16 << 20
"""A shorter text is worked on at once: that is faster, and there is room."""

STEP = 1 << 20

Text = bytes | bytearray | memoryview


def is_long(size: int) -> bool:
    return size > LONG


_CUT = re.compile(rb"(?<=[^\\]{12})(?![\x80-\xbf])|(?<!\\)(?=\\)(?!\\u[dD][c-fC-F])")
"""Where no escape goes on: twelve bytes (a pair of surrogates) without a backslash, not inside of a
character, or the first backslash of a row that is not the second half of a pair."""


def iter_cuts(text: Text) -> Iterator[Text]:
    """The inside of a JSON string in pieces, none of which ends within a character or an escape."""
    at = 0
    while at < len(text):
        found = _CUT.search(text, at + STEP)
        end = found.start() if found else len(text)
        yield text[at:end]
        at = end


def is_utf8(text: Text) -> bool:
    decoder = getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(text), STEP):
            decoder.decode(text[at : at + STEP])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


class Split(NamedTuple):
    """Where values begin and end that stand one after the other; where it went wrong, and how."""

    spans: list[tuple[int, int]]
    at: int
    """Where that begins which is no value."""
    code: str = ""
    broken: int = 0
    """Where it breaks off, or breaks."""


_value = msgspec.json.Decoder(msgspec.Raw)
elements_of = msgspec.json.Decoder(list[msgspec.Raw]).decode
_BETWEEN = re.compile(rb"[ \t\r\n\0,]*+")
_HALF_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_PLACE = re.compile(r"\(byte (\d+)\)")


def split(text: Text, start: int = 0) -> Split:
    """The values up to the end, or up to what is none; whether they are UTF-8 is not looked at."""
    spans: list[tuple[int, int]] = []
    at = _skip(text, start)
    while at < len(text):
        try:
            with memoryview(text) as whole, whole[at:] as rest:
                _value.decode(rest)
        except RecursionError:
            return Split(spans, at, "too-deep")
        except msgspec.DecodeError as error:
            trailing = _TRAILING.search(str(error))
            if trailing is None:
                # Behind half a surrogate pair the decoder misses the other half before all else.
                cut_off = "truncated" in str(error) and not _HALF_PAIR.search(bytes(text[-12:]))
                place = _PLACE.search(str(error))
                broken = at + int(place[1]) if place is not None else len(text)
                code = "truncated-json" if cut_off else "invalid-json"
                return Split(spans, at, code, broken)
            end = at + int(trailing[1]) - 1
        else:
            end = len(text)
        spans.append((at, end))
        at = _skip(text, end)
    return Split(spans, len(text))


def _skip(text: Text, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def find_elements(text: Text) -> list[tuple[int, int]]:
    """Where the elements of an array `[…]` begin and end; raises ValueError where it is none."""
    made: list[tuple[int, int]] = []
    at = _skip(text, 0) + 1
    for element in elements_of(text):
        at = _skip(text, at)
        made.append((at, at + len(memoryview(element))))
        at = made[-1][1]
    return made


_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]"]', re.DOTALL)


def is_deeper(text: Text, most: int) -> bool:
    """Whether brackets stand deeper within each other than that."""
    depth = 0
    for token in _TOKEN.finditer(text):
        kind = text[token.start()]
        if kind in b"{[":
            depth += 1
            if depth > most:
                return True
        elif kind in b"}]":
            depth -= 1
    return False


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_RUN = re.compile(
    rb'((?:[^\\\x00-\x1f]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})++)"
    rb"|(\\u[0-9a-fA-F]{4})|(\\)|([\x00-\x1f])"
)
"""What is well in a JSON string, half a surrogate pair, a backslash that escapes nothing, a bare
control character."""


class Mended(NamedTuple):
    """A text with what is wrong inside of its strings put right."""

    text: bytearray
    escapes: bool
    """Whether there were backslashes that escape nothing."""


def mend(text: Text) -> Mended:
    """Bytes that are no UTF-8 and halves of surrogate pairs are replaced; backslashes that escape
    nothing (tools that mask names in logs leave such) and bare control characters are escaped."""
    made = bytearray()
    escapes = 0
    at = 0

    def put_right(found: re.Match[bytes]) -> bytes:
        nonlocal escapes
        if found[1] is not None:
            return found[0]
        if found[2] is not None:
            return rb"\ufffd"
        if found[3] is not None:
            escapes += 1
            return rb"\\"
        return b"\\u%04x" % found[0][0]

    for string in _STRING.finditer(text):
        made += text[at : string.start()]
        with memoryview(text) as whole, whole[string.start() : string.end()] as inside:
            for piece in iter_cuts(inside):
                made += _RUN.sub(put_right, bytes(piece).decode("utf-8", "replace").encode())
        at = string.end()
    made += text[at:]
    return Mended(made, bool(escapes))


_HALF_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*+(\\(?:u[0-9a-fA-F]{0,3})?)\Z")
_CLOSING = bytes.maketrans(b"{[", b"}]")
_WHITE = b" \t\r\n"


def close_broken(text: Text, found: Split) -> bytearray | None:
    """What is no value, closed where it breaks off; where it goes on behind the break, there."""
    with memoryview(text) as whole:
        closed = close(whole[found.at :])
        if closed is None and found.at < found.broken < len(text):
            closed = close(whole[found.at : found.broken])
    return closed


def close(text: Text) -> bytearray | None:
    """A value that is cut off, closed where it breaks off: of a string stays what there is, a key
    without a value goes, and so does the last number or literal. None where that gives no value."""
    brackets = bytearray()
    whole: list[int] = []
    """Per open bracket, how far what stands in it is whole."""
    seen = 0
    for token in _TOKEN.finditer(text):
        start, seen = token.span()
        kind = text[start]
        if kind in b"{[":
            brackets.append(kind)
            whole.append(seen)
            continue
        if not whole:
            return None
        before = _before(text, start)
        cut_off = kind in b'"' and seen == start + 1
        if kind in b"}]":
            brackets.pop()
            whole.pop()
            if whole:
                whole[-1] = seen
        elif brackets[-1:] == b"{" and text[before] in b"{,":  # a key
            whole[-1] = before if text[before] in b"," else whole[-1]
            if cut_off:
                seen = len(text)
                break
        elif cut_off:
            return _close(_without_half_escape(text), b'"', brackets)
        else:
            whole[-1] = seen
    if not whole:
        return None
    comma = bytes(text[seen:]).rfind(b",")
    end = whole[-1] if comma < 0 else seen + comma
    return _close(bytearray(text[:end]), b"", brackets)


def _before(text: Text, at: int) -> int:
    """Where the last thing before it ends that is no white space."""
    at -= 1
    while at > 0 and text[at] in _WHITE:
        at -= 1
    return at


def _without_half_escape(text: Text) -> bytearray:
    half = _HALF_ESCAPE.search(bytes(text[-100:]))
    return bytearray(text[: len(text) - len(half[1]) if half else len(text)])


def _close(text: bytearray, quote: bytes, brackets: bytearray) -> bytearray | None:
    text += quote + brackets[::-1].translate(_CLOSING)
    found = split(text)
    if found.code:
        text = mend(text).text
        found = split(text)
    return None if found.code or len(found.spans) != 1 else text
