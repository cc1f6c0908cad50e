"""agent-traces.db: the spans of every agent run, where the setting for it is on.

`invoke_agent` is a turn (nested: a sub-agent), `chat` an engine call with its answer and tokens,
`execute_tool` a call with what came of it. Contents stand in `span_attributes`, cut at 64,000
characters.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

from unspool.facts import (
    ECHO,
    NOBODY,
    AnyFact,
    Fact,
    MessageSeen,
    Noted,
    Problem,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.io.databases import open_database
from unspool.io.door import sample
from unspool.io.origins import Origin, Tally
from unspool.io.times import parse_time
from unspool.sources.copilot_cli.lookup import content_id
from unspool.sources.copilot_cli.texts import arguments_text, plain, whole_number
from unspool.sources.copilot_vscode.spoken import answer, bare_call, decoded

_ERROR = 2
_DEPTH = 64
_NOISE = frozenset(("execute_hook", "content_event", "embeddings"))


def is_traces(data: bytes, name: str) -> bool:
    return name.startswith("agent-traces") or b"span_attributes" in data


class Span:
    """One span with its attributes."""

    def __init__(self, row: dict[str, Any], offset: int) -> None:
        self.row = row
        self.offset = offset
        self.number = 0
        self.attributes: dict[str, str] = {}

    def text(self, name: str) -> str:
        value = self.row.get(name)
        return "" if value is None else str(value)

    @property
    def id(self) -> str:
        return self.text("span_id")


class Traces:
    """All spans, and whose conversation each belongs to."""

    def __init__(self, origin: Origin, product: str, spans: list[Span]) -> None:
        self.origin = origin
        self.product = product
        self.spans = spans
        self.by_id = {span.id: span for span in spans}

    def fact(self, span: Span, made: type[Fact], /, **fields: Any) -> Any:
        span.number += 1
        fields.setdefault("offset", span.offset)
        fields.setdefault("number", span.number)
        fields.setdefault("entry", f"trace:{span.id}")
        fields.setdefault("rank", ECHO)
        fields.setdefault("time", parse_time(span.row.get("start_time_ms")))
        fields.setdefault("key", (self.product, self.conversation(span)))
        return made(origin=self.origin.path, **fields)

    def above(self, span: Span) -> Iterator[Span]:
        """The spans that hold this one, innermost first."""
        at: Span | None = span
        for _ in range(_DEPTH):
            at = self.by_id.get(at.text("parent_span_id")) if at is not None else None
            if at is None:
                return
            yield at

    def session(self, span: Span) -> str:
        for held in (span, *self.above(span)):
            found = held.text("chat_session_id") or held.text("conversation_id")
            if found:
                return found
        return ""

    def run(self, span: Span) -> Span | None:
        """The nested agent run that the span is in, or is; None for the conversation's own."""
        runs = [s for s in (span, *self.above(span)) if s.text("operation_name") == "invoke_agent"]
        return runs[0] if len(runs) > 1 else None

    def conversation(self, span: Span) -> str:
        session, run = self.session(span), self.run(span)
        return f"{session}/{self.call_of(run) or run.id}" if run is not None else session

    def call_of(self, run: Span) -> str:
        """The tool call that started a nested run."""
        holders = (
            held for held in self.above(run) if held.text("operation_name") == "execute_tool"
        )
        holder = next(holders, None)
        return bare_call(holder.text("tool_call_id")) if holder is not None else ""


def read_traces(origin: Origin, tally: Tally, product: str) -> Iterator[AnyFact]:
    try:
        with open_database(origin.path) as database:
            if database.stale:
                tally.records += 1
                tally.problems += 1
                yield _problem(origin, "stale-database", "the log beside it is too long to copy")
            spans = _load(database.connection)
    except (sqlite3.Error, OSError) as error:
        tally.records += 1
        tally.problems += 1
        yield _problem(origin, "unreadable-database", str(error))
        return
    held = Traces(origin, product, spans)
    for span in spans:
        tally.records += 1
        reader = READERS.get(span.text("operation_name"))
        if reader is not None and held.session(span):
            yield from reader(held, span)
        elif span.text("operation_name") in _NOISE or reader is not None:
            tally.noise += 1
        else:
            tally.unrecognise(span.text("operation_name") or "no name", origin.path, span.offset)


def _problem(origin: Origin, code: str, text: str) -> Problem:
    return Problem(
        key=NOBODY, origin=origin.path, offset=0, number=99, code=code, sample=sample(text)
    )


def _load(connection: sqlite3.Connection) -> list[Span]:
    cursor = connection.execute("SELECT * FROM spans ORDER BY start_time_ms, rowid")
    names = [column[0] for column in cursor.description]
    spans = [
        Span(dict(zip(names, row, strict=True)), number) for number, row in enumerate(cursor, 1)
    ]
    by_id = {span.id: span for span in spans}
    for ident, name, value in connection.execute("SELECT span_id, key, value FROM span_attributes"):
        span = by_id.get(str(ident))
        if span is not None:
            span.attributes[str(name)] = plain(value)
    return spans


