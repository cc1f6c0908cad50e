"""Requests: the turns of a conversation as requests of a chat, with their answers and rounds."""

import hashlib
from math import isfinite
from typing import Any

import msgspec

from unspool.io.times import parse_time
from unspool.io.values import dict_of, dicts_of, field_of
from unspool.prompts.shapes import text as as_text
from unspool.sinks.chat_json.parts import (
    call_part,
    cleared_parts,
    result_of,
    text_parts,
    thinking_id,
    thinking_parts,
    woven,
)
from unspool.sinks.chat_json.prompts import (
    message_of,
    rendered,
    shown_text,
    text_part,
    variables_of,
)
from unspool.sources.vscode_chat import fields
from unspool.sources.vscode_chat.parts import is_sub_agent
from unspool.trajectory import Message, ToolCall, Trajectory

_MODES = ("ask", "edit", "agent")
_AGENT = {
    "id": "github.copilot.editsAgent",
    "name": "agent",
    "fullName": "GitHub Copilot",
    "isDefault": True,
    "extensionId": {"value": "GitHub.copilot-chat", "_lower": "github.copilot-chat"},
    "extensionDisplayName": "GitHub Copilot Chat",
    "extensionPublisherId": "GitHub",
    "locations": ["panel"],
    "modes": ["agent"],
}
"""The participant that can go on with a chat that another program had."""

_AGENT_NEEDS: dict[str, Any] = {"metadata": {}, "slashCommands": [], "disambiguation": []}
_STATES = {name: value for value, name in fields.STATES.items()}
_VOTES = {name: value for value, name in fields.VOTES.items()}


_CONTEXT = frozenset(("injected", "summary", "output"))
"""Kinds of user message that came with the next words of the person."""


class Turn(msgspec.Struct):
    """What one request of a chat is made of."""

    number: int
    user: Message
    """Empty where nobody asked for the answers."""
    context: list[Message] = []
    answers: list[Message] = []
    results: dict[str, Message] = {}
    """By the id of the call."""
    stopped: bool = False
    """The person interrupted it."""


def turns_of(trajectory: Trajectory) -> list[Turn]:
    """System prompts have no place in a chat; all other messages go to a turn."""
    turns: list[Turn] = []
    context: list[Message] = []

    def open_turn(user: Message) -> None:
        turns.append(Turn(len(turns), user, list(context)))
        context.clear()

    for message in trajectory.messages:
        if message.role == "user" and message.kind in _CONTEXT:
            context.append(message)
        elif message.role == "user" and message.kind == "interruption" and turns:
            turns[-1].stopped = True
        elif message.role == "user":
            open_turn(message)
        elif message.role != "system":
            if not turns:
                open_turn(Message("user", ""))
            turn = turns[-1]
            if message.role == "assistant":
                turn.answers.append(message)
            else:
                ident = message.tool_call_id or f"result-{len(turn.results)}"
                turn.results.setdefault(ident, message)
    if context and not turns:
        open_turn(Message("user", ""))
    elif context:
        turns[-1].context += context
    return turns


