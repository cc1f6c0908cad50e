"""Streams with flat lines instead of events (`message`, `tool_use`, `tool_result`, `usage`).

Told of by others for `--output-format json` with some models; no shipped version is known to write
them. Read all the same. Their fields lie beside the type, not in `data`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from unspool.facts import (
    AnyFact,
    Marked,
    MessageSeen,
    Noted,
    Role,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.sources.copilot_cli.envelope import Event, whole_number
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.texts import FIRST_PROMPT_RANK, arguments_text, plain, title_of
from unspool.sources.copilot_cli.touches import touched

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def read_message(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    data = event.data
    role = _ROLES.get(plain(data.get("role")) or event.type.partition("_")[0], "user")
    text = plain(data.get("content"))
    if role == "user" and text.strip():
        yield event.fact(Noted, name="title", value=title_of(text), rank=FIRST_PROMPT_RANK)
    yield event.fact(MessageSeen, role=role, text=text, model=event.text("model"))


def read_call(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    name, arguments = event.text("name"), event.data.get("input")
    yield event.fact(
        ToolCalled, id=event.text("id"), name=name, arguments=arguments_text(arguments),
        files=touched(name, arguments),
    )  # fmt: skip


def read_result(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    yield event.fact(
        ToolReturned,
        call=event.text("tool_use_id"),
        text=plain(event.data.get("content")),
        failed=True if event.data.get("is_error") is True else None,
    )


def read_usage(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    yield event.fact(
        UsageReported,
        on="call",
        subject=f"{event.origin}:{event.offset}",
        prompt=whole_number(event.data.get("input_tokens")),
        completion=whole_number(event.data.get("output_tokens")),
    )


def read_end(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    """The last line of every stdout stream: not an event."""
    usage: Any = event.data.get("usage")
    data = event.chosen("exitCode")
    told = event.data.get("sessionId")
    if isinstance(told, str) and told == event.root[1]:
        yield event.fact(Noted, name="session_id", value=told, rank=1)
    yield event.fact(
        Marked, kind="result", data={**data, "usage": usage} if usage else data or None
    )


READERS: dict[str, Callable[[Event, Lookup], Iterator[AnyFact]]] = {
    "message": read_message,
    "user_message": read_message,
    "assistant_message": read_message,
    "tool_use": read_call,
    "tool_result": read_result,
    "usage": read_usage,
    "result": read_end,
}
