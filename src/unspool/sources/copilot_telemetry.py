"""Copilot Chat telemetry: what GitHub Copilot Chat in VS Code sends about a conversation.

Every engine call logs the whole message list (`engine.messages`), cut into pieces of 8192
characters; the answer comes in an event of its own. Modes, models and intents stand in other events.
Two channels spell the properties with dots or underscores; both are read.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from unspool.facts import (
    NOBODY,
    AnyFact,
    Key,
    ListSeen,
    MessageSeen,
    Noted,
    PieceSeen,
    Problem,
    SnapshotSeen,
    View,
)
from unspool.origins import Head, Origin, Tally, iter_lines, open_origin
from unspool.records import clean, clean_text, recover_json, salvage, sample
from unspool.times import parse_time

NAME = "copilot-telemetry"
RANGES = True
CURRENT: Literal["last", "longest"] = "longest"

NOISE = frozenset(
    (
        "engine.messages.length",
        "conversation.message",
        "inlineConversation.message",
        "editingSession.message",
        "model.request.added",
        "toolCallDetails",
        "toolCallDetailsInternal",
        "toolCallDetailsExternal",
        "request.repoInfo",
        "request.sent",
        "request.response",
        "request.responseTime",
        "request.error",
        "response.success",
        "response.error",
        "response.cancelled",
        "completions.response",
        "request.shownWarning",
        "conversation.repliedTo",
        "panel.request",
        "inline.request",
    )
)
"""Events that say nothing about what was said."""

_UTILITY = re.compile(
    r"^api\.|title|progressmessage|rename|wrapper|xtab|summariz|summaris|categori[sz]ation"
    r"|intentdetect|detectintent|participantdetect|commitmessage|followup|searchkeyword|semanticsearch"
    r"|copilotlanguagemodel|prompttype|debugcommand|branchname|codemapper|safety|offtopic",
    re.IGNORECASE,
)
"""`messageSource` of calls that serve the program, not the conversation."""

_CONTEXT = (
    "attachedContext",
    "contextTypes",
    "fileExcerpt",
    "activeSelection",
    "detectedParticipant",
    "assignedIntent",
)
_CACHE_MARK = re.compile(
    rb',?\s*\\"copilot_cache_control\\"\s*:\s*\{[^{}]*\}'
    rb'|,?\s*\{\s*\\"type\\"\s*:\s*\\"copilot_cache_control\\"[^{}]*\}'
)
_PLAIN_CACHE_MARK = re.compile(
    rb',?\s*"copilot_cache_control"\s*:\s*\{[^{}]*\}'
    rb'|,?\s*\{\s*"type"\s*:\s*"copilot_cache_control"[^{}]*\}'
)
_PART = re.compile(r"^(.*)_(\d{2,3})$")
_MARKERS = (
    b"engine.messages",
    b"messageText",
    b"interactiveSession",
    b"model.modelCall",
    b"model.message.added",
)

Properties = dict[str, msgspec.Raw]


class BaseData(msgspec.Struct):
    name: msgspec.Raw = msgspec.Raw(b"")
    properties: Properties = {}
    measurements: Properties = {}


class Data(msgspec.Struct):
    baseData: BaseData | None = None
    name: msgspec.Raw = msgspec.Raw(b"")
    properties: Properties = {}
    measurements: Properties = {}


class Envelope(msgspec.Struct):
    name: msgspec.Raw = msgspec.Raw(b"")
    eventName: msgspec.Raw = msgspec.Raw(b"")
    time: msgspec.Raw = msgspec.Raw(b"")
    timestamp: msgspec.Raw = msgspec.Raw(b"")
    data: Data | None = None
    baseData: BaseData | None = None
    properties: Properties = {}
    measurements: Properties = {}


class Event:
    """One record: its name after the last slash, its properties whatever the envelope."""

    __slots__ = ("full_name", "measures", "name", "offset", "origin", "properties", "stamp", "time")

    def __init__(self, envelope: Envelope, origin: str, offset: int) -> None:
        self.origin = origin
        self.offset = offset
        data = envelope.data
        base = (data.baseData if data is not None else None) or envelope.baseData
        holder = base or (data if data is not None and data.properties else envelope)
        self.properties = holder.properties
        self.measures = holder.measurements
        name = b""
        for found in (
            envelope.name,
            base.name if base is not None else b"",
            data.name if data is not None else b"",
            envelope.eventName,
        ):
            if len(found) > 2:
                name = bytes(found)
                break
        self.full_name = _string(name)
        self.name = self.full_name.rpartition("/")[2]
        stamp = self.text("timestamp") or _string(envelope.time) or _string(envelope.timestamp)
        self.stamp = stamp
        self.time = parse_time(stamp) if stamp else None

    def raw(self, name: str) -> msgspec.Raw | None:
        found = self.properties.get(name)
        return found if found is not None else self.properties.get(name.replace(".", "_"))

    def text(self, name: str) -> str:
        """A property as text; numbers come as strings and strings as numbers."""
        found = self.raw(name)
        return "" if found is None else _string(found)

    def number(self, name: str) -> int | None:
        found = self.properties.get(name)
        if found is None:
            found = self.measures.get(name)
        if found is None:
            return None
        try:
            return int(float(_string(found)))
        except (ValueError, OverflowError):
            return None

    def option(self, name: str) -> str:
        """A request option: a JSON value inside the string."""
        text = self.text(f"request.option.{name}")
        if not text or text == "undefined":
            return ""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return value if isinstance(value, str) else text

    def joined(self, name: str) -> tuple[bytes, bool, bool] | None:
        """A property that may be cut into name, name_02, …: (text, inside of a string, gap)."""
        properties = self.properties
        first = self.raw(name)
        if first is None:
            return None
        head = bytes(first)
        if head[:1] != b'"':
            return head, False, False
        second = f"{name}_02"
        if second not in properties:
            second = f"{name.replace('.', '_')}_02"
            if second not in properties:
                return head[1:-1], True, self._has_later(name)
        stem = second[:-2]
        parts = [head[1:-1]]
        gap = False
        for number in range(2, 1000):
            found = properties.get(f"{stem}{number:02d}")
            if found is None:
                gap = any(_is_part(key, stem, number) for key in properties)
                break
            parts.append(bytes(found)[1:-1])
        return b"".join(parts), True, gap

    def whole(self, name: str) -> str:
        """A property as text, joined where it was cut."""
        found = self.joined(name)
        if found is None:
            return ""
        text, escaped, _ = found
        return _string(b'"' + text + b'"' if escaped else text)

    def _has_later(self, name: str) -> bool:
        stem = f"{name}_"
        return any(_is_part(key, stem, 2) for key in self.properties)


def _is_part(key: str, stem: str, least: int) -> bool:
    rest = key[len(stem) :]
    return key.startswith(stem) and rest.isdigit() and int(rest) > least


def _string(raw: msgspec.Raw | bytes) -> str:
    data = bytes(raw)
    if data[:1] != b'"':
        return "" if data == b"null" else data.decode("utf-8", "replace")
    if b"\\" not in data:
        return data[1:-1].decode("utf-8", "replace")
    try:
        return msgspec.json.decode(data, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _mended(data.decode("utf-8", "replace"))


def _mended(text: str) -> str:
    """A string with bytes that are no UTF-8, half a surrogate pair, or bare control characters."""
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return text[1:-1]
    return clean_text(value) if isinstance(value, str) else text[1:-1]


_decode = msgspec.json.Decoder(Envelope).decode


def claims(head: Head) -> bool:
    """Telemetry: an event name that the sender uses, or the envelope around a property bag."""
    if any(marker in head.data for marker in _MARKERS) and (
        b'"properties"' in head.data or b"conversationId" in head.data
    ):
        return any(_is_event(value) for value in head.objects) or not head.objects
    return any(_is_envelope(value) for value in head.objects)


def _is_event(value: dict[str, object]) -> bool:
    return "properties" in value or _is_envelope(value)


def _is_envelope(value: dict[str, object]) -> bool:
    data = value.get("data")
    return isinstance(data, dict) and isinstance(data.get("baseData"), dict)


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    """None: telemetry is sent, not kept on the machine."""
    return []


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    for event in iter_events(origin, tally, recover):
        if isinstance(event, Event):
            yield from read_event(event, tally)
        else:
            yield event


def iter_events(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[Event | Problem]:
    """Line by line; a file of which no line is an object is read whole."""
    held: list[tuple[int, bytes]] = []
    parsed = False
    for offset, line in iter_lines(origin):
        try:
            envelope = _decode(line)
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
            envelope = _decode(msgspec.json.encode(value))
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


def read_event(event: Event, tally: Tally) -> Iterator[AnyFact]:
    reader = READERS.get(event.name)
    if reader is not None:
        yield from reader(event, tally)
    elif event.name in NOISE:
        tally.noise += 1
    else:
        tally.unrecognise(event.name or "no event name", event.origin, event.offset)


def _key(event: Event, *names: str) -> Key | None:
    for name in names or ("conversationId",):
        ident = event.text(name)
        if ident:
            return (NAME, ident)
    return None


def _no_key(event: Event, tally: Tally) -> Problem:
    tally.problems += 1
    return problem(NOBODY, event.origin, event.offset, "missing-conversation-id", event.full_name)


def read_engine_messages(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = _key(event)
    found = event.joined("messagesJson")
    if key is None:
        yield _no_key(event, tally)
        return
    if _UTILITY.search(event.text("messageSource")):
        tally.noise += 1
        call = event.text("modelCallId")
        if call:
            yield Noted(
                key=key, origin=event.origin, offset=event.offset, time=event.time,
                on="call", subject=call, name="utility", value=True,
            )  # fmt: skip
        return
    if found is None:
        tally.problems += 1
        yield problem(key, event.origin, event.offset, "no-messages", event.full_name)
        return
    text, escaped, gap = found
    body, broken = _array(text, escaped, gap)
    if body is None:
        tally.problems += 1
        yield problem(key, event.origin, event.offset, "messages-not-an-array", text)
        return
    view = make_view(event, len(body), bool(event.text("subType")))
    yield SnapshotSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        text=body, escaped=escaped, broken=broken, views=(view,),
    )  # fmt: skip
    yield from _context(event, key)
    if broken:
        code = "messages-part-missing" if gap else "messages-cut-off"
        yield problem(key, event.origin, event.offset, code, text[-200:])
    if view.side:
        yield Noted(
            key=key, origin=event.origin, offset=event.offset, number=1, time=event.time,
            on="request", subject=view.request, name="side", value=view.side,
        )  # fmt: skip


def _array(text: bytes, escaped: bool, gap: bool) -> tuple[bytes | None, bool]:
    """(the array without its closing bracket and without cache marks, cut off or not)."""
    mark = b'\\"copilot_cache_control\\"' if escaped else b'"copilot_cache_control"'
    if mark in text:
        text = (_CACHE_MARK if escaped else _PLAIN_CACHE_MARK).sub(b"", text)
    text = text.strip(b" ")
    if text[:1] != b"[":
        return None, False
    if gap or text[-1:] != b"]":
        return text, True
    return text[:-1].rstrip(b" "), False


def make_view(event: Event, size: int, sub: bool = False) -> View:
    request = event.text("headerRequestId")
    system = event.joined("request.option.system")
    tools = event.joined("request.option.tools")
    return View(
        size=size,
        origin=event.origin,
        offset=event.offset,
        time=event.time,
        call=event.text("modelCallId"),
        request=request,
        message=event.text("messageId"),
        stamp=event.stamp,
        requested=event.option("model"),
        answered=event.text("baseModel"),
        turn=event.number("turnIndex"),
        kind=event.full_name,
        side=(request or event.text("parentRequestId")) if sub else "",
        system=_unquote(system),
        tools=_unquote(tools),
        prompt=event.number("promptTokens"),
        completion=event.number("completionTokens"),
    )


def _unquote(found: tuple[bytes, bool, bool] | None) -> bytes:
    """The JSON text of an option, still as a JSON string where it stood in one."""
    if found is None:
        return b""
    text, escaped, _ = found
    return b'"' + text + b'"' if escaped else text


def _context(event: Event, key: Key) -> Iterator[AnyFact]:
    if event.properties.keys().isdisjoint(_CONTEXT):
        return
    number = 10
    for name in _CONTEXT:
        text = event.whole(name)
        if not text:
            continue
        number += 1
        yield Noted(
            key=key, origin=event.origin, offset=event.offset, number=number, time=event.time,
            name=f"context.{name}", value=_value(text),
        )  # fmt: skip


def _value(text: str) -> Any:
    """Lists and objects come as JSON or as JSON in a string."""
    if text[:1] in ("[", "{"):
        try:
            return msgspec.json.decode(text.encode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError):
            return recover_json(text) or text
    return text


def read_message_text(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = _key(event)
    if key is None:
        yield _no_key(event, tally)
        return
    source = event.text("source")
    if source not in ("user", "model"):
        tally.noise += 1
        return
    text = event.whole("messageText")
    common: dict[str, Any] = {
        "key": key, "origin": event.origin, "offset": event.offset, "time": event.time,
    }  # fmt: skip
    ident = event.text("messageId")
    turn = event.number("turnIndex")
    number = 0
    if text:
        yield MessageSeen(
            **common,
            # A turn has no id of its own: without the conversation's it would be the same in all.
            id=f"{ident or f'{key[1]}/{turn}'}/{source}" if ident or turn is not None else "",
            role="user" if source == "user" else "assistant",
            text=text,
            rank=5,
            mode=event.text("mode") if source == "user" else "",
            request=ident,
        )
    if source == "user":
        notes = [("mode", event.text("mode")), ("typed", text)]
        subjects: list[tuple[Literal["request", "turn"], str, int]] = [
            ("request", request, 0)
            for request in dict.fromkeys((event.text("headerRequestId"), ident))
            if request
        ]
        if turn is not None:
            subjects.append(("turn", str(turn), 1))
        for name, value in notes:
            for on, subject, rank in subjects:
                if value:
                    number += 1
                    yield Noted(
                        **common, number=number, on=on, subject=subject, name=name, value=value,
                        rank=rank,
                    )  # fmt: skip
        yield Noted(**common, number=8, name="telemetry_type", value=event.full_name, rank=9)
        suggestion = event.text("suggestion")
        if suggestion:
            yield Noted(**common, number=9, name="intent", value=suggestion, rank=1)
    yield from _context(event, key)


def read_session(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = _key(event, "sessionId", "conversationId")
    if key is None:
        yield _no_key(event, tally)
        return
    common: dict[str, Any] = {
        "key": key, "origin": event.origin, "offset": event.offset, "time": event.time,
    }  # fmt: skip
    request = event.text("requestId")
    model = event.text("baseModel") or event.text("model")
    if request and model and model.lower() != "auto":
        yield Noted(
            **common, on="request", subject=request, name="session_model", value=model,
            rank=0 if event.name == "interactiveSessionResponse" else 1,
        )  # fmt: skip
    if event.name == "interactiveSessionMessage":
        for number, name in enumerate(("intent", "detectedIntent"), 1):
            value = event.text(name)
            if value:
                yield Noted(**common, number=number, name=name, value=value)
    yield from _context(event, key)


def read_participant(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = _key(event, "conversationId", "sessionId")
    if key is None:
        tally.noise += 1
        return
    yield from _context(event, key)


def read_request_added(event: Event, tally: Tally) -> Iterator[AnyFact]:
    """Says only whether the request is a sub-agent's, or supplementary to another one."""
    key = _key(event)
    request = event.text("headerRequestId")
    if key is None or not request:
        tally.noise += 1
        return
    common: dict[str, Any] = {
        "key": key, "origin": event.origin, "offset": event.offset, "time": event.time,
    }  # fmt: skip
    if event.text("subType"):
        yield Noted(**common, on="request", subject=request, name="side", value=request)
    elif event.text("mostRecentConversationHeaderRequestId"):
        yield Noted(**common, on="request", subject=request, name="utility", value=True)
    else:
        tally.noise += 1


