"""Hook payloads of Claude Code and of the agents that took over their shape: what each states.

    {"session_id":"s1","hook_event_name":"PreToolUse","tool_use_id":"toolu_1",…}            Claude Code
    {"session_id":"s1","hook_event_name":"PreToolUse","turn_id":"t1","tool_name":"Bash",…}  Codex
    {"session_id":"s1","hook_event_name":"BeforeTool","timestamp":"…",…}                    Gemini CLI
    {"session_id":"s1","hook_event_name":"PreToolUse","tool_call_id":"call_1",…}            Qwen Code

They are echoes of what the agent's own files hold. Each source says how its payloads are known, and
what its events are called (`Dialect`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from unspool.facts import NO_ZONE, ZONE, AnyFact, Rank
from unspool.io.origins import Head, Origin, Tally
from unspool.sources.gemini_parts import typed_of
from unspool.sources.hooklogs import TIMES, Moment, head_payloads, iter_payloads
from unspool.sources.scribe import Notebook, Scribe, title_of, touched

Payload = dict[str, Any]
Teller = Callable[[Payload, Scribe], None]
LATER = Rank.ECHO + 1
"""The rank of what a second payload tells of the same thing."""
_COMMON = frozenset((
    "session_id", "transcript_path", "cwd", "hook_event_name", "permission_mode", "agent_id", "model",
    "agent_type", "prompt_id", "turn_id", "timestamp", "agent_transcript_path", "effort", "raw_input",
    "last_assistant_message", "workspace_hash", "child", "answer", *TIMES,
))  # fmt: skip


def _notes(payload: Payload) -> Iterable[tuple[str, Any, int]]:
    yield "workspace.path", payload.get("cwd"), Rank.LAST_RESORT
    yield "model", payload.get("model"), Rank.LAST_RESORT


class Dialect(NamedTuple):
    """How one agent's payloads are read."""

    product: str
    is_own: Callable[[Payload], bool]
    events: Mapping[str, Teller]
    """What each event states; those that are not here state nothing."""
    child: Callable[[str, str], str] = "{}/{}".format
    """Session and agent id → the sub-agent's conversation."""
    follow: Callable[[], Callable[[Payload], bool]] = lambda: lambda payload: True
    """Reads along with a log: whether a payload counts. It may add `answer`, the id of the answer that
    the payload is about, where only the payloads before tell."""
    notes: Callable[[Payload], Iterable[tuple[str, Any, int]]] = _notes
    """What a payload says of its session: name, value, rank."""


def is_log(head: Head, dialect: Dialect) -> bool:
    return head.names_hook and any(
        isinstance(value.get("session_id"), str) and dialect.is_own(value)
        for value in head_payloads(head)
    )


def read_payloads(
    origin: Origin, tally: Tally, recover: bool, dialect: Dialect
) -> Iterator[AnyFact]:
    noted = Notebook()
    counts = dialect.follow()
    for payload, logged in iter_payloads(origin, tally, recover):
        event = payload.get("hook_event_name")
        if not isinstance(payload.get("session_id"), str) or not isinstance(event, str):
            tally.unrecognise("hook payload", origin.path, logged.offset)
        elif not counts(payload):
            tally.noise += 1
        else:
            place = (origin.path, logged.offset, logged.moment)
            facts = state_payload(payload, event, place, dialect, noted)
            tally.noise += not facts
            yield from facts


def state_payload(
    payload: Payload,
    event: str,
    place: tuple[str, int, Moment | None],
    dialect: Dialect,
    noted: Notebook,
) -> list[AnyFact]:
    """The facts of one payload of a log. `noted` is what was noted so far: nothing is noted twice."""
    origin, offset, moment = place
    session, agent = payload["session_id"], payload.get("agent_id")
    key, link = (dialect.product, session), None
    if isinstance(agent, str) and agent:
        payload["child"] = dialect.child(session, agent)
        # That a sub-agent starts and stops is told in the conversation that called it.
        if event not in ("SubagentStart", "SubagentStop"):
            key = (dialect.product, payload["child"])
            link = {"conversation_id": session, "kind": "subagent"}
    time = moment.time if moment is not None else None
    scribe = Scribe(key, origin, offset, time=time, rank=Rank.ECHO)
    teller = dialect.events.get(event)
    if teller is not None:
        teller(payload, scribe)
    if not scribe.facts:
        return []
    zoneless = moment is not None and not moment.zoned
    for name, value, rank in (
        (ZONE, NO_ZONE if zoneless else None, Rank.ECHO),
        # The end of a sub-agent also tells its name: it holds, whichever comes last.
        ("parent", link, LATER),
        *dialect.notes(payload),
    ):
        if noted.is_new(key, f"hook:{name}", value):
            scribe.note(name, value, rank)
    return scribe.facts


