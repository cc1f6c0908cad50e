"""Reader: ATIF documents, of any version and from any producer, as trajectories."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import NOBODY, Problem
from unspool.io.dirty_json import recover_json, salvage, sample
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.sinks.atif.lenient import is_document
from unspool.sinks.atif.reading import Reading
from unspool.sinks.atif.versions import PREFIX
from unspool.trajectory import Trajectory

_LABEL = re.compile(rb'"schema_version"\s*:\s*"' + PREFIX.encode())
_STEPS = re.compile(rb'"steps"\s*:\s*\[')

Json = dict[str, Any]


def claims(head: Head) -> bool:
    """A JSON object with ATIF's label, or with its steps; also several, in an array or by their ids."""
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if data[:1] not in (b"{", b"[") or not (_LABEL.search(data) or _STEPS.search(data)):
        return False
    value = recover_json(data) or (head.objects[0] if head.objects else None)
    return any(True for _ in documents_in(value))


def documents_in(value: Any) -> Iterator[tuple[str, Json]]:
    """(name, document): the value itself, or each element of an array or of an object by ids."""
    if is_document(value):
        yield "", value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            if is_document(item):
                yield str(number), item
    elif isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
        for name, item in value.items():
            if is_document(item):
                yield name, item


def read(origin: Origin, tally: Tally) -> Iterator[Trajectory | Problem]:
    """The trajectories of a file: each document's, and those of the sub-agents embedded in it."""
    with open_origin(origin.path) as file:
        data = file.read().removeprefix(b"\xef\xbb\xbf").strip(b"\0 \t\r\n")
    values, code = _parse(data)
    found = [(n, name, d) for n, value in enumerate(values) for name, d in documents_in(value)]
    if code or not found:
        tally.records += 1
        tally.problems += 1
        yield _problem(origin, code or "not-a-trajectory", data)
    for number, name, document in found:
        tally.records += 1
        ident = _fallback_id(origin, name, number)
        try:
            reading = Reading(document, ident, Path(origin.path).parent)
        except RecursionError:
            tally.problems += 1
            yield _problem(origin, "too-deep", data)
            continue
        if reading.wrong:
            tally.problems += 1
            yield _problem(origin, "invalid-field", _listed(reading.wrong).encode())
        elif not reading.trajectories:
            tally.noise += 1  # begun, but no step was made: VS Code's logger leaves such
        for trajectory in reading.trajectories:
            trajectory.file_path = trajectory.file_path or origin.path
            yield trajectory


def _parse(data: bytes) -> tuple[list[Any], str]:
    """The JSON values of a file (one, as a rule), and what is wrong with it."""
    try:
        return [msgspec.json.decode(data)], ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        saved = salvage(data)
        return saved.values, saved.code


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return ", ".join(paths[:5]) + more


def _fallback_id(origin: Origin, name: str, number: int) -> str:
    """An id for a document that has none: where it was found."""
    stem = origin.name.removesuffix(".json").removesuffix(".trajectory")
    parts = (stem, str(number + 1) if number else "", name)
    return "/".join(part for part in parts if part)


def _problem(origin: Origin, code: str, data: bytes) -> Problem:
    return Problem(key=NOBODY, origin=origin.path, offset=0, code=code, sample=sample(data))
