"""What a Copilot CLI event log says, told a second time: one plain pass, no facts, no reducer.

It follows the CLI's own replay rules (docs/formats/copilot-cli.md), with nothing deleted. A log gives
one `Agent` for the session ("" is its key) and one for every sub-agent.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

INTERRUPTED_CODES = {"interrupted", "cancelled"}
CHILD_START = {"subagent.started", "custom_agent.started"}
CHILD_END = {
    "subagent.completed",
    "custom_agent.completed",
    "subagent.failed",
    "custom_agent.failed",
}
SELECTS = {
    "session.start": "selectedModel",
    "session.resume": "selectedModel",
    "session.model_change": "newModel",
    "session.auto_mode_resolved": "chosenModel",
}


@dataclass
class Said:
    """A message of the conversation; results of calls are in `Agent.results`."""

    role: str
    content: str
    kind: str | None = None
    typed: str | None = None
    thinking: str | None = None
    model: str | None = None
    mode: str | None = None
    tokens: int | None = None
    calls: list[str] = field(default_factory=list)
    api_call: str | None = None
    model_told: bool = False
    segment: int = 0


@dataclass
class Agent:
    """One conversation: the session's own, or a sub-agent's."""

    key: str
    parent: str | None = None
    said: list[Said] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    results: dict[str, tuple[str, bool]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    by_user: set[str] = field(default_factory=set)
    model: str | None = None
    mergeable: Said | None = None
    thought: str | None = None
    """Reasoning that was told by itself: of the answer that comes next."""
    split_at: int | None = None
    compactions: int = 0
    marks: list[tuple[str, int]] = field(default_factory=list)
    """What happened between the messages: its kind, and how many stand before it."""

    def mark(self, kind: str) -> None:
        self.marks.append((kind, len(self.said)))


@dataclass
class Run:
    """From a start or resume to its shutdown: what the messages said, what the shutdown reported."""

    told: dict[str, int] | None = None
    output: int = 0
    known: bool = False


class Session:
    """Everything that one log tells, event by event."""

    def __init__(self) -> None:
        self.agents: dict[str, Agent] = {"": Agent("")}
        self.calls_of: dict[str, str] = {}
        self.prompts: dict[str, str] = {}
        self.registry: dict[str, str] = {}
        self.skills: dict[str, str] = {}
        self.runs: list[Run] = [Run()]
        self.mode: str | None = None
        self.systems: set[tuple[str, str]] = set()

    def agent_of(self, event: dict[str, Any]) -> Agent:
        data = event["data"]
        told = event.get("agentId") or data.get("parentToolCallId") or ""
        key = self.registry.get(told, told)
        if key not in self.agents:
            self.agents[key] = Agent(key)
        return self.agents[key]

    def take(self, event: dict[str, Any]) -> None:
        kind, data = event.get("type"), event.get("data")
        if not isinstance(kind, str) or not isinstance(data, dict):
            return
        method = getattr(self, "on_" + kind.replace(".", "_"), None)
        if kind in SELECTS and isinstance(data.get(SELECTS[kind]), str):
            self.agents[""].model = data[SELECTS[kind]]
        if kind in CHILD_END or kind in CHILD_START:
            self.child_told(event, kind)
        elif method is not None:
            method(event, data)

    def child_told(self, event: dict[str, Any], kind: str) -> None:
        data = event["data"]
        key = data["toolCallId"]
        if kind in CHILD_START and event.get("agentId"):
            self.registry[event["agentId"]] = key
        agent = self.agents.setdefault(key, Agent(key))
        if isinstance(data.get("model"), str):
            agent.model = data["model"]
        if kind in CHILD_END:
            agent.mark("end")
            agent.closed |= {call for call in agent.names if call not in agent.results}

    def say(self, agent: Agent, said: Said) -> None:
        said.segment = agent.compactions
        agent.said.append(said)
        agent.mergeable = None

    def on_user_message(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        typed, sent = data.get("content") or "", data.get("transformedContent")
        injected = data.get("source") or data.get("isAutopilotContinuation") or (sent and not typed)
        said = Said("user", typed if sent is None else sent, kind="injected" if injected else None)
        said.mode = data.get("agentMode")
        if not injected:
            said.typed, said.mode = typed, said.mode or self.mode
        self.say(self.agent_of(event), said)

    def on_session_mode_changed(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        if isinstance(data.get("newMode"), str):
            self.mode = data["newMode"].strip() or self.mode

    def on_assistant_turn_start(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        self.agent_of(event).mergeable = None

    on_assistant_turn_end = on_assistant_turn_start

    def on_assistant_message(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        if event.get("ephemeral"):
            return
        agent = self.agent_of(event)
        requests = [
            r for r in data.get("toolRequests") or [] if isinstance(r, dict) and r.get("toolCallId")
        ]
        said = Said("assistant", data.get("content") or "", model=data.get("model") or agent.model)
        said.model_told = bool(data.get("model"))
        said.thinking, agent.thought = data.get("reasoningText") or agent.thought, None
        said.tokens, said.api_call = data.get("outputTokens"), data.get("apiCallId")
        for request in requests:
            agent.names[request["toolCallId"]] = request.get("name") or ""
            self.calls_of[request["toolCallId"]] = agent.key
            said.calls.append(request["toolCallId"])
            arguments = request.get("arguments")
            if isinstance(arguments, dict) and isinstance(arguments.get("prompt"), str):
                self.prompts[request["toolCallId"]] = arguments["prompt"]
        if said.tokens is not None:
            self.runs[-1].output += said.tokens
            self.runs[-1].known = True
        self.join(agent, said)

    def on_assistant_usage(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        agent = self.agent_of(event)
        agent.model = data.get("model") or agent.model

    def on_assistant_reasoning(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        self.agent_of(event).thought = data["content"]

    def join(self, agent: Agent, said: Said) -> None:
        last = agent.mergeable
        same_call = last is not None and said.api_call and last.api_call == said.api_call
        one_turn = agent.key == "" and not (last and last.api_call and said.api_call)
        if last is None or not (same_call or one_turn):
            self.say(agent, said)
            agent.mergeable = said
            return
        last.content = "\n\n".join(filter(None, (last.content, said.content)))
        last.thinking = "\n\n".join(filter(None, (last.thinking, said.thinking))) or None
        last.calls += said.calls
        last.model = last.model or said.model
        if said.tokens is not None:
            last.tokens = (last.tokens or 0) + said.tokens

    def on_tool_user_requested(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        agent = self.agent_of(event)
        agent.by_user.add(data["toolCallId"])
        agent.names.setdefault(data["toolCallId"], data.get("toolName") or "")

    def on_tool_execution_start(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        agent = self.owner(event, data)
        agent.names.setdefault(data["toolCallId"], data.get("toolName") or "")

    def owner(self, event: dict[str, Any], data: dict[str, Any]) -> Agent:
        """Match by toolCallId only: who asked for the call, else whose event it is."""
        asked = self.calls_of.get(data["toolCallId"])
        return self.agents[asked] if asked is not None else self.agent_of(event)

    def on_tool_execution_complete(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        agent, call = self.owner(event, data), data["toolCallId"]
        self.agent_of(event).mergeable = None
        result, error = data.get("result") or {}, data.get("error") or {}
        result = {"content": result} if isinstance(result, str) else result
        error = {"message": error} if isinstance(error, str) else error
        if (
            isinstance(data.get("model"), str)
            and data["model"] != "resumed"
            and not data.get("isUserRequested")
        ):
            self.model_by_tool(agent, call, data["model"])
        if data.get("isUserRequested"):
            agent.by_user.add(call)
        if call in agent.results:
            return
        failed = data.get("success") is False or (data.get("success") is None and bool(error))
        agent.results[call] = (
            (error.get("message") or result.get("content") or "Tool execution failed", True)
            if failed
            else (result.get("content") or "", False)
        )
        agent.closed.discard(call)
        if failed and error.get("code") in INTERRUPTED_CODES:
            agent.closed.add(call)

    def model_by_tool(self, agent: Agent, call: str, model: str) -> None:
        for said in agent.said:
            if call in said.calls and not said.model_told:
                said.model, said.model_told = model, True
        agent.model = model

    def on_system_message(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        """Written again with every run: one message for each prompt that differs."""
        prompt = (data.get("role") or "system", data.get("content") or "")
        if prompt not in self.systems:
            self.systems.add(prompt)
            self.say(self.agent_of(event), Said("system", prompt[1]))

    def on_system_notification(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        if (data.get("kind") or {}).get("type") != "instruction_discovered":
            self.say(
                self.agent_of(event), Said("user", data.get("content") or "", kind="notification")
            )

    def on_session_error(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        self.say(self.agent_of(event), Said("system", data.get("message") or "", kind="error"))

    def on_session_mode_notice_delivered(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        if data.get("content"):
            self.say(self.agent_of(event), Said("system", data["content"], kind="injected"))

    def on_skill_invoked(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        content = data.get("content")
        if isinstance(content, str):
            self.skills[hashlib.sha256(content.encode()).hexdigest()] = content

    def on_skill_context_delivered(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        self.say(self.agent_of(event), Said("user", data.get("content") or "", kind="injected"))

    def on_skill_context_delivered_ref(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        text = (
            (data.get("prefix") or "")
            + self.skills.get(data.get("contentId"), "")
            + (data.get("suffix") or "")
        )
        self.say(self.agent_of(event), Said("user", text, kind="injected"))

    def on_abort(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        self.agent_of(event).mark("interruption")
        self.close_calls()

    def on_session_resume(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        self.runs.append(Run())
        self.agents[""].mergeable = None
        self.agents[""].mark("resume")
        if not data.get("continuePendingWork"):
            self.close_calls()

    def close_calls(self) -> None:
        agent = self.agents[""]
        agent.closed |= {call for call in agent.names if call not in agent.results}

    def on_session_shutdown(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        self.close_calls()
        self.agents[""].mark("end")
        metrics = data.get("modelMetrics")
        if isinstance(metrics, dict) and metrics:
            usages = [m.get("usage") or {} for m in metrics.values()]
            keys = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
            self.runs[-1].told = {k: sum(u.get(k) or 0 for u in usages) for k in keys}
            self.runs.append(Run())

    def on_session_compaction_start(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        agent = self.agent_of(event)
        agent.split_at = len(agent.said)
        agent.mark("compaction_start")

    def on_session_compaction_complete(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        agent = self.agent_of(event)
        agent.mark("compaction" if data.get("success") else "compaction_failed")
        if data.get("success") and data.get("summaryContent"):
            agent.compactions += 1
            split = len(agent.said) if agent.split_at is None else agent.split_at
            for said in agent.said[split:]:
                said.segment = agent.compactions
        agent.split_at = None

    def output_tokens(self) -> int | None:
        told = [
            r.told["outputTokens"] if r.told else r.output for r in self.runs if r.told or r.known
        ]
        return sum(told) if told else None

    def prompt_tokens(self) -> int | None:
        told = [r.told["inputTokens"] for r in self.runs if r.told]
        return sum(told) if told else None


def events(data: bytes) -> list[dict[str, Any]]:
    """Cut at newline bytes; NULs of a crash are no text; behind a cut-off event may be a whole one."""
    found = []
    for line in data.split(b"\n"):
        text = line.strip(b"\x00 \r\t")
        while text:
            try:
                event = json.loads(text)
            except ValueError:
                at = text.find(b'{"type":"', 1)
                text = text[at:] if at > 0 else b""
                continue
            if isinstance(event, dict):
                found.append(event)
            break
    return found


def tell(*logs: bytes) -> Session:
    """A session of one log, or of several that hold parts of it; an event is one by its id."""
    session, seen = Session(), set()
    for event in (e for log in logs for e in events(log)):
        if event.get("id") is None or event["id"] not in seen:
            seen.add(event.get("id"))
            session.take(event)
    for agent in session.agents.values():
        if agent.thought:  # the log ends before the answer
            session.say(agent, Said("assistant", "", thinking=agent.thought, model=agent.model))
    return session
