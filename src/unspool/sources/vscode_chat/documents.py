"""Documents: a chat in one piece, or as a log of changes; and what can be saved of broken ones."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import ValidationError

from unspool.facts import NOBODY, AnyFact, Problem
from unspool.io.compression import PACKED
from unspool.io.dirty_json import clean, is_too_deep, recover_json, refuse_depth, salvage, sample
from unspool.io.origins import Origin, Tally, iter_lines, open_origin
from unspool.io.structs import convert
from unspool.sources.vscode_chat.chats import LOG, Abandoned, Reading
from unspool.sources.vscode_chat.model import (
    Chat,
    DecodeErrors,
    Request,
    decode_chat,
)
from unspool.sources.vscode_chat.mutations import INITIAL, Mutation, Replay, decode_mutation
from unspool.sources.vscode_chat.weights import BIG_BYTES, lighten

_REQUEST = re.compile(r'\{\s*"(?:requestId|message|variableData|response)"\s*:')
_INITIAL = re.compile(rb'\s*\{\s*"kind"\s*:\s*0\s*,')
_SESSION = re.compile(r'"sessionId"\s*:\s*"([^"\\]+)"')
_decoder = json.JSONDecoder(strict=False)


def read_document(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """A flat JSON document: an export, or a stored chat. What is cut off is always saved: all of a
    chat is in the one value."""
    data, damage = read_whole(origin.path)
    if damage and not data:
        yield lost(origin, tally, 0, "unreadable", damage)
        return
    big = len(data) > BIG_BYTES
    data = data.strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf")
    try:
        refuse_depth(data)
        chat = decode_chat(data)
    except DecodeErrors as error:
        odd = not isinstance(error, ValidationError)
        shown = sample(data)
        value, code = parse_odd(data) if odd else parse(data)
        del data
        if not isinstance(value, dict):
            yield lost(origin, tally, 0, code or "not-a-chat", shown)
            return
        yield from value_facts(value, origin, tally, code)
        return
    del data
    if big:
        _lighten_chat(chat)
    yield from Reading(chat, origin, tally).facts()


def parse(data: bytes) -> tuple[Any, str]:
    """(value, problem) of JSON, clean or not."""
    try:
        refuse_depth(data)
        return msgspec.json.decode(data), ""
    except DecodeErrors:
        return parse_odd(data)


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


def _lighten_chat(chat: Chat) -> None:
    for request in chat.requests or ():
        request.response = lighten(request.response)
        if request.variableData is not None:
            request.variableData.variables = lighten(request.variableData.variables)
        metadata = request.result.metadata if request.result is not None else None
        if metadata is not None:
            metadata.renderedUserMessage = lighten(metadata.renderedUserMessage)
            for result in (metadata.toolCallResults or {}).values():
                for item in result.content if isinstance(result.content, list) else ():
                    if not isinstance(item, str):
                        item.data = lighten(item.data)


def value_facts(
    value: dict[str, Any], origin: Origin, tally: Tally, code: str = ""
) -> Iterator[AnyFact]:
    """The facts of a chat that is already decoded, whatever is wrong in it."""
    bad: list[str] = []
    reading = Reading(convert(lighten(value), Chat, bad) or Chat(), origin, tally)
    if code:
        reading.problems.append((code, ""))
    reading.problems += [("wrong-type", path) for path in bad]
    yield from reading.facts()


def parse_odd(data: bytes) -> tuple[Any, str]:
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


def _saved_chat(text: str) -> dict[str, Any] | None:
    found = _saved_requests(text)
    if not found:
        return None
    session = _SESSION.search(text)
    return {"requests": found, **({"sessionId": session[1]} if session else {})}


def _saved_requests(text: str) -> list[Any]:
    """Every whole request in a broken document."""
    found: list[Any] = []
    at = 0
    while (match := _REQUEST.search(text, at)) is not None:
        try:
            value, end = _decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            value, end = None, match.end()
        if is_too_deep(value):
            value, end = None, match.end()
        at = end
        if isinstance(value, dict) and "message" in value:
            found.append(clean(value))
    return found


def lost(origin: Origin, tally: Tally, offset: int, code: str, data: bytes | str) -> Problem:
    tally.records += 1
    tally.problems += 1
    return Problem(
        key=NOBODY, origin=origin.path, offset=offset, number=99, code=code, sample=sample(data)
    )


def read_log(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    """A mutation log. A line that cannot be read is a problem; the others still count."""
    replay = Replay()
    lines: list[tuple[int, str, str]] = []
    problems: list[tuple[str, str]] = []
    try:
        for offset, line in iter_lines(origin):
            code = _apply(replay, line, recover)
            if code:
                lines.append((offset, code, sample(line)))
    except OSError as error:
        problems.append(("unreadable", str(error)))
    if not replay.state and not replay.removed:
        yield lost(origin, tally, 0, "empty-log", "")
        return
    bad: list[str] = []
    chat = convert(replay.state, Chat, bad) or Chat()
    session = chat.sessionId or _stem(origin)
    reading = Reading(chat, origin, tally, session)
    reading.edition = LOG
    for held in replay.removed.values():
        request = convert(held.request, Request, [])
        if request is not None:
            reading.abandoned.append(Abandoned(request, held.after))
    if not replay.started:
        reading.problems.append(("no-initial-state", ""))
    reading.bad_lines = lines
    reading.problems += problems + [("wrong-type", path) for path in bad]
    yield from reading.facts()


def _apply(replay: Replay, line: bytes, recover: bool) -> str:
    """Make the change that the line tells; the code of the problem where there is one."""
    try:
        refuse_depth(line)
        mutation = decode_mutation(line)
    except DecodeErrors:
        return _apply_odd(replay, line, recover)
    return "" if replay.apply(mutation, len(line)) else "bad-mutation"


def _stem(origin: Origin) -> str:
    """A log without its initial state is still named after its session."""
    name = origin.path.replace("\\", "/").rpartition("/")[2]
    return name.split(".jsonl", 1)[0]


def _apply_odd(replay: Replay, line: bytes, recover: bool) -> str:
    """A line that is not one clean mutation; the code of the problem, if it is one.

    An initial state that is cut off is always saved: all of a chat may be in the one value.
    """
    first = not replay.started and _INITIAL.match(line) is not None
    found = salvage(line, recover or first)
    code = "truncated-json" if found.code == "recovered" and not recover else found.code
    if first and not found.values and (saved := _saved_chat(line.decode("utf-8", "replace"))):
        replay.apply(Mutation(kind=INITIAL, v=saved), len(line))
    for value in found.values:
        try:
            mutation = decode_mutation(msgspec.json.encode(value))
        except (*DecodeErrors, TypeError):
            known = isinstance(value, dict) and isinstance(value.get("kind"), int)
            code = code or ("wrong-type" if known else "not-a-mutation")
            continue
        # Of a torn line only its initial state is worth guessing at.
        if found.code != "recovered" or mutation.kind == INITIAL:
            replay.apply(mutation, len(line))
    return code
