"""Sessions as JSON: the storage of older versions, `opencode export`, and `opencode run --format json`.

storage/session/<project>/<ses>.json   storage/message/<ses>/<msg>.json   storage/part/<msg>/<prt>.json
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import NOBODY, AnyFact, Problem, Rank
from unspool.io.door import iter_json_lines, read_json, sample
from unspool.io.origins import Origin, Tally, open_origin
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.sources.opencode.sessions import (
    MESSAGE,
    NAME,
    PART,
    SESSION,
    Part,
    Session,
    Teller,
    state_call,
    state_session,
)
from unspool.sources.scribe import Scribe

_STORAGE = re.compile(r"[/\\]storage[/\\](session|message|part)[/\\][^/\\]+[/\\][^/\\]+\.json$")


def storage_kind(path: str) -> str:
    """session, message or part; empty where the file is no part of the storage."""
    named = _STORAGE.search(path)
    return named[1] if named else ""


def _read_value(path: str | Path) -> tuple[Any, str, bytes]:
    with open_origin(str(path)) as file:
        data = file.read()
    salvage = read_json(data, recover=True)
    return (salvage.values[0] if salvage.values else None), salvage.code, data


def _problem(origin: Origin, tally: Tally, code: str, data: bytes) -> Problem:
    tally.records += 1
    tally.problems += 1
    return Problem(key=NOBODY, origin=origin.path, offset=0, code=code, sample=sample(data))


def read_storage(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """A message is read with its parts, which lie in files of their own."""
    kind = storage_kind(origin.path)
    if kind == "part":
        tally.records += 1
        tally.noise += 1
        return
    value, code, data = _read_value(origin.path)
    if code:
        yield _problem(origin, tally, code, data)
    if not isinstance(value, dict):
        return
    tally.records += 1
    path = Path(origin.path)
    if kind == "session":
        session = SESSION.convert(value)
        scribe = Scribe((NAME, session.id or path.stem), origin.path, 0)
        state_session(session, scribe)
        yield from scribe.facts
        return
    storage = path.parents[2]
    message = MESSAGE.convert(value)
    message.id = message.id or path.stem
    session = Session(id=path.parent.name)
    for file in sorted((storage / "session").glob(f"*/{session.id}.json")):
        session = SESSION.convert(_read_value(file)[0])
    parts: list[Part] = []
    for file in sorted((storage / "part" / message.id).glob("*.json")):
        part = PART.convert(_read_value(file)[0])
        part.id = part.id or file.stem
        parts.append(part)
    revert = session.revert
    teller = Teller(session, (NAME, path.parent.name), origin.path)
    earlier = [file.stem for file in path.parent.glob("*.json") if file.stem < path.stem]
    teller.previous = max(earlier, default=teller.previous)
    teller.reverted = (
        revert is not None and bool(revert.messageID) and message.id >= revert.messageID
    )
    yield from teller.state(message, parts, 0).facts


def read_export(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    value, code, data = _read_value(origin.path)
    if code:
        yield _problem(origin, tally, code, data)
    if not isinstance(value, dict):
        return
    session = SESSION.convert(value.get("info"))
    key = (NAME, session.id or Path(origin.path).stem)
    tally.records += 1
    scribe = Scribe(key, origin.path, 0)
    state_session(session, scribe)
    yield from scribe.facts
    teller = Teller(session, key, origin.path)
    messages = value.get("messages")
    for number, item in enumerate(messages if isinstance(messages, list) else (), 1):
        tally.records += 1
        told = item if isinstance(item, dict) else {}
        parts = told.get("parts")
        made = [PART.convert(part) for part in (parts if isinstance(parts, list) else ())]
        yield from teller.state(MESSAGE.convert(told.get("info")), made, number).facts


class Event(msgspec.Struct, gc=False):
    """A line of the printed stream."""

    type: str = ""
    timestamp: int | float | None = None
    sessionID: str = ""
    part: Part | None = None
    error: Any = None


_EVENT = Shape(Event)


def read_stream(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    """The answers of one run, part by part; prompts are not printed."""
    for line in iter_json_lines(origin, _EVENT, tally, recover):
        if isinstance(line, Problem):
            yield line
            continue
        offset, _, event = line
        part = event.part
        if part is None or part.type not in ("text", "reasoning", "tool"):
            tally.noise += 1
            continue
        scribe = Scribe(
            (NAME, event.sessionID),
            origin.path,
            offset,
            time=parse_time(event.timestamp),
            entry=part.id,
            rank=Rank.COPY,
        )
        words = part.text or ""
        scribe.message(
            id=part.messageID, role="assistant",
            text=words if part.type == "text" else "",
            thinking=words if part.type == "reasoning" else "",
        )  # fmt: skip
        if part.type == "tool":
            state_call(part, part.messageID, scribe)
        yield from scribe.facts
