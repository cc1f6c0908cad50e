"""Qwen Code: chats whose lines look like Claude Code's and hold messages like Gemini's.

    {"uuid":"30213137","parentUuid":"fe6906b8","sessionId":"c31bd1b1","type":"assistant",
     "provenance":"assistant_output","message":{"role":"model","parts":[{"text":"I look."}]},…}

Sub-agents have files of their own, `subagents/<session>/agent-<type>-<call>.jsonl`. There an answer is
several lines: the words with the tokens, then each call.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import ROOT, AnyFact, Rank
from unspool.io.door import iter_json_lines, read_json
from unspool.io.origins import Head, Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.io.values import dict_of
from unspool.sources import gemini_parts
from unspool.sources.scribe import Notebook, Scribe, chosen, title_of, touched

NAME = "qwen-code"

_META = ".meta.json"
_SESSION = re.compile(r"(?:chats|subagents)[/\\]([0-9a-f-]{36})(?:\.jsonl|[/\\])")
_TOUCHES = {"read_file": "read", "write_file": "create", "edit": "edit", "replace": "edit"}
_NOISE = frozenset(("attribution_snapshot", "ui_telemetry", "file_history_snapshot"))


class Counts(msgspec.Struct, gc=False):
    """Thoughts are part of the candidates where the total says so."""

    promptTokenCount: int | None = None
    candidatesTokenCount: int | None = None
    thoughtsTokenCount: int | None = None
    totalTokenCount: int | None = None
    cachedContentTokenCount: int | None = None


class Message(msgspec.Struct, gc=False):
    parts: Any = None


class Result(msgspec.Struct, gc=False):
    callId: str = ""
    status: str = ""
    resultDisplay: Any = None


class Event(msgspec.Struct, gc=False):
    """A call of the model, as the program's own screen counts it."""

    name: str = msgspec.field(default="", name="event.name")
    prompt_id: str = ""
    response_id: str = ""
    subagent_name: str | None = None
    model: str = ""
    input_token_count: int | None = None
    output_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None


class SystemPayload(msgspec.Struct, gc=False):
    uiEvent: Event | None = None
    info: dict[str, Any] | None = None
    compressedHistory: list[Message] | None = None


class Line(msgspec.Struct, gc=False):
    uuid: str = ""
    parentUuid: str | None = None
    sessionId: str = ""
    timestamp: str | None = None
    type: str = ""
    subtype: str | None = None
    provenance: str | None = None
    cwd: str | None = None
    version: str | None = None
    gitBranch: str | None = None
    model: str | None = None
    message: Message | None = None
    usageMetadata: Counts | None = None
    toolCallResult: Result | None = None
    systemPayload: SystemPayload | None = None
    agentId: str | None = None
    agentName: str | None = None


class Agent(msgspec.Struct, gc=False):
    """What stands beside a sub-agent's file."""

    agentId: str = ""
    agentType: str | None = None
    description: str | None = None
    parentSessionId: str = ""
    toolUseId: str | None = None
    persistedCliFlags: dict[str, Any] | None = None


_LINE = Shape(Line)
_AGENT = Shape(Agent)


def is_chat(head: Head) -> bool:
    if head.name.endswith(_META):
        return b'"parentSessionId"' in head.data and b'"agentId"' in head.data
    return any(
        {"uuid", "sessionId", "type"} <= value.keys()
        and ("provenance" in value or "parts" in dict_of(value.get("message")))
        for value in head.objects
    )


def session_of(path: str) -> str | None:
    named = _SESSION.search(path)
    return named[1] if named else None


