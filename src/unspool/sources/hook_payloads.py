"""Hook payloads of agents that took over the shape of Claude Code's: what each states.

    {"session_id":"s1","hook_event_name":"PreToolUse","turn_id":"t1","tool_name":"Bash",…}  Codex
    {"session_id":"s1","hook_event_name":"BeforeTool","timestamp":"…",…}                    Gemini CLI
    {"session_id":"s1","hook_event_name":"PreToolUse","tool_call_id":"call_1",…}            Qwen Code

They are echoes of what the agent's own files hold. Each source says how its payloads are known, and
what its events are called (`Dialect`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from unspool.facts import NO_ZONE, ZONE, AnyFact, Problem, Rank
from unspool.io.origins import Head, Origin, Tally
from unspool.sources.gemini_parts import typed_of
from unspool.sources.hooklogs import TIMES, Logged, head_payloads, iter_payloads
from unspool.sources.scribe import Scribe, title_of

Payload = dict[str, Any]
LATER = Rank.ECHO + 1
"""The rank of what a second payload tells of the same thing."""
_COMMON = frozenset((
    "session_id", "transcript_path", "cwd", "hook_event_name", "permission_mode", "agent_id", "model",
    "agent_type", "prompt_id", "turn_id", "timestamp", "agent_transcript_path",
    "last_assistant_message", *TIMES,
))  # fmt: skip


class Dialect(NamedTuple):
    """How one agent's payloads are read."""

    product: str
    is_own: Callable[[Payload], bool]
    events: Mapping[str, Callable[[Payload, Scribe], None]]
    """What each event states; those that are not here state nothing."""
    child: Callable[[str, str], str] = "{}/{}".format
    """Session and agent id → the sub-agent's conversation."""
    follow: Callable[[], Callable[[Payload], bool]] = lambda: lambda payload: True
    """Reads along with a log: whether a payload counts. It may add `answer`, the id of the answer that
    the payload is about, where only the payloads before tell."""


def is_log(head: Head, dialect: Dialect) -> bool:
    return head.names_hook and any(
        isinstance(value.get("session_id"), str) and dialect.is_own(value)
        for value in head_payloads(head)
    )


def read_payloads(
    origin: Origin, tally: Tally, recover: bool, dialect: Dialect
) -> Iterator[AnyFact]:
    noted: dict[tuple[str, str], Any] = {}
    counts = dialect.follow()
    for item in iter_payloads(origin, tally, recover):
        if isinstance(item, Problem):
            yield item
            continue
        payload, logged = item
        event = payload.get("hook_event_name")
        if not isinstance(payload.get("session_id"), str) or not isinstance(event, str):
            tally.unrecognise("hook payload", origin.path, logged.offset)
        elif not counts(payload):
            tally.noise += 1
        else:
            facts = _state(payload, event, origin, logged, dialect, noted)
            tally.noise += not facts
            yield from facts


def _state(
    payload: Payload,
    event: str,
    origin: Origin,
    logged: Logged,
    dialect: Dialect,
    noted: dict[tuple[str, str], Any],
) -> list[AnyFact]:
    session, agent = payload["session_id"], payload.get("agent_id")
    # That a sub-agent starts and stops is told in the conversation that called it.
    own = isinstance(agent, str) and agent and event not in ("SubagentStart", "SubagentStop")
    key = (dialect.product, dialect.child(session, str(agent)) if own else session)
    scribe = Scribe(key, origin.path, logged.offset, time=logged.time, rank=Rank.ECHO)
    teller = dialect.events.get(event)
    if teller is not None:
        teller(payload, scribe)
    if not scribe.facts:
        return []
    zoneless = logged.moment is not None and not logged.moment.zoned
    link = {"conversation_id": session, "kind": "subagent"} if own else None
    for name, value, rank in (
        (ZONE, NO_ZONE if zoneless else None, Rank.ECHO),
        ("workspace.path", payload.get("cwd"), Rank.LAST_RESORT),
        ("model", payload.get("model"), Rank.LAST_RESORT),
        ("parent", link, Rank.ECHO),
    ):
        if value and noted.get((key[1], name)) != value:
            noted[(key[1], name)] = value
            scribe.note(name, value, rank)
    return scribe.facts


def _fields(payload: Payload) -> Payload:
    return {
        name: value
        for name, value in payload.items()
        if name not in _COMMON and value not in (None, "", [], {})
    }


def prompt(payload: Payload, scribe: Scribe) -> None:
    text = payload.get("prompt")
    if isinstance(text, str) and text:
        text = typed_of(text)
        scribe.message(role="user", text=text, typed=text)
        scribe.note("title", title_of(text), Rank.LAST_RESORT)


