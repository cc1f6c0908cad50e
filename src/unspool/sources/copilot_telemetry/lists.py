"""Message lists: engine calls, as whole snapshots or by reference."""

import re
from collections.abc import Iterator

from unspool.facts import AnyFact, Key, ListSeen, Noted, PieceSeen, SnapshotSeen, View
from unspool.io.longtext import Text
from unspool.io.origins import Tally
from unspool.sources.copilot_telemetry.envelope import MOST, Event
from unspool.sources.copilot_telemetry.lines import problem
from unspool.sources.copilot_telemetry.notes import key_of, no_key, read_context

_UTILITY = re.compile(
    r"^api\.|title|progressmessage|rename|wrapper|xtab|summariz|summaris|categori[sz]ation"
    r"|intentdetect|detectintent|participantdetect|commitmessage|followup|searchkeyword|semanticsearch"
    r"|copilotlanguagemodel|prompttype|debugcommand|branchname|codemapper|safety|offtopic",
    re.IGNORECASE,
)
"""`messageSource` of calls that serve the program, not the conversation."""


def _cache_mark(quote: bytes) -> re.Pattern[bytes]:
    """A mark as a field or as a part, with the comma that goes with it: before or, in front, behind."""
    name = quote + rb"copilot_cache_control" + quote
    field = name + rb"\s*:\s*\{[^{}]*\}"
    part = rb"\{\s*" + quote + rb"type" + quote + rb"\s*:\s*" + name + rb"[^{}]*\}"
    mark = rb"(?:" + field + rb"|" + part + rb")"
    return re.compile(rb",\s*" + mark + rb"|" + mark + rb"(?:\s*,\s*)?")


_MARKED = re.compile(rb"copilot_cache_control")
_CACHE_MARK = _cache_mark(rb"\\\"")
_PLAIN_CACHE_MARK = _cache_mark(rb"\"")


def read_engine_messages(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = key_of(event)
    found = event.joined("messagesJson")
    if key is None:
        yield no_key(event, tally)
        return
    if _UTILITY.search(event.text("messageSource")):
        tally.noise += 1
        yield from _note_utility(event, key)
        return
    if found is None:
        tally.problems += 1
        yield problem(key, event.origin, event.offset, "no-messages", event.full_name)
        return
    text, escaped, gap = found
    body, broken = _array(text, escaped, gap)
    if body is None:
        tally.problems += 1
        yield problem(key, event.origin, event.offset, "messages-not-an-array", bytes(text[:1000]))
        return
    tail = bytes(text[-200:])
    del found, text  # as long as the line, maybe
    view = make_view(event, len(body), bool(event.text("subType")))
    yield SnapshotSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        text=body, escaped=escaped, broken=broken, views=(view,),
    )  # fmt: skip
    yield from read_context(event, key)
    if broken:
        code = "messages-part-missing" if gap else "messages-cut-off"
        yield problem(key, event.origin, event.offset, code, tail)
    if view.side:
        yield Noted(
            key=key, origin=event.origin, offset=event.offset, number=1, time=event.time,
            on="request", subject=view.request, name="side", value=view.side,
        )  # fmt: skip


def _note_utility(event: Event, key: Key) -> Iterator[Noted]:
    """Its answer, which does not say whose it is, is known by the call id; in older data by the
    request, which the conversation's own calls may have too."""
    call, request = event.text("modelCallId"), event.text("headerRequestId")
    if call or request:
        yield Noted(
            key=key, origin=event.origin, offset=event.offset, time=event.time,
            on="call" if call else "request", subject=call or request,
            name="utility" if call else "served", value=True,
        )  # fmt: skip


def _array(text: Text, escaped: bool, gap: bool) -> tuple[bytes | None, bool]:
    """(the array without its closing bracket and without cache marks, cut off or not)."""
    if isinstance(text, memoryview):
        marked = _MARKED.search(text) is not None
    else:
        marked = b"copilot_cache_control" in text
    if marked:
        text = (_CACHE_MARK if escaped else _PLAIN_CACHE_MARK).sub(b"", text)
    start, end = _trim(text, 0, len(text))
    if text[start : start + 1] != b"[":
        return None, False
    cut_off = gap or text[end - 1 : end] != b"]"
    if not cut_off:
        start, end = _trim(text, start, end - 1)
    return bytes(text[start:end]), cut_off


def _trim(text: Text, start: int, end: int) -> tuple[int, int]:
    """Without the spaces at both ends."""
    while start < end and text[start] == _SPACE:
        start += 1
    while start < end and text[end - 1] == _SPACE:
        end -= 1
    return start, end


_SPACE = ord(" ")


def make_view(event: Event, size: int, sub: bool = False) -> View:
    request = event.text("headerRequestId")
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
        system=event.json("system"),
        tools=event.json("tools"),
        prompt=event.number("promptTokens"),
        completion=event.number("completionTokens"),
    )


def read_list(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = key_of(event)
    if key is None:
        yield no_key(event, tally)
        return
    found = event.joined("messageUuids")
    if found is None or not found[1]:
        tally.noise += 1  # a retried input sends no messages
        return
    yield ListSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        call=event.text("modelCallId"), request=event.text("headerRequestId"),
        answer=event.name.endswith("output"), ids=bytes(found[0]),
        piece=event.number("chunkIndex") or 0, pieces=event.number("totalChunks") or 1,
        count=event.number("messageCount"), options=event.text("requestOptionsId"),
        view=make_view(event, 0),
    )  # fmt: skip


def read_piece(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = key_of(event)
    options = event.name == "model.request.options.added"
    ident = event.text("requestOptionsId" if options else "messageUuid")
    found = event.joined("requestOptionsJson" if options else "messageJson")
    if key is None:
        yield no_key(event, tally)
        return
    if found is None or not found[1] or not ident:
        tally.problems += 1
        yield problem(key, event.origin, event.offset, "no-messages", event.full_name)
        return
    if options and len(found[0]) > MOST:
        event.left_out.append("requestOptionsJson")
        return
    event.look_at(found[0])
    yield PieceSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        id=ident, what="options" if options else "message", body=bytes(found[0]),
        piece=event.number("chunkIndex") or 0, pieces=event.number("totalChunks") or 1,
    )  # fmt: skip
