"""Telemetry before anything is rebuilt from it: which events it holds, and whether their models agree.

The sender logs an input (the list as it was sent, with the model asked for) and an output (the answer
alone, with the model that answered). Hence the invariants: an event names one of the two; a list that
ends with the assistant names the one that answered; any other names the one asked for; and the
interactive session names a model that the engine named for the same request.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from unspool.errors import NothingToRead
from unspool.facts import Problem
from unspool.io.origins import Tally
from unspool.io.times import format_time
from unspool.pipeline.discover import discover
from unspool.pipeline.job import Progress
from unspool.prompts.context import shorten
from unspool.sources.copilot_telemetry import NAME, Event, iter_events, text_of

_PLACES = 5


class Unread(msgspec.Struct):
    """Something that could not be read, and where."""

    code: str
    origin: str
    offset: int
    sample: str


class Problems(msgspec.Struct, kw_only=True):
    """What of the telemetry could not be read: how much, and the first places."""

    problems: int = 0
    unread: list[Unread] = []

    def lack(self, flaws: list[Problem]) -> None:
        self.problems = len(flaws)
        self.unread = [Unread(p.code, p.origin, p.offset, p.sample) for p in flaws[:_PLACES]]


def iter_telemetry(
    paths: Iterable[str], tally: Tally, progress: Callable[[int], Progress] | None = None
) -> Iterator[Event]:
    """The events of all telemetry under the paths, in order; what cannot be read goes to the tally."""
    paths = list(paths)
    discovered = discover(paths, NAME)
    if not discovered.origins:
        raise NothingToRead(discovered.nothing_in(paths))
    tally.problems += len(discovered.problems)
    tally.flaws += discovered.problems
    advance = progress(sum(origin.size for origin in discovered.origins)) if progress else None
    for origin in discovered.origins:
        yield from iter_events(origin, tally)
        if advance is not None:
            advance(origin.size)


EXAMPLE_CHARS = 200
_PART = re.compile(r"_\d{2,3}$")


class EventType(msgspec.Struct):
    """One type of event."""

    name: str
    count: int = 0
    first: str | None = None
    last: str | None = None
    properties: dict[str, int] = {}
    """Property → how many events have it; parts of a cut one count as one."""
    measurements: dict[str, int] = {}
    example: dict[str, Any] = {}


class TypeReport(Problems, kw_only=True):
    """The types that were searched for, most frequent first."""

    events: int = 0
    types: list[EventType] = msgspec.field(default_factory=list)


def search_types(
    paths: Iterable[str], contains: str = "", progress: Callable[[int], Progress] | None = None
) -> TypeReport:
    """The types whose name contains the text, whatever its case."""
    report = TypeReport()
    types: dict[str, EventType] = {}
    times: dict[str, tuple[int, int]] = {}
    """Type → its first and its last time."""
    tally = Tally()
    for event in iter_telemetry(paths, tally, progress):
        report.events += 1
        name = event.full_name or "(no name)"
        if contains.lower() not in name.lower():
            continue
        _count(types.setdefault(name, EventType(name)), event)
        if (time := event.time) is not None:
            first, last = times.get(name, (time, time))
            times[name] = min(first, time), max(last, time)
    for name, event_type in types.items():
        event_type.first, event_type.last = map(format_time, times.get(name, (None, None)))
        event_type.properties = dict(sorted(event_type.properties.items()))
        event_type.measurements = dict(sorted(event_type.measurements.items()))
    report.types = sorted(
        types.values(), key=lambda event_type: (-event_type.count, event_type.name)
    )
    report.lack(tally.flaws)
    return report


def _count(event_type: EventType, event: Event) -> None:
    event_type.count += 1
    properties, measures = event.everything()
    for name in {_stem(name, properties) for name in properties}:
        event_type.properties[name] = event_type.properties.get(name, 0) + 1
    for name in measures:
        event_type.measurements[name] = event_type.measurements.get(name, 0) + 1
    if event_type.count == 1:
        event_type.example = {
            "origin": event.origin,
            "offset": event.offset,
            "time": format_time(event.time),
            "properties": {
                name: shorten(text_of(value), EXAMPLE_CHARS)
                for name, value in properties.items()
                if _stem(name, properties) == name
            },
            "measurements": {
                name: shorten(bytes(value).decode("utf-8", "replace"), EXAMPLE_CHARS)
                for name, value in measures.items()
            },
        }


def _stem(name: str, properties: dict[str, msgspec.Raw]) -> str:
    """`messagesJson` for `messagesJson_02`, where the first part is there too."""
    stem = _PART.sub("", name)
    return stem if stem in properties else name


EXAMPLES = 5

INVARIANTS = {
    "one-model-field": "an event names baseModel or request.option.model, never both",
    "some-model-field": "an event names at least one of the two",
    "answer-has-base-model": "a list that ends with the assistant names baseModel",
    "request-has-option-model": "a list that ends otherwise names request.option.model",
    "session-agrees": "the interactive session names a model that the engine named",
}


class Violation(msgspec.Struct, omit_defaults=True):
    """One place where an invariant does not hold."""

    origin: str
    offset: int
    conversation_id: str = ""
    request_id: str = ""
    base_model: str = ""
    option_model: str = ""
    last_role: str = ""
    session_model: str = ""
    engine_models: list[str] = []


class Finding(msgspec.Struct):
    """An invariant: how often it was looked at, how often it was broken, and where first."""

    name: str
    meaning: str
    checked: int = 0
    violated: int = 0
    examples: list[Violation] = []


class Report(Problems, kw_only=True):
    """What the check found."""

    findings: list[Finding]
    events: int = 0
    engine_events: int = 0
    session_events: int = 0
    unreadable_lists: int = 0
    """Events whose message list cannot be read, so that its last role is unknown."""
    unmatched_sessions: int = 0
    """Session models of requests that no engine event names."""

    @property
    def violated(self) -> int:
        return sum(finding.violated for finding in self.findings)


class _Role(msgspec.Struct):
    role: str = ""


_roles: msgspec.json.Decoder[list[_Role]] = msgspec.json.Decoder(list[_Role])


def _last_role(event: Event) -> str:
    """The role of the list's last message; empty where the list cannot be read."""
    body, broken = event.read_messages() or (b"", True)
    text = body if broken else body + b"]"
    try:
        roles = _roles.decode(text) if text else []
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""
    return roles[-1].role if roles else ""


