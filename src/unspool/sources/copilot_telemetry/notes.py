"""Notes: modes, models, intents and context, from the events around the calls."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from unspool.facts import NOBODY, AnyFact, Key, MessageSeen, Noted, Problem
from unspool.io.dirty_json import recover_json
from unspool.io.origins import Tally
from unspool.sources.copilot_telemetry.envelope import Event
from unspool.sources.copilot_telemetry.lines import problem

SOURCE = "copilot-telemetry"

_CONTEXT = (
    "attachedContext",
    "contextTypes",
    "fileExcerpt",
    "activeSelection",
    "detectedParticipant",
    "assignedIntent",
)


def key_of(event: Event, *names: str) -> Key | None:
    for name in names or ("conversationId",):
        ident = event.text(name)
        if ident:
            return (SOURCE, ident)
    return None


def no_key(event: Event, tally: Tally) -> Problem:
    tally.problems += 1
    return problem(NOBODY, event.origin, event.offset, "missing-conversation-id", event.full_name)


def read_context(event: Event, key: Key) -> Iterator[AnyFact]:
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
    key = key_of(event)
    if key is None:
        yield no_key(event, tally)
        return
    source = event.text("source")
    if source not in ("user", "model"):
        tally.noise += 1
        return
    common: dict[str, Any] = {
        "key": key, "origin": event.origin, "offset": event.offset, "time": event.time,
    }  # fmt: skip
    ident, header = event.text("messageId"), event.text("headerRequestId")
    turn = event.number("turnIndex")
    mode, suggestion = event.text("mode"), event.text("suggestion")
    context = list(read_context(event, key))
    text = event.take("messageText")
    number = 0
    if text:
        yield MessageSeen(
            **common,
            # A turn has no id of its own: without the conversation's it would be the same in all.
            id=f"{ident or f'{key[1]}/{turn}'}/{source}" if ident or turn is not None else "",
            role="user" if source == "user" else "assistant",
            text=text,
            rank=5,
            mode=mode if source == "user" else "",
            request=ident,
        )
    if source == "user":
        notes = [("typed", text), ("mode", mode)]  # the text again right behind the message's
        subjects: list[tuple[Literal["request", "turn"], str, int]] = [
            ("request", request, 0) for request in dict.fromkeys((header, ident)) if request
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
        if suggestion:
            yield Noted(**common, number=9, name="intent", value=suggestion, rank=1)
    yield from context


def read_session(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = key_of(event, "sessionId", "conversationId")
    if key is None:
        yield no_key(event, tally)
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
    yield from read_context(event, key)


def read_participant(event: Event, tally: Tally) -> Iterator[AnyFact]:
    key = key_of(event, "conversationId", "sessionId")
    if key is None:
        tally.noise += 1
        return
    yield from read_context(event, key)


def read_request_added(event: Event, tally: Tally) -> Iterator[AnyFact]:
    """Says only whether the request is a sub-agent's, or supplementary to another one."""
    key = key_of(event)
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