def _agent(traces: Traces, span: Span) -> Iterator[AnyFact]:
    """A turn: what was asked. Of a nested run: who started it."""
    asked = span.attributes.get("copilot_chat.user_request", "")
    nested = traces.run(span)
    yield traces.fact(span, Noted, name="session_id", value=traces.session(span))
    if nested is not None:
        outer = next(iter(traces.above(span)), None)
        tie = {
            "conversation_id": traces.conversation(outer) if outer else traces.session(span),
            "tool_call_id": traces.call_of(span) or None,
            "name": span.text("agent_name") or None,
        }
        yield traces.fact(span, Noted, name="parent", value=tie)
    parent = span.attributes.get("copilot_chat.parent_chat_session_id", "")
    if parent and parent != traces.session(span):
        yield traces.fact(span, Noted, name="parent", value={"conversation_id": parent})
    if asked:
        yield traces.fact(
            span, MessageSeen, id=f"trace:{span.id}", role="user", text=asked,
            typed=None if nested else asked,
        )  # fmt: skip
    elif nested is None:
        yield traces.fact(span, Noted, name="agent", value=span.text("agent_name") or None)


def _chat(traces: Traces, span: Span) -> Iterator[AnyFact]:
    """An engine call: the answer, its model and tokens; the system prompt and tools it saw."""
    prompt = span.attributes.get("gen_ai.system_instructions", "")
    if prompt:
        text = answer([{"parts": decoded(prompt)}]).text or prompt
        ident = f"system:{content_id(text)[:16]}"
        # Every call repeats it; it stands before the first.
        yield traces.fact(
            span, MessageSeen, id=ident, role="system", text=text, entry=f"trace:{ident}", offset=0,
            number=span.offset, time=None,
        )  # fmt: skip
    tools = decoded(span.attributes.get("gen_ai.tool.definitions"))
    if isinstance(tools, list) and tools:
        known = [_definition(tool) for tool in tools if isinstance(tool, dict)]
        yield traces.fact(span, Noted, name="tool_definitions", value=known)
    said = answer(span.attributes.get("gen_ai.output.messages"))
    ident = f"trace:{span.id}"
    thinking = said.thinking or span.attributes.get("copilot_chat.reasoning_content", "")
    if said.text or said.calls or thinking:
        yield traces.fact(
            span, MessageSeen, id=ident, role="assistant", text=said.text, thinking=thinking,
            model=span.text("response_model") or span.text("request_model"),
            time=parse_time(span.row.get("end_time_ms")),
        )  # fmt: skip
    for index, call in enumerate(said.calls):
        yield traces.fact(
            span, ToolCalled, id=bare_call(call.get("id")), message=ident, index=index,
            name=plain(call.get("name")), arguments=arguments_text(call.get("arguments")),
        )  # fmt: skip
    yield from _usage(traces, span, ident)


def _definition(tool: dict[str, Any]) -> dict[str, Any]:
    """Spans flatten what the model was given: a type, and the function in its own object."""
    if isinstance(tool.get("function"), dict):
        return tool
    function = {name: value for name, value in tool.items() if name != "type"}
    return {"type": "function", "function": function}


def _usage(traces: Traces, span: Span, ident: str) -> Iterator[AnyFact]:
    figures = {
        ours: whole_number(span.row.get(native))
        for ours, native in (
            ("prompt", "input_tokens"),
            ("completion", "output_tokens"),
            ("cached", "cached_tokens"),
            ("reasoning", "reasoning_tokens"),
        )
    }
    if any(value is not None for value in figures.values()):
        yield traces.fact(
            span, UsageReported, subject=ident,
            model=span.text("response_model") or span.text("request_model"), **figures,
        )  # fmt: skip


def _tool(traces: Traces, span: Span) -> Iterator[AnyFact]:
    call = bare_call(span.text("tool_call_id"))
    name = span.text("tool_name")
    arguments = span.attributes.get("gen_ai.tool.call.arguments", "")
    result = span.attributes.get("gen_ai.tool.call.result")
    failed = whole_number(span.row.get("status_code")) == _ERROR
    yield traces.fact(span, ToolCalled, id=call, name=name, arguments=arguments, rank=ECHO + 1)
    yield traces.fact(
        span,
        ToolReturned,
        call=call,
        name=name,
        arguments="" if call else arguments,
        text=result if result is not None else span.text("status_message") if failed else None,
        failed=failed or None,
        time=parse_time(span.row.get("end_time_ms")),
        duration_ms=_lasted(span),
    )


def _lasted(span: Span) -> float | None:
    started, ended = span.row.get("start_time_ms"), span.row.get("end_time_ms")
    if isinstance(started, int | float) and isinstance(ended, int | float):
        return float(ended - started)
    return None


READERS = {"invoke_agent": _agent, "chat": _chat, "execute_tool": _tool}
