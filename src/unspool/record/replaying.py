"""Replay: entries of Copilot Chat's request log become the trajectories that its logger built.

Three kinds of entry (0 element, 1 request, 2 tool call), each under a token that names the session.
The rules are the original's; what it lost is kept: the system prompt, failed and cancelled
requests, and steps whose tool results never all arrived stand at their place, ids without gaps.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, dicts_of, field_of, list_of, parse_object
from unspool.prompts.shapes import text as to_text
from unspool.record.identity import choose_session_id, subagent_file

Object = dict[str, Any]

SYSTEM, USER = 0, 1
_IMAGE_PART, _TEXT_PART = 0, 1
_SUBAGENT_TOOLS = ("runSubagent", "search_subagent")
_SPACES = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript's trim() takes off; Python's strip() takes off others."""


def agent_step(request: Object) -> Object:
    value = field_of(request.get("result"), "value")
    step: Object = {"source": "agent", "message": joined(value, "\n")}
    endpoint = request.get("chatEndpoint")
    if isinstance(endpoint, dict) and endpoint.get("model"):
        step["model_name"] = to_text(endpoint["model"])
    thinking = [d["thinking"] for d in dicts_of(request.get("deltas")) if d.get("thinking")]
    if thinking:
        texts = (t.get("text") if isinstance(t, dict) else t for t in thinking)
        step["reasoning_content"] = "".join(joined(text, "") for text in texts)
    usage = request.get("usage")
    if isinstance(usage, dict):
        start, end = parse_time(request.get("startTime")), parse_time(request.get("endTime"))
        duration = (end - start) // 1000 if start is not None and end is not None else None
        reported = {
            "prompt_tokens": usage.get("prompt_tokens"),
            "completion_tokens": usage.get("completion_tokens"),
            "cached_tokens": field_of(usage.get("prompt_tokens_details"), "cached_tokens"),
        }
        extra = {"time_to_first_token_ms": request.get("timeToFirstToken"), "duration_ms": duration}
        counts = {
            name: value
            for name, value in reported.items()
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0
        }
        more = {name: value for name, value in extra.items() if value is not None}
        step["metrics"] = {**counts, "extra": more} if more else counts
    return step


def failure_step(request: Object, status: str) -> Object:
    result = request.get("result")
    reason = to_text(result.get("reason")) if isinstance(result, dict) else ""
    extra: Object = {"status": status, "request_type": request.get("type")}
    if isinstance(result, dict):
        extra["result"] = result
    endpoint = request.get("chatEndpoint")
    if isinstance(endpoint, dict) and endpoint.get("model"):
        extra["model_name"] = endpoint["model"]
    message = f"The request {'failed' if status == 'failed' else 'was cancelled'}"
    return {
        "source": "system",
        "message": f"{message}: {reason}" if reason else f"{message}.",
        "extra": extra,
    }


def final_metrics(steps: list[Object]) -> Object | None:
    """Sums of what occurred; nothing where no step has metrics or calls."""
    reports = [step["metrics"] for step in steps if "metrics" in step]
    calls = sum(len(step.get("tool_calls", ())) for step in steps)
    if not reports and not calls:
        return None
    totals: Object = {}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"):
        values = [report[name] for report in reports if name in report]
        if values:
            totals[f"total_{name}"] = sum(values)
    totals["total_steps"] = len(steps)
    return {**totals, "extra": {"total_tool_calls": calls}} if calls else totals


def tool_call(ident: str, name: Any, arguments: Any) -> Object:
    return {
        "tool_call_id": ident,
        "function_name": to_text(name) or "unknown",
        "arguments": parse_arguments(arguments),
    }


def parse_arguments(arguments: Any) -> Object:
    """ATIF takes an object only: text that is none goes under `raw`, and so does a list."""
    if isinstance(arguments, dict):
        return arguments
    if isinstance(arguments, list):
        return {"raw": json_text(arguments)}
    if not isinstance(arguments, str):
        return {}
    value = parse_object(arguments)
    return {"raw": arguments} if value is None else value


def add_call(step: Object, entry: Mapping[str, Any]) -> None:
    """The executed call and what it gave, with the way to the sub-agent that it started."""
    calls = step.setdefault("tool_calls", [])
    ident = to_text(entry.get("id")) or f"call-{len(calls) + 1}"
    call = tool_call(ident, entry.get("name"), entry.get("args"))
    calls.append(call)
    response = entry.get("response")
    content = response.get("content") if isinstance(response, dict) else response
    if not isinstance(content, str):
        texts = map(_part_text, list_of(content))
        content = "\n".join(text for text in texts if text is not None)
    result: Object = {"source_call_id": ident, "content": content}
    metadata: Object = dict_of(entry.get("toolMetadata"))
    child = to_text(metadata.get("subAgentInvocationId"))
    if child and entry.get("name") in _SUBAGENT_TOOLS:
        names = (
            metadata.get("agentName"),
            metadata.get("description"),
            call["arguments"].get("description"),
            entry.get("name"),
        )
        name = next(n for n in names if isinstance(n, str) and n.strip())
        ref = {"session_id": child, "trajectory_path": subagent_file(name, child)}
        result["subagent_trajectory_ref"] = [ref]
    step.setdefault("observation", {"results": []})["results"].append(result)