def read_chat(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    if origin.path.endswith(_META):
        yield from _read_agent(origin, tally)
        return
    noted = Notebook()
    model = _agent_model(origin.path)
    for offset, _, line in iter_json_lines(origin, _LINE, tally, recover, whole=True):
        agent, session = line.agentName, line.sessionId
        key = (NAME, f"{session}/{line.agentId}" if line.agentId else session)
        time, after = parse_time(line.timestamp), line.parentUuid or ROOT
        scribe = Scribe(key, origin.path, offset, time=time, entry=line.uuid, after=after)
        place = {"workspace.path": line.cwd, "workspace.branch": line.gitBranch}
        noted.note(scribe, {"agent": "Qwen Code", "agent_version": line.version, **place})
        if line.agentId and noted.is_new(key, "parent", session):
            # {"agentId":"general-purpose-call_1","agentName":"general-purpose"}
            call = line.agentId.removeprefix(f"{agent}-") if agent else ""
            scribe.parent(session, call=call, name=agent)
        line.model = line.model or model
        parts = line.message.parts if line.message is not None else None
        if line.type == "user":
            text = gemini_parts.text_of(parts)
            typed = line.provenance in (None, "real_user")
            images = tuple(gemini_parts.images_of(parts))
            kind = "" if typed else "injected"
            words = gemini_parts.typed_of(text)
            scribe.message(
                id=line.uuid, role="user", text=text, kind=kind, attachments=images,
                typed=words if typed and words != text else None,
            )  # fmt: skip
            scribe.notes({"title": title_of(words) if typed else ""}, Rank.GUESS)
        elif line.type == "assistant":
            _read_answer(line, parts, scribe)
        elif line.type == "tool_result":
            _read_results(line, parts, scribe)
        elif line.subtype == "chat_compression" and line.systemPayload is not None:
            _read_compression(line.systemPayload, line.uuid, scribe)
        elif line.type == "system":
            _read_system(line, scribe)
        else:
            scribe.link()
            tally.unrecognise(line.type or "no type", origin.path, offset)
        yield from scribe.facts


def _agent_model(path: str) -> str | None:
    """Lines of a sub-agent do not name the model; what stands beside the file does."""
    meta = Path(path.removesuffix(".jsonl") + _META)
    if meta.parent.parent.name != "subagents" or not meta.is_file():
        return None
    values = read_json(meta.read_bytes(), recover=True).values
    flags = _AGENT.convert(values[0]).persistedCliFlags if values else None
    model = (flags or {}).get("model")
    return model if isinstance(model, str) else None


def _read_answer(line: Line, parts: Any, scribe: Scribe) -> None:
    counts = line.usageMetadata
    text, thinking, calls = gemini_parts.said_in(parts)
    scribe.message(
        id=line.uuid,
        role="assistant",
        text=text,
        thinking=thinking,
        model=line.model or "",
        # The tokens stand with the words, which come first.
        joins=bool(line.agentId) and counts is None,
    )
    for call in calls:
        name, args = str(call.get("name") or ""), call.get("args")
        scribe.call(
            id=str(call.get("id") or ""),
            message=line.uuid,
            name=name,
            arguments=gemini_parts.arguments_of(args),
            files=touched(_TOUCHES, name, args, "file_path"),
        )
    if counts is not None:
        prompt, total = counts.promptTokenCount, counts.totalTokenCount
        counted = (counts.candidatesTokenCount or 0) + (counts.thoughtsTokenCount or 0)
        scribe.usage(
            subject=line.uuid,
            model=line.model or "",
            prompt=prompt,
            completion=total - prompt if total is not None and prompt is not None else counted,
            cached=counts.cachedContentTokenCount,
            reasoning=counts.thoughtsTokenCount,
        )


def _read_results(line: Line, parts: Any, scribe: Scribe) -> None:
    result = line.toolCallResult or Result()
    for response in gemini_parts.responses_of(parts):
        text, failed = gemini_parts.answer_of(response)
        shown = result.resultDisplay
        if isinstance(shown, dict):
            # {"type":"shell_result","exitCode":0,"output":"1 failed","text":"1 failed",…}: what of it
            # stands in the text that the model got is told there.
            shown = {
                name: value
                for name, value in shown.items()
                if name not in ("output", "text") or str(value).strip() not in (text or "")
            }
        scribe.returned(
            call=str(response.get("id") or result.callId),
            name=str(response.get("name") or ""),
            text=text,
            failed=failed or result.status == "error",
            status="cancelled" if result.status == "cancelled" else "",
            details={"display": shown} if shown not in (None, "", text) else None,
        )


def _read_compression(payload: SystemPayload, ident: str, scribe: Scribe) -> None:
    names = {"originalTokenCount": "tokens_before", "triggerReason": "trigger"}
    scribe.mark("compaction", chosen(payload.info or {}, names, names))
    history = payload.compressedHistory or [Message()]
    summary = gemini_parts.text_of(history[0].parts)
    scribe.message(id=ident, role="user", text=summary, kind="summary")


def _read_system(line: Line, scribe: Scribe) -> None:
    event = (line.systemPayload or SystemPayload()).uiEvent or Event()
    # Answers have their tokens themselves, and so have those of sub-agents. What is left made a
    # summary: its `prompt_id` names no turn (`c31bd1b1…########2`).
    in_turn = "########" in event.prompt_id or event.subagent_name
    if line.subtype not in _NOISE:
        # No link: `agent_session_ready` stands between two calls of one answer (case `two_agents`).
        scribe.mark(line.subtype or "system")
        return
    if event.name.endswith("api_response") and not in_turn:
        scribe.usage(
            on="call",
            subject=event.response_id,
            model=event.model,
            prompt=event.input_token_count,
            completion=event.output_token_count,
            cached=event.cached_content_token_count,
            reasoning=event.thoughts_token_count,
        )
    else:
        scribe.time = None  # the program's own figures, written when all is over
    scribe.link()


def _read_agent(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    for offset, _, agent in iter_json_lines(origin, _AGENT, tally, recover=True):
        scribe = Scribe((NAME, f"{agent.parentSessionId}/{agent.agentId}"), origin.path, offset)
        scribe.notes({"title": agent.description, "agent_type": agent.agentType})
        if agent.toolUseId:
            scribe.parent(agent.parentSessionId, call=agent.toolUseId)
        yield from scribe.facts
