"""Replay: entries of Copilot Chat's request log become the trajectories that its logger built.

Three kinds of entry (0 element, 1 request, 2 tool call), each under a token that names the session.
The rules are the original's; what it lost is kept: the system prompt, failed and cancelled
requests, and steps whose tool results never all arrived stand at their place, ids without gaps.

    {"kind": 1, "id": "e1", "token": {"label": "Fix it", "chatSessionId": "…"}, "entry": {
        "type": "ChatMLSuccess", "chatEndpoint": {"model": "…"}, "chatParams": {"messages": […]},
        "deltas": [{"copilotToolCalls": [{"id": "c1", …}]}], "result": {"value": ["…"]}, …}}
    {"kind": 2, "id": "c1", "token": {…}, "name": "read_file", "args": "{…}", "response": {…}}
"""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, dicts_of, field_of, list_of, parse_object, str_of
from unspool.record.identity import generated_id, subagent_file
from unspool.sinks.atif import model
from unspool.sinks.atif.steps import total
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
    for entry in map(dict, entries):
        token, ident = entry.get("token"), str_of(entry.get("id"))
        if not isinstance(token, dict) or ident in seen:
            continue
        if ident:
            seen.add(ident)
        invocation = str_of(token.get("subAgentInvocationId"))
        name = invocation or str_of(token.get("chatSessionId"))
        if not name:
            # The original kept one id per token object; in JSON, equal tokens are one token.
            key = msgspec.json.encode(token, order="deterministic")
            moment = parse_time(dict_of(entry.get("entry")).get("startTime") or entry.get("time"))
            name = generated.setdefault(key, generated_id(str_of(token.get("label")), moment))
        session = sessions.setdefault(name, Session(name))
        session.agent = SUBAGENT_NAME if invocation else AGENT_NAME
        if entry.get("kind") == _TOOL_CALL:
            session.take_tool_call(entry, ident)
        elif entry.get("kind") == _REQUEST:
            session.take_request(dict_of(entry.get("entry")))
    return {name: session.document() for name, session in sessions.items()}


