"""Documents: a chat in one piece, as a log of changes, or in a zip; what is saved of broken ones."""

import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import ValidationError

from unspool.facts import NOBODY, AnyFact, Problem
from unspool.io.compression import PACKED
from unspool.io.dirty_json import clean, is_too_deep, recover_json, refuse_depth, salvage, sample
from unspool.io.origins import Head, Origin, Tally, iter_lines, open_origin
from unspool.sources.vscode_chat.chats import LOG, Abandoned, Reading
from unspool.sources.vscode_chat.edits import state_facts
from unspool.sources.vscode_chat.model import CHAT, REQUEST, DecodeErrors
from unspool.sources.vscode_chat.mutations import INITIAL, Mutation, Replay, decode_mutation

_REQUEST = re.compile(r'\{\s*"(?:requestId|message|variableData|response)"\s*:')
_INITIAL = re.compile(rb'\s*\{\s*"kind"\s*:\s*0\s*,')
_SESSION = re.compile(r'"sessionId"\s*:\s*"([^"\\]+)"')
_decoder = json.JSONDecoder(strict=False)

_ZIP = b"PK\x03\x04"
LARGEST_BYTES = 1024**3
"""A longer chat is not unpacked: a small archive may claim to hold anything."""
_CHAT, _BEGIN, _END = "chat.json", "chat.repo.begin.json", "chat.repo.end.json"
_ZIP_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError)
"""What a broken, a packed in an unknown way, or an encrypted archive may raise."""


