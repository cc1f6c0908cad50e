"""agent-traces.db: the spans of every agent run, where the setting for it is on.

`invoke_agent` is a turn (nested: a sub-agent), `chat` an engine call with its answer and tokens,
`execute_tool` a call with what came of it. Contents stand in `span_attributes`, cut at 64,000
characters:

    ("gen_ai.output.messages", '[{"role": "assistant", "parts": [{"type": "text", "content": "…"}]}]')
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from unspool.facts import NOBODY, AnyFact, Rank
from unspool.io.databases import open_database
from unspool.io.door import read_json
from unspool.io.origins import Origin, Tally
from unspool.io.times import parse_time
from unspool.io.values import field_of, list_of
from unspool.prompts.shapes import arguments_text
from unspool.sources.copilot_cli.lookup import content_id
from unspool.sources.copilot_cli.texts import plain, whole_number
from unspool.sources.scribe import Scribe
from unspool.sources.vscode_chat.fields import bare_call_id

_ERROR = 2
_DEPTH = 64
_TOKENS = {"prompt": "input", "completion": "output", "cached": "cached", "reasoning": "reasoning"}
_NOISE = frozenset(("execute_hook", "content_event", "embeddings"))


def is_traces(data: bytes, name: str) -> bool:
    return name.startswith("agent-traces") or b"span_attributes" in data


class Span:
    """One span with its attributes, and the one that holds it."""

    def __init__(self, row: dict[str, Any], offset: int) -> None:
        self.row = row
        self.offset = offset
        self.id = self.text("span_id")
        self.attributes: dict[str, str] = {}
        self.parent: Span | None = None

    def text(self, name: str) -> str:
        value = self.row.get(name)
        return "" if value is None else str(value)

    def outwards(self) -> Iterator["Span"]:
        """The span and those that hold it, innermost first."""
        at: Span | None = self
        for _ in range(_DEPTH):
            if at is not None:
                yield at
                at = at.parent

    @property
    def session(self) -> str:
        names = (s.text("chat_session_id") or s.text("conversation_id") for s in self.outwards())
        return next((name for name in names if name), "")

    @property
    def run(self) -> "Span | None":
        """The nested agent run that the span is in, or is; None for the conversation's own."""
        runs = [s for s in self.outwards() if s.text("operation_name") == "invoke_agent"]
        return runs[0] if len(runs) > 1 else None

    @property
    def conversation(self) -> str:
        run = self.run
        return f"{self.session}/{run.caller or run.id}" if run is not None else self.session

    @property
    def caller(self) -> str:
        """The tool call that started a nested run."""
        tools = (s for s in self.outwards() if s.text("operation_name") == "execute_tool")
        return next((bare_call_id(tool.text("tool_call_id")) for tool in tools), "")


def read_traces(origin: Origin, tally: Tally, product: str) -> Iterator[AnyFact]:
    problems = Scribe(NOBODY, origin.path, 0)
    spans: list[Span] = []
    try:
        with open_database(origin.path) as database:
            if database.stale:
                problems.problem("stale-database", "the log beside it is too long to copy")
            spans = _load(database.connection)
    except (sqlite3.Error, OSError) as error:
        problems.problem("unreadable-database", str(error))
    tally.records += len(problems.facts) + len(spans)
    tally.problems += len(problems.facts)
    yield from problems.facts
    for span in spans:
        operation = span.text("operation_name")
        reader = _READERS.get(operation)
        if reader is not None and span.session:
            scribe = Scribe(
                (product, span.conversation), origin.path, span.offset,
                time=parse_time(span.row.get("start_time_ms")), entry=f"trace:{span.id}",
                rank=Rank.ECHO,
            )  # fmt: skip
            reader(span, scribe)
            yield from scribe.facts
        elif operation in _NOISE or reader is not None:
            tally.noise += 1
        else:
            tally.unrecognise(operation or "no name", origin.path, span.offset)


def _load(connection: sqlite3.Connection) -> list[Span]:
    cursor = connection.execute("SELECT * FROM spans ORDER BY start_time_ms, rowid")
    names = [column[0] for column in cursor.description]
    spans = [
        Span(dict(zip(names, row, strict=True)), number) for number, row in enumerate(cursor, 1)
    ]
    by_id = {span.id: span for span in spans}
    for span in spans:
        span.parent = by_id.get(span.text("parent_span_id"))
    for ident, name, value in connection.execute("SELECT span_id, key, value FROM span_attributes"):
        if str(ident) in by_id:
            by_id[str(ident)].attributes[str(name)] = plain(value)
    return spans


def _agent(span: Span, scribe: Scribe) -> None:
    """A turn: what was asked. Of a nested run: who started it."""
    asked = span.attributes.get("copilot_chat.user_request", "")
    nested = span.run is not None
    scribe.note("session_id", span.session, Rank.ECHO)
    if nested:
        parent = {
            "conversation_id": span.parent.conversation if span.parent else span.session,
            "tool_call_id": span.caller or None,
            "name": span.text("agent_name") or None,
        }
        scribe.note("parent", parent, Rank.ECHO)
    outside = span.attributes.get("copilot_chat.parent_chat_session_id", "")
    if outside and outside != span.session:
        scribe.note("parent", {"conversation_id": outside}, Rank.ECHO)
    if asked:
        typed = None if nested else asked
        scribe.message(id=f"trace:{span.id}", role="user", text=asked, typed=typed)
    elif not nested:
        scribe.note("agent", span.text("agent_name") or None, Rank.ECHO)


