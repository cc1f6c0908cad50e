"""Lines: telemetry events out of files that are not always clean JSONL."""

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import NOBODY, Key, Problem
from unspool.origins import Origin, Tally, iter_lines, open_origin
from unspool.records import clean, clean_text, salvage, sample
from unspool.sources.copilot_telemetry.documents import MENDED, iter_elements
from unspool.sources.copilot_telemetry.envelope import Event, decode_envelope


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
            yield from _read_odd(origin, tally, offset, line, recover)
            continue
        tally.records += 1
        yield Event(envelope, origin.path, offset)
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
    return any(isinstance(value, dict) for value in salvage(line).values)


def _read_before(
    origin: Origin, tally: Tally, end: int, recover: bool
) -> Iterator[Event | Problem]:
    """The lines before the first object, now that lines are known to be records."""
    for offset, line in iter_lines(origin):
        if offset >= end:
            return
        yield from _read_odd(origin, tally, offset, line, recover)


def _read_odd(
    origin: Origin, tally: Tally, offset: int, line: bytes, recover: bool
) -> Iterator[Event | Problem]:
    """A line that is not one clean object: glued objects, a line of an array, broken JSON."""
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


def _without_brackets(line: bytes) -> bytes:
    """Without what an array puts around its elements, where each stands on a line of its own."""
    return line.rstrip(b", \t").removeprefix(b"[").removesuffix(b"]")


def mend(value: Any) -> Any:
    """Clean, with cut properties put together first: the cut may go through a surrogate pair."""
    if isinstance(value, list):
        return [mend(item) for item in value]
    if not isinstance(value, dict):
        return clean(value)
    made = {key: mend(item) for key, item in value.items() if not isinstance(item, str)}
    texts = {key: item for key, item in value.items() if isinstance(item, str)}
    for key in list(texts):
        number = 2
        while key in texts and (part := texts.pop(f"{key}_{number:02d}", None)) is not None:
            texts[key] += part
            number += 1
    return {**made, **{key: clean_text(item) for key, item in texts.items()}}


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
