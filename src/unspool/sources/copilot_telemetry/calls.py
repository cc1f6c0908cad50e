"""Engine calls: each logs the whole message list that it saw, or the ids of its messages.

    engine.messages         messagesJson: "[{\\"role\\":\\"system\\",…", a snapshot of the whole list
    model.modelCall.input   messageUuids: "[\\"a\\",\\"b\\"]", whose bodies were sent once, in pieces:
    model.message.added     messageUuid: "b", messageJson: "{\\"role\\":…", chunkIndex, totalChunks

Lists are unescaped, but not decoded: most are the beginning of a longer one, and that shows in the
text.
"""

import re
from functools import lru_cache
from sys import intern

from msgspec import UNSET

from unspool.facts import PREVIOUS, AnyFact, ListSeen, PieceSeen, SnapshotSeen, View
from unspool.io.door import sample
from unspool.io.origins import Tally
from unspool.sources.copilot_telemetry.events import Event, key_of, number_of, option_of
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


def read_engine_messages(event: Event, tally: Tally) -> list[AnyFact]:
    """A whole message list, or the one message that a call was answered with."""
    told = event.told
    key = key_of(told.conversationId)
    if key is None:
        return no_conversation(event, tally)
    if _is_utility(told.messageSource):
        # Its answer, which does not say whose it is, is known by the call id; in older data by the
        # request, which the conversation's own calls may have too.
        tally.noise += 1
        scribe = event.scribe(key)
        if call := told.modelCallId:
            scribe.note("utility", True, on="call", subject=call)
        elif request := told.headerRequestId:
            scribe.note("served", True, on="request", subject=request)
        return scribe.facts
    body, broken = event.read_messages() or (b"", True)
    if not body.startswith(b"["):
        if told.messagesJson is UNSET:
            tally.lose("no-messages", event.origin, event.offset, event.full_name)
        else:
            tally.lose("messages-not-an-array", event.origin, event.offset, sample(body))
        return []
    view = _view(event, len(body))
    snapshot = SnapshotSeen(
        key, event.origin, event.offset, 0, event.time, "", PREVIOUS, body, broken, (view,)
    )
    if not (broken or view.side or has_context(event)):
        return [snapshot]
    scribe = event.scribe(key)
    scribe.facts.append(snapshot)
    note_context(event, scribe)
    if broken:
        scribe.problem("messages-part-missing" if told.gap else "messages-cut-off", body[-200:])
    if view.side:
        scribe.note("side", view.side, on="request", subject=view.request)
    return scribe.facts


@lru_cache(maxsize=1000)
def _is_utility(source: str) -> bool:
    return _UTILITY.search(source) is not None


def _view(event: Event, size: int) -> View:
    """What the event says about its call. Lists by reference do not say whose they are."""
    told, measures = event.told, event.measures
    # Ids and models come again and again: the same text is one object.
    request, message = intern(told.headerRequestId), intern(told.messageId)
    notes = (
        "timestamp", event.stamp or None, "turnIndex", number_of(told.turnIndex, measures.turnIndex),
        "messageId", message or None, "telemetry_type", event.full_name or None,
    )  # fmt: skip
    side = size and told.subType and (request or told.parentRequestId)
    # By position, in the order of facts.py: so many by name take three times as long.
    return View(
        size, event.origin, event.offset, event.time, intern(told.modelCallId), request, message,
        event.model, intern(told.baseModel), side or "",
        option_of(told.request_option_system or told.dotted_system),
        option_of(told.request_option_tools or told.dotted_tools),
        number_of(told.promptTokens, measures.promptTokens),
        number_of(told.completionTokens, measures.completionTokens), None, notes,
    )  # fmt: skip


def read_list(event: Event, tally: Tally) -> list[AnyFact]:
    """The ids of a call's input, or of its answer."""
    told = event.told
    key = key_of(told.conversationId)
    if key is None:
        return no_conversation(event, tally)
    ids = bytes(told.messageUuids)
    if ids[:1] != b'"':
        tally.noise += 1  # a retried input sends no messages
        return []
    view = _view(event, 0)
    listed = ListSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        call=view.call, request=view.request, answer=event.name.endswith("output"), ids=ids[1:-1],
        piece=number_of(told.chunkIndex, event.measures.chunkIndex) or 0,
        pieces=number_of(told.totalChunks, event.measures.totalChunks) or 1,
        options=told.requestOptionsId, view=view,
    )  # fmt: skip
    return [listed]


def read_piece(event: Event, tally: Tally) -> list[AnyFact]:
    """A piece of a message's body, or of the options of a request: its model, system prompt, tools."""
    told = event.told
    key = key_of(told.conversationId)
    if key is None:
        return no_conversation(event, tally)
    options = event.name == "model.request.options.added"
    ident = told.requestOptionsId if options else told.messageUuid
    body = bytes(told.requestOptionsJson if options else told.messageJson)
    if body[:1] != b'"' or not ident:
        tally.lose("no-messages", event.origin, event.offset, event.full_name)
        return []
    piece = PieceSeen(
        key=key, origin=event.origin, offset=event.offset, time=event.time,
        id=ident, body=body[1:-1], prefix="request.option." if options else "",
        piece=number_of(told.chunkIndex, event.measures.chunkIndex) or 0,
        pieces=number_of(told.totalChunks, event.measures.totalChunks) or 1,
    )  # fmt: skip
    return [piece]
