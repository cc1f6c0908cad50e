"""Lines: telemetry events out of files that are not always clean JSONL."""

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import NOBODY, Key, Problem
from unspool.origins import Origin, Tally, iter_lines, open_origin
from unspool.records import clean, clean_text, salvage, sample
from unspool.sources.copilot_telemetry.envelope import Event, decode_envelope


def iter_events(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[Event | Problem]:
    """Line by line; a file of which no line is an object is read whole."""
    held: list[tuple[int, bytes]] = []
    parsed = False
    for offset, line in iter_lines(origin):
        try:
            envelope = decode_envelope(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            if not parsed and not origin.start and len(held) < 100_000:
                held.append((offset, line))
                if not _is_object(line):
                    continue
                parsed = True
                for at, bad in held:
                    yield from _read_odd(origin, tally, at, bad, recover)
                held = []
                continue
            yield from _read_odd(origin, tally, offset, line, recover)
            continue
        if held:
            for at, bad in held:
                yield from _read_odd(origin, tally, at, bad, recover)
            held = []
        parsed = True
        tally.records += 1
        yield Event(envelope, origin.path, offset)
    if held:
        yield from _read_whole(origin, tally, held, recover)


def _is_object(line: bytes) -> bool:
    if line[:1] != b"{":
        return False
    return any(isinstance(value, dict) for value in salvage(line).values)


def _read_odd(
    origin: Origin, tally: Tally, offset: int, line: bytes, recover: bool
) -> Iterator[Event | Problem]:
    """A line that is not one clean object: glued objects, an array, broken JSON."""
    found = salvage(line, recover, mend)
    yield from _read_values(origin, tally, offset, found.values)
    if found.code:
        tally.records += 1
        tally.problems += 1
        yield problem(NOBODY, origin.path, offset, found.code, line)


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
        tally.records += 1
        if not isinstance(value, dict):
            tally.unrecognise(type(value).__name__, origin.path, offset)
            continue
        try:
            envelope = decode_envelope(msgspec.json.encode(value))
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            tally.problems += 1
            yield problem(NOBODY, origin.path, offset + number, "wrong-types", str(error))
            continue
        yield Event(envelope, origin.path, offset + number)


def _read_whole(
    origin: Origin, tally: Tally, held: list[tuple[int, bytes]], recover: bool
) -> Iterator[Event | Problem]:
    """A JSON array, or JSON over many lines."""
    with open_origin(origin.path) as file:
        data = file.read()
    found = salvage(data, recover, mend)
    if found.values:
        yield from _read_values(origin, tally, 0, found.values)
        held = [(0, data)] if found.code else []
    for offset, line in held[:1] if found.values else held:
        bad = salvage(line, recover)
        tally.records += 1
        tally.problems += 1
        yield problem(NOBODY, origin.path, offset, bad.code or "invalid-json", line)


def problem(key: Key, origin: str, offset: int, code: str, data: bytes | str) -> Problem:
    return Problem(key=key, origin=origin, offset=offset, number=99, code=code, sample=sample(data))
