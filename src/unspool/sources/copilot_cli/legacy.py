"""The oldest form: one JSON object per session, with OpenAI-style messages and a timeline.

`history-session-state/session_<id>_<ms>.json` until late 2025; a resumed session carries the whole
object in its new log (`session.import_legacy`). The messages are numbered, so that both are one.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from unspool.facts import (
    NOBODY,
    AnyFact,
    Key,
    Marked,
    MessageSeen,
    Noted,
    Problem,
    Role,
    ToolCalled,
    ToolReturned,
)
from unspool.io.dirty_json import salvage, sample
from unspool.io.origins import Origin, Tally, open_origin
from unspool.io.times import format_time, parse_time
from unspool.sources.copilot_cli.envelope import Event, event_of
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.texts import FIRST_PROMPT_RANK, arguments_text, plain, title_of
from unspool.sources.copilot_cli.touches import touched

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
Say = Callable[..., Any]


def is_session(value: dict[str, Any]) -> bool:
    return "chatMessages" in value and ("sessionId" in value or "timeline" in value)


def read_import(event: Event, lookup: Lookup) -> Iterator[AnyFact]:
    found = event.data.get("legacySession")
    yield event.fact(Marked, kind="import", data=event.chosen("importTime", "sourceFile") or None)
    if isinstance(found, dict):
        event.time = None  # of the import, not of what was said
        yield from session_facts(found, event.fact)


def read_file(origin: Origin, tally: Tally, product: str, recover: bool) -> Iterator[AnyFact]:
    with open_origin(origin.path) as file:
        data = file.read()
    found = salvage(data, recover)
    sessions = [value for value in found.values if isinstance(value, dict)]
    for number, value in enumerate(sessions):
        tally.records += 1
        event = event_of({}, origin.path, number)
        event.key = event.root = _key(product, value, origin.path)
        yield event.fact(Noted, name="session_id", value=event.key[1])
        yield event.fact(Noted, name="agent", value="GitHub Copilot CLI")
        started = format_time(parse_time(value.get("startTime")))
        yield event.fact(Noted, name="started_at", value=started)
        yield from session_facts(value, event.fact)
    if found.code or not sessions:
        tally.records += 1
        tally.problems += 1
        code = found.code or "not-a-session"
        yield Problem(
            key=NOBODY, origin=origin.path, offset=0, number=99, code=code, sample=sample(data)
        )


def _key(product: str, value: dict[str, Any], path: str) -> Key:
    told = value.get("sessionId")
    if isinstance(told, str) and told:
        return (product, told)
    stem = path.replace("\\", "/").rpartition("/")[2].removesuffix(".json")
    return (product, stem.removeprefix("session_").rpartition("_")[0] or stem)


def session_facts(value: dict[str, Any], say: Say) -> Iterator[AnyFact]:
    model = plain(value.get("selectedModel"))
    if model:
        yield say(Noted, on="following", name="model", value=model)
    messages = value.get("chatMessages")
    times = _times(value.get("timeline"))
    last = max((time for shown in times.values() for time in shown), default=None)
    if last:
        yield say(Noted, name="ended_at", value=last, rank=1)
    for number, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            yield from _message(message, number, times, model, say)


def _times(timeline: Any) -> dict[tuple[str, str], list[str]]:
    """(role, text) → when it was shown; the messages themselves have no time."""
    found: dict[tuple[str, str], list[str]] = {}
    for item in timeline if isinstance(timeline, list) else ():
        shown = format_time(parse_time(item.get("timestamp"))) if isinstance(item, dict) else None
        if shown is not None:
            kind = plain(item.get("role") or item.get("type"))
            role = "user" if kind.startswith("user") else "assistant"
            text = plain(item.get("content") or item.get("text")).strip()
            found.setdefault((role, text), []).append(shown)
    return found


def _message(
    message: dict[str, Any],
    number: int,
    times: dict[tuple[str, str], list[str]],
    model: str,
    say: Say,
) -> Iterator[AnyFact]:
    ident = f"legacy-{number}"
    role = plain(message.get("role"))
    text = plain(message.get("content"))
    if role == "tool":
        yield say(ToolReturned, call=plain(message.get("tool_call_id")), text=text)
        return
    yield say(
        MessageSeen,
        id=ident,
        role=_ROLES.get(role, "user"),
        text=text,
        model=model if role == "assistant" else "",
        thinking=plain(message.get("reasoning_text") or message.get("reasoning_content")),
    )
    if role == "user" and text.strip():
        yield say(Noted, name="title", value=title_of(text), rank=FIRST_PROMPT_RANK)
    shown = times.get((role, text.strip()))
    if shown:
        yield say(Noted, on="message", subject=ident, name="timestamp", value=shown.pop(0), rank=-1)
    calls = message.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            name, arguments = plain(function.get("name")), function.get("arguments")
            yield say(
                ToolCalled, id=plain(call.get("id")), message=ident, name=name, index=index,
                arguments=arguments_text(arguments), files=touched(name, _decoded(arguments)),
            )  # fmt: skip


def _decoded(arguments: Any) -> Any:
    try:
        return msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
    except msgspec.DecodeError:
        return arguments