def check_models(
    paths: Iterable[str],
    examples: int = EXAMPLES,
    progress: Callable[[int], Progress] | None = None,
) -> Report:
    """Check the model fields of all telemetry under the paths; the sessions once all events are in."""
    findings = {name: Finding(name, text) for name, text in INVARIANTS.items()}
    report = Report(findings=list(findings.values()))
    engine: dict[tuple[str, str], dict[str, None]] = {}
    sessions: dict[tuple[str, str], tuple[bool, Violation]] = {}
    tally = Tally()

    def look(name: str, holds: bool, seen: Violation) -> None:
        finding = findings[name]
        finding.checked += 1
        if not holds:
            finding.violated += 1
            if len(finding.examples) < examples:
                finding.examples.append(seen)

    for event in iter_telemetry(paths, tally, progress):
        report.events += 1
        told = event.told
        if event.name == "engine.messages":
            report.engine_events += 1
            seen = Violation(
                event.origin,
                event.offset,
                conversation_id=told.conversationId,
                request_id=told.headerRequestId,
                base_model=told.baseModel,
                option_model=event.model,
                last_role=_last_role(event),
            )
            answered, asked = bool(seen.base_model), bool(seen.option_model)
            look("one-model-field", not (answered and asked), seen)
            look("some-model-field", answered or asked, seen)
            if seen.last_role == "assistant":
                look("answer-has-base-model", answered, seen)
            elif seen.last_role:
                look("request-has-option-model", asked, seen)
            else:
                report.unreadable_lists += 1
            if seen.conversation_id and seen.request_id:
                models = engine.setdefault((seen.conversation_id, seen.request_id), {})
                models.update(dict.fromkeys(m for m in (seen.base_model, seen.option_model) if m))
        elif event.name in ("interactiveSessionMessage", "interactiveSessionResponse"):
            report.session_events += 1
            model = told.baseModel or told.model
            key = told.sessionId or told.conversationId, told.requestId
            is_answer = event.name == "interactiveSessionResponse"
            if not model or model.lower() == "auto" or not all(key):
                continue
            if key not in sessions or is_answer >= sessions[key][0]:
                seen = Violation(event.origin, event.offset, *key, session_model=model)
                sessions[key] = is_answer, seen
    for key, (_, seen) in sessions.items():
        seen.engine_models = list(engine.get(key, ()))
        if seen.engine_models:
            look("session-agrees", seen.session_model in seen.engine_models, seen)
        else:
            report.unmatched_sessions += 1
    report.lack(tally.flaws)
    return report
