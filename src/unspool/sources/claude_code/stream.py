"""Stream: what `claude -p --output-format stream-json` prints: another form of the same session.

Everything here has a rank above 0: where the session's own file is there too, it knows better.

    {"type":"assistant","session_id":"s1","parent_tool_use_id":null,"message":{"id":"msg_1",…}}
    {"type":"result","session_id":"s1","usage":{…},"modelUsage":{…},"total_cost_usd":0.2}
"""

from typing import Any

from unspool.facts import Rank
from unspool.io.origins import Origin
from unspool.io.values import dict_of, dicts_of, field_of, list_of, str_of
from unspool.sources.claude_code.context import read_system
from unspool.sources.claude_code.lines import (
    NAME,
    USAGE,
    Line,
    child_id,
    text_of,
)
from unspool.sources.claude_code.results import agent_in
from unspool.sources.claude_code.transcript import read_assistant, read_user, tell_usage
from unspool.sources.hooklogs import read_log
from unspool.sources.scribe import Scribe

Value = dict[str, Any]
_TYPES = frozenset((
    "system", "user", "assistant", "result", "stream_event", "tool_progress", "auth_status",
    "tool_use_summary", "prompt_suggestion", "rate_limit_event",
))  # fmt: skip
_SETTINGS = {
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
_ENDING = (
    "subtype", "is_error", "duration_ms", "duration_api_ms", "num_turns", "total_cost_usd",
)  # fmt: skip


def is_stream(value: Value) -> bool:
    kind = value.get("type")
    return isinstance(value.get("session_id"), str) and isinstance(kind, str) and kind in _TYPES


def is_ours(value: Value) -> bool:
    """Cursor's CLI prints the same types: only Claude Code lists its tools with its version, names the
    price, and says whose call a line belongs to beside the id of the message."""
    if not is_stream(value):
        return False
    if value["type"] == "system":
        return "tools" in value or "claude_code_version" in value
    if value["type"] == "result":
        return "modelUsage" in value or "total_cost_usd" in value
    message = value.get("message")
    named = isinstance(message, dict) and "id" in message
    return "parent_tool_use_id" in value or named


def agents_in(path: str) -> dict[str, str]:
    """Which sub-agent a stream means by the call that started it.

    Lines of a sub-agent name the call only; its own file bears the agent's id. The stream tells which
    is which when the agent starts (2.1.2xx), or with the result of the call, behind the agent's
    lines. That is a fact about the whole origin, the same whichever part of it is read.
    """
    agents: dict[str, str] = {}
    for logged in read_log(Origin(path, path)):
        agents = _spawned(logged.written or {}) | agents
    return agents


def _spawned(value: Value) -> dict[str, str]:
    """Call → agent, of a line that tells that an agent starts, or of a result that names it."""
    if value.get("subtype") == "task_started":
        call, agent = str_of(value.get("tool_use_id")), str_of(value.get("task_id"))
        is_agent = value.get("task_type") == "local_agent"  # commands are tasks too
        return {call: agent} if is_agent and call and agent else {}
    agent = str_of(field_of(value.get("tool_use_result"), "agentId"))
    returned = [
        (str_of(block.get("tool_use_id")), agent or agent_in(text_of(block.get("content"))))
        for block in dicts_of(field_of(value.get("message"), "content"))
    ]
    return {call: agent for call, agent in returned if call and agent}


def read_event(value: Value, line: Line, scribe: Scribe, session: str) -> None:
    """One printed line; the scribe stands in the conversation that the line belongs to."""
    kind = value.get("type")
    if kind == "assistant":
        line.isApiErrorMessage = line.isApiErrorMessage or line.is_api_error_message
        body = line.body
        if body.stop_reason is None and body.usage is not None:
            # What was known when the answer began: how long it would be was not.
            body.usage.output_tokens = None
        read_assistant(line, body, scribe)
    elif kind == "user":
        line.isMeta = line.isMeta or line.isSynthetic
        read_user(line, scribe)
        for call in _spawned(value):
            read_handback(call, value.get("tool_use_result"), scribe, session, Rank.ECHO)
    elif kind == "result":
        has_words = isinstance(value.get("result"), str) and value["result"].strip()
        by_itself = value.get("local_command") or value.get("duration_api_ms") == 0  # /cost
        if has_words and (value.get("is_error") or not by_itself):
            # The last answer once more; with `--output-format json` it is the only one.
            scribe.message(role="assistant", text=value["result"], rank=Rank.ECHO)
        # `modelUsage` and the price are of the whole session up to here, with its sub-agents and all
        # runs before: no total of this conversation. `usage` is what the main thread of this run used;
        # it fills in what the lines of the answers do not tell (cases/claude_code/stream_totals).
        data = {name: value[name] for name in _ENDING if value.get(name) is not None}
        usage, models = value.get("usage"), value.get("modelUsage")
        if models:
            data["session_models"] = models
        scribe.mark("end", data, rank=Rank.COPY)
        if isinstance(usage, dict):
            subject = str_of(value.get("uuid")) or f"{scribe.origin}:{scribe.offset}"
            model = next(iter(models)) if isinstance(models, dict) and len(models) == 1 else ""
            tell_usage(USAGE.convert(usage), scribe, on="segment", subject=subject, model=model)
        for denial in dicts_of(value.get("permission_denials")):
            if isinstance(denial.get("tool_use_id"), str):
                scribe.note("status", "denied", -1, "call", denial["tool_use_id"])
    elif kind == "system" and value.get("subtype") == "init":
        scribe.mark("start", {"source": "headless", "model": value.get("model")}, rank=Rank.COPY)
        for theirs, ours in _SETTINGS.items():
            if value.get(theirs):
                scribe.note(ours, value[theirs], Rank.GUESS if theirs == "cwd" else Rank.COPY)
    elif kind == "system" and (spawned := _spawned(value)):
        _read_spawn(value, *spawned.popitem(), scribe, session)
    elif kind == "system":
        read_system(value, scribe)
    if scribe.facts and line.parent_tool_use_id:
        scribe.parent(session, rank=Rank.COPY, call=line.parent_tool_use_id)
    if scribe.facts:
        scribe.notes({"agent": NAME, "session_id": session}, Rank.COPY)


def read_handback(call: str, details: Any, scribe: Scribe, session: str, rank: int) -> None:
    """The last answer of a sub-agent, as the call that started it returned it:

        {"status":"completed","agentId":"a1","harnessNoteCount":1,"content":[<note>,<text>],"usage":{…}}

    A stream prints that answer nowhere else, and hooks tell its tokens nowhere else
    (cases/claude_code/stream_handback, hooks_handback)."""
    fields = dict_of(details)
    agent, content = str_of(fields.get("agentId")), list_of(fields.get("content"))
    # What the program put before and behind the agent's words.
    before, behind = fields.get("harnessNoteCount") or 0, fields.get("harnessTailCount") or 0
    text = text_of(content[before : len(content) - behind])
    if fields.get("status") != "completed" or not agent or not text.strip():
        return
    common: Value = {"rank": rank, "key": (NAME, child_id(session, agent))}
    common["model"] = str_of(fields.get("resolvedModel"))
    ident = f"handback:{call}"
    scribe.message(id=ident, role="assistant", text=text, **common)
    tell_usage(USAGE.convert(dict_of(fields.get("usage"))), scribe, subject=ident, **common)


def _read_spawn(value: Value, call: str, agent: str, scribe: Scribe, session: str) -> None:
    """A sub-agent starts: who it is, and by which call."""
    child = (NAME, child_id(session, agent))
    scribe.note("child_id", child[1], Rank.COPY, "call", call)
    kind = str_of(value.get("subagent_type"))
    start = {"conversation_id": child[1], "kind": "subagent", "tool_call_id": call}
    scribe.mark("subagent_start", start | ({"name": kind} if kind else {}), call, Rank.COPY)
    scribe.parent(session, rank=Rank.COPY, call=call, name=kind, key=child)
    if kind:
        scribe.note("agent_type", kind, Rank.COPY, key=child)
    if title := str_of(value.get("description")):
        scribe.note("title", title, Rank.INDEX, key=child)
    prompt = str_of(value.get("prompt"))
    if value.get("is_backgrounded") and prompt.strip():
        # Of an agent in the background, what it was asked stands nowhere else.
        scribe.message(role="user", text=prompt, rank=Rank.ECHO, key=child)
