"""OTLP: conversations as traces, to be opened in a tracing tool. `docs/otlp.md`.

    invoke_agent codex                  a conversation
      chat gpt-5.5                      an answer, its tokens, and what is new before it
      execute_tool exec_command         a call with what came of it
        invoke_agent scout              a sub-agent, with spans of its own

A line is an ExportTraceServiceRequest in OTLP JSON. The ids of traces and spans are made from the id of
the conversation, so that the same conversation is the same trace however often it is written.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from unspool.io.packing import encode_json
from unspool.io.times import parse_time
from unspool.sinks import Family, Options, Piece
from unspool.trajectory import Attachment, Message, ToolCall, Usage
from unspool.views.families import Node, plant

NAME = "otlp"
MANY_FILES = False
FAMILIES = True

LINE_BYTES = 1 << 20
"""A line is closed when it is so long: collectors take requests of some megabytes."""
_INTERNAL, _CLIENT = 1, 3
_FAILED = {"code": 2}
_PROVIDERS = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini", "gcp.gemini"),
    ("grok", "x_ai"),
    ("deepseek", "deepseek"),
    ("mistral", "mistral_ai"),
)
"""How the names of models begin → who makes them."""
_OTHER = "_OTHER"
_USAGE = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "cost_usd": "unspool.usage.cost_usd",
}

Value = dict[str, Any]


def write(family: Family, options: Options) -> Iterator[Piece]:
    root = family.root
    resource = {"service.name": root.source, "service.version": root.agent_version}
    opening = (
        b'{"resourceSpans":[{"resource":' + encode_json({"attributes": _attributes(resource)})
        + b',"scopeSpans":[{"scope":{"name":"unspool"},"spans":['
    )  # fmt: skip
    trace = _digest(root.source, root.conversation_id, "trace")[:32]
    waiting: list[bytes] = []
    size = 0
    for span in _conversation(plant(family.root, family.descendants), trace, ""):
        data = encode_json(span)
        if waiting and size + len(data) > LINE_BYTES:
            yield Piece("", opening + b",".join(waiting) + b"]}]}]}\n")
            waiting, size = [], 0
        waiting.append(data)
        size += len(data)
    yield Piece("", opening + b",".join(waiting) + b"]}]}]}\n")


def _conversation(node: Node, trace: str, parent: str) -> Iterator[Value]:
    """The run of an agent: its span, and all spans below it."""
    trajectory = node.trajectory
    run = _digest(trajectory.source, trajectory.conversation_id, "run")[:16]
    spans = _Run(node, trace, run)
    below = list(spans.tell())
    times = [int(span[name]) for span in below for name in ("startTimeUnixNano", "endTimeUnixNano")]
    start = _nanos(trajectory.started_at) or min(filter(None, times), default=0)
    end = max(_nanos(trajectory.ended_at) or 0, start, *times)
    agent = trajectory.parent.name if trajectory.parent and trajectory.parent.name else ""
    agent = agent or trajectory.agent or trajectory.source
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": spans.provider or _OTHER,
        "gen_ai.agent.name": agent,
        "gen_ai.agent.version": trajectory.agent_version,
        "gen_ai.conversation.id": trajectory.conversation_id,
        "unspool.source": trajectory.source,
        "unspool.title": trajectory.title,
        "unspool.workspace": trajectory.workspace.path if trajectory.workspace else None,
        "unspool.partial": trajectory.partial,
        **_usage(trajectory.usage),
    }
    span = _span(trace, run, parent, f"invoke_agent {agent}", _INTERNAL, start, end, attributes)
    if trajectory.marks:
        span["events"] = []
    for mark in trajectory.marks or ():
        told = {"subject": mark.subject, "data": _json(mark.data) if mark.data else None}
        when = str(_nanos(mark.timestamp) or start)
        event = {"name": f"unspool.{mark.kind}", "timeUnixNano": when}
        span["events"].append({**event, "attributes": _attributes(told)})
    came = trajectory.parent
    if came is not None and came.kind != "subagent":
        origin = (came.source or trajectory.source, came.conversation_id)
        link = {
            "traceId": _digest(*origin, "trace")[:32],
            "spanId": _digest(*origin, "run")[:16],
            "attributes": _attributes({"unspool.link": came.kind}),
        }
        span["links"] = [link]
    yield span
    yield from below


class _Run:
    """The spans below the run of one conversation.

    A chat span holds what is new since the one that it names in `unspool.follows`: with the whole
    history in each, a trace would be as large as the square of the conversation.
    """

    def __init__(self, node: Node, trace: str, run: str) -> None:
        self.trajectory = node.trajectory
        self.trace = trace
        self.run = run
        self.children = node.by_call()
        abandoned = [m for branch in self.trajectory.branches or () for m in branch.messages]
        messages = [*self.trajectory.messages, *abandoned]
        self.abandoned = set(map(id, abandoned))
        self.results = {m.tool_call_id: m for m in messages if m.role == "tool"}
        self.provider = next((p for m in messages if (p := _provider(m.model))), "")
        self.clock = _nanos(self.trajectory.started_at) or 0
        self.told_calls: set[int] = set()
        self.tools = self.trajectory.tool_definitions

    def tell(self) -> Iterator[Value]:
        branches: dict[int, list[tuple[str, list[Message]]]] = {}
        for number, branch in enumerate(self.trajectory.branches or ()):
            branches.setdefault(branch.index, []).append((f"branch:{number}", branch.messages))
        first = self.trajectory.messages[0].segment if self.trajectory.messages else 0
        yield from self._strand("chat", self.trajectory.messages, [], f"segment:{first}", branches)
        for children in self.children.values():  # of calls that nobody saw
            for child in children:
                yield from _conversation(child, self.trace, self.run)

    def _strand(
        self,
        name: str,
        messages: list[Message],
        given: list[Message],
        follows: str,
        branches: dict[int, list[tuple[str, list[Message]]]],
    ) -> Iterator[Value]:
        """Messages one after the other, with the branches that leave them told before they go on."""
        segment = messages[0].segment if messages else 0
        for index, message in enumerate(messages):
            for title, abandoned in branches.get(index, ()):
                yield from self._strand(title, abandoned, [*given], follows, {})
            if message.segment != segment:  # compacted: what follows begins anew
                yield from self._unanswered(f"{name}:{index}", given, follows, index)
                segment, follows, given = message.segment, f"segment:{message.segment}", []
            if message.role != "assistant" or message.copied:
                given.append(message)
                continue
            span = _digest(self.run, name, str(index))[:16]
            yield self._chat(span, given, message, follows, index)
            yield from self._calls([*given, message])
            given, follows = [], span
        for title, abandoned in branches.get(len(messages), ()):
            yield from self._strand(title, abandoned, [*given], follows, {})
        yield from self._unanswered(name, given, follows, len(messages))

    def _unanswered(
        self, name: str, given: list[Message], follows: str, index: int
    ) -> Iterator[Value]:  # fmt: skip
        """The last words of a strand, if nobody answered them."""
        if given:
            span = _digest(self.run, name, "unanswered")[:16]
            yield self._chat(span, given, None, follows, index)
            yield from self._calls(given)

    def _chat(
        self, span: str, given: list[Message], answer: Message | None, follows: str, index: int
    ) -> Value:  # fmt: skip
        start = max(self.clock, *(_nanos(m.timestamp) or 0 for m in given[-1:]), 0)
        self.clock = end = max(start, (_nanos(answer.timestamp) if answer else 0) or 0)
        given = [*given]
        instructions = None
        begins = follows.startswith("segment:")
        if begins and given and given[0].role == "system":
            instructions = [{"type": "text", "content": given.pop(0).content}]
        model = answer.model if answer else None
        compacted = begins and any(
            mark.kind == "compaction" and mark.index <= index
            for mark in self.trajectory.marks or ()
        )
        attributes: Value = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(model) or self.provider or _OTHER,
            "gen_ai.conversation.id": self.trajectory.conversation_id,
            "gen_ai.request.model": model,
            "gen_ai.response.model": model,
            "gen_ai.conversation.compacted": compacted or None,
            "gen_ai.system_instructions": _json(instructions),
            "gen_ai.tool.definitions": _json(self.tools),
            "gen_ai.input.messages": _json([self._message(m) for m in given]),
            "unspool.follows": follows,
        }
        self.tools = None
        failed = False
        if answer is not None:
            spoken = self._message(answer)
            failed = answer.status == "failed" or answer.kind == "error"
            guess = "error" if failed else "tool_call" if answer.tool_calls else "stop"
            spoken["finish_reason"] = answer.stop_reason or guess
            attributes |= {
                "gen_ai.response.id": answer.id,
                "gen_ai.response.finish_reasons": [answer.stop_reason] if answer.stop_reason else None,
                "gen_ai.output.messages": _json([spoken]),
                "error.type": "error" if failed else None,
                **_usage(answer.usage),
            }  # fmt: skip
        name = f"chat {model}" if model else "chat"
        chat_span = _span(self.trace, span, self.run, name, _CLIENT, start, end, attributes)
        if failed:
            chat_span["status"] = _FAILED
        return chat_span

    def _message(self, message: Message) -> Value:
        """The message in the shape of the conventions, with what they have no place for."""
        parts: list[Value] = []
        if message.thinking:
            parts.append({"type": "reasoning", "content": message.thinking})
        if message.role == "tool":
            result = {"id": message.tool_call_id, "response": message.content}
            parts.append({"type": "tool_call_response", **result})
        elif message.content:
            parts.append({"type": "text", "content": message.content})
        parts += map(_attached, message.attachments or ())
        for call in message.tool_calls or ():
            asked = {"id": call.id, "name": call.name, "arguments": _arguments(call.arguments)}
            parts.append({"type": "tool_call", **asked})
        unspool_fields = {
            "kind": message.kind,
            "typed": message.typed,
            "model": message.model if message.copied else None,  # it has no span of its own
            "abandoned": id(message) in self.abandoned or None,
        }
        ours = {name: value for name, value in unspool_fields.items() if value is not None}
        return {"role": message.role, "parts": parts, **({"unspool": ours} if ours else {})}

    def _calls(self, messages: Iterable[Message]) -> Iterator[Value]:
        for message in messages:
            for call in message.tool_calls or ():
                if id(call) not in self.told_calls:
                    self.told_calls.add(id(call))
                    yield from self._call(call)

    def _call(self, call: ToolCall) -> Iterator[Value]:
        result = self.results.get(call.id)
        start = max(_nanos(call.started_at) or 0, self.clock)
        end = _nanos(call.ended_at) or _nanos(result.timestamp if result else None) or 0
        if not end and call.duration_ms:
            end = start + int(call.duration_ms * 1_000_000)
        failed = bool(result and result.is_error) or call.status not in (None, "completed")
        span = _digest(self.run, "call", call.id or str(len(self.told_calls)))[:16]
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.conversation.id": self.trajectory.conversation_id,
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.call.arguments": call.arguments,
            "gen_ai.tool.call.result": result.content if result else None,
            "error.type": (call.status or "failed") if failed else None,
        }
        tool_span = _span(
            self.trace, span, self.run, f"execute_tool {call.name}", _INTERNAL, start, max(start, end),
            attributes,
        )  # fmt: skip
        if failed:
            tool_span["status"] = _FAILED
        yield tool_span
        for child in self.children.pop(call.id, ()):
            yield from _conversation(child, self.trace, span)


def _attached(attachment: Attachment) -> Value:
    modality = "image" if attachment.media_type.startswith("image/") else attachment.kind
    common = {"modality": modality, "mime_type": attachment.media_type or None}
    if attachment.data:
        return {"type": "blob", **common, "content": attachment.data}
    if attachment.uri or attachment.path:
        return {"type": "uri", **common, "uri": attachment.uri or attachment.path}
    return {"type": "file", **common, "file_id": attachment.name or attachment.sha256}


def _arguments(text: str) -> Any:
    """The arguments as a value, where that says exactly what the text says."""
    try:
        value = msgspec.json.decode(text)
        return value if isinstance(value, dict) and encode_json(value).decode() == text else text
    except (msgspec.DecodeError, RecursionError):
        return text


def _usage(usage: Usage | None) -> Value:
    return {theirs: getattr(usage, ours) for ours, theirs in _USAGE.items()} if usage else {}


def _provider(model: str | None) -> str:
    name = (model or "").rpartition("/")[2].lower()
    return next((made_by for beginning, made_by in _PROVIDERS if name.startswith(beginning)), "")


def _span(
    trace: str, span: str, parent: str, name: str, kind: int, start: int, end: int, attributes: Value
) -> Value:  # fmt: skip
    fields = {"traceId": trace, "spanId": span, "parentSpanId": parent, "name": name, "kind": kind}
    if not parent:
        del fields["parentSpanId"]
    times = {"startTimeUnixNano": str(start), "endTimeUnixNano": str(end)}
    return {**fields, **times, "attributes": _attributes(attributes)}


def _attributes(values: Value) -> list[Value]:
    return [
        {"key": name, "value": _typed(value)} for name, value in values.items() if value is not None
    ]


def _typed(value: Any) -> Value:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_typed(one) for one in value]}}
    return {"stringValue": value}


def _json(value: Any) -> str | None:
    """Spans hold structured values as JSON text."""
    return encode_json(value).decode() if value else None


def _nanos(timestamp: str | None) -> int | None:
    time = parse_time(timestamp)
    return time * 1000 if time is not None else None


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
