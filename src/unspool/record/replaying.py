"""Replay: entries of Copilot Chat's request log become the trajectories that its logger built.

Three kinds of entry (0 element, 1 request, 2 tool call), each under a token that names the session.
The rules are the original's; what it lost is kept: the system prompt, failed and cancelled
requests, and steps whose tool results never all arrived stand at their place, ids without gaps.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from unspool.io.structs import Shape
from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, field_of, list_of, parse_object, str_of
from unspool.record.identity import generated_id, subagent_file
from unspool.sources.vscode_chat.attachments import from_typed_data

Object = dict[str, Any]

SYSTEM, USER = 0, 1
_TEXT_PART = 1
_REQUEST, _TOOL_CALL = 1, 2
_SUBAGENT_TOOLS = ("runSubagent", "search_subagent")
_FAILURES = {"ChatMLFailure": "failed", "ChatMLCancelation": "cancelled"}
_SPACES = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript's trim() takes off; Python's strip() takes off others."""


class Token(msgspec.Struct):
    label: str = ""
    chatSessionId: str = ""
    subAgentInvocationId: str = ""


class Endpoint(msgspec.Struct):
    model: str = ""


class Part(msgspec.Struct):
    type: int = -1
    text: str = ""


class Sent(msgspec.Struct):
    role: int = -1
    content: str | list[Part] = ""

    @property
    def words(self) -> str:
        if isinstance(self.content, str):
            return self.content.strip(_SPACES)
        texts = [part.text for part in self.content if part.type == _TEXT_PART]
        return "\n".join(text for text in texts if text).strip(_SPACES)


class Function(msgspec.Struct, omit_defaults=True):
    name: str = ""
    # A factory, so that an empty one is written, too.
    description: str = msgspec.field(default_factory=str)
    parameters: Any = None


class Tool(msgspec.Struct):
    type: str = ""
    function: Function | None = None


class Body(msgspec.Struct):
    tools: list[Tool] = []


class Params(msgspec.Struct):
    messages: list[Sent] = []
    body: Body = msgspec.field(default_factory=Body)


class Thinking(msgspec.Struct):
    text: str | list[str] = ""


class Announced(msgspec.Struct):
    """A call that the model asked for."""

    id: str = ""
    name: str = ""
    arguments: Any = None


class Delta(msgspec.Struct):
    thinking: Thinking | None = None
    copilotToolCalls: list[Announced] = []


class Details(msgspec.Struct):
    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Details = msgspec.field(default_factory=Details)


class Request(msgspec.Struct):
    type: str = ""
    chatEndpoint: Endpoint = msgspec.field(default_factory=Endpoint)
    chatParams: Params = msgspec.field(default_factory=Params)
    deltas: list[Delta] = []
    result: Object = {}
    usage: Usage | None = None
    startTime: Any = None
    endTime: Any = None
    timeToFirstToken: int | float | None = None
    isConversationRequest: bool = True


class Metadata(msgspec.Struct):
    subAgentInvocationId: str = ""
    agentName: str = ""
    description: str = ""


class Entry(msgspec.Struct):
    """One entry of the log; a request has `entry`, a tool call the fields behind it."""

    kind: int = -1
    id: str = ""
    token: Token | None = None
    entry: Request | None = None
    name: str = ""
    args: Any = None
    response: Any = None
    thinking: Thinking | None = None
    time: Any = None
    toolMetadata: Metadata = msgspec.field(default_factory=Metadata)


_ENTRY = Shape(Entry)

SCHEMA_VERSION = "ATIF-v1.5"
AGENT_NAME = "GitHub Copilot Chat"
SUBAGENT_NAME = "subagent"
AGENT_VERSION = "1.0.0"


def replay(entries: Iterable[Mapping[str, Any]]) -> dict[str, Object]:
    """Session id → its trajectory as an ATIF v1.5 document, in the order of first appearance.

    A session that only non-conversation requests name has a document without steps, as the original
    had; ATIF asks for one step at least, so such a document is not one to write to a file.
    """
    sessions: dict[str, Session] = {}
    seen: set[str] = set()
    generated: dict[bytes, str] = {}
    for given in entries:
        entry = _ENTRY.convert(dict(given))
        token = entry.token
        if token is None or (entry.id and entry.id in seen):
            continue
        seen.add(entry.id)
        name = token.subAgentInvocationId or token.chatSessionId
        if not name:
            # The original kept one id per token object; in JSON, equal tokens are one token.
            key = msgspec.json.encode(given["token"], order="deterministic")
            moment = parse_time(entry.entry.startTime if entry.entry else entry.time)
            generated.setdefault(key, generated_id(token.label, moment))
            name = generated[key]
        sessions.setdefault(name, Session(name)).take(entry, bool(token.subAgentInvocationId))
    return {name: session.document() for name, session in sessions.items()}


