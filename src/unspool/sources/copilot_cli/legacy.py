"""The oldest form: one JSON object per session, with OpenAI-style messages and a timeline.

`history-session-state/session_<id>_<ms>.json` until late 2025; a resumed session carries the whole
object in its new log (`session.import_legacy`). The messages are numbered, so that both are one.

The timeline is what the screen showed. It alone has times, what was typed (a message holds what was
sent), how calls ended, and errors:

    {"type":"user","text":"List the files","timestamp":"2025-10-01T08:00:05.000Z"}
    {"type":"tool_call_completed","callId":"c1","result":{"type":"failure","log":"…"},"timestamp":…}
    {"type":"error","text":"Rate limit exceeded","timestamp":…}
"""

from collections.abc import Iterator
from typing import Any

from unspool.facts import AnyFact, Role
from unspool.io.door import read_json, sample
from unspool.io.origins import Origin, Tally, open_origin
from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, dicts_of, field_of, str_of
from unspool.prompts.shapes import arguments_text
from unspool.prompts.typed import typed_text
from unspool.sources.copilot_cli.envelope import Envelope, Event
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.speech import note_stated
from unspool.sources.copilot_cli.texts import FIRST_PROMPT_RANK, plain
from unspool.sources.copilot_cli.tools import touches
from unspool.sources.scribe import title_of

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_REFUSED = ("rejected", "denied")


def read_import(event: Event, lookup: Lookup) -> None:
    event.mark("import", event.chosen("importTime", "sourceFile"))
    _read_session(event, dict_of(event.data.get("legacySession")))


def read_file(origin: Origin, tally: Tally, product: str, recover: bool) -> Iterator[AnyFact]:
    with open_origin(origin.path) as file:
        data = file.read()
    salvage = read_json(data, recover)
    sessions = [value for value in dicts_of(salvage.values) if str_of(value.get("sessionId"))]
    for number, session in enumerate(sessions):
        tally.records += 1
        named = session["sessionId"]
        key = (product, named)
        event = Event(key, origin.path, 0, root=key)
        event.begin(number, Envelope(id=""), {}, key)
        event.note("session_id", named)
        event.note("agent", "GitHub Copilot CLI")
        event.note("started_at", format_time(parse_time(session.get("startTime"))))
        _read_session(event, session)
        yield from event.facts
    if salvage.code or not sessions:
        tally.records += 1
        tally.lose(salvage.code or "not-a-session", origin.path, 0, sample(data))


class _Shown:
    """One entry of the timeline."""

    def __init__(self, entry: dict[str, Any]) -> None:
        kind = plain(entry.get("type") or entry.get("role"))
        self.kind = "user" if kind.startswith("user") else kind
        self.text = plain(entry.get("content") or entry.get("text")).strip()
        self.time = parse_time(entry.get("timestamp"))
        self.call = plain(entry.get("callId"))
        self.outcome = plain(field_of(entry.get("result"), "type"))


def _read_session(event: Event, session: dict[str, Any]) -> None:
    model = plain(session.get("selectedModel"))
    if model:
        event.note("model", model, on="following")
    timeline = [_Shown(entry) for entry in dicts_of(session.get("timeline"))]
    last = max((shown.time for shown in timeline if shown.time is not None), default=None)
    if last is not None:
        event.note("ended_at", format_time(last), 1)
    ended = {shown.call: shown for shown in timeline if shown.call and shown.outcome}
    said = dicts_of(session.get("chatMessages"))
    at = 0
    """How much of the timeline the messages so far have taken."""
    for number, (message, place) in enumerate(zip(said, _places(timeline, said), strict=True)):
        shown = timeline[place] if place is not None else None
        if place is not None:
            _read_unsent(event, timeline, at, place, bool(said))
            at = place + 1
        _read_message(event, number, message, plain(message.get("content")), shown, ended, model)
    _read_unsent(event, timeline, at, len(timeline), bool(said))


def _places(timeline: list[_Shown], said: list[dict[str, Any]]) -> list[int | None]:
    """Where the timeline shows each message, in order: the person's words stand in what was sent, or
    were sent in other words."""
    places: list[int | None] = []
    at = 0
    for message in said:
        role, text = plain(message.get("role")), plain(message.get("content")).strip()
        place = _find(timeline, at, role, text)
        places.append(place)
        at = at if place is None else place + 1
    free = 0
    for number, message in enumerate(said):
        if places[number] is None and message.get("role") == "user":
            end = next((p for p in places[number:] if p is not None), len(timeline))
            places[number] = next(
                (p for p in range(free, end) if timeline[p].kind == "user" and timeline[p].text),
                None,
            )
        free = free if (place := places[number]) is None else place + 1
    return places


def _find(timeline: list[_Shown], at: int, role: str, text: str) -> int | None:
    for place in range(at, len(timeline)) if text else ():
        shown = timeline[place]
        if shown.text and (
            (role == "user" and shown.kind == "user" and shown.text in text)
            or (role == "assistant" and shown.kind != "user" and shown.text == text)
        ):
            return place
    return None


def _read_unsent(event: Event, timeline: list[_Shown], start: int, end: int, sent: bool) -> None:
    """What stood on the screen and in no message: errors, prompts that they stopped, and where no
    messages are left (`sent` is false) the answers too (cases/copilot_cli/oldest_json_unsent)."""
    for place in range(start, end):
        shown = timeline[place]
        if not shown.text:
            continue
        ident = f"legacy-shown-{place}"
        if shown.kind == "error":
            ident = f"legacy-error-{place}"
            event.message(id=ident, role="system", kind="error", text=shown.text, time=shown.time)
        elif shown.kind == "user":
            event.message(id=ident, role="user", text=shown.text, typed=shown.text, time=shown.time)
            event.note("title", title_of(shown.text), FIRST_PROMPT_RANK)
        elif not sent and shown.kind in ("copilot", "assistant", "assistant_message"):
            event.message(id=ident, role="assistant", text=shown.text, time=shown.time)


def _read_message(
    event: Event,
    number: int,
    message: dict[str, Any],
    text: str,
    shown: _Shown | None,
    ended: dict[str, _Shown],
    model: str,
) -> None:
    ident = f"legacy-{number}"
    role = plain(message.get("role"))
    if role == "tool":
        call = plain(message.get("tool_call_id"))
        end = ended.get(call)
        event.returned(
            call=call,
            text=text,
            failed=True if end is not None and end.outcome == "failure" else None,
            status="denied" if end is not None and end.outcome in _REFUSED else "",
            time=end.time if end is not None else None,
        )
        return
    typed = None
    if role == "user":
        typed = shown.text if shown is not None else typed_text(text)
    event.message(
        id=ident,
        role=_ROLES.get(role, "user"),
        text=text,
        typed=typed,
        model=model if role == "assistant" else "",
        thinking=plain(message.get("reasoning_text") or message.get("reasoning_content")),
        time=None,
    )
    if typed and typed.strip():
        event.note("title", title_of(typed), FIRST_PROMPT_RANK)
    if role == "system":
        note_stated(event, text)
    if shown is not None and shown.time is not None:
        # Not the time of the import: that of what was said.
        event.note("timestamp", format_time(shown.time), -1, "message", ident)
    for index, asked in enumerate(dicts_of(message.get("tool_calls"))):
        function = dict_of(asked.get("function"))
        name, arguments = plain(function.get("name")), arguments_text(function.get("arguments"))
        event.call(
            id=plain(asked.get("id")), message=ident, name=name, index=index, time=None,
            arguments=arguments, files=touches(name, arguments),
        )  # fmt: skip
