"""OpenTelemetry GenAI: OTLP files, with the spans and log records of any agent.

lines.py     JSON lines, decoded but for what chat spans repeat
otlp.py      spans and log records, in every form that they are written in
protobuf.py  the same out of binary files
spooled.py   their contents, while they wait for their turn
agents.py    which agent sent them, and what it calls the conversation
messages.py  message lists, of today's conventions and of older ones
spans.py     engine calls, tool calls, runs of agents
logs.py      the events of Claude Code, Codex and Gemini CLI
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import zstandard

from unspool.errors import MissingExtra
from unspool.facts import AnyFact
from unspool.io.door import iter_json_lines
from unspool.io.origins import Head, Origin, Tally, read_head
from unspool.sources.otel.agents import NAME, product_of
from unspool.sources.otel.lines import LineShape
from unspool.sources.otel.otlp import is_flat, items_of
from unspool.sources.otel.spans import Traces, operation_of
from unspool.sources.otel.spooled import SpooledItems

RANGES = False  # a span is written before the one that holds it

_ENVELOPES = frozenset((
    "resourceSpans", "resourceLogs", "resource_spans", "resource_logs", "scopeSpans", "scopeLogs",
))  # fmt: skip
_OPENING = re.compile(rb'[\s\[{]*"(?:resource(?:Spans|Logs|_spans|_logs)|scope(?:Spans|Logs))"\s*:')

# resource_spans { resource { attributes { key: … value: … } } }, or one whose resource says nothing.
_VARINT = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_REQUEST = (
    rb"\x0a" + _VARINT + rb"(?:\x0a" + _VARINT
    + rb"(?:\x0a" + _VARINT + rb"\x0a[\x01-\x7f][a-z][\w.-]*)?)?\x12"
)  # fmt: skip
_PROTOBUF = re.compile(rb"(?:[\x00-\x09].{3})?" + _REQUEST, re.DOTALL)
_PACKED = re.compile(rb"[\x00-\x09].{3}(\x28\xb5\x2f\xfd)", re.DOTALL)


def claims(head: Head) -> bool:
    if _OPENING.match(head.data) or _is_protobuf(head.data):
        return True
    return any(not _ENVELOPES.isdisjoint(value) or _is_span(value) for value in head.objects)


def _is_protobuf(data: bytes) -> bool:
    if _PROTOBUF.match(data):
        return True
    packed = _PACKED.match(data)
    if packed is None:
        return False
    try:
        first = zstandard.ZstdDecompressor().decompressobj().decompress(data[packed.start(1) :])
    except zstandard.ZstdError:
        return False
    return bool(_OPENING.match(first) or _PROTOBUF.match(first))


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
    with SpooledItems() as spooled:
        for value in _values(origin, tally, recover):
            own = list(items_of(value))
            tally.records += len(own) - 1 if own else 0
            tally.noise += not own  # metrics, and `{}` where an exporter wrote nothing
            for item in own:
                spooled.put(item)
        traces = Traces(origin, spooled.items)
        tally.noise += len(spooled.items) - len(traces.items)  # they went into their span
        for item in map(spooled.whole, traces.items):
            yield from traces.tell(item, tally)


def _values(origin: Origin, tally: Tally, recover: bool) -> Iterator[dict[str, Any]]:
    """The file's envelopes as JSON values. Without the package for protobuf a binary file that merely
    lies in a folder is a problem, and one that was asked for is an error."""
    if _is_protobuf(read_head(origin.path).data):
        try:
            from unspool.sources.otel.protobuf import iter_values
        except MissingExtra as error:
            if origin.named:
                raise
            tally.records += 1
            tally.lose("missing-extra", origin.path, 0, str(error))
            return
        yield from iter_values(origin, tally)
        return
    for _, _, line in iter_json_lines(origin, LineShape(), tally, recover, lazy=True):
        yield line.value


__all__ = ["NAME", "RANGES", "claims", "places", "read"]
