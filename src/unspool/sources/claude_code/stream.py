"""Stream: what `claude -p --output-format stream-json` prints: another form of the same session."""

from collections.abc import Iterator
from typing import Any

from unspool.facts import ECHO, AnyFact, MessageSeen, UsageReported
from unspool.sources.claude_code.context import read_system
from unspool.sources.claude_code.lines import Line
from unspool.sources.claude_code.place import GUESS, NAME, Place, child_id
from unspool.sources.claude_code.spawns import Spawns, started
from unspool.sources.claude_code.transcript import read_assistant, read_user

Value = dict[str, Any]
_TYPES = frozenset(("system", "user", "assistant", "result", "stream_event"))
_OTHER_TYPES = (
    "tool_progress",
    "auth_status",
    "tool_use_summary",
    "prompt_suggestion",
    "rate_limit_event",
)


def is_stream(value: Value) -> bool:
    kind = value.get("type")
    if not isinstance(value.get("session_id"), str) or not isinstance(kind, str):
        return False
    return kind in _TYPES or kind in _OTHER_TYPES


def is_ours(value: Value) -> bool:
    """Cursor's CLI prints the same types: only Claude Code lists its tools and names messages."""
    if not is_stream(value):
        return False
    if value["type"] == "system":
        return "tools" in value or "claude_code_version" in value
    if value["type"] == "result":
        return "modelUsage" in value or "total_cost_usd" in value
    message = value.get("message")
    named = isinstance(message, dict) and "id" in message
    return "parent_tool_use_id" in value or named


def read_value(
    value: Value, line: Line, origin: str, offset: int, spawns: Spawns
) -> Iterator[AnyFact]:
    session = str(value["session_id"])
    caller = line.parent_tool_use_id or ""
    key = (NAME, child_id(session, spawns.agent(caller)) if caller else session)
    # Rank 1: where the session's own file is there too, it knows better.
    place = Place(key, origin, offset, line, rank=1)
    kind = value.get("type")
    if kind == "assistant":
        line.isApiErrorMessage = line.isApiErrorMessage or line.is_api_error_message
        yield from read_assistant(line, place)
    elif kind == "user":
        line.isMeta = line.isMeta or line.isSynthetic
        yield from read_user(line, place)
    elif kind == "result":
        yield from _read_end(value, place)
    elif kind == "system" and value.get("subtype") == "init":
        yield from _read_start(value, place)
    elif kind == "system":
        yield from _read_spawn(value, place) if started(value) else read_system(value, place)
    else:
        return
    if place.number and caller:
        parent = {"conversation_id": session, "kind": "subagent", "tool_call_id": caller}
        yield place.note("parent", parent, 1)
    if place.number:
        yield place.note("agent", NAME, 1)
        yield place.note("session_id", session, 1)


def _read_spawn(value: Value, place: Place) -> Iterator[AnyFact]:
    """A sub-agent starts: who it is, and by which call."""
    for call, agent in started(value):
        session = str(value["session_id"])
        yield place.note_call(call, "child_id", child_id(session, agent), 1)
        at = Place((NAME, child_id(session, agent)), place.origin, place.offset, Line(), rank=1)
        kind = value.get("subagent_type")
        tie = {"kind": "subagent", "tool_call_id": call}
        if isinstance(kind, str) and kind:
            tie["name"] = kind
            yield at.note("agent_type", kind, 1)
        child = {"conversation_id": child_id(session, agent), **tie}
        yield place.mark("subagent_start", child, call, rank=1)
        yield at.note("parent", {"conversation_id": session, **tie}, 1)
        if isinstance(value.get("description"), str):
            yield at.note("title", value["description"], 4)


def _read_start(value: Value, place: Place) -> Iterator[AnyFact]:
    yield place.mark("start", {"source": "headless", "model": value.get("model")}, rank=1)
    names = {
        "cwd": "workspace.path",
        "claude_code_version": "agent_version",
        "model": "model",
        "permissionMode": "permission_mode",
        "tools": "tools",
        "mcp_servers": "mcp_servers",
        "agents": "agents",
        "slash_commands": "slash_commands",
        "output_style": "output_style",
    }
    for theirs, ours in names.items():
        if value.get(theirs):
            yield place.note(ours, value[theirs], GUESS if theirs == "cwd" else 1)


def _read_end(value: Value, place: Place) -> Iterator[AnyFact]:
    names = ("subtype", "is_error", "duration_ms", "duration_api_ms", "num_turns", "total_cost_usd")
    data = {name: value[name] for name in names if value.get(name) is not None}
    if isinstance(value.get("result"), str) and value["result"].strip():
        # The last answer once more; with `--output-format json` it is the only one.
        said = value["result"]
        yield MessageSeen(**place.common(), role="assistant", text=said, rank=ECHO)
    yield place.mark("end", data, rank=1)
    models = value.get("modelUsage")
    for model, usage in models.items() if isinstance(models, dict) else ():
        if isinstance(usage, dict):
            yield _reported(place, str(model), usage)
    denials = value.get("permission_denials")
    for denial in denials if isinstance(denials, list) else ():
        if isinstance(denial, dict) and isinstance(denial.get("tool_use_id"), str):
            yield place.note_call(denial["tool_use_id"], "status", "denied", -1)


def _reported(place: Place, model: str, usage: Value) -> UsageReported:
    def count(name: str) -> int:
        found = usage.get(name)
        return found if isinstance(found, int) else 0

    cost = usage.get("costUSD")
    read, written = count("cacheReadInputTokens"), count("cacheCreationInputTokens")
    return UsageReported(
        **place.common(),
        on="conversation",
        model=model,
        prompt=count("inputTokens") + read + written,
        completion=count("outputTokens"),
        cached=read,
        cache_write=written,
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
        rank=1,
    )