def tool_definitions(request: Object) -> list[Object]:
    tools = field_of(field_of(request.get("chatParams"), "body"), "tools")
    definitions: list[Object] = []
    for tool in list_of(tools):
        function = field_of(tool, "function")
        if not isinstance(function, dict) or tool.get("type") != "function":
            continue
        if isinstance(function.get("name"), str):
            kept: Object = {
                "name": function["name"],
                "description": to_text(function.get("description")),
            }
            if function.get("parameters") is not None:
                kept["parameters"] = function["parameters"]
            definitions.append({"type": "function", "function": kept})
    return definitions


def joined(value: Any, glue: str) -> str:
    return glue.join(to_text(v) for v in value) if isinstance(value, list) else to_text(value)


def words_of(message: Object) -> str:
    """The text parts of a message, trimmed."""
    content = message.get("content")
    if isinstance(content, str):
        return content.strip(_SPACES)
    texts = [p.get("text") for p in dicts_of(content) if p.get("type") == _TEXT_PART]
    return "\n".join(t for t in texts if isinstance(t, str) and t).strip(_SPACES)


def images_of(message: Object) -> list[Object]:
    """What is known of the images of a message: their address, or the hash of their data."""
    images: list[Object] = []
    for part in dicts_of(message.get("content")):
        if part.get("type") != _IMAGE_PART:
            continue
        image_url = part.get("imageUrl")
        url = to_text(image_url.get("url")) if isinstance(image_url, dict) else to_text(image_url)
        if url.startswith("data:"):
            media, _, data = url[5:].partition(",")
            digest = hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()
            images.append({"media_type": media.partition(";")[0], "sha256_of_base64": digest})
        elif url:
            images.append({"url": url})
    return images


def _part_text(part: Any) -> str | None:
    """A content part of a logged tool response as text."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return None
    if "data" in part and ("mimeType" in part or "value" not in part):
        # An image as a data URI, anything else as the text that its bytes are.
        mime = to_text(part.get("mimeType"))
        data = _bytes(part["data"])
        if mime.startswith("image/"):
            return f"data:{mime};base64,{base64.b64encode(data).decode()}"
        return data.decode("utf-8", "replace")
    if "value" not in part:
        return None
    value = part["value"]
    if isinstance(value, str):
        return value
    tree = field_of(value, "node")
    if isinstance(tree, dict) and isinstance(tree.get("children"), list):
        return _render(tree).strip()
    return json_text(value)


def _bytes(data: Any) -> bytes:
    """Bytes however JSON wrote them: a list, an object by index, Node's buffer, base64."""
    if isinstance(data, bytes | bytearray):
        return bytes(data)
    if isinstance(data, dict) and isinstance(data.get("data"), list):
        data = data["data"]
    elif isinstance(data, dict):
        data = [data[key] for key in sorted((k for k in data if k.isdigit()), key=int)]
    if isinstance(data, list):
        return bytes(n & 0xFF for n in data if isinstance(n, int))
    text = to_text(data)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace")


def _render(node: dict[str, Any]) -> str:
    """A prompt tree as its text, with the line breaks that its text nodes ask for."""
    text = node.get("text")
    if isinstance(text, str):
        return f"\n{text}" if node.get("lineBreakBefore") else text
    return "".join(
        _render(child) for child in node.get("children") or () if isinstance(child, dict)
    )


def json_text(value: Any) -> str:
    """JSON over lines, spelled as JavaScript spells it."""
    return json.dumps(_numbers(value), indent=2, ensure_ascii=False)


def _numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value


SCHEMA_VERSION = "ATIF-v1.5"
AGENT_NAME = "GitHub Copilot Chat"
SUBAGENT_NAME = "subagent"
AGENT_VERSION = "1.0.0"

_REQUEST, _TOOL_CALL = 1, 2
_FAILURES = {"ChatMLFailure": "failed", "ChatMLCancelation": "cancelled"}


def replay(entries: Iterable[Mapping[str, Any]]) -> dict[str, Object]:
    """Session id → its trajectory as an ATIF v1.5 document, in the order of first appearance.

    A session that only non-conversation requests name has a document without steps, as the original
    had; ATIF asks for one step at least, so such a document is not one to write to a file.
    """
    sessions: dict[str, Session] = {}
    seen: set[str] = set()
    generated: dict[str, str] = {}
    for entry in entries:
        token = entry.get("token")
        ident = to_text(entry.get("id"))
        if not isinstance(token, dict) or (ident and ident in seen):
            continue
        seen.add(ident)
        label = to_text(token.get("label"))
        invocation = to_text(token.get("subAgentInvocationId"))
        chat = to_text(token.get("chatSessionId"))
        if invocation or chat:
            name = choose_session_id(invocation, chat, label, None)
        else:
            # The original kept one id per token object; in JSON, equal tokens are one token.
            key = msgspec.json.encode(token, order="deterministic").decode()
            if key not in generated:
                request = entry.get("entry")
                start = request.get("startTime") if isinstance(request, dict) else entry.get("time")
                generated[key] = choose_session_id(None, None, label, parse_time(start))
            name = generated[key]
        session = sessions.get(name)
        if session is None:
            session = sessions[name] = Session(name)
        session.take(entry, token)
    return {name: session.document() for name, session in sessions.items()}


