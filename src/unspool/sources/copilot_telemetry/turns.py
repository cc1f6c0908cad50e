"""Turns: what the events around the calls say about modes, models, intents and context.

conversation.messageText    source: "user", messageText, mode, turnIndex, headerRequestId
interactiveSessionMessage   sessionId, requestId, baseModel, intent
model.request.added         headerRequestId, and subType where the request is a sub-agent's
"""

import operator
from typing import Any

import msgspec

from unspool.facts import AnyFact, Rank
from unspool.io.door import recover_json
from unspool.io.origins import Tally
from unspool.sources.copilot_telemetry.events import SOURCE, Event, key_of, number_of, text_of
from unspool.sources.scribe import Scribe

_CONTEXT = (
    "attachedContext",
    "contextTypes",
    "fileExcerpt",
    "activeSelection",
    "detectedParticipant",
    "assignedIntent",
)
_INTENTS = ("intent", "detectedIntent")
_told = operator.attrgetter(*_INTENTS, *_CONTEXT)


def no_conversation(event: Event, tally: Tally) -> list[AnyFact]:
    tally.lose("missing-conversation-id", event.origin, event.offset, event.full_name)
    return []


def has_context(event: Event) -> bool:
    return any(_told(event.told))


def note_context(event: Event, scribe: Scribe) -> None:
    """The context that an event carries beside what it is about, and what the request was taken for:
    the session's own event knows that best."""
    if not has_context(event):
        return
    for name in _INTENTS:
        intent = text_of(getattr(event.told, name))
        if intent:
            rank = 0 if event.name == "interactiveSessionMessage" else 1
            scribe.note(name, intent, rank=rank)
    for name in _CONTEXT:
        text = text_of(getattr(event.told, name))
        if text:
            scribe.note(f"context.{name}", _value(text))


def _value(text: str) -> Any:
    """Lists and objects come as JSON or as JSON in a string."""
    if text[:1] in ("[", "{"):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return recover_json(text) or text
    return text


def read_message_text(event: Event, tally: Tally) -> list[AnyFact]:
    """The person's words, or a reply, as the panel shows them."""
    told = event.told
    key = key_of(told.conversationId)
    source = told.source
    ident, header = told.messageId, told.headerRequestId
    mode = told.mode if source == "user" else ""
    text = text_of(told.messageText)
    if key is None and source == "user" and (header or ident):
        # Another event tells whose it is, maybe in another file: linking finds it. Without words it has
        # nothing of its own to tell (cases/copilot_telemetry/request_alone):
        # {"source":"user","mode":"agent","headerRequestId":"r1"}
        request = header or ident
        scribe = event.scribe((SOURCE, f"request-{request}"))
        scribe.rank = Rank.LAST_RESORT
        scribe.message(
            id=f"{request}/{source}",
            role="user",
            text=text,
            kind="" if text else "injected",
            mode=mode,
            request=request,
        )
        scribe.note("partial", "prompts-without-conversation", Rank.ECHO)
        return scribe.facts
    if key is None:
        return no_conversation(event, tally)
    if source not in ("user", "model"):
        tally.noise += 1
        return []
    scribe = event.scribe(key)
    turn = number_of(told.turnIndex, event.measures.turnIndex)
    if text:
        # A turn has no id of its own: without the conversation's it would be the same in all.
        stem = ident or (f"{key[1]}/{turn}" if turn is not None else "")
        scribe.rank = Rank.LAST_RESORT
        scribe.message(
            id=f"{stem}/{source}" if stem else "",
            role="user" if source == "user" else "assistant",
            text=text,
            mode=mode,
            request=ident,
        )
    if source == "user":
        for name, value in (("typed", text), ("mode", mode)):
            if not value:
                continue
            if header:
                scribe.note(name, value, on="request", subject=header)
            if ident and ident != header:
                scribe.note(name, value, on="request", subject=ident)
            if turn is not None:
                scribe.note(name, value, rank=1, on="turn", subject=str(turn))
        scribe.note("telemetry_type", event.full_name, rank=Rank.LAST_RESORT)
        suggestion = told.suggestion
        if suggestion:
            scribe.note("intent", suggestion, rank=2)
    note_context(event, scribe)
    return scribe.facts


def read_session(event: Event, tally: Tally) -> list[AnyFact]:
    """The model, and what the program took the request for."""
    told = event.told
    key = key_of(told.sessionId or told.conversationId)
    if key is None:
        return no_conversation(event, tally)
    scribe = event.scribe(key)
    request = told.requestId
    model = told.baseModel or told.model
    if request and model and model.lower() != "auto":
        answered = event.name == "interactiveSessionResponse"
        expected = {"model": model, "source": "interactiveSession"}
        scribe.note(
            "expected_model", expected, rank=0 if answered else 1, on="request", subject=request
        )
    note_context(event, scribe)
    return scribe.facts


def read_participant(event: Event, tally: Tally) -> list[AnyFact]:
    key = key_of(event.told.conversationId or event.told.sessionId)
    if key is None:
        tally.noise += 1
        return []
    scribe = event.scribe(key)
    note_context(event, scribe)
    return scribe.facts


def read_request_added(event: Event, tally: Tally) -> list[AnyFact]:
    """Says only whether the request is a sub-agent's, or supplementary to another one."""
    told = event.told
    key = key_of(told.conversationId)
    request = told.headerRequestId
    if key is not None and request:
        scribe = event.scribe(key)
        if told.subType:
            scribe.note("side", request, on="request", subject=request)
            return scribe.facts
        if told.mostRecentConversationHeaderRequestId:
            scribe.note("utility", True, on="request", subject=request)
            return scribe.facts
    tally.noise += 1
    return []