def read_list(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = _key(event)
    if key is None:
        yield _no_key(event, tally)
        return
    found = event.joined("messageUuids")
    if found is None or not found[1]:
        tally.noise += 1  # a retried input sends no messages
        return
    yield ListSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        call=event.text("modelCallId"), request=event.text("headerRequestId"),
        answer=event.name.endswith("output"), ids=found[0],
        piece=event.number("chunkIndex") or 0, pieces=event.number("totalChunks") or 1,
        count=event.number("messageCount"), options=event.text("requestOptionsId"),
        view=make_view(event, 0),
    )  # fmt: skip


def read_piece(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = _key(event)
    options = event.name == "model.request.options.added"
    ident = event.text("requestOptionsId" if options else "messageUuid")
    found = event.joined("requestOptionsJson" if options else "messageJson")
    if key is None:
        yield _no_key(event, tally)
        return
    if found is None or not found[1] or not ident:
        tally.problems += 1
        yield problem(key, event.origin, event.offset, "no-messages", event.full_name)
        return
    yield PieceSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        id=ident, what="options" if options else "message", body=found[0],
        piece=event.number("chunkIndex") or 0, pieces=event.number("totalChunks") or 1,
    )  # fmt: skip


READERS: dict[str, Callable[[Event, Tally], Iterator[AnyFact]]] = {
    "engine.messages": read_engine_messages,
    "conversation.messageText": read_message_text,
    "inlineConversation.messageText": read_message_text,
    "editingSession.messageText": read_message_text,
    "interactiveSessionMessage": read_session,
    "interactiveSessionResponse": read_session,
    "interactiveSessionRequest": read_session,
    "participantDetectionContext": read_participant,
    "model.request.added": read_request_added,
    "model.request.options.added": read_piece,
    "model.message.added": read_piece,
    "model.modelCall.input": read_list,
    "model.modelCall.output": read_list,
}
