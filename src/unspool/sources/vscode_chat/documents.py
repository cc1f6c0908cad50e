"""Documents: a chat in one piece, as a log of changes, or in a zip; what is saved of broken ones."""

import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec

from unspool.facts import NOBODY, AnyFact, Problem
from unspool.io.compression import PACKED
from unspool.io.door import (
    LONGEST_BYTES,
    UNREADABLE,
    Flaw,
    Salvage,
    clean,
    cut_long_strings,
    is_too_deep,
    read_json,
    refuse_depth,
    refuse_dirt,
    sample,
)
from unspool.io.origins import Head, Origin, Tally, iter_lines, open_origin
from unspool.sources.vscode_chat.attachments import without_long_images
from unspool.sources.vscode_chat.chats import FLAT, LOG, Reading
from unspool.sources.vscode_chat.edits import state_facts
from unspool.sources.vscode_chat.model import CHAT, REQUEST, Chat
from unspool.sources.vscode_chat.mutations import INITIAL, Replay, decode_mutation

MUTATION = re.compile(rb'\s*\{\s*"kind"\s*:\s*[0-3]\s*,\s*"[kvi]"\s*:')
"""How a line of a log begins."""
_REQUEST = re.compile(r'\{\s*"(?:requestId|message|variableData|response)"\s*:')
_INITIAL = re.compile(rb'\s*\{\s*"kind"\s*:\s*0\s*,')
_SESSION = re.compile(r'"sessionId"\s*:\s*"([^"\\]+)"')
_decoder = json.JSONDecoder(strict=False)

_ZIP = b"PK\x03\x04"
LARGEST_MEMBER_BYTES = 1024**3
"""A longer chat is not unpacked: a small archive may claim to hold anything."""
_CHAT, _BEGIN, _END = "chat.json", "chat.repo.begin.json", "chat.repo.end.json"
_ZIP_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError)
"""What a broken, a packed in an unknown way, or an encrypted archive may raise."""