class Session:
    """The steps of one session in the order in which they began."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.agent = ""
        self.tools: list[Object] = []
        self.steps: list[model.Step] = []
        self.waiting: list[tuple[model.Step, list[Object]]] = []
        """Steps whose announced tool calls have not all been logged."""
        self.run: set[str] = set()
        """Ids of the tool calls that were logged."""
        self.last_user = ""
        self.last_system: list[str] = []

    def take_request(self, request: Object) -> None:
        kind, params = request.get("type"), dict_of(request.get("chatParams"))
        tools: list[Object] = []
        for tool in dicts_of(dict_of(params.get("body")).get("tools")):
            function = dict_of(tool.get("function"))
            if tool.get("type") == "function" and str_of(function.get("name")):
                description = str_of(function.get("description"))
                definition = {"name": function["name"], "description": description}
                if function.get("parameters") is not None:
                    definition["parameters"] = function["parameters"]
                tools.append({"type": "function", "function": definition})
        self.tools = tools or self.tools
        if request.get("isConversationRequest") is False or (
            kind != "ChatMLSuccess" and kind not in _FAILURES
        ):
            return
        stamp = format_time(parse_time(request.get("startTime")))
        # The system prompt where it changed, and the last user message unless it is the last one's.
        messages = [(sent.get("role"), _words(sent)) for sent in dicts_of(params.get("messages"))]
        system = [words for role, words in messages if role == SYSTEM and words]
        for prompt in system:
            if prompt not in self.last_system:
                self._add(model.Step(source="system", message=prompt), stamp)
        self.last_system = system or self.last_system
        words = next((words for role, words in reversed(messages) if role == USER), "")
        if words and words != self.last_user:
            self.last_user = words
            self._add(model.Step(source="user", message=words), stamp)
        if kind in _FAILURES:
            self._add(failure_step(request, _FAILURES[kind]), stamp)
            return
        step = agent_step(request)
        self._add(step, stamp)
        deltas = dicts_of(request.get("deltas"))
        announced = [call for delta in deltas for call in dicts_of(delta.get("copilotToolCalls"))]
        if announced:
            self.waiting.append((step, announced))

    def take_tool_call(self, entry: Object, ident: str) -> None:
        self.run.add(ident)
        if self.waiting:
            step, announced = self.waiting[0]
            add_call(step, entry)
            if len(step.tool_calls or ()) >= len(announced):
                self.waiting.pop(0)
            return
        reasoning = _joined(field_of(entry.get("thinking"), "text"), "\n")
        step = model.Step(source="agent", reasoning_content=reasoning or None)
        add_call(step, entry)
        # The original stamped such a step with the moment of conversion; the entry has its own.
        self._add(step, format_time(parse_time(entry.get("time"))))

    def _add(self, step: model.Step, stamp: str | None) -> None:
        step.step_id, step.timestamp = len(self.steps) + 1, stamp
        self.steps.append(step)

    def document(self) -> Object:
        for step, announced in self.waiting:
            # The calls that the model asked for and nobody logged, without results.
            calls = step.tool_calls = step.tool_calls or []
            missing = [call for call in announced if str_of(call.get("id")) not in self.run]
            for call in missing[: len(announced) - len(calls)]:
                ident = str_of(call.get("id")) or f"call-{len(calls) + 1}"
                if all(ident != other.tool_call_id for other in calls):
                    calls.append(tool_call(ident, call.get("name"), call.get("arguments")))
        models = (step.model_name for step in self.steps if step.model_name)
        document = model.Document(
            schema_version=SCHEMA_VERSION,
            session_id=self.name,
            agent=model.Agent(self.agent, AGENT_VERSION, next(models, None), self.tools or None),
            steps=self.steps,
        )
        if any(step.metrics or step.tool_calls for step in self.steps):
            document.final_metrics = total(self.steps, None, None)
        built: Object = msgspec.to_builtins(document)
        return built


def agent_step(request: Object) -> model.Step:
    deltas = dicts_of(request.get("deltas"))
    thoughts = (field_of(delta.get("thinking"), "text") for delta in deltas)
    step = model.Step(
        source="agent",
        message=_joined(dict_of(request.get("result")).get("value"), "\n"),
        model_name=_model(request) or None,
        reasoning_content="".join(_joined(thought, "") for thought in thoughts) or None,
    )
    usage = request.get("usage")
    if isinstance(usage, dict):
        start, end = parse_time(request.get("startTime")), parse_time(request.get("endTime"))
        counts = {
            "prompt_tokens": usage.get("prompt_tokens"),
            "completion_tokens": usage.get("completion_tokens"),
            "cached_tokens": dict_of(usage.get("prompt_tokens_details")).get("cached_tokens"),
        }
        first = request.get("timeToFirstToken")
        extra = {
            "time_to_first_token_ms": first if type(first) in (int, float) else None,
            "duration_ms": None if start is None or end is None else (end - start) // 1000,
        }
        known: Object = {name: n for name, n in counts.items() if type(n) is int and n >= 0}
        step.metrics = model.Metrics(
            **known,
            extra={name: value for name, value in extra.items() if value is not None} or None,
        )
    return step


def failure_step(request: Object, status: str) -> model.Step:
    result = dict_of(request.get("result"))
    reason = str_of(result.get("reason"))
    extra: Object = {"status": status, "request_type": request["type"]}
    if result:
        extra["result"] = result
    if name := _model(request):
        extra["model_name"] = name
    message = f"The request {'failed' if status == 'failed' else 'was cancelled'}"
    message = f"{message}: {reason}" if reason else f"{message}."
    return model.Step(source="system", message=message, extra=extra)


def _model(request: Object) -> str:
    return str_of(field_of(request.get("chatEndpoint"), "model"))


def _words(sent: Object) -> str:
    """The text parts of a message."""
    content = sent.get("content")
    parts = [part for part in dicts_of(content) if part.get("type") == _TEXT_PART]
    texts = [str_of(part.get("text")) for part in parts]
    return (str_of(content) or "\n".join(text for text in texts if text)).strip(_SPACES)


def tool_call(ident: str, name: Any, arguments: Any) -> model.ToolCall:
    """ATIF takes an object only: text that is none goes under `raw`, and so does a list."""
    if isinstance(arguments, list):
        arguments = _json_text(arguments)
    if isinstance(arguments, str):
        value = parse_object(arguments)
        arguments = {"raw": arguments} if value is None else value
    return model.ToolCall(ident, str_of(name) or model.NAMELESS, dict_of(arguments))


def add_call(step: model.Step, entry: Object) -> None:
    """The executed call and what it gave, with the way to the sub-agent that it started."""
    calls = step.tool_calls = step.tool_calls or []
    ident, name = str_of(entry.get("id")) or f"call-{len(calls) + 1}", str_of(entry.get("name"))
    call = tool_call(ident, name, entry.get("args"))
    calls.append(call)
    response = entry.get("response")
    content = response.get("content") if isinstance(response, dict) else response
    if not isinstance(content, str):
        texts = map(_part_text, list_of(content))
        content = "\n".join(text for text in texts if text is not None)
    result = model.Result(source_call_id=ident, content=content)
    metadata = dict_of(entry.get("toolMetadata"))
    child = str_of(metadata.get("subAgentInvocationId"))
    if child and name in _SUBAGENT_TOOLS:
        names = (metadata.get("agentName"), metadata.get("description"),
                 call.arguments.get("description"), name)  # fmt: skip
        path = subagent_file(next(text for text in map(str_of, names) if text.strip()), child)
        result.subagent_trajectory_ref = [model.Ref(session_id=child, trajectory_path=path)]
    step.observation = step.observation or model.Observation()
    step.observation.results.append(result)


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