class Session:
    """The steps of one session in the order in which they began."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.agent = ""
        self.tools: list[Object] = []
        self.steps: list[Object] = []
        self.waiting: list[tuple[Object, list[Announced]]] = []
        """Steps whose announced tool calls have not all been logged."""
        self.run: set[str] = set()
        """Ids of the tool calls that were logged."""
        self.last_user = ""
        self.last_system: list[str] = []

    def take(self, entry: Entry, is_subagent: bool) -> None:
        self.agent = SUBAGENT_NAME if is_subagent else AGENT_NAME
        if entry.kind == _TOOL_CALL:
            self._take_tool_call(entry)
        elif entry.kind == _REQUEST and entry.entry is not None:
            self._take_request(entry.entry)

    def _take_request(self, request: Request) -> None:
        tools = [
            {"type": "function", "function": msgspec.to_builtins(tool.function)}
            for tool in request.chatParams.body.tools
            if tool.type == "function" and tool.function is not None and tool.function.name
        ]
        self.tools = tools or self.tools
        is_known = request.type == "ChatMLSuccess" or request.type in _FAILURES
        if not request.isConversationRequest or not is_known:
            return
        stamp = format_time(parse_time(request.startTime))
        # The system prompt where it changed, and the last user message unless it is the last one's.
        messages = request.chatParams.messages
        system = [sent.words for sent in messages if sent.role == SYSTEM and sent.words]
        for prompt in system:
            if prompt not in self.last_system:
                self._add({"source": "system", "message": prompt}, stamp)
        self.last_system = system or self.last_system
        words = next((sent.words for sent in reversed(messages) if sent.role == USER), "")
        if words and words != self.last_user:
            self.last_user = words
            self._add({"source": "user", "message": words}, stamp)
        if request.type in _FAILURES:
            self._add(failure_step(request, _FAILURES[request.type]), stamp)
            return
        step = self._add(agent_step(request), stamp)
        announced = [call for delta in request.deltas for call in delta.copilotToolCalls]
        if announced:
            self.waiting.append((step, announced))

    def _take_tool_call(self, entry: Entry) -> None:
        self.run.add(entry.id)
        if self.waiting:
            step, announced = self.waiting[0]
            add_call(step, entry)
            if len(step["tool_calls"]) >= len(announced):
                self.waiting.pop(0)
            return
        step = {"source": "agent", "message": ""}
        if entry.thinking is not None and (reasoning := _joined(entry.thinking.text, "\n")):
            step["reasoning_content"] = reasoning
        # The original stamped such a step with the moment of conversion; the entry has its own.
        add_call(self._add(step, format_time(parse_time(entry.time))), entry)

    def _add(self, step: Object, stamp: str | None) -> Object:
        number = len(self.steps) + 1
        self.steps.append({"step_id": number, **({"timestamp": stamp} if stamp else {}), **step})
        return self.steps[-1]

    def document(self) -> Object:
        for step, announced in self.waiting:
            # The calls that the model asked for and nobody logged, without results.
            calls = step.setdefault("tool_calls", [])
            missing = [call for call in announced if call.id not in self.run]
            for call in missing[: len(announced) - len(calls)]:
                ident = call.id or f"call-{len(calls) + 1}"
                if all(ident != other["tool_call_id"] for other in calls):
                    calls.append(tool_call(ident, call.name, call.arguments))
        agent: Object = {"name": self.agent, "version": AGENT_VERSION}
        if self.tools:
            agent["tool_definitions"] = self.tools
        models = [step["model_name"] for step in self.steps if "model_name" in step]
        if models:
            agent["model_name"] = models[0]
        document: Object = {
            "schema_version": SCHEMA_VERSION,
            "session_id": self.name,
            "agent": agent,
            "steps": self.steps,
        }
        totals = final_metrics(self.steps)
        return {**document, "final_metrics": totals} if totals else document


def agent_step(request: Request) -> Object:
    step: Object = {"source": "agent", "message": _joined(request.result.get("value"), "\n")}
    if request.chatEndpoint.model:
        step["model_name"] = request.chatEndpoint.model
    thinking = [_joined(d.thinking.text, "") for d in request.deltas if d.thinking is not None]
    if any(thinking):
        step["reasoning_content"] = "".join(thinking)
    usage = request.usage
    if usage is not None:
        start, end = parse_time(request.startTime), parse_time(request.endTime)
        counts = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.prompt_tokens_details.cached_tokens,
        }
        extra = {
            "time_to_first_token_ms": request.timeToFirstToken,
            "duration_ms": None if start is None or end is None else (end - start) // 1000,
        }
        metrics: Object = {
            n: value for n, value in counts.items() if value is not None and value >= 0
        }
        if more := {name: value for name, value in extra.items() if value is not None}:
            metrics["extra"] = more
        step["metrics"] = metrics
    return step


def failure_step(request: Request, status: str) -> Object:
    reason = str_of(request.result.get("reason"))
    extra: Object = {"status": status, "request_type": request.type}
    if request.result:
        extra["result"] = request.result
    if request.chatEndpoint.model:
        extra["model_name"] = request.chatEndpoint.model
    message = f"The request {'failed' if status == 'failed' else 'was cancelled'}"
    message = f"{message}: {reason}" if reason else f"{message}."
    return {"source": "system", "message": message, "extra": extra}


def final_metrics(steps: list[Object]) -> Object | None:
    """Sums of what occurred; nothing where no step has metrics or calls."""
    reports = [step["metrics"] for step in steps if "metrics" in step]
    calls = sum(len(step.get("tool_calls", ())) for step in steps)
    if not reports and not calls:
        return None
    totals: Object = {}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        values = [report[name] for report in reports if name in report]
        if values:
            totals[f"total_{name}"] = sum(values)
    totals["total_steps"] = len(steps)
    return {**totals, "extra": {"total_tool_calls": calls}} if calls else totals


def tool_call(ident: str, name: str, arguments: Any) -> Object:
    """ATIF takes an object only: text that is none goes under `raw`, and so does a list."""
    if isinstance(arguments, list):
        arguments = _json_text(arguments)
    if isinstance(arguments, str):
        value = parse_object(arguments)
        arguments = {"raw": arguments} if value is None else value
    named = {"tool_call_id": ident, "function_name": name or "unknown"}
    return {**named, "arguments": dict_of(arguments)}


def add_call(step: Object, entry: Entry) -> None:
    """The executed call and what it gave, with the way to the sub-agent that it started."""
    calls = step.setdefault("tool_calls", [])
    ident = entry.id or f"call-{len(calls) + 1}"
    call = tool_call(ident, entry.name, entry.args)
    calls.append(call)
    response = entry.response
    content = response.get("content") if isinstance(response, dict) else response
    if not isinstance(content, str):
        texts = map(_part_text, list_of(content))
        content = "\n".join(text for text in texts if text is not None)
    result: Object = {"source_call_id": ident, "content": content}
    metadata = entry.toolMetadata
    if (child := metadata.subAgentInvocationId) and entry.name in _SUBAGENT_TOOLS:
        described = str_of(call["arguments"].get("description"))
        names = (metadata.agentName, metadata.description, described, entry.name)
        path = subagent_file(next(name for name in names if name.strip()), child)
        ref = {"session_id": child, "trajectory_path": path}
        result["subagent_trajectory_ref"] = [ref]
    step.setdefault("observation", {"results": []})["results"].append(result)


def _joined(value: Any, glue: str) -> str:
    return glue.join(map(str_of, value)) if isinstance(value, list) else str_of(value)


def _part_text(part: Any) -> str | None:
    """A content part of a logged tool response as text."""
    if not isinstance(part, dict):
        return part if isinstance(part, str) else None
    value = part.get("value")
    if "data" in part and ("mimeType" in part or "value" not in part):
        # An image as a data URI, anything else as the text that its bytes are.
        mime = str_of(part.get("mimeType"))
        attachment = from_typed_data(mime, part["data"])
        data = attachment.data if attachment is not None else ""
        if mime.startswith("image/"):
            return f"data:{mime};base64,{data}"
        return base64.b64decode(data).decode("utf-8", "replace")
    if isinstance(value, str) or "value" not in part:
        return value
    tree = field_of(value, "node")
    return (
        _render(tree).strip() if isinstance(field_of(tree, "children"), list) else _json_text(value)
    )


def _render(node: Any) -> str:
    """A prompt tree as its text, with the line breaks that its text nodes ask for."""
    text = field_of(node, "text")
    if isinstance(text, str):
        return f"\n{text}" if node.get("lineBreakBefore") else text
    return "".join(map(_render, list_of(field_of(node, "children"))))


def _json_text(value: Any) -> str:
    """JSON over lines, as JavaScript writes it."""
    return json.dumps(value, indent=2, ensure_ascii=False)