def read_document(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    """A flat JSON document: an export, or a stored chat (which may be a log under the old name)."""
    data, damage = read_whole(origin.path)
    if damage and not data:
        yield lost(origin, tally, Flaw("unreadable", 0, damage))
        return
    data = data.strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf")
    if MUTATION.match(data):
        del data
        yield from read_log(origin, tally, recover)
        return
    flaws: list[Flaw] = []
    if len(data) > LONGEST_BYTES:
        data, flaws = cut_long_strings(without_long_images(data))
    decoded = decode_chat(data)
    flaws += decoded.flaws
    if decoded.chat is None:
        yield lost(origin, tally, flaws[0] if flaws else Flaw("not-a-chat", 0, sample(data)))
        return
    del data
    yield from _reading(decoded._replace(flaws=flaws), origin, tally).facts()


class Decoded(NamedTuple):
    """A chat, as far as it can be read, the paths of values that do not fit, and what else is wrong."""

    chat: Chat | None
    wrong: list[str]
    flaws: list[Flaw]


def decode_chat(data: bytes) -> Decoded:
    try:
        refuse_depth(data)
        return Decoded(CHAT.decode(data), [], [])
    except UNREADABLE:
        salvage = read_chat_json(data)
    value = salvage.values[0] if salvage.values else None
    wrong: list[str] = []
    chat = CHAT.convert(value, wrong) if isinstance(value, dict) else None
    return Decoded(chat, wrong, salvage.flaws)


def _reading(
    decoded: Decoded, origin: Origin, tally: Tally, session: str = "", log: Replay | None = None
) -> Reading:
    chat = decoded.chat or Chat()
    edition = FLAT if log is None else LOG
    locate = _locate(origin.path) if log is None else lambda n: log.lines.get(n, 0)
    reading = Reading(chat, origin, tally, session, locate, edition)
    reading.tell_flaws(decoded.flaws)
    reading.wrong_types(decoded.wrong)
    return reading


def read_chat_json(data: bytes) -> Salvage:
    """A chat that is not clean JSON with fields of the expected types. What is cut off is always
    closed: all of a chat is in the one value. Of what is broken inside, every whole request is read
    (spoilt)."""
    salvage = read_json(data, recover=True)
    value = salvage.values[0] if salvage.values else None
    if salvage.code in ("", "invalid-utf8", "long-value") and len(salvage.values) == 1:
        return salvage
    cut_off = salvage.code == "recovered" and read_json(data).code == "truncated-json"
    if cut_off and isinstance(value, dict) and value.get("requests"):
        flaws = [f._replace(code="truncated-json", place=len(data)) for f in salvage.flaws]
        return Salvage([value], [0], flaws)
    text = data.decode("utf-8", "replace")
    place = 0
    try:
        _decoder.decode(text)
    except json.JSONDecodeError as error:
        place = len(text[: error.pos].encode())
    except RecursionError:
        pass
    code = "too-deep" if salvage.code == "too-deep" else "invalid-json"
    flaw = Flaw(code, place, sample(data))
    requests: list[Any] = []
    at = 0
    while (match := _REQUEST.search(text, at)) is not None:
        try:
            value, at = _decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            at = match.end()
            continue
        if isinstance(value, dict) and "message" in value and not is_too_deep(value):
            requests.append(clean(value))
    if not requests:
        return Salvage([], [], [flaw])
    session = _SESSION.search(text)
    named = {"sessionId": session[1]} if session else {}
    return Salvage([{"requests": requests, **named}], [0], [flaw])


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


def _locate(path: str) -> Callable[[int | None], int]:
    """Where requests stand in a document: looked up only where one has a problem."""

    @cache
    def offsets() -> list[int]:
        data, _ = read_whole(path)
        found, at = [], 0
        try:
            start = data.index(b"{")
            requests = msgspec.json.decode(data[start:].rstrip(b"\0 "), type=_Requests).requests
        except (*UNREADABLE, ValueError):
            requests = []
        for request in requests:
            found.append(data.find(bytes(request), at))
            at = found[-1] + 1
        return found

    return lambda number: 0 if number is None else ([*offsets()[number:], 0])[0]


def value_facts(
    value: dict[str, Any], origin: Origin, tally: Tally, flaws: list[Flaw]
) -> Iterator[AnyFact]:
    """The facts of a chat that is already decoded, whatever is wrong in it."""
    wrong: list[str] = []
    decoded = Decoded(CHAT.convert(value, wrong), wrong, flaws)
    yield from _reading(decoded, origin, tally).facts()


def lost(origin: Origin, tally: Tally, flaw: Flaw, offset: int = 0) -> Problem:
    """A record of which nothing can be used."""
    tally.records += 1
    tally.problems += 1
    return Problem(
        key=NOBODY, origin=origin.path, offset=offset + flaw.place, number=99, code=flaw.code,
        sample=flaw.sample,
    )  # fmt: skip


def read_log(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    """A mutation log. A line that cannot be read is a problem; the others still count."""
    for careful in (False, True):
        replay = Replay()
        bad_lines: list[tuple[int, list[Flaw]]] = []
        try:
            for offset, line in iter_lines(origin):
                if flaws := _apply(replay, line, offset, recover, careful):
                    bad_lines.append((offset, flaws))
        except OSError as error:
            bad_lines.append((0, [Flaw("unreadable", 0, str(error))]))
        decoded = decode_chat(replay.document())
        if not bad_lines and not decoded.flaws:
            break  # else values are looked at in their lines, which tell where a flaw is
    if not replay.state and not replay.removed:
        yield lost(origin, tally, Flaw("empty-log", 0, ""))
        return
    # A log without its initial state is still named after its session.
    session = decoded.chat.sessionId if decoded.chat is not None else None
    session = session or PurePath(origin.path).name.split(".jsonl", 1)[0]
    reading = _reading(decoded, origin, tally, session, replay)
    for request, after in replay.removed.values():
        for value in read_json(msgspec.json.encode(request)).values:
            reading.abandoned.append((REQUEST.convert(value), after))
    if not replay.started:
        reading.problem("no-initial-state", "", 0)
    for offset, flaws in bad_lines:
        reading.tell_flaws(flaws, offset)
    yield from reading.facts()


def _apply(replay: Replay, line: bytes, offset: int, recover: bool, careful: bool) -> list[Flaw]:
    """Make the change that the line tells; what was wrong with it."""
    flaws: list[Flaw] = []
    if len(line) > LONGEST_BYTES:
        line, flaws = cut_long_strings(without_long_images(line))
    try:
        if careful:
            refuse_dirt(line)
        done = replay.apply(decode_mutation(line), offset)
        return flaws if done else [Flaw("bad-mutation", 0, sample(line))]
    except UNREADABLE:
        pass
    # An initial state that is cut off is always saved: all of a chat may be in the one value.
    first = not replay.started and _INITIAL.match(line) is not None
    salvage = read_json(line, recover or first)
    flaws += salvage.flaws
    if salvage.code == "recovered" and not recover:
        flaws = [flaw._replace(code="truncated-json", place=len(line)) for flaw in flaws]
    if first and (not salvage.values or salvage.code in ("too-deep", "invalid-json")):
        chat = read_chat_json(line).values
        salvage.values = [{"kind": INITIAL, "v": value} for value in chat]
    for value in salvage.values:
        try:
            mutation = decode_mutation(msgspec.json.encode(value))
        except (*UNREADABLE, TypeError):
            is_change = isinstance(value, dict) and isinstance(value.get("kind"), int)
            code = "wrong-type" if is_change else "not-a-mutation"
            flaws = flaws or [Flaw(code, 0, sample(line))]
            continue
        # Of a torn line only its initial state is worth guessing at.
        if salvage.code != "recovered" or mutation.kind == INITIAL:
            replay.apply(mutation, offset)
    return flaws


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
            members = {name: _member(archive, name) for name in (_CHAT, _BEGIN, _END)}
    except _ZIP_DAMAGE as error:
        yield lost(origin, tally, Flaw("unreadable", 0, str(error)))
        return
    values = {name: m.values[0] for name, m in members.items() if m.values}
    flaws = members[_CHAT].flaws
    if not isinstance(values.get(_CHAT), dict):
        yield lost(origin, tally, flaws[0] if flaws else Flaw("not-a-chat", 0, _CHAT))
        return
    names = {"repoData": _BEGIN, "repoDataEnd": _END}
    repository = {ours: values[name] for ours, name in names.items() if name in values}
    yield from value_facts({**repository, **values[_CHAT]}, origin, tally, flaws)


def _member(archive: zipfile.ZipFile, name: str) -> Salvage:
    """A file in the archive; nothing where there is none."""
    if name not in archive.namelist():
        return Salvage([])
    if archive.getinfo(name).file_size > LARGEST_MEMBER_BYTES:
        return Salvage([], [], [Flaw("too-large", 0, name)])
    data = without_long_images(archive.read(name))
    return read_chat_json(data) if name == _CHAT else read_json(data)


def read_state(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """The state of an editing session."""
    data, _ = read_whole(origin.path)
    salvage = read_json(data)
    facts = None
    if salvage.values and not salvage.lost:
        facts = state_facts(salvage.values[0], origin, tally)
    if facts is None:
        flaw = Flaw("not-an-editing-session", 0, sample(data))
        yield lost(origin, tally, salvage.flaws[0] if salvage.flaws else flaw)
    else:
        yield from facts
