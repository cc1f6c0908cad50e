"""Telemetry types: which events there are, how many, since when, with which properties."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.facts import Problem
from unspool.inspect.checks import Problems, Progress, iter_telemetry
from unspool.io.origins import Tally
from unspool.io.times import format_time
from unspool.prompts.context import shorten
from unspool.sources.copilot_telemetry import Event

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


class _Span(msgspec.Struct):
    low: int | None = None
    high: int | None = None

    def take(self, time: int | None) -> None:
        if time is not None:
            self.low = time if self.low is None else min(self.low, time)
            self.high = time if self.high is None else max(self.high, time)


def search_types(paths: Iterable[str], contains: str = "", progress: Progress = None) -> TypeReport:
    """The types whose name contains the text, whatever its case."""
    report = TypeReport()
    found: dict[str, EventType] = {}
    spans: dict[str, _Span] = {}
    for event in iter_telemetry(paths, Tally(), progress):
        if isinstance(event, Problem):
            report.lack(event)
            continue
        report.events += 1
        name = event.full_name or "(no name)"
        if contains.lower() not in name.lower():
            continue
        _count(found.setdefault(name, EventType(name)), event)
        spans.setdefault(name, _Span()).take(event.time)
    for name, made in found.items():
        made.first, made.last = format_time(spans[name].low), format_time(spans[name].high)
        made.properties = dict(sorted(made.properties.items()))
        made.measurements = dict(sorted(made.measurements.items()))
    report.types = sorted(found.values(), key=lambda made: (-made.count, made.name))
    return report


def _count(made: EventType, event: Event) -> None:
    made.count += 1
    for name in {_stem(name, event.properties) for name in event.properties}:
        made.properties[name] = made.properties.get(name, 0) + 1
    for name in event.measures:
        made.measurements[name] = made.measurements.get(name, 0) + 1
    if made.count == 1:
        made.example = {
            "origin": event.origin,
            "offset": event.offset,
            "time": format_time(event.time),
            "properties": {
                name: shorten(event.text(name), EXAMPLE_CHARS)
                for name in event.properties
                if _stem(name, event.properties) == name
            },
            "measurements": {
                name: shorten(bytes(value).decode("utf-8", "replace"), EXAMPLE_CHARS)
                for name, value in event.measures.items()
            },
        }


def _stem(name: str, properties: dict[str, msgspec.Raw]) -> str:
    """`messagesJson` for `messagesJson_02`, where the first part is there too."""
    stem = _PART.sub("", name)
    return stem if stem in properties else name