def read_document(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """A flat JSON document: an export, or a stored chat. What is cut off is always saved: all of a
    chat is in the one value."""
    data, damage = read_whole(origin.path)
    if damage and not data:
        yield lost(origin, tally, 0, "unreadable", damage)
        return
    data = data.strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf")
    try:
        refuse_depth(data)
        chat = CHAT.decode(data)
    except DecodeErrors as error:
        value, code = parse(data) if isinstance(error, ValidationError) else _parse_odd(data)
        if not isinstance(value, dict):
            yield lost(origin, tally, 0, code or "not-a-chat", data)
            return
        where = len(data) if code == "truncated-json" else _broken_at(data) if code else 0
        del data
        yield from value_facts(value, origin, tally, code, where)
        return
    del data
    yield from Reading(chat, origin, tally, locate=_Places(origin.path).offset).facts()


def read_whole(path: str) -> tuple[bytes, str]:
    """(what the file holds, why it ends early): a damaged packed file is read as far as it goes."""
    with open_origin(path) as file:
        if not path.endswith(PACKED):
            return file.read(), ""
        pieces: list[bytes] = []
        try:
            while piece := file.read1(1 << 20):
                pieces.append(piece)
        except OSError as error:
            return b"".join(pieces), str(error)
        return b"".join(pieces), ""


class _Requests(msgspec.Struct):
    requests: list[msgspec.Raw] = []


class _Places:
    """Where requests stand in a document: looked up only where one has a problem."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offsets: list[int] | None = None

    def offset(self, number: int | None) -> int:
        if number is None:
            return 0
        if self._offsets is None:
            self._offsets = []
            data, _ = read_whole(self._path)
            at = 0
            try:
                start = data.index(b"{")
                requests = msgspec.json.decode(data[start:].rstrip(b"\0 "), type=_Requests).requests
            except (*DecodeErrors, ValueError):
                requests = []
            for request in requests:
                at = data.find(bytes(request), at)
                self._offsets.append(at)
                at += 1
        return self._offsets[number] if number < len(self._offsets) else 0


def value_facts(
    value: dict[str, Any], origin: Origin, tally: Tally, code: str = "", where: int = 0
) -> Iterator[AnyFact]:
    """The facts of a chat that is already decoded, whatever is wrong in it."""
    wrong: list[str] = []
    chat = CHAT.convert(value, wrong)
    in_file = origin.path.endswith((".json", *PACKED))
    places = _Places(origin.path) if in_file else None
    reading = Reading(
        chat, origin, tally, locate=places.offset if places is not None else lambda number: 0
    )
    if code:
        reading.problem(code, "", where)
    reading.wrong_types(wrong)
    yield from reading.facts()


def parse(data: bytes) -> tuple[Any, str]:
    """(value, problem) of JSON, clean or not."""
    try:
        refuse_depth(data)
        return msgspec.json.decode(data), ""
    except DecodeErrors:
        return _parse_odd(data)


def _parse_odd(data: bytes) -> tuple[Any, str]:
    """(value, problem) of JSON that is not clean: lone surrogates, cut off, or broken inside."""
    text = data.decode("utf-8", "replace")
    try:
        value = _decoder.decode(text)
        if is_too_deep(value):
            raise RecursionError
    except RecursionError:
        return _saved_chat(text), "too-deep"
    except ValueError:
        pass
    else:
        return clean(value), ""
    value = recover_json(data)
    value = recover_json(text) if value is None else value  # not even UTF-8
    if isinstance(value, dict) and value.get("requests"):
        return value, "truncated-json"
    return _saved_chat(text), "invalid-json"


def _broken_at(data: bytes) -> int:
    """The offset of what is no JSON."""
    text = data.decode("utf-8", "replace")
    try:
        _decoder.decode(text)
    except json.JSONDecodeError as error:
        return len(text[: error.pos].encode())
    except RecursionError:
        pass
    return 0


def _saved_chat(text: str) -> dict[str, Any] | None:
    """Every whole request in a broken document."""
    requests: list[Any] = []
    at = 0
    while (match := _REQUEST.search(text, at)) is not None:
        try:
            value, at = _decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            value, at = None, match.end()
        if is_too_deep(value):
            value, at = None, match.end()
        if isinstance(value, dict) and "message" in value:
            requests.append(clean(value))
    if not requests:
        return None
    session = _SESSION.search(text)
    return {"requests": requests, **({"sessionId": session[1]} if session else {})}


def lost(origin: Origin, tally: Tally, offset: int, code: str, data: bytes | str) -> Problem:
    tally.records += 1
    tally.problems += 1
    return Problem(
        key=NOBODY, origin=origin.path, offset=offset, number=99, code=code, sample=sample(data)
    )


def read_log(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    """A mutation log. A line that cannot be read is a problem; the others still count."""
    replay = Replay()
    bad_lines: list[tuple[str, str, int]] = []
    try:
        for offset, line in iter_lines(origin):
            code = _apply(replay, line, offset, recover)
            if code:
                bad_lines.append((code, sample(line), offset))
    except OSError as error:
        bad_lines.append(("unreadable", str(error), 0))
    if not replay.state and not replay.removed:
        yield lost(origin, tally, 0, "empty-log", "")
        return
    wrong: list[str] = []
    chat = CHAT.convert(replay.state, wrong)
    # A log without its initial state is still named after its session.
    session = chat.sessionId or PurePath(origin.path).name.split(".jsonl", 1)[0]
    reading = Reading(
        chat, origin, tally, session, locate=lambda number: replay.lines.get(number, 0)
    )
    reading.edition = LOG
    reading.abandoned = [
        Abandoned(REQUEST.convert(removed.request), removed.after)
        for removed in replay.removed.values()
    ]
    if not replay.started:
        reading.problem("no-initial-state", "", 0)
    for problem in bad_lines:
        reading.problem(*problem)
    reading.wrong_types(wrong)
    yield from reading.facts()


def _apply(replay: Replay, line: bytes, offset: int, recover: bool) -> str:
    """Make the change that the line tells; the code of the problem where there is one."""
    try:
        refuse_depth(line)
        return "" if replay.apply(decode_mutation(line), offset) else "bad-mutation"
    except DecodeErrors:
        pass
    # An initial state that is cut off is always saved: all of a chat may be in the one value.
    first = not replay.started and _INITIAL.match(line) is not None
    salvaged = salvage(line, recover or first)
    code = "truncated-json" if salvaged.code == "recovered" and not recover else salvaged.code
    if first and not salvaged.values and (saved := _saved_chat(line.decode("utf-8", "replace"))):
        replay.apply(Mutation(kind=INITIAL, v=msgspec.Raw(msgspec.json.encode(saved))), offset)
    for value in salvaged.values:
        try:
            mutation = decode_mutation(msgspec.json.encode(value))
        except (*DecodeErrors, TypeError):
            is_change = isinstance(value, dict) and isinstance(value.get("kind"), int)
            code = code or ("wrong-type" if is_change else "not-a-mutation")
            continue
        # Of a torn line only its initial state is worth guessing at.
        if salvaged.code != "recovered" or mutation.kind == INITIAL:
            replay.apply(mutation, offset)
    return code


def is_archive(head: Head) -> bool:
    if not head.data.startswith(_ZIP) or not head.name.endswith(".zip"):
        return False
    try:
        with zipfile.ZipFile(head.path) as archive:
            return _CHAT in archive.namelist()
    except _ZIP_DAMAGE:
        return _CHAT.encode() in head.data or _BEGIN.encode() in head.data


def read_archive(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """A chat exported as a zip, with the state of the repository when it began and ended."""
    try:
        with zipfile.ZipFile(origin.path) as archive:
            chat, code = _member(archive, _CHAT)
            begin, _ = _member(archive, _BEGIN)
            end, _ = _member(archive, _END)
    except _ZIP_DAMAGE as error:
        yield lost(origin, tally, 0, "unreadable", str(error))
        return
    if not isinstance(chat, dict):
        yield lost(origin, tally, 0, code or "not-a-chat", _CHAT)
        return
    repository = {k: v for k, v in (("repoData", begin), ("repoDataEnd", end)) if v is not None}
    yield from value_facts({**repository, **chat}, origin, tally, code)


def _member(archive: zipfile.ZipFile, name: str) -> tuple[Any, str]:
    """(value, problem) of a file in the archive; None where there is none."""
    if name not in archive.namelist():
        return None, ""
    if archive.getinfo(name).file_size > LARGEST_BYTES:
        return None, "too-large"
    return parse(archive.read(name))


def read_state(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """The state of an editing session."""
    data, _ = read_whole(origin.path)
    value, code = parse(data)
    facts = None if code else state_facts(value, origin, tally)
    if facts is None:
        yield lost(origin, tally, 0, code or "not-an-editing-session", data)
    else:
        yield from facts
