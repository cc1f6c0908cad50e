"""Oddities: fields of a request whose value cannot be what it should be.

Where a field may have several shapes the reader takes the one that it finds and passes over all
others; what it passed over is told here, so that it is counted.
"""

from collections.abc import Iterator
from typing import Any

from unspool.io.times import parse_time
from unspool.sources.vscode_chat.model import Request, Round
from unspool.sources.vscode_chat.parts import TEXT_KINDS, TOOLS
from unspool.sources.vscode_chat.variables import entries_of

_MESSAGES = ("invocationMessage", "pastTenseMessage", "originMessage")


def odd_fields(request: Request) -> Iterator[str]:
    """The paths of values that were passed over."""
    state = request.modelState
    yield from _odd_time("timestamp", request.timestamp)
    yield from _odd_time("modelState.completedAt", state.completedAt if state is not None else None)
    yield from _odd_message(request.message)
    for entry in entries_of(request.variableData):
        yield from _not_text(entry, ("kind", "name"), "variableData.variables")
    for part in request.response if isinstance(request.response, list) else ():
        if isinstance(part, dict):
            yield from _odd_part(part)
    metadata = request.result.metadata if request.result is not None else None
    if metadata is not None:
        yield from _odd_rendered("renderedUserMessage", metadata.renderedUserMessage)
        yield from _odd_rendered("renderedGlobalContext", metadata.renderedGlobalContext)
        for held_round in metadata.toolCallRounds or ():
            yield from _odd_round(held_round)


def _odd_time(path: str, value: Any) -> Iterator[str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not number and parse_time(value) is None:
        yield path


def _not_text(holder: dict[str, Any], names: tuple[str, ...], path: str) -> Iterator[str]:
    for name in names:
        value = holder.get(name)
        if value is not None and not isinstance(value, str):
            yield f"{path}.{name}"


def _odd_message(message: Any) -> Iterator[str]:
    if not isinstance(message, dict):
        if message is not None and not isinstance(message, str):
            yield "message"
        return
    if not message.keys() & {"text", "parts"}:
        yield "message"
    yield from _not_text(message, ("text",), "message")
    parts = message.get("parts")
    if parts is not None and not isinstance(parts, list):
        yield "message.parts"
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            yield from _not_text(part, ("kind", "text"), "message.parts")
        elif not isinstance(part, str):
            yield "message.parts"


def _odd_part(part: dict[str, Any]) -> Iterator[str]:
    yield from _not_text(part, ("kind",), "response")
    kind = part.get("kind")
    if not isinstance(kind, str):
        if "value" in part:
            yield from _not_text(part, ("value",), "response")
    elif kind in TEXT_KINDS:
        yield from _not_markdown(part, ("content",))
    elif kind == "thinking":
        value = part.get("value")
        pieces = value if isinstance(value, list) else [value]
        if not all(isinstance(piece, str | None) for piece in pieces):
            yield "response.value"
    elif kind in TOOLS:
        yield from _not_text(part, ("toolCallId", "toolId"), "response")
        yield from _not_markdown(part, _MESSAGES)


def _not_markdown(part: dict[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = part.get(name)
        text = value.get("value") if isinstance(value, dict) else value
        if value is not None and not isinstance(text, str):
            yield f"response.{name}"


def _odd_rendered(path: str, value: Any) -> Iterator[str]:
    if value is None or isinstance(value, str):
        return
    for part in value if isinstance(value, list) else (value,):
        if isinstance(part, dict) and part.keys() & {"type", "text", "imageUrl"}:
            yield from _not_text(part, ("text",), path)
        elif not isinstance(part, str):
            yield path


def _odd_round(held: Round) -> Iterator[str]:
    yield from _odd_time("toolCallRounds.timestamp", held.timestamp)
    thinking = held.thinking
    text = thinking.get("text") if isinstance(thinking, dict) else thinking
    if not isinstance(text, str | list | None):
        yield "toolCallRounds.thinking"
