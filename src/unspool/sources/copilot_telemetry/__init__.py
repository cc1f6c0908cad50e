"""Copilot Chat telemetry: what GitHub Copilot Chat in VS Code sends about a conversation.

Every engine call logs the whole message list (`engine.messages`), cut into pieces of 8192
characters; the answer comes in an event of its own. Modes, models and intents stand in other events.
Two channels spell the properties with dots or underscores; both are read.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from unspool.facts import AnyFact
from unspool.io.origins import Head, Origin, Tally
from unspool.io.values import field_of
from unspool.sources.copilot_telemetry.calls import read_engine_messages, read_list, read_piece
from unspool.sources.copilot_telemetry.events import SOURCE, Event, iter_events, text_of
from unspool.sources.copilot_telemetry.turns import (
    read_message_text,
    read_participant,
    read_request_added,
    read_session,
)

__all__ = [
    "NAME",
    "RANGES",
    "RENDERED_PROMPTS",
    "Event",
    "claims",
    "iter_events",
    "places",
    "read",
    "text_of",
]

NAME = SOURCE
RANGES = True
RENDERED_PROMPTS = True

NOISE = frozenset(
    (
        "engine.messages.length",
        "conversation.message",
        "inlineConversation.message",
        "editingSession.message",
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

READERS: dict[str, Callable[[Event, Tally], list[AnyFact]]] = {
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

_NOISE_LINE = re.compile(
    rb'\{(?:"(?!name"|eventName")\w++": ?"[^"]*+", ?)*+"data": ?\{"baseData": ?\{"name": ?'
    rb'"(?:[^"\\/]*+/)++(?:%b)", ?"properties": ?\{'
    % b"|".join(re.escape(name.encode()) for name in sorted(NOISE))
)
"""How most of their lines begin, in the envelope that the sender uses: they need not be decoded.

    {"time":"2026-01-05T09:00:00Z","data":{"baseData":{"name":"GitHub.copilot-chat/request.sent","properties":{…
"""
_MARKERS = (
    b"engine.messages",
    b"messageText",
    b"interactiveSession",
    b"model.modelCall",
    b"model.message.added",
)
_KEYS = re.compile(
    rb'"(?:messagesJson|messageJson|messageUuids|requestOptionsJson)"\s*:|"baseData"\s*:\s*\{'
)
"""Keys that only telemetry has, for a first line that is longer than the head."""
_SENDER = re.compile(r"(?:^|\.)copilot[-.]chat/", re.IGNORECASE)


def claims(head: Head) -> bool:
    """Telemetry: an event name that the sender uses, or the envelope around a property bag."""
    marked = any(marker in head.data for marker in _MARKERS) and (
        b'"properties"' in head.data or b"conversationId" in head.data
    )
    if not head.objects:
        return marked or _KEYS.search(head.data) is not None
    return any(
        isinstance(field_of(value.get("data"), "baseData"), dict)
        or _is_named(value)
        or (marked and "properties" in value)
        for value in head.objects
    )


def _is_named(value: dict[str, object]) -> bool:
    """Under a name that the sender uses: properties in a bag, or all in one object."""
    name = str(value.get("name") or value.get("eventName"))
    if "properties" in value and _SENDER.search(name):
        return True
    last = name.rpartition("/")[2]
    return (last in READERS or last in NOISE) and (
        "conversationId" in value or "sessionId" in value
    )


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    """None: telemetry is sent, not kept on the machine."""
    return []


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    for event in iter_events(origin, tally, recover, _NOISE_LINE):
        reader = READERS.get(event.name)
        if reader is not None:
            yield from reader(event, tally)
        elif event.name in NOISE:
            tally.noise += 1
        else:
            tally.unrecognise(event.name or "no event name", event.origin, event.offset)
