"""What a trajectory says, in the oracle's words: every way in which the two disagree."""

from collections.abc import Iterable, Iterator
from typing import Any

from tests.copilot_oracle import Agent, Said, Session

MARKS = ("interruption", "resume", "end", "compaction_start", "compaction", "compaction_failed")


def differences(session: Session, key: str, trajectories: Iterable[dict[str, Any]]) -> list[str]:
    """Every disagreement on the session and its sub-agents."""
    found = {t["conversation_id"]: t for t in trajectories}
    lines: list[str] = []
    for agent in session.agents.values():
        name = f"{key}/{agent.key}" if agent.key else key
        if name not in found:
            if agent.said or agent.names:
                lines.append(f"{name}: no such conversation")
            continue
        lines += [f"{name}: {line}" for line in _of_agent(session, agent, found[name])]
    expected = {f"{key}/{a}" if a else key for a in session.agents}
    lines += [f"{name}: unexpected" for name in found if name not in expected]
    if key in found:
        lines += _totals(session, found[key])
    return lines


def _of_agent(session: Session, agent: Agent, found: dict[str, Any]) -> Iterator[str]:
    asked = {call for said in agent.said for call in said.calls}
    mine = [_row(said) for said in agent.said]
    if (
        agent.key
        and agent.key in session.prompts
        and not any(s.role == "user" for s in agent.said[:1])
    ):
        prompt = session.prompts[agent.key]
        mine.insert(0, _row(Said("user", prompt, typed=prompt)))
    theirs = [
        _message(m) for m in found["messages"] if m["role"] != "tool" and not _alone(m, asked)
    ]
    for index in range(max(len(mine), len(theirs))):
        left = mine[index] if index < len(mine) else None
        right = theirs[index] if index < len(theirs) else None
        if left != right:
            yield f"message {index}: {_apart(left, right)}"
            break
    yield from _calls(agent, found)
    yield from _marks(agent, found, asked, len(mine) - len(agent.said))
    if agent.key and agent.key in session.calls_of:
        yield from _parent(session, agent, found)


def _marks(agent: Agent, found: dict[str, Any], asked: set[str], before: int) -> Iterator[str]:
    """What happened between which messages; results, and calls that nobody asked for, do not count."""
    said = [m["role"] != "tool" and not _alone(m, asked) for m in found["messages"]]
    theirs = [(m["kind"], sum(said[: m["index"]])) for m in found.get("marks", ())]
    mine = [(kind, at + before) for kind, at in agent.marks]
    theirs = [mark for mark in theirs if mark[0] in MARKS]
    if mine != theirs:
        yield f"marks: oracle {mine} / ours {theirs}"


def _parent(session: Session, agent: Agent, found: dict[str, Any]) -> Iterator[str]:
    """Nesting: the parent is the agent that asked for the call."""
    root = found["conversation_id"].partition("/")[0]
    spawner = session.calls_of[agent.key]
    mine = (f"{root}/{spawner}" if spawner else root, agent.key)
    parent = found.get("parent") or {}
    theirs = (parent.get("conversation_id"), parent.get("tool_call_id"))
    if mine != theirs:
        yield f"parent: oracle {mine} / ours {theirs}"


def _calls(agent: Agent, found: dict[str, Any]) -> Iterator[str]:
    calls = {c["id"]: c for m in found["messages"] for c in m.get("tool_calls", [])}
    results = {m["tool_call_id"]: m for m in found["messages"] if m["role"] == "tool"}
    if set(calls) != set(agent.names):
        yield f"calls: {sorted(set(calls) ^ set(agent.names))}"
    if set(results) != set(agent.results):
        yield f"results: {sorted(set(results) ^ set(agent.results))}"
    for call, (text, failed) in agent.results.items():
        if call in results and (results[call]["content"], bool(results[call].get("is_error"))) != (
            text,
            failed,
        ):
            told = results[call]["content"]
            yield f"result of {call}: oracle {text[:80]!r} {failed} / ours {told[:80]!r}"
    for call in set(calls) & set(agent.names):
        if (calls[call].get("status") == "interrupted") != (call in agent.closed):
            yield f"{call}: {calls[call].get('status')}, oracle closed {call in agent.closed}"
        if bool(calls[call].get("by_user")) != (call in agent.by_user):
            yield f"{call}: by the person or not"
        if calls[call]["function"]["name"] != agent.names[call]:
            yield f"{call}: {calls[call]['function']['name']} / oracle {agent.names[call]}"


def _totals(session: Session, found: dict[str, Any]) -> Iterator[str]:
    usage = found.get("usage") or {}
    if usage.get("completion_tokens") != session.output_tokens():
        yield f"output tokens: oracle {session.output_tokens()} / ours {usage.get('completion_tokens')}"
    if usage.get("prompt_tokens") != session.prompt_tokens():
        yield f"prompt tokens: oracle {session.prompt_tokens()} / ours {usage.get('prompt_tokens')}"


def _alone(message: dict[str, Any], asked: set[str]) -> bool:
    """It was made for calls that no message asked for."""
    calls = [c["id"] for c in message.get("tool_calls", [])]
    return bool(calls) and not asked & set(calls)


def _row(said: Said) -> tuple[Any, ...]:
    typed = said.typed.strip() if said.typed else None
    return (
        said.role,
        said.content.strip(),
        said.kind,
        typed,
        tuple(said.calls),
        said.thinking,
        said.model,
        said.segment,
        said.mode,
    )


def _message(message: dict[str, Any]) -> tuple[Any, ...]:
    kind = message.get("kind")
    return (
        message["role"],
        message["content"].strip(),
        None if kind in ("command", "steering") else kind,
        (message.get("typed") or "").strip() or None,
        tuple(c["id"] for c in message.get("tool_calls", [])),
        message.get("thinking"),
        message.get("model"),
        message.get("segment") or 0,
        message.get("mode") if kind not in ("notification", "shell") else None,
    )


def _apart(left: tuple[Any, ...] | None, right: tuple[Any, ...] | None) -> str:
    """Only the fields that differ."""
    if left is None or right is None:
        return f"oracle {left} / ours {right}"
    names = ("role", "content", "kind", "typed", "calls", "thinking", "model", "segment", "mode")
    parts = [
        f"{n}: oracle {a!r} / ours {b!r}"
        for n, a, b in zip(names, left, right, strict=True)
        if a != b
    ]
    return "; ".join(parts)