class Writer:
    """The requests of one conversation, one after the other."""

    def __init__(self, trajectory: Trajectory, children: dict[str, Trajectory]) -> None:
        self.trajectory = trajectory
        self.children = children
        self.shown: set[str] = set()
        """The sub-agents that stand in the chat so far."""
        self.native = trajectory.source == fields.NAME
        self._taken: set[str] = set()
        self._prefix = f"{trajectory.conversation_id}/"
        """Before the ids of the runs of its sub-agents."""

    def request(self, turn: Turn) -> dict[str, Any]:
        user = turn.user
        extra = self._extra(user)
        last = turn.answers[-1] if turn.answers else None
        ident = user.id
        if not ident or ident in self._taken:
            ident = f"request_{self._digest(turn)}"
        self._taken.add(ident)
        request: dict[str, Any] = {
            "requestId": ident,
            "message": message_of(user),
            "variableData": {"variables": variables_of(user)},
            "response": self._response(turn),
            "contentReferences": [],
            "codeCitations": [],
            "followups": [],
        }
        request |= named(fields.USER, extra)
        _fill(request, extra, "request")
        agent = request.get("agent")
        if isinstance(agent, dict):
            participants = self.trajectory.metadata.get("participants")
            participant = field_of(participants, as_text(agent.get("id")))
            request["agent"] = {**_AGENT_NEEDS, **dict_of(participant), **agent}
        elif not self.native:
            request["agent"] = {**_AGENT, **_AGENT_NEEDS}
        else:
            request.pop("agent", None)
        if not isinstance(request.get("modeInfo"), dict):
            request.pop("modeInfo", None)
            if user.mode in _MODES and "agent" not in request:
                request["modeInfo"] = {"kind": user.mode, "isBuiltin": True}
        if extra.get("system_initiated") or user.kind == "notification":
            request["isSystemInitiated"] = True
        if user.status == "hidden":
            request["isHidden"] = True
        elif user.status == "undone":
            request.setdefault("shouldBeRemovedOnSend", {"requestId": ident})
        time = _millis(user.timestamp)
        if time is not None:
            request["timestamp"] = time
        request["result"] = self._result(turn, last)
        if last is not None:
            self._answer_fields(request, last, ident)
            request |= _usage_of(turn.answers)
        request["modelState"] = self._state(turn, last, time)
        return request

    def _extra(self, message: Message | None) -> dict[str, Any]:
        """What a message keeps of a chat; what other programs keep there means something else."""
        return (message.extra or {}) if message is not None and self.native else {}

    def _answer_fields(self, request: dict[str, Any], last: Message, ident: str) -> None:
        extra = self._extra(last)
        request |= named(fields.ANSWER, extra)
        for name in ("contentReferences", "codeCitations", "followups"):
            if not isinstance(request[name], list):
                request[name] = []
        vote = _VOTES.get(as_text(extra.get("vote")))
        if vote is not None:
            request["vote"] = vote
        if not self.native and not isinstance(request.get("responseId"), str):
            request["responseId"] = (
                ident.replace("request", "response", 1)
                if "request" in ident
                else f"response_{ident}"
            )

    def _response(self, turn: Turn) -> list[dict[str, Any]]:
        # A person runs commands too: what they gave is all the answer that there is.
        taken_back = (self._extra(answer).get("cleared") for answer in turn.answers)
        # First of all: what stands before it, up to the call before, is not shown either.
        parts = [part for cleared in taken_back for part in cleared_parts(cleared)]
        parts += [p for call in turn.user.tool_calls or () for p in self._call(call, turn)]
        for answer in turn.answers:
            extra = self._extra(answer)
            thoughts = thinking_parts(answer.thinking or "", extra.get("thoughts"))
            parts += thoughts
            calls = [self._call(call, turn) for call in answer.tool_calls or ()]
            early, rest = woven(calls, extra)
            text = "" if _is_error_text(answer) else answer.content
            words, early = text_parts(text, early, extra)
            parts += [*words, *early, *rest]
        return parts

    def _call(self, call: ToolCall, turn: Turn) -> list[dict[str, Any]]:
        """The part of a call, and behind it those of the sub-agent that it started."""
        result = turn.results.get(call.id)
        child = self.children.get(call.child_id or "")
        parts: list[dict[str, Any]] = []
        if result is not None or call.status is not None or call.extra:
            parts.append(call_part(call, result, child))
            if self.trajectory.parent is not None and not is_sub_agent(parts[0]):
                parts[0].pop("subAgentInvocationId", None)  # the run that this chat is
        # Else nobody knows that it was ever run: only the round tells it.
        if child is not None:
            self.shown.add(child.conversation_id)
            run = child.conversation_id.removeprefix(self._prefix) if self.native else call.id
            parts += self._inside(child, run)
        return parts

    def _inside(self, child: Trajectory, run: str) -> list[dict[str, Any]]:
        results = {m.tool_call_id: m for m in child.messages if m.role == "tool"}
        parts: list[dict[str, Any]] = []
        for message in child.messages:
            if message.role == "assistant" and (words := self._own_words(child, message)):
                content = {"kind": "markdownContent", "content": {"value": words}}
                parts.append({**content, "subAgentInvocationId": run})
            for call in message.tool_calls or ():
                part = call_part(call, results.get(call.id), None)
                part["subAgentInvocationId"] = run
                parts.append(part)
        return parts

    def _own_words(self, child: Trajectory, message: Message) -> str:
        """What a sub-agent of a chat said beside the result, which the call that started it tells."""
        if not self.native:
            return ""
        calls = (c for m in self.trajectory.messages for c in m.tool_calls or ())
        started = (c.extra or {} for c in calls if c.child_id == child.conversation_id)
        result = field_of(next(started, {}).get("specific"), "result")
        text = message.content
        return text.removesuffix(result).rstrip("\n") if isinstance(result, str) else text

    def _result(self, turn: Turn, last: Message | None) -> dict[str, Any]:
        extra = self._extra(last)
        outcome = named(fields.RESULT, extra)
        if last is not None and last.kind == "error" and "errorDetails" not in outcome:
            outcome["errorDetails"] = {"message": last.content or "error"}
        _fill(outcome, extra, "result")
        metadata = named(fields.METADATA, extra)
        metadata["sessionId"] = self.trajectory.conversation_id
        if last is not None and last.model and not extra.get("model_id"):
            kept = (
                p for answer in turn.answers for p in dicts_of(self._extra(answer).get("parts"))
            )
            if not any(part.get("kind") == "autoModeResolution" for part in kept):
                metadata.setdefault("resolvedModel", last.model)
        if turn.user.content != shown_text(turn.user):
            metadata["renderedUserMessage"] = rendered(turn.user)
        if turn.context:
            metadata["renderedGlobalContext"] = [text_part(m.content) for m in turn.context]
        rounds = [self._round(answer, n, turn) for n, answer in enumerate(turn.answers)]
        if not (len(rounds) == 1 and self._is_bare_error(turn.answers[0])):
            metadata["toolCallRounds"] = rounds
        metadata["toolCallResults"] = {
            ident: result_of(result) for ident, result in turn.results.items()
        }
        _fill(metadata, extra, "metadata")
        return {**outcome, "metadata": metadata}

    def _is_bare_error(self, answer: Message) -> bool:
        """Whether no model answered: an error of a chat that has the id of a round is that of one."""
        own = self._extra(answer).get("response_id") or f"{answer.request_id}/response"
        return _is_error_text(answer) and (not self.native or answer.id == own)

    def _round(self, answer: Message, number: int, turn: Turn) -> dict[str, Any]:
        round_: dict[str, Any] = {
            "id": answer.id or f"round_{self._digest(turn)}.{number}",
            "response": "" if _is_error_text(answer) else answer.content,
            "toolInputRetry": 0,
            "toolCalls": [
                {"name": call.name, "arguments": call.arguments, "id": call.id}
                for call in answer.tool_calls or ()
            ],
        }
        round_ |= named(fields.ROUND, self._extra(answer))
        if answer.thinking:
            thoughts = self._extra(answer).get("thoughts")
            round_["thinking"] = {"id": thinking_id(thoughts, number), "text": answer.thinking}
        time = _millis(answer.timestamp)
        if time is not None:
            round_["timestamp"] = time
        _fill(round_, self._extra(answer), "round")
        return round_

    def _digest(self, turn: Turn) -> str:
        named = f"{self.trajectory.conversation_id}\0{turn.number}"
        return hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()[:32]

    def _state(self, turn: Turn, last: Message | None, time: int | None) -> dict[str, Any]:
        ending = last or turn.user  # a question without an answer tells itself what became of it
        status = ending.status
        extra = self._extra(last)
        value = _STATES.get(as_text(extra.get("state") if last is not None else status), 1)
        # An error tells how it ended, also that it was cancelled; and a chat of VS Code's says itself
        # whether it was marked as failed.
        if value == 1 and "error" not in extra:
            failed = status == "failed" or (last is not None and last.kind == "error")
            if turn.stopped or status in ("cancelled", "interrupted"):
                value = 2
            elif failed and not self.native:
                value = 3
        state: dict[str, Any] = {"value": value}
        ended = _millis(last.timestamp) if last is not None else None
        duration = last.duration_ms if last is not None else None
        if duration is not None and isfinite(duration):
            state["completedAt"] = int(time + duration) if time is not None else ended
        elif not self.native and ended is not None:
            state["completedAt"] = ended
        if extra.get("completed_at") is not None:
            state["completedAt"] = extra["completed_at"]
        return {k: v for k, v in state.items() if v is not None}


