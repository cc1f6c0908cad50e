"""Records: JSON out of bytes that are not always clean JSON.

Good lines never come here more than once; what is below is for the bad ones.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jiter
import msgspec

from unspool.io import longtext
from unspool.io.longtext import is_long, is_utf8

SAMPLE_CHARS = 200
_SURROGATES = re.compile("[\ud800-\udfff]")
_decoder = json.JSONDecoder(strict=False)


def sample(data: bytes | str) -> str:
    """A clipped piece of bad data to show to a person."""
    text = data[: SAMPLE_CHARS * 4].decode("utf-8", "replace") if isinstance(data, bytes) else data
    return text[:SAMPLE_CHARS]


def clean_text(text: str) -> str:
    """The text with surrogate pairs put together and lone ones, which UTF-8 cannot hold, replaced."""
    if text.isascii() or not _SURROGATES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


DEEPEST = 250
"""Deeper nesting is nobody's data, and no two Pythons agree how deep they can go."""


def clean(value: Any, depth: int = 0) -> Any:
    """The value with every string cleaned; what is nested too deep is cut there."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict | list) and depth > DEEPEST:
        return "(nested too deep)"
    if isinstance(value, dict):
        return {clean_text(str(key)): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item, depth + 1) for item in value]
    return value


def is_too_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        inner = [v for v in level if isinstance(v, dict | list)]
        level = [item for v in inner for item in (v.values() if isinstance(v, dict) else v)]
        if not level:
            return False
    return any(isinstance(v, dict | list) for v in level)


_ENDS = (b"]]]]]]]]", b"}}}}}}}}", b"]}]}]}]}")
"""How the end of a very deep value looks: where brackets alternate, the last one is in it too."""


def refuse_depth(data: bytes | bytearray) -> None:
    """Raise RecursionError where the JSON is nested too deep, on every Python: some decoders go
    deeper than what works on the value afterwards."""
    if not any(end in data for end in _ENDS):
        return
    long = is_long(len(data))
    if longtext.is_deeper(data, DEEPEST) if long else is_too_deep(msgspec.json.decode(data)):
        raise RecursionError("nested too deep")


class Salvage(msgspec.Struct):
    """What could be read from a line that is not one clean JSON value."""

    values: list[Any]
    code: str = ""
    """The problem to count, or empty where the line was merely odd."""

    @property
    def lost(self) -> bool:
        """Whether something beside the values could not be read; else they are the whole, mended."""
        return _is_lost(self)


_MENDED = ("invalid-utf8", "invalid-escape", "recovered")


def salvage(line: bytes, recover: bool = False, mend: Callable[[Any], Any] = clean) -> Salvage:
    """Read what can be read: glued objects, lone surrogates, bad UTF-8, a cut-off end.

    `mend` makes a value clean; a source gives its own where texts are cut across fields.
    """
    if is_long(len(line)):
        long = salvage_long(line, recover)
        return Salvage([mend(_loads(value)) for value in long.values], long.code)
    code = ""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        text = line.decode("utf-8", "replace")
        code = "invalid-utf8"
    values, rest, depth = _objects(text.strip("\0 \t\r\n\ufeff"))
    if depth or any(is_too_deep(value) for value in values):
        return Salvage([mend(v) for v in values if not is_too_deep(v)], "too-deep")
    values = [mend(value) for value in values]
    if rest and (whole := _with_escapes(rest)) is not None:
        return Salvage([*values, *map(mend, whole)], "invalid-escape")
    if rest and recover:
        recovered = recover_json(rest)
        if recovered is None:
            recovered = _recover_broken(rest)
        if recovered is not None:
            return Salvage([*values, recovered], "recovered")
    if rest:
        # A line may be very long: it is not encoded once more where it is here as it was.
        whole_line = not code and len(rest) == len(text)
        cut_off = is_cut_off(line if whole_line else rest)
        return Salvage(values, "truncated-json" if cut_off else "invalid-json")
    return Salvage(values, code)


def _recover_broken(text: str) -> Any:
    """What stands before the place where the value breaks; None where there is none."""
    data = text.encode()
    closed = longtext.close_broken(data, longtext.split(data))
    return None if closed is None else clean(_loads(memoryview(closed)))


def _loads(value: memoryview) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:  # a number that is out of range
        return json.loads(bytes(value))


class LongSalvage(NamedTuple):
    """The same of a line that is too long to be worked on as a string: its values as they stand."""

    values: list[memoryview]
    code: str = ""

    @property
    def lost(self) -> bool:
        return _is_lost(self)


def _is_lost(found: Salvage | LongSalvage) -> bool:
    return bool(found.code) and not (found.values and found.code in _MENDED)


def salvage_long(line: bytes | bytearray, recover: bool = False) -> LongSalvage:
    """As `salvage` does, without holding the line many times."""
    text: longtext.Text = line
    code = ""
    if not is_utf8(line):
        text, code = longtext.mend(line).text, "invalid-utf8"
    found = longtext.split(text)
    values = [memoryview(text)[start:end] for start, end in found.spans]
    if found.code == "invalid-json" and not code:
        mended = longtext.mend(memoryview(text)[found.at :])
        rest = longtext.split(mended.text)
        if rest.code:
            found = found._replace(code=rest.code)
        else:
            values += [memoryview(mended.text)[start:end] for start, end in rest.spans]
            found, code = rest, "invalid-escape" if mended.escapes else ""
    if found.code in ("invalid-json", "truncated-json"):
        later = _later_values(text, found.at + 1)
        values += [memoryview(text)[start:end] for start, end in later]
        if later:  # what stands before them may be cut off
            text = memoryview(text)[: later[0][0]]
            found = longtext.split(text, found.at)
        closed = longtext.close_broken(text, found) if recover else None
        if closed is not None:
            values.append(memoryview(closed))
            found, code = longtext.Split([], 0), "recovered"
    shallow = [value for value in values if not longtext.is_deeper(value, DEEPEST)]
    deep = len(shallow) < len(values)
    return LongSalvage(shallow, "too-deep" if deep else found.code or code)


def _later_values(text: longtext.Text, start: int) -> list[tuple[int, int]]:
    """As `_whole_objects`."""
    failed: set[int] = set()
    for match in _OBJECT_BYTES.finditer(text, start):
        if match.start() not in failed:
            found = longtext.split(text, match.start())
            if not found.code:
                return found.spans
            failed.update(begin for begin, _ in found.spans)
    return []


_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')


def _with_escapes(text: str) -> list[Any] | None:
    """The values of a text whose only fault is a backslash that escapes nothing (tools that mask
    names in logs leave such); None where there is another one."""
    mended = mend_escapes(text)
    if mended == text:
        return None
    values, rest, deep = _objects(mended)
    return None if rest or deep else values


def mend_escapes(text: str) -> str:
    """Every backslash that escapes nothing is one that is meant."""
    return _ESCAPE.sub(lambda found: found[0] if found[1] else r"\\", text)


def is_cut_off(text: str | bytes) -> bool:
    """Whether the text is the beginning of a JSON value, and not broken before its end."""
    return text[:1] in ("{", "[", b"{", b"[") and recover_json(text) is not None


def _objects(text: str) -> tuple[list[Any], str, bool]:
    """Whole values one after the other; the rest that is none; whether it was nested too deep."""
    values: list[Any] = []
    position = 0
    while position < len(text):
        try:
            value, position = _decoder.raw_decode(text, position)
        except RecursionError:
            return values, "", True
        except ValueError:
            later = _whole_objects(text, position + 1)
            if later is None:
                return values, text[position:], False
            return values + later[0], text[position : later[1]], False
        values.append(value)
        while position < len(text) and text[position] in " \t\r\n\0,":
            position += 1
    return values, "", False


_OBJECT = re.compile(r'\{"(?:type|name|ver|time|data|uuid|parentUuid|hook_event_name)"')
_OBJECT_BYTES = re.compile(_OBJECT.pattern.encode())


def _whole_objects(text: str, start: int) -> tuple[list[Any], int] | None:
    """The whole objects up to the end of the line, behind a cut-off one (two writers, one line)."""
    failed: set[int] = set()
    """From there on something is no value: nothing that comes by there is tried to its end again,
    or a long torn list would be read once for each of its elements."""
    for match in _OBJECT.finditer(text, start):
        at = end = match.start()
        values: list[Any] = []
        passed: list[int] = []
        try:
            while end < len(text) and end not in failed:
                passed.append(end)
                value, end = _decoder.raw_decode(text, end)
                values.append(value)
                while end < len(text) and text[end] in " \t\r\n\0,":
                    end += 1
        except (ValueError, RecursionError):
            end = -1
        if end == len(text):
            return values, at
        failed.update(passed)
    return None


def recover_json(text: str | bytes) -> Any:
    """A cut-off JSON value closed where it breaks off; None where not even that can be read."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    try:
        return clean(jiter.from_json(data, partial_mode="trailing-strings"))
    except ValueError:
        mended = _UNICODE.sub(_without_halves, data)
    try:
        return clean(jiter.from_json(mended, partial_mode="trailing-strings"))
    except ValueError:
        return None


_UNICODE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)")
"""A pair of surrogates, half of one, or any other escape."""


def _without_halves(found: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if found["half"] else found[0]
