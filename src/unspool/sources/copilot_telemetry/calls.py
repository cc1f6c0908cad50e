"""Engine calls: each logs the whole message list that it saw, or the ids of its messages.

    engine.messages         messagesJson: "[{\\"role\\":\\"system\\",…", a snapshot of the whole list
    model.modelCall.input   messageUuids: "[\\"a\\",\\"b\\"]", whose bodies were sent once, in pieces:
    model.message.added     messageUuid: "b", messageJson: "{\\"role\\":…", chunkIndex, totalChunks

Lists stay undecoded: most are the beginning of a longer one, and that shows in the text.
"""

import re
from functools import lru_cache
from typing import Any

from unspool.facts import AnyFact, ListSeen, PieceSeen, SnapshotSeen, View
from unspool.io.origins import Tally
from unspool.sources.copilot_telemetry.events import Event
from unspool.sources.copilot_telemetry.repeats import CACHE_MARK
from unspool.sources.copilot_telemetry.turns import (
    has_context,
    no_conversation,
    note_context,
)

_UTILITY = re.compile(
    r"^api\.|title|progressmessage|rename|wrapper|xtab|summariz|summaris|categori[sz]ation"
    r"|intentdetect|detectintent|participantdetect|commitmessage|followup|searchkeyword|semanticsearch"
    r"|copilotlanguagemodel|prompttype|debugcommand|branchname|codemapper|safety|offtopic",
    re.IGNORECASE,
)
"""`messageSource` of calls that serve the program, not the conversation."""


def _cache_mark(quote: bytes) -> re.Pattern[bytes]:
    """A mark as a field or as a part, with the comma that goes with it: before or, in front, behind."""
    name = quote + CACHE_MARK + quote
    field = name + rb"\s*:\s*\{[^{}]*\}"
    part = rb"\{\s*" + quote + rb"type" + quote + rb"\s*:\s*" + name + rb"[^{}]*\}"
    mark = rb"(?:" + field + rb"|" + part + rb")"
    return re.compile(rb",\s*" + mark + rb"|" + mark + rb"(?:\s*,\s*)?")


_CACHE_MARK = _cache_mark(rb"\\\"")
_PLAIN_CACHE_MARK = _cache_mark(rb"\"")


def read_engine_messages(event: Event, tally: Tally) -> list[AnyFact]:
    """A whole message list, or the one message that a call was answered with."""
    key = event.key("conversationId")
    if key is None:
        return no_conversation(event, tally)
    texts = event.texts(_CALL)
    call, request, source = texts[:3]
    if _is_utility(source):
        # Its answer, which does not say whose it is, is known by the call id; in older data by the
        # request, which the conversation's own calls may have too.
        tally.noise += 1
        scribe = event.scribe(key)
        if call:
            scribe.note("utility", True, on="call", subject=call)
        elif request:
            scribe.note("served", True, on="request", subject=request)
        return scribe.facts
    body, escaped, gap, broken = event.body, True, False, False
    if body is None:
        messages = event.joined("messagesJson")
        text, escaped, gap = messages or (b"", False, False)
        if text.find(CACHE_MARK) >= 0:
            # Marks move with every call: with them no list would be the beginning of the next.
            text = (_CACHE_MARK if escaped else _PLAIN_CACHE_MARK).sub(b"", text)
        text = text.strip(b" ")
        if not text.startswith(b"["):
            tally.problems += 1
            scribe = event.scribe(key)
            if messages is None:
                scribe.problem("no-messages", event.full_name)
            else:
                scribe.problem("messages-not-an-array", text[:1000])
            return scribe.facts
        broken = gap or not text.endswith(b"]")
        body = text if broken else text[:-1].rstrip(b" ")
    view = _view(event, texts, len(body))
    snapshot = SnapshotSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        text=body, escaped=escaped, broken=broken, views=(view,),
    )  # fmt: skip
    if not (broken or view.side or has_context(event)):
        return [snapshot]
    scribe = event.scribe(key)
    scribe.facts.append(snapshot)
    note_context(event, scribe)
    if broken:
        scribe.problem("messages-part-missing" if gap else "messages-cut-off", body[-200:])
    if view.side:
        scribe.note("side", view.side, on="request", subject=request)
    return scribe.facts


@lru_cache(maxsize=1000)
def _is_utility(source: str) -> bool:
    return _UTILITY.search(source) is not None


_CALL = (
    "modelCallId", "headerRequestId", "messageSource", "messageId", "baseModel", "subType",
    "parentRequestId",
)  # fmt: skip


def _view(event: Event, texts: list[str], size: int) -> View:
    """What the event, whose `_CALL` these texts are, says about its call. Lists by reference do not
    say whose they are."""
    call, request, _, message, answered, kind, parent = texts
    notes: dict[str, Any] = {}
    if event.stamp:
        notes["timestamp"] = event.stamp
    if (turn := event.number("turnIndex")) is not None:
        notes["turnIndex"] = turn
    if message:
        notes["messageId"] = message
    if event.full_name:
        notes["telemetry_type"] = event.full_name
    return View(
        size=size,
        origin=event.origin,
        offset=event.offset,
        time=event.time,
        call=call,
        request=request,
        message=message,
        requested=event.model,
        answered=answered,
        side=(request or parent) if size and kind else "",
        system=event.option_json("system"),
        tools=event.option_json("tools"),
        prompt=event.number("promptTokens"),
        completion=event.number("completionTokens"),
        notes=notes,
    )


def read_list(event: Event, tally: Tally) -> list[AnyFact]:
    """The ids of a call's input, or of its answer."""
    key = event.key("conversationId")
    if key is None:
        return no_conversation(event, tally)
    ids = event.joined("messageUuids")
    if ids is None or not ids[1]:
        tally.noise += 1  # a retried input sends no messages
        return []
    view = _view(event, event.texts(_CALL), 0)
    listed = ListSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        call=view.call, request=view.request, answer=event.name.endswith("output"), ids=ids[0],
        piece=event.number("chunkIndex") or 0, pieces=event.number("totalChunks") or 1,
        options=event.text("requestOptionsId"), view=view,
    )  # fmt: skip
    return [listed]


def read_piece(event: Event, tally: Tally) -> list[AnyFact]:
    """A piece of a message's body, or of the options of a request: its model, system prompt, tools."""
    key = event.key("conversationId")
    if key is None:
        return no_conversation(event, tally)
    options = event.name == "model.request.options.added"
    ident = event.text("requestOptionsId" if options else "messageUuid")
    body = event.joined("requestOptionsJson" if options else "messageJson")
    if body is None or not body[1] or not ident:
        tally.problems += 1
        scribe = event.scribe(key)
        scribe.problem("no-messages", event.full_name)
        return scribe.facts
    piece = PieceSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        id=ident, what="options" if options else "message", body=body[0],
        piece=event.number("chunkIndex") or 0, pieces=event.number("totalChunks") or 1,
    )  # fmt: skip
    return [piece]
