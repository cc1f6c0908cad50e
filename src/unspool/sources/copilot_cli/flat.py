"""Streams with flat lines instead of events (`message`, `tool_use`, `tool_result`, `usage`).

Told of by others for `--output-format json` with some models; no shipped version is known to write
them. Read all the same. Their fields lie beside the type, not in `data`.
"""

from collections.abc import Callable

from unspool.facts import Role
from unspool.prompts.shapes import arguments_text
from unspool.sources.copilot_cli.envelope import Event
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.texts import FIRST_PROMPT_RANK, plain, whole_number
from unspool.sources.copilot_cli.tools import touches
from unspool.sources.scribe import title_of

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def _read_message(event: Event, lookup: Lookup) -> None:
    role = _ROLES.get(plain(event.data.get("role")) or event.type.partition("_")[0], "user")
    text = plain(event.data.get("content"))
    if role == "user" and text.strip():
        event.note("title", title_of(text), FIRST_PROMPT_RANK)
    event.message(role=role, text=text, model=event.text("model"))


def _read_call(event: Event, lookup: Lookup) -> None:
    name, arguments = event.text("name"), event.data.get("input")
    event.call(
        id=event.text("id"), name=name, arguments=arguments_text(arguments),
        files=touches(name, arguments),
    )  # fmt: skip


def _read_result(event: Event, lookup: Lookup) -> None:
    event.returned(
        call=event.text("tool_use_id"),
        text=plain(event.data.get("content")),
        failed=True if event.data.get("is_error") is True else None,
    )


def _read_usage(event: Event, lookup: Lookup) -> None:
    event.usage(
        on="call",
        subject=event.entry,
        prompt=whole_number(event.data.get("input_tokens")),
        completion=whole_number(event.data.get("output_tokens")),
    )


def _read_end(event: Event, lookup: Lookup) -> None:
    """The last line of every stdout stream: not an event."""
    named = event.data.get("sessionId")
    if isinstance(named, str) and named == event.root[1]:
        event.note("session_id", named, 1)
    event.mark("result", event.chosen("exitCode", "usage"))


READERS: dict[str, Callable[[Event, Lookup], None]] = {
    "message": _read_message,
    "user_message": _read_message,
    "assistant_message": _read_message,
    "tool_use": _read_call,
    "tool_result": _read_result,
    "usage": _read_usage,
    "result": _read_end,
}
