"""agent-traces.db: the OpenTelemetry spans of every agent run, where the setting for it is on.

What most spans have is a column of `spans`, all else stands in `span_attributes`, cut at 64,000
characters. With the columns under their names of the conventions they are what `otel` reads.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

from unspool.facts import AnyFact, Rank
from unspool.io.databases import reading
from unspool.io.origins import Origin, Tally
from unspool.io.times import parse_time
from unspool.sources.copilot_cli.texts import plain
from unspool.sources.otel.agents import session_of
from unspool.sources.otel.otlp import Item
from unspool.sources.otel.spans import Traces
from unspool.sources.scribe import Scribe

_ERROR = 2
_COLUMNS = {
    "operation_name": "gen_ai.operation.name",
    "agent_name": "gen_ai.agent.name",
    "conversation_id": "gen_ai.conversation.id",
    "chat_session_id": "copilot_chat.chat_session_id",
    "request_model": "gen_ai.request.model",
    "response_model": "gen_ai.response.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "tool_name": "gen_ai.tool.name",
    "tool_call_id": "gen_ai.tool.call.id",
}


def is_traces(data: bytes, name: str) -> bool:
    return name.startswith("agent-traces") or b"span_attributes" in data


def read_traces(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    items: list[Item] = []
    with reading(origin, tally) as database:
        items = _load(database.connection)
    tally.records += len(items)
    traces = Traces(origin, items)
    for item in traces.items:
        if not any(session_of(one, item.product) for one in (item, *traces.above(item))):
            tally.noise += 1  # the extension's own calls, which are of no chat
            continue
        yield from traces.tell(item, tally)
        outside = item.text("copilot_chat.parent_chat_session_id")
        key = traces.key(item)
        if outside and outside != key[1]:
            scribe = Scribe(key, origin.path, item.number)
            scribe.parent(outside, "", Rank.ECHO, number=900)
            yield from scribe.facts


def _load(connection: sqlite3.Connection) -> list[Item]:
    cursor = connection.execute("SELECT * FROM spans ORDER BY start_time_ms, rowid")
    names = [column[0] for column in cursor.description]
    items: dict[str, Item] = {}
    for row in cursor:
        span: dict[str, Any] = dict(zip(names, row, strict=True))
        told = {ours: span.get(column) for column, ours in _COLUMNS.items()}
        items[str(span.get("span_id"))] = Item(
            name=plain(span.get("name")),
            trace=plain(span.get("trace_id")),
            id=plain(span.get("span_id")),
            parent=plain(span.get("parent_span_id")),
            start=parse_time(span.get("start_time_ms")),
            end=parse_time(span.get("end_time_ms")),
            failed=span.get("status_code") == _ERROR,
            status=plain(span.get("status_message")),
            attributes={name: value for name, value in told.items() if value is not None},
            resource={"service.name": "copilot-chat"},
        )
    # What a call was given repeats what earlier spans asked and answered.
    statement = "SELECT span_id, key, value FROM span_attributes WHERE key != ?"
    for ident, name, value in connection.execute(statement, ("gen_ai.input.messages",)):
        if str(ident) in items:
            items[str(ident)].attributes.setdefault(str(name), plain(value))
    return list(items.values())