def _fill(target: dict[str, Any], extra: dict[str, Any], name: str) -> None:
    """Add the fields of that part of a chat which only the program that wrote it knows."""
    for field, value in dict_of(field_of(extra.get(fields.NATIVE), name)).items():
        target.setdefault(field, value)


def _is_error_text(answer: Message) -> bool:
    """Whether the message holds nothing but the words of an error."""
    if answer.kind != "error" or answer.tool_calls:
        return False
    error = (answer.extra or {}).get("error")
    return (
        not isinstance(error, dict) or error.get("message") == answer.content or not answer.content
    )


def _millis(stamp: str | None) -> int | None:
    micros = parse_time(stamp) if stamp else None
    return micros // 1000 if micros is not None else None


def named(names: dict[str, str], extra: dict[str, Any]) -> dict[str, Any]:
    return {theirs: extra[ours] for ours, theirs in names.items() if ours in extra}


def _usage_of(answers: list[Message]) -> dict[str, Any]:
    """The last call's prompt, as VS Code tells it; and the totals of the turn by model."""
    reports = [(a.model or "", a.usage) for a in answers if a.usage is not None]
    if not reports:
        return {}
    last = reports[-1][1]
    usage = named(fields.USAGE, last.extra or {})
    prompt = last.prompt_tokens
    if "modelTotals" in usage:
        prompt = (last.extra or {}).get("last_prompt_tokens")
    elif len(reports) > 1 or last.cached_tokens is not None:
        totals: dict[str, dict[str, Any]] = {}
        for model, report in reports:
            total = totals.setdefault(model, {"model": model})
            for theirs, count in (
                ("inputTokens", report.prompt_tokens),
                ("cachedTokens", report.cached_tokens),
                ("outputTokens", report.completion_tokens),
            ):
                if count is not None:
                    total[theirs] = total.get(theirs, 0) + count
        usage["modelTotals"] = list(totals.values())
    elif last.completion_tokens is not None:
        usage["completionTokens"] = last.completion_tokens
    return usage if prompt is None else {**usage, "promptTokens": prompt}