def own_fields(payload: Payload) -> Payload:
    """What only this event says."""
    return {
        name: value
        for name, value in payload.items()
        if name not in _COMMON and value not in (None, "", [], {})
    }


def marked(kind: str, told: Callable[[Payload], Payload] = own_fields) -> Teller:
    def tell(payload: Payload, scribe: Scribe) -> None:
        scribe.mark(kind, told(payload), rank=Rank.ECHO)

    return tell


def happened(kind: str) -> Teller:
    """A mark that says no more than its name."""
    return marked(kind, lambda payload: {})


start, end, compaction = marked("start"), marked("end"), marked("compaction")


def prompt(payload: Payload, scribe: Scribe) -> None:
    text = payload.get("prompt")
    if isinstance(text, str) and text:
        text = typed_of(text)
        scribe.message(role="user", text=text, typed=text)
        scribe.note("title", title_of(text), Rank.LAST_RESORT)


CLAUDE_FILE_TOOLS = {
    "Read": "read",
    "NotebookRead": "read",
    "Edit": "edit",
    "MultiEdit": "edit",
    "Update": "edit",
    "NotebookEdit": "edit",
    "Write": "create",
}
"""What Claude Code's tools for files do to them."""


def called(payload: Payload) -> Payload:
    """The call that a payload is about, as the fields of ToolCalled."""
    name, given = str(payload.get("tool_name") or ""), payload.get("tool_input")
    return {
        "id": str(payload.get("tool_call_id") or payload.get("tool_use_id") or ""),
        "name": name,
        "arguments": "" if given is None else msgspec.json.encode(given).decode(),
        "request": str(payload.get("prompt_id") or ""),
        "files": touched(CLAUDE_FILE_TOOLS, name, given, "file_path", "notebook_path"),
    }


def call(payload: Payload, scribe: Scribe, **fields: Any) -> None:
    scribe.call(**called(payload), message=payload.get("answer", ""), **fields)


def returned(payload: Payload, scribe: Scribe, **fields: Any) -> None:
    """What a tool returned. What the model got of it, the agent's own files know better."""
    response = payload.get("tool_response")
    text = response if isinstance(response, str) else _text(response)
    outcome = {"text": text, "failed": False, "rank": LATER, **fields}
    ended(payload, scribe, **outcome)


def failed(payload: Payload, scribe: Scribe) -> None:
    status = "interrupted" if payload.get("is_interrupt") is True else ""
    text = str(payload.get("error") or "")
    ended(payload, scribe, text=text, failed=True, status=status)


def ended(payload: Payload, scribe: Scribe, **outcome: Any) -> None:
    """The call that a payload is about, and what came of it."""
    asked, took = called(payload), payload.get("duration_ms")
    if asked["id"]:  # without one the result itself tells which call it answers
        scribe.call(**asked, rank=outcome.get("rank"))
    scribe.returned(
        call=asked["id"],
        name=asked["name"],
        arguments=asked["arguments"],
        duration_ms=float(took) if isinstance(took, int | float) else None,
        **outcome,
    )


def _text(response: Any) -> str | None:
    """`{"llmContent": text or parts, "returnDisplay": …}`: the first is what the model got."""
    content = response.get("llmContent") if isinstance(response, dict) else response
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    if content is None:
        return None
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()


def last_words(payload: Payload, scribe: Scribe, **fields: Any) -> None:
    text = payload.get("last_assistant_message")
    if isinstance(text, str) and text.strip():
        scribe.message(role="assistant", text=text, **fields)


def stop(payload: Payload, scribe: Scribe) -> None:
    last_words(payload, scribe)
    scribe.mark("turn_end", rank=Rank.ECHO)


def mark_subagent(kind: str, payload: Payload, scribe: Scribe) -> None:
    link = {"conversation_id": payload["child"], "kind": "subagent"}
    if payload.get("agent_type"):
        link["name"] = str(payload["agent_type"])
    scribe.mark(kind, link, rank=Rank.ECHO)


def subagent(kind: str) -> Teller:
    """What the sub-agent said last goes to its own conversation."""

    def tell(payload: Payload, scribe: Scribe) -> None:
        if "child" in payload:
            key, name = (scribe.key[0], payload["child"]), str(payload.get("agent_type") or "")
            mark_subagent(kind, payload, scribe)
            scribe.parent(scribe.key[1], rank=Rank.ECHO, name=name, key=key)
            last_words(payload, scribe, key=key)

    return tell


CLAUDE_EVENTS: Mapping[str, Teller] = {
    "SessionStart": start,
    "UserPromptSubmit": prompt,
    "PreToolUse": call,
    "PostToolUse": returned,
    "PostToolUseFailure": failed,
    "Stop": stop,
    "SubagentStart": subagent("subagent_start"),
    "SubagentStop": subagent("subagent_end"),
    "PreCompact": compaction,
    "SessionEnd": end,
}
"""The events under Claude Code's own names."""
