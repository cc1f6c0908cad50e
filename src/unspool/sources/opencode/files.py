"""Sessions as JSON: the storage of older versions, `opencode export`, and `opencode run --format json`.

storage/session/<project>/<ses>.json   storage/message/<ses>/<msg>.json   storage/part/<msg>/<prt>.json
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import AnyFact, Rank
from unspool.io.door import iter_json_lines
from unspool.io.origins import Origin, Tally, open_origin
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.sources.opencode.sessions import (
    MESSAGE,
    NAME,
    PART,
    SESSION,
    Message,
    Part,
    Session,
    Teller,
    state_call,
    state_session,
    value_of,
)
from unspool.sources.scribe import Scribe

_STORAGE = re.compile(r"[/\\]storage[/\\](session|message|part)[/\\][^/\\]+[/\\][^/\\]+\.json$")


class Exported(msgspec.Struct, gc=False):
    info: Message | None = None
    parts: list[Part] | None = None


class Export(msgspec.Struct, gc=False):
    """What `opencode export` writes."""

    info: Session | None = None
    messages: list[Exported] | None = None


class Event(msgspec.Struct, gc=False):
    """A line of the printed stream."""

    timestamp: int | float | None = None
    sessionID: str = ""
    part: Part | None = None


_EXPORT = Shape(Export)
_EVENT = Shape(Event)


def storage_kind(path: str) -> str:
    """session, message or part; empty where the file is no part of the storage."""
    named = _STORAGE.search(path)
    return named[1] if named else ""


def read_storage(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    kind = storage_kind(origin.path)
    if kind == "part":  # read with its message
        tally.records += 1
        tally.noise += 1
    elif kind == "session":
        for _, _, session in iter_json_lines(origin, SESSION, tally, recover=True):
            scribe = Scribe((NAME, session.id or Path(origin.path).stem), origin.path, 0)
            state_session(session, scribe)
            yield from scribe.facts
    else:
        for _, _, message in iter_json_lines(origin, MESSAGE, tally, recover=True):
            yield from _state_stored(message, origin)


def _state_stored(message: Message, origin: Origin) -> list[AnyFact]:
    """A message with its parts, which lie in files of their own, as the session does."""
    path = Path(origin.path)
    storage, session = path.parents[2], Session(id=path.parent.name)
    message.id = message.id or path.stem
    for file in sorted((storage / "session").glob(f"*/{session.id}.json")):
        session = SESSION.convert(_value_in(file))
    parts: list[Part] = []
    for file in sorted((storage / "part" / message.id).glob("*.json")):
        parts.append(PART.convert(_value_in(file)))
        parts[-1].id = parts[-1].id or file.stem
    teller = Teller(session, (NAME, path.parent.name), origin.path)
    earlier = [file.stem for file in path.parent.glob("*.json") if file.stem < path.stem]
    teller.previous = max(earlier, default=teller.previous)
    reverted = session.revert.messageID if session.revert is not None else ""
    teller.reverted = bool(reverted) and message.id >= reverted
    return teller.state(message, parts, 0).facts


def _value_in(path: Path) -> Any:
    with open_origin(str(path)) as file:
        return value_of(file.read())


def read_export(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    for _, _, export in iter_json_lines(origin, _EXPORT, tally, recover=True):
        session, messages = export.info or Session(), export.messages or []
        key = (NAME, session.id or Path(origin.path).stem)
        scribe = Scribe(key, origin.path, 0)
        state_session(session, scribe)
        yield from scribe.facts
        teller = Teller(session, key, origin.path)
        tally.records += len(messages)
        for number, told in enumerate(messages, 1):
            yield from teller.state(told.info or Message(), told.parts or [], number).facts


def read_stream(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    """The answers of one run, part by part; prompts are not printed."""
    for offset, _, event in iter_json_lines(origin, _EVENT, tally, recover):
        part = event.part
        if part is None or part.type not in ("text", "reasoning", "tool"):
            tally.noise += 1
            continue
        key, time = (NAME, event.sessionID), parse_time(event.timestamp)
        scribe = Scribe(key, origin.path, offset, time=time, entry=part.id, rank=Rank.COPY)
        words = part.text or ""
        thinking = words if part.type == "reasoning" else ""
        text = words if part.type == "text" else ""
        scribe.message(id=part.messageID, role="assistant", text=text, thinking=thinking)
        if part.type == "tool":
            state_call(part, part.messageID, scribe)
        yield from scribe.facts
