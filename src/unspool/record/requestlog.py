"""Entries of Copilot Chat's request log: what each of them says, as pieces of ATIF."""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from unspool.io.times import parse_time
from unspool.prompts.shapes import text as to_text
from unspool.record.identity import subagent_file

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
    result = request.get("result")
    value = result.get("value") if isinstance(result, dict) else None
    step: Object = {"source": "agent", "message": joined(value, "\n")}
    endpoint = request.get("chatEndpoint")
    if isinstance(endpoint, dict) and endpoint.get("model"):
        step["model_name"] = to_text(endpoint["model"])
    thinking = [d["thinking"] for d in _deltas(request) if d.get("thinking")]
    if thinking:
        texts = (t.get("text") if isinstance(t, dict) else t for t in thinking)
        step["reasoning_content"] = "".join(joined(text, "") for text in texts)
    usage = request.get("usage")
    if not isinstance(usage, dict):
        metrics = None
    else:
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        start, end = parse_time(request.get("startTime")), parse_time(request.get("endTime"))
        duration = (end - start) // 1000 if start is not None and end is not None else None
        made = {
            "prompt_tokens": usage.get("prompt_tokens"),
            "completion_tokens": usage.get("completion_tokens"),
            "cached_tokens": cached,
        }
        extra = {"time_to_first_token_ms": request.get("timeToFirstToken"), "duration_ms": duration}
        known = {name: value for name, value in made.items() if _is_count(value)}
        more = {name: value for name, value in extra.items() if value is not None}
        metrics = {**known, "extra": more} if more else known
    if metrics is not None:
        step["metrics"] = metrics
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


def _deltas(request: Object) -> list[Object]:
    found = request.get("deltas")
    return [d for d in found if isinstance(d, dict)] if isinstance(found, list) else []


def announced_calls(request: Object) -> list[Object]:
    calls: list[Object] = []
    for delta in _deltas(request):
        found = delta.get("copilotToolCalls")
        if isinstance(found, list):
            calls += [call if isinstance(call, dict) else {} for call in found]
    return calls


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def final_metrics(steps: list[Object]) -> Object | None:
    """Sums of what occurred; nothing where no step has metrics or calls."""
    reports = [step["metrics"] for step in steps if "metrics" in step]
    calls = sum(len(step.get("tool_calls", ())) for step in steps)
    if not reports and not calls:
        return None
    made: Object = {}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"):
        values = [report[name] for report in reports if name in report]
        if values:
            made[f"total_{name}"] = sum(values)
    made["total_steps"] = len(steps)
    return {**made, "extra": {"total_tool_calls": calls}} if calls else made


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
    try:
        value = msgspec.json.decode(arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"raw": arguments}


def add_call(step: Object, entry: Mapping[str, Any]) -> None:
    """The executed call and what it gave, with the way to the sub-agent that it started."""
    calls = step.setdefault("tool_calls", [])
    ident = to_text(entry.get("id")) or f"call-{len(calls) + 1}"
    call = tool_call(ident, entry.get("name"), entry.get("args"))
    calls.append(call)
    result: Object = {"source_call_id": ident, "content": observation_text(entry.get("response"))}
    found = entry.get("toolMetadata")
    metadata: Object = found if isinstance(found, dict) else {}
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
    params = request.get("chatParams")
    body = params.get("body") if isinstance(params, dict) else None
    tools = body.get("tools") if isinstance(body, dict) else None
    made: list[Object] = []
    for tool in tools if isinstance(tools, list) else ():
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            continue
        if isinstance(function.get("name"), str):
            kept: Object = {
                "name": function["name"],
                "description": to_text(function.get("description")),
            }
            if function.get("parameters") is not None:
                kept["parameters"] = function["parameters"]
            made.append({"type": "function", "function": kept})
    return made


def joined(value: Any, glue: str) -> str:
    return glue.join(to_text(v) for v in value) if isinstance(value, list) else to_text(value)


def words_of(message: Object) -> str:
    """The text parts of a message, trimmed."""
    content = message.get("content")
    if isinstance(content, str):
        return content.strip(_SPACES)
    parts = content if isinstance(content, list) else []
    texts = [p.get("text") for p in parts if isinstance(p, dict) and p.get("type") == _TEXT_PART]
    return "\n".join(t for t in texts if isinstance(t, str) and t).strip(_SPACES)


def images_of(message: Object) -> list[Object]:
    """What is known of the images of a message: their address, or the hash of their data."""
    content = message.get("content")
    made: list[Object] = []
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict) or part.get("type") != _IMAGE_PART:
            continue
        found = part.get("imageUrl")
        url = to_text(found.get("url")) if isinstance(found, dict) else to_text(found)
        if url.startswith("data:"):
            media, _, data = url[5:].partition(",")
            digest = hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()
            made.append({"media_type": media.partition(";")[0], "sha256_of_base64": digest})
        elif url:
            made.append({"url": url})
    return made


# What a logged tool call gave: its content parts as the text of an observation


def observation_text(response: Any) -> str:
    """The parts of a logged tool response, one below the other."""
    content = response.get("content") if isinstance(response, dict) else response
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(made for part in parts if (made := _part_text(part)) is not None)


def _part_text(part: Any) -> str | None:
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
    tree = value.get("node") if isinstance(value, dict) else None
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
