"""OpenTelemetry GenAI: OTLP JSON files, with the spans and log records of any agent.

otlp.py      spans and log records, in every form that they are written in
agents.py    which agent sent them, and what it calls the conversation
messages.py  message lists, of today's conventions and of older ones
spans.py     engine calls, tool calls, runs of agents
logs.py      the events of Claude Code, Codex and Gemini CLI
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from unspool.facts import AnyFact, Problem
from unspool.io.door import iter_json_lines
from unspool.io.origins import Head, Origin, Tally
from unspool.io.structs import Shape
from unspool.sources.otel.agents import NAME, product_of
from unspool.sources.otel.logs import tell_log
from unspool.sources.otel.otlp import Item, is_flat, items_of
from unspool.sources.otel.spans import Traces, operation_of

RANGES = False  # a span is written before the one that holds it

_ENVELOPES = frozenset((
    "resourceSpans", "resourceLogs", "resource_spans", "resource_logs", "scopeSpans", "scopeLogs",
))  # fmt: skip
_OPENING = re.compile(rb'[\s\[{]*"(?:resource(?:Spans|Logs|_spans|_logs)|scope(?:Spans|Logs))"\s*:')


class Anything(msgspec.Struct, gc=False):
    """A line is taken as it is: too many forms of it exist."""


_LINE = Shape(Anything)


def claims(head: Head) -> bool:
    if _OPENING.match(head.data):
        return True
    return any(not _ENVELOPES.isdisjoint(value) or _is_span(value) for value in head.objects)


def _is_span(value: dict[str, object]) -> bool:
    """A flat span or log record that GenAI conventions, or an agent, wrote."""
    if not is_flat(value):
        return False
    item = next(items_of(value))
    return bool(operation_of(item)) or product_of(item) != NAME


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    """Copilot CLI writes to the file that it is told; all others send to a collector."""
    named = env.get("COPILOT_OTEL_FILE_EXPORTER_PATH")
    return [Path(named)] if named else []


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    items: list[Item] = []
    for line in iter_json_lines(origin, _LINE, tally, recover):
        if isinstance(line, Problem):
            yield line
            continue
        own = list(items_of(msgspec.json.decode(line[1])))
        tally.records += len(own) - 1 if own else 0
        tally.noise += not own  # metrics, and `{}` where an exporter wrote nothing
        items += own
    traces = Traces(origin, items)
    tally.noise += len(items) - len(traces.items)  # they went into their span
    for item in traces.items:
        if item.is_log and not operation_of(item):
            yield from _tell_log(traces, item, tally)
        else:
            yield from traces.tell(item, tally)


def _tell_log(traces: Traces, item: Item, tally: Tally) -> list[AnyFact]:
    key = traces.key(item)
    scribe = traces.scribe(item, key)
    scribe.entry = f"log:{item.text('event.sequence')}:{item.name}:{item.start}"
    if key[0] == NAME or not key[1]:
        tally.noise += 1
        return []
    if not tell_log(item, scribe):
        tally.unrecognise(item.name or "log record", traces.origin.path, item.number)
    elif not scribe.facts:
        tally.noise += 1
    return scribe.facts


__all__ = ["NAME", "RANGES", "claims", "places", "read"]