class Session:
    """The steps of one session in the order in which they began."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.agent: Object = {}
        self.steps: list[Object] = []
        self.waiting: list[Waiting] = []
        self.run: set[str] = set()
        """Ids of the tool calls that were logged."""
        self.last_user: str | None = None
        self.last_system: list[str] = []

    def take(self, entry: Mapping[str, Any], token: Object) -> None:
        sub = bool(token.get("subAgentInvocationId"))
        self.agent = {
            "name": SUBAGENT_NAME if sub else AGENT_NAME,
            "version": AGENT_VERSION,
            **{k: v for k, v in self.agent.items() if k == "tool_definitions"},
        }
        if entry.get("kind") == _TOOL_CALL:
            self._take_tool_call(entry)
        request = entry.get("entry")
        if entry.get("kind") == _REQUEST and isinstance(request, dict):
            tools = tool_definitions(request)
            if tools:
                self.agent["tool_definitions"] = tools
            if request.get("isConversationRequest") is False:
                return
            kind = to_text(request.get("type"))
            if kind != "ChatMLSuccess" and kind not in _FAILURES:
                return
            stamp = format_time(parse_time(request.get("startTime")))
            # The system prompt where it changed, and the last user message unless it is the last
            # one's.
            messages = dicts_of(field_of(request.get("chatParams"), "messages"))
            system = [text for m in messages if m.get("role") == SYSTEM and (text := words_of(m))]
            for prompt in system:
                if prompt not in self.last_system:
                    self._add({"source": "system", "message": prompt}, stamp)
            self.last_system = system or self.last_system
            user = next((m for m in reversed(messages) if m.get("role") == USER), None)
            words = words_of(user) if user is not None else ""
            if user is not None and words and words != self.last_user:
                self.last_user = words
                images = images_of(user)
                extra = {"extra": {"images": images}} if images else {}
                self._add({"source": "user", "message": words, **extra}, stamp)
            if kind in _FAILURES:
                self._add(failure_step(request, _FAILURES[kind]), stamp)
                return
            step = self._add(agent_step(request), stamp)
            announced = [
                dict_of(call)
                for delta in dicts_of(request.get("deltas"))
                for call in list_of(delta.get("copilotToolCalls"))
            ]
            if announced:
                self.waiting.append(Waiting(step, announced))

    def _add(self, step: Object, stamp: str | None) -> Object:
        numbered = {"step_id": 0, **({"timestamp": stamp} if stamp else {}), **step}
        self.steps.append(numbered)
        return numbered

    def _take_tool_call(self, entry: Mapping[str, Any]) -> None:
        self.run.add(to_text(entry.get("id")))
        if self.waiting:
            waiting = self.waiting[0]
            add_call(waiting.step, entry)
            waiting.arrived += 1
            if waiting.arrived >= len(waiting.announced):
                self.waiting.pop(0)
            return
        step: Object = {"source": "agent", "message": ""}
        thinking = entry.get("thinking")
        reasoning = joined(thinking.get("text"), "\n") if isinstance(thinking, dict) else ""
        if reasoning:
            step["reasoning_content"] = reasoning
        # The original stamped such a step with the moment of conversion; the entry has its own.
        add_call(self._add(step, format_time(parse_time(entry.get("time")))), entry)

    def document(self) -> Object:
        for waiting in self.waiting:
            waiting.add_missing(self.run)
        for number, step in enumerate(self.steps, 1):
            step["step_id"] = number
        agent = dict(self.agent)
        model = next((s["model_name"] for s in self.steps if s.get("model_name")), None)
        if model:
            agent["model_name"] = model
        document: Object = {
            "schema_version": SCHEMA_VERSION,
            "session_id": self.name,
            "agent": agent,
            "steps": self.steps,
        }
        totals = final_metrics(self.steps)
        return {**document, "final_metrics": totals} if totals else document


class Waiting:
    """A step whose announced tool calls have not all been logged."""

    def __init__(self, step: Object, announced: list[Object]) -> None:
        self.step = step
        self.announced = announced
        self.arrived = 0

    def add_missing(self, run: set[str]) -> None:
        """The calls that the model asked for and nobody logged, without results."""
        missing = [call for call in self.announced if to_text(call.get("id")) not in run]
        calls = self.step.get("tool_calls", [])
        ids = {call["tool_call_id"] for call in calls}
        for call in missing[: len(self.announced) - self.arrived]:
            ident = to_text(call.get("id")) or f"call-{len(calls) + 1}"
            if ident not in ids:
                ids.add(ident)
                calls.append(tool_call(ident, call.get("name"), call.get("arguments")))
        if calls:
            self.step["tool_calls"] = calls
