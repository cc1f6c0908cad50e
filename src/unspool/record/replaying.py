"""Replay: entries of Copilot Chat's request log become the trajectories that its logger built.

Three kinds of entry (0 element, 1 request, 2 tool call), each under a token that names the session.
The rules are the original's; what it lost is kept: the system prompt, failed and cancelled
requests, and steps whose tool results never all arrived stand at their place, ids without gaps.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from unspool.io.times import format_time, parse_time
from unspool.prompts.shapes import text as to_text
from unspool.record.identity import choose_session_id
from unspool.record.requestlog import (
    SYSTEM,
    USER,
    Object,
    add_call,
    agent_step,
    announced_calls,
    failure_step,
    final_metrics,
    images_of,
    joined,
    tool_call,
    tool_definitions,
    words_of,
)

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
            params = request.get("chatParams")
            found = params.get("messages") if isinstance(params, dict) else None
            messages = [m for m in found if isinstance(m, dict)] if isinstance(found, list) else []
            system = [made for m in messages if m.get("role") == SYSTEM and (made := words_of(m))]
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
            announced = announced_calls(request)
            if announced:
                self.waiting.append(Waiting(step, announced))

    def _add(self, step: Object, stamp: str | None) -> Object:
        made = {"step_id": 0, **({"timestamp": stamp} if stamp else {}), **step}
        self.steps.append(made)
        return made

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
        made: Object = {
            "schema_version": SCHEMA_VERSION,
            "session_id": self.name,
            "agent": agent,
            "steps": self.steps,
        }
        totals = final_metrics(self.steps)
        return {**made, "final_metrics": totals} if totals else made


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
        known = {call["tool_call_id"] for call in calls}
        for call in missing[: len(self.announced) - self.arrived]:
            ident = to_text(call.get("id")) or f"call-{len(calls) + 1}"
            if ident not in known:
                known.add(ident)
                calls.append(tool_call(ident, call.get("name"), call.get("arguments")))
        if calls:
            self.step["tool_calls"] = calls