def called(payload: Payload) -> Payload:
    """The call that a payload is about, as the fields of ToolCalled."""
    given = payload.get("tool_input")
    return {
        "id": str(payload.get("tool_call_id") or payload.get("tool_use_id") or ""),
        "name": str(payload.get("tool_name") or ""),
        "arguments": "" if given is None else msgspec.json.encode(given).decode(),
    }


def _answer(payload: Payload) -> str:
    answer = payload.get("answer")
    return answer if isinstance(answer, str) else ""


def call(payload: Payload, scribe: Scribe, **fields: Any) -> None:
    scribe.call(**called(payload), message=_answer(payload), **fields)


def returned(payload: Payload, scribe: Scribe, **fields: Any) -> None:
    """What a tool returned. What the model got of it, the agent's own files know better."""
    response = payload.get("tool_response")
    text = response if isinstance(response, str) else _text(response)
    _end(payload, scribe, **{"text": text, "failed": False, "rank": LATER, **fields})


def failed(payload: Payload, scribe: Scribe) -> None:
    status = "interrupted" if payload.get("is_interrupt") is True else ""
    text = str(payload.get("error") or "")
    _end(payload, scribe, text=text, failed=True, status=status, rank=LATER)


def _end(payload: Payload, scribe: Scribe, **outcome: Any) -> None:
    asked = called(payload)
    took = payload.get("duration_ms")
    duration = float(took) if isinstance(took, int | float) else None
    if asked["id"]:  # without one the result itself tells which call it answers
        scribe.call(**asked, **({"rank": outcome["rank"]} if "rank" in outcome else {}))
    ident = asked.pop("id")
    scribe.returned(call=ident, **asked, duration_ms=duration, **outcome)


def _text(response: Any) -> str | None:
    """`{"llmContent": text or parts, "returnDisplay": …}`: the first is what the model got."""
    content = response.get("llmContent") if isinstance(response, dict) else response
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    if content is None:
        return None
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


def stop(payload: Payload, scribe: Scribe) -> None:
    text = payload.get("last_assistant_message")
    if isinstance(text, str) and text.strip():
        scribe.message(role="assistant", text=text)
    scribe.mark("turn_end", rank=Rank.ECHO)


def start(payload: Payload, scribe: Scribe) -> None:
    scribe.mark("start", _fields(payload), rank=Rank.ECHO)


def end(payload: Payload, scribe: Scribe) -> None:
    scribe.mark("end", _fields(payload), rank=Rank.ECHO)


def compaction(payload: Payload, scribe: Scribe) -> None:
    scribe.mark("compaction", _fields(payload), rank=Rank.ECHO)


def subagent_start(child: Callable[[str, str], str]) -> Callable[[Payload, Scribe], None]:
    def tell(payload: Payload, scribe: Scribe) -> None:
        _subagent(payload, scribe, child, "subagent_start")

    return tell


def subagent_end(child: Callable[[str, str], str]) -> Callable[[Payload, Scribe], None]:
    """What the sub-agent said last goes to its own conversation."""

    def tell(payload: Payload, scribe: Scribe) -> None:
        key = _subagent(payload, scribe, child, "subagent_end")
        text = payload.get("last_assistant_message")
        if key is not None and isinstance(text, str) and text.strip():
            scribe.message(role="assistant", text=text, key=key)

    return tell


def _subagent(
    payload: Payload, scribe: Scribe, child: Callable[[str, str], str], kind: str
) -> tuple[str, str] | None:
    agent = payload.get("agent_id")
    if not isinstance(agent, str) or not agent:
        return None
    session = scribe.key[1]
    key = (scribe.key[0], child(session, agent))
    tie = {"kind": "subagent", "name": payload.get("agent_type")}
    scribe.mark(kind, {"conversation_id": key[1], **tie}, rank=Rank.ECHO)
    scribe.note("parent", {"conversation_id": session, **tie}, Rank.ECHO, key=key)
    return key


def claude_events(child: Callable[[str, str], str]) -> dict[str, Callable[[Payload, Scribe], None]]:
    """The events under Claude Code's own names."""
    return {
        "SessionStart": start,
        "UserPromptSubmit": prompt,
        "PreToolUse": call,
        "PostToolUse": returned,
        "PostToolUseFailure": failed,
        "Stop": stop,
        "SubagentStart": subagent_start(child),
        "SubagentStop": subagent_end(child),
        "PreCompact": compaction,
        "SessionEnd": end,
    }
