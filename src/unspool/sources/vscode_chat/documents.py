"""Documents: a chat in one piece, as a log of changes, or in a zip; what is saved of broken ones."""

import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from unspool.facts import AnyFact
from unspool.io.door import (
    LONGEST_BYTES,
    UNREADABLE,
    Flaw,
    Salvage,
    clean,
    cut_long_strings,
    iter_json_lines,
    read_json,
    refuse_depth,
    sample,
    tell_flaws,
)
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.sources.vscode_chat.attachments import without_long_images
from unspool.sources.vscode_chat.chats import FLAT, LOG, Reading
from unspool.sources.vscode_chat.model import CHAT, REQUEST
from unspool.sources.vscode_chat.mutations import MUTATION, Replay

_MUTATION = re.compile(rb'\s*\{\s*"kind"\s*:\s*[0-3]\s*,\s*"[kvi]"\s*:')
_REQUEST = re.compile(r'\{\s*"(?:requestId|message|variableData|response)"\s*:')
_SESSION = re.compile(r'"sessionId"\s*:\s*"([^"\\]+)"')
_decoder = json.JSONDecoder(strict=False)
_ZIP = b"PK\x03\x04"
LARGEST_MEMBER_BYTES = 1024**3
"""A longer chat is not unpacked: a small archive may claim to hold anything."""
_CHAT = "chat.json"
_REPOSITORY = {"repoData": "chat.repo.begin.json", "repoDataEnd": "chat.repo.end.json"}
_ZIP_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError)
"""What a broken, a packed in an unknown way, or an encrypted archive may raise."""


def read_document(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    """A flat JSON document: an export, or a stored chat; under the name of one a log may lie."""
    data = read_whole(origin.path).strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf")
    if is_log(data):
        del data
        yield from read_log(origin, tally, recover)
        return
    flaws: list[Flaw] = []
    if len(data) > LONGEST_BYTES:
        data, flaws = cut_long_strings(without_long_images(data))
    try:
        refuse_depth(data)
        reading = Reading(CHAT.decode(data), origin, tally)
    except UNREADABLE:
        salvage = read_chat_json(data)
        flaws += salvage.flaws
        value = salvage.values[0] if salvage.values else None
        if not isinstance(value, dict):
            lose(origin, tally, flaws[0] if flaws else Flaw("not-a-chat", 0, sample(data)))
            return
        reading = reading_of(value, origin, tally)
    tell_flaws(flaws, origin, tally)
    del data
    yield from reading.facts()


def reading_of(
    value: dict[str, Any], origin: Origin, tally: Tally, session: str = "", edition: int = FLAT
) -> Reading:
    """A chat that is already decoded, whatever is wrong in it."""
    wrong: list[str] = []
    reading = Reading(CHAT.convert(value, wrong), origin, tally, session, edition)
    tell_flaws([Flaw("wrong-type", 0, path) for path in wrong], origin, tally)
    return reading


def read_chat_json(data: bytes) -> Salvage:
    """A chat that is not clean JSON. What is cut off is always closed: all of a chat is in the one
    value. Of what is broken inside, every whole request is read (cases/vscode_chat/spoilt)."""
    salvage = read_json(data, recover=True)
    if salvage.code != "invalid-json":
        return salvage
    text = data.decode("utf-8", "replace")
    requests: list[Any] = []
    at = 0
    while (match := _REQUEST.search(text, at)) is not None:
        try:
            request, at = _decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            at = match.end()
            continue
        if "message" in request:
            requests.append(clean(request))
    session = _SESSION.search(text)
    named = {"sessionId": session[1]} if session else {}
    return Salvage([{"requests": requests, **named}] if requests else [], [0], salvage.flaws)


def read_whole(path: str) -> bytes:
    with open_origin(path) as file:
        return file.read()


def lose(origin: Origin, tally: Tally, flaw: Flaw, offset: int = 0) -> None:
    """A record of which nothing can be used."""
    tally.records += 1
    tally.lose(flaw.code, origin.path, offset + flaw.place, sample(flaw.sample))


def is_log(data: bytes) -> bool:
    """Whether it begins as a line of a log does."""
    return _MUTATION.match(data) is not None


def read_log(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    """A mutation log. A line that cannot be read is a problem; the others still count."""
    for closing in (recover, True):
        replay = Replay()
        lines = Tally()  # the chat counts its requests, not the lines that it was written in
        for offset, line, mutation in iter_json_lines(
            origin, MUTATION, lines, closing, whole=True, shorten=without_long_images
        ):
            if not replay.apply(mutation):
                lines.lose("bad-mutation", origin.path, offset, sample(line))
        if replay.started:
            break  # else its initial state may be cut off, and all of a chat may stand in that
    has_chat = bool(replay.state or replay.removed)
    if has_chat and not replay.started:
        tell_flaws([Flaw("no-initial-state", 0, "")], origin, lines)
    elif not has_chat and not lines.flaws:
        lines.lose("empty-log", origin.path, 0, "")
    tally.records += lines.problems
    tally.problems += lines.problems
    tally.flaws += lines.flaws
    if not has_chat:
        return
    # A log without its initial state is still named after its session.
    named = replay.state.get("sessionId")
    session = named if isinstance(named, str) else PurePath(origin.path).name.split(".jsonl")[0]
    reading = reading_of(replay.state, origin, tally, session, LOG)
    reading.abandoned = [
        (REQUEST.convert(request), after) for request, after in replay.removed.values()
    ]
    yield from reading.facts()


def is_archive(head: Head) -> bool:
    if not head.data.startswith(_ZIP) or not head.name.endswith(".zip"):
        return False
    try:
        with zipfile.ZipFile(head.path) as archive:
            return _CHAT in archive.namelist()
    except _ZIP_DAMAGE:
        return any(name.encode() in head.data for name in (_CHAT, *_REPOSITORY.values()))


def read_archive(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """A chat exported as a zip, with the state of the repository when it began and ended."""
    members: dict[str, Salvage] = {}
    try:
        with zipfile.ZipFile(origin.path) as archive:
            for member in archive.infolist():
                if member.file_size > LARGEST_MEMBER_BYTES:
                    lose(origin, tally, Flaw("too-large", 0, member.filename))
                    return
                if member.filename in (_CHAT, *_REPOSITORY.values()):
                    data = without_long_images(archive.read(member))
                    members[member.filename] = read_chat_json(data)
    except _ZIP_DAMAGE as error:
        lose(origin, tally, Flaw("unreadable", 0, str(error)))
        return
    values = {name: salvage.values[0] for name, salvage in members.items() if salvage.values}
    if isinstance(values.get(_CHAT), dict):
        repository = {ours: values[name] for ours, name in _REPOSITORY.items() if name in values}
        chat = {**repository, **values[_CHAT]}
        tell_flaws(members[_CHAT].flaws, origin, tally)
        yield from reading_of(chat, origin, tally).facts()
    else:
        lose(origin, tally, Flaw("not-a-chat", 0, _CHAT))