def _chat(span: Span, scribe: Scribe) -> None:
    """An engine call: the answer, its model and tokens; the system prompt and tools it saw."""
    prompt = span.attributes.get("gen_ai.system_instructions", "")
    if prompt:
        text = said_in([{"parts": _decoded(prompt)}]).text or prompt
        ident = f"system:{content_id(text)[:16]}"
        # Every call repeats it; it stands before the first.
        scribe.message(
            id=ident, role="system", text=text, entry=f"trace:{ident}", offset=0,
            number=span.offset, time=None,
        )  # fmt: skip
    tools = _decoded(span.attributes.get("gen_ai.tool.definitions"))
    if isinstance(tools, list) and tools:
        definitions = [_definition(tool) for tool in tools if isinstance(tool, dict)]
        scribe.note("tool_definitions", definitions, Rank.ECHO)
    said = said_in(span.attributes.get("gen_ai.output.messages"))
    ident = f"trace:{span.id}"
    model = span.text("response_model") or span.text("request_model")
    thinking = said.thinking or span.attributes.get("copilot_chat.reasoning_content", "")
    if said.text or said.calls or thinking:
        scribe.message(
            id=ident, role="assistant", text=said.text, thinking=thinking, model=model,
            time=parse_time(span.row.get("end_time_ms")),
        )  # fmt: skip
    for index, call in enumerate(said.calls):
        scribe.call(
            id=bare_call_id(plain(call.get("id"))), message=ident, index=index,
            name=plain(call.get("name")), arguments=arguments_text(call.get("arguments")),
        )  # fmt: skip
    usage: dict[str, Any] = {
        ours: whole_number(span.row.get(f"{theirs}_tokens")) for ours, theirs in _TOKENS.items()
    }
    if any(count is not None for count in usage.values()):
        scribe.usage(subject=ident, model=model, **usage)


def _definition(tool: dict[str, Any]) -> dict[str, Any]:
    """Spans flatten what the model was given: a type, and the function in its own object."""
    if isinstance(tool.get("function"), dict):
        return tool
    function = {name: value for name, value in tool.items() if name != "type"}
    return {"type": "function", "function": function}


def _tool(span: Span, scribe: Scribe) -> None:
    call = bare_call_id(span.text("tool_call_id"))
    name = span.text("tool_name")
    arguments = span.attributes.get("gen_ai.tool.call.arguments", "")
    result = span.attributes.get("gen_ai.tool.call.result")
    failed = whole_number(span.row.get("status_code")) == _ERROR
    if result is None and failed:
        result = span.text("status_message")
    started, ended = span.row.get("start_time_ms"), span.row.get("end_time_ms")
    took = None
    if isinstance(started, int | float) and isinstance(ended, int | float):
        took = float(ended - started)
    scribe.call(id=call, name=name, arguments=arguments, rank=Rank.ECHO + 1)
    scribe.returned(
        call=call, name=name, arguments="" if call else arguments, text=result,
        failed=failed or None, time=parse_time(ended), duration_ms=took,
    )  # fmt: skip


_READERS: dict[str, Callable[[Span, Scribe], None]] = {
    "invoke_agent": _agent,
    "chat": _chat,
    "execute_tool": _tool,
}

_CUT = "...[truncated, original "


class Said(NamedTuple):
    """What one engine call answered."""

    text: str
    thinking: str
    calls: list[dict[str, Any]]


def _decoded(value: Any) -> Any:
    """JSON text that may be cut off, as far as it goes."""
    if not isinstance(value, str) or not value:
        return value or None
    text = value.partition(_CUT)[0]
    if text[:1] not in ("[", "{"):
        return value
    return next(iter(read_json(text.encode("utf-8", "replace"), recover=True).values), None)


def said_in(value: Any) -> Said:
    """The assistant's words, reasoning and calls in a list of output messages: a role and typed parts,
    as OpenTelemetry has them."""
    messages = _decoded(value)
    if isinstance(messages, str):
        return Said(messages, "", [])
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for message in messages if isinstance(messages, list) else [messages]:
        if not isinstance(message, dict):
            continue
        parts = message.get("parts")
        if parts is None:
            parts = [{"type": "text", "content": message.get("content")}]
        for part in list_of(parts):
            kind = field_of(part, "type")
            if kind == "text":
                texts.append(plain(part.get("content", part.get("text"))))
            elif kind in ("reasoning", "thinking"):
                thoughts.append(plain(part.get("content", part.get("text"))))
            elif kind == "tool_call":
                calls.append(part)
    return Said("\n".join(t for t in texts if t), "\n\n".join(t for t in thoughts if t), calls)
