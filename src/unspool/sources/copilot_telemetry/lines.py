"""Lines: telemetry events out of files that are not always clean JSONL."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import NOBODY, Key, Problem
from unspool.io.dirty_json import LongSalvage, clean, clean_text, salvage, salvage_long, sample
from unspool.io.longtext import find_elements, is_long, is_utf8, split
from unspool.io.origins import Origin, Tally, iter_lines, open_origin
from unspool.sources.copilot_telemetry.documents import MENDED, iter_elements
from unspool.sources.copilot_telemetry.envelope import Event, decode_envelope

LONGEST = 128 << 20
"""No sender writes a longer line, and it takes a multiple of its length in memory: that is told."""


def iter_events(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[Event | Problem]:
    """Line by line; a file of which no line is an object is read whole."""
    if not origin.lines:  # not cut into ranges: whoever reads the first reads it all
        if origin.start:
            return
        origin = msgspec.structs.replace(origin, end=None)
    lines = bool(origin.start)
    odd: int | None = None
    """Where the last of the lines stands that are no objects, as long as none is."""
    for offset, line in iter_lines(origin):
        if len(line) > LONGEST:
            yield Problem(
                key=NOBODY, origin=origin.path, offset=offset, number=97, code="long-line",
                sample=f"{len(line):,} bytes: {sample(line)}",
            )  # fmt: skip
        try:
            envelope = decode_envelope(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            envelope = None
        if not lines:
            if envelope is None and not _is_object(line):
                odd = offset
                continue
            lines = True
            if odd is not None:
                yield from _read_before(origin, tally, offset, recover)
        if envelope is None:
            held = [line]
            del line
            yield from _read_odd(origin, tally, offset, held, recover)
            continue
        tally.records += 1
        event = Event(envelope, origin.path, offset)
        del line, envelope  # whoever reads the event decides how long it stays
        yield event
        del event
    if lines or odd is None:
        return
    if origin.end is not None and _goes_on(origin, odd):
        yield from _read_before(origin, tally, origin.end, recover)
    else:
        yield from _read_whole(origin, tally, recover)


def _goes_on(origin: Origin, offset: int) -> bool:
    """Whether there is more behind the line: then others read it, each a range of the lines."""
    with open_origin(origin.path) as file:
        file.seek(offset)
        file.readline()
        return any(line.strip(b"\r\n\0 \t") for line in file)


def _is_object(line: bytes) -> bool:
    if line[:1] != b"{":
        return False
    if is_long(len(line)):
        return any(value[0] == _OBJECT for value in salvage_long(line).values)
    return any(isinstance(value, dict) for value in salvage(line).values)


def _read_before(
    origin: Origin, tally: Tally, end: int, recover: bool
) -> Iterator[Event | Problem]:
    """The lines before the first object, now that lines are known to be records."""
    for offset, line in iter_lines(origin):
        if offset >= end:
            return
        held = [line]
        del line
        yield from _read_odd(origin, tally, offset, held, recover)


def _read_odd(
    origin: Origin, tally: Tally, offset: int, held: list[bytes], recover: bool
) -> Iterator[Event | Problem]:
    """A line that is not one clean object: glued objects, a line of an array, broken JSON."""
    if is_long(len(held[0])):
        yield from _read_long(origin, tally, offset, held, recover)
        return
    (line,) = held
    found = salvage(line, recover, mend)
    if found.lost and (inner := _without_brackets(line)) != line:
        bare = salvage(inner, recover, mend)
        found = found if bare.lost else bare
    yield from _read_values(origin, tally, offset, found.values)
    if found.lost:
        tally.records += 1
        tally.problems += 1
    if found.code:
        yield problem(NOBODY, origin.path, offset, found.code, line)


def _read_long(
    origin: Origin, tally: Tally, offset: int, held: list[bytes], recover: bool
) -> Iterator[Event | Problem]:
    """The same of a very long line, which is held as few times as can be."""
    shown = sample(held[0])
    found = _salvage_long(held.pop(), recover)
    lost, code = found.lost, found.code
    objects = [value for whole in found.values for _, value in _flat(whole)]
    del found
    objects.reverse()
    for number in range(len(objects)):
        yield from _read_text(origin, tally, offset + number, objects)
    if lost:
        tally.records += 1
        tally.problems += 1
    if code:
        yield problem(NOBODY, origin.path, offset, code, shown)


def _salvage_long(line: bytes, recover: bool) -> LongSalvage:
    found = salvage_long(_REUNITE.sub(rb"\1\3\2", line) if _REUNITE.search(line) else line, recover)
    if found.lost and (inner := _without_brackets(line)) != line:
        bare = salvage_long(inner, recover)
        found = found if bare.lost else bare
    return found


_ARRAY, _OBJECT = b"[{"
"""How they begin."""

_REUNITE = re.compile(
    rb'(\\u[dD][89abAB][0-9a-fA-F]{2})("\s*+,\s*+"[^"\\]+_\d\d+"\s*+:\s*+")(\\u[dD][c-fC-F][0-9a-fA-F]{2})'
)
"""A surrogate pair whose halves a cut between two properties put apart."""


def _flat(value: memoryview, at: int = 0) -> Iterator[tuple[int, memoryview]]:
    """What stands in arrays, and in arrays within, each with its place."""
    if value[0] != _ARRAY:
        yield at, value
        return
    for start, end in find_elements(value):
        yield from _flat(value[start:end], at + start)


def _read_text(
    origin: Origin, tally: Tally, offset: int, held: list[memoryview]
) -> Iterator[Event | Problem]:
    """The last of the values, which is taken; it stands there clean."""
    tally.records += 1
    value = held.pop()
    try:
        envelope = decode_envelope(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        if value[0] != _OBJECT:
            tally.unrecognise(_kind(value), origin.path, offset)
            return
        tally.problems += 1
        yield problem(NOBODY, origin.path, offset, "wrong-types", str(error))
        return
    event = Event(envelope, origin.path, offset)
    del value, envelope  # as above
    yield event


def _kind(value: memoryview) -> str:
    """What Python would call a value that is no object and no array."""
    begin = bytes(value[:1])
    if begin in _KINDS:
        return _KINDS[begin]
    return "float" if any(sign in b".eE" for sign in value) else "int"


_KINDS = {b'"': "str", b"t": "bool", b"f": "bool", b"n": "NoneType"}


def _without_brackets(line: bytes) -> bytes:
    """Without what an array puts around its elements, where each stands on a line of its own."""
    return line.rstrip(b", \t").removeprefix(b"[").removesuffix(b"]")


def mend(value: Any) -> Any:
    """Clean, with cut properties put together first: the cut may go through a surrogate pair."""
    if isinstance(value, list):
        return [mend(item) for item in value]
    if not isinstance(value, dict):
        return clean(value)
    value = {clean_text(key): item for key, item in value.items()}
    texts = {key: item for key, item in value.items() if isinstance(item, str)}
    for key in list(texts):
        number = 2
        while key in texts and (part := texts.pop(f"{key}_{number:02d}", None)) is not None:
            texts[key] += part
            number += 1
    return {
        key: clean_text(texts[key]) if key in texts else mend(item)
        for key, item in value.items()
        if key in texts or not isinstance(item, str)
    }


def _read_values(
    origin: Origin, tally: Tally, offset: int, values: list[Any]
) -> Iterator[Event | Problem]:
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    for number, value in enumerate(flat):
        yield from _read_value(origin, tally, offset + number, value)


def _read_value(origin: Origin, tally: Tally, offset: int, value: Any) -> Iterator[Event | Problem]:
    tally.records += 1
    if not isinstance(value, dict):
        tally.unrecognise(type(value).__name__, origin.path, offset)
        return
    try:
        envelope = decode_envelope(msgspec.json.encode(value))
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        tally.problems += 1
        yield problem(NOBODY, origin.path, offset, "wrong-types", str(error))
        return
    yield Event(envelope, origin.path, offset)


def _read_whole(origin: Origin, tally: Tally, recover: bool) -> Iterator[Event | Problem]:
    """A JSON array, or JSON over many lines; where it is neither, every line is a bad one."""
    with open_origin(origin.path) as file:
        data = file.read()
    found = split(data, len(BOM_UTF8) if data.startswith(BOM_UTF8) else 0)
    if not found.code and is_utf8(data):
        with memoryview(data) as whole:
            for start, end in found.spans:
                for at, value in _flat(whole[start:end], start):
                    yield from _read_text(origin, tally, at, [value])
        return
    text = data.decode("utf-8", "replace")
    if "\ufffd" in text and b"\xef\xbf\xbd" not in data:
        yield problem(NOBODY, origin.path, 0, "invalid-utf8", data)
    known = False
    for element in iter_elements(text, recover):
        if element.code == MENDED:
            pass
        elif element.code and element.code != "recovered":
            if not known and b"\n" in data.strip() and element.code == "invalid-json":
                yield from _read_before(origin, tally, len(data), recover)
                return
            tally.records += 1
            tally.problems += 1
        else:
            known = True
            yield from _read_value(origin, tally, element.offset, mend(element.value))
        if element.code:
            yield problem(NOBODY, origin.path, element.offset, element.code, element.text)


def problem(key: Key, origin: str, offset: int, code: str, data: bytes | str) -> Problem:
    return Problem(key=key, origin=origin, offset=offset, number=99, code=code, sample=sample(data))
