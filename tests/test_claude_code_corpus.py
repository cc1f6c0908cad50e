"""Claude Code on real sessions, against a plain second reading (tests/claude_oracle.py)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.claude_oracle import Session, blocks
from tests.harness import corpus, facts_of, origins_of, plain, reduce_all
from unspool.trajectory import Trajectory


def _sessions() -> list[Path]:
    found: list[Path] = []
    for folder in ("sessions", "projects"):
        root = corpus("claude-code", folder)
        if root is not None:
            found += [p for p in root.rglob("*.jsonl") if not p.name.startswith("agent-")]
    return sorted(found)


@pytest.fixture(
    scope="module", params=_sessions() or [None], ids=lambda p: p.stem[:24] if p else "none"
)
def pair(request: pytest.FixtureRequest) -> tuple[Session, Trajectory]:
    if request.param is None:
        pytest.skip("no corpus on this machine")
    session = Session(request.param)
    made = reduce_all(facts_of(origins_of(request.param)))
    if not made:
        pytest.skip("a file without messages")
    main = [t for t in made if "/" not in t.conversation_id]
    assert len(main) == 1
    return session, main[0]


def test_same_answers_in_the_same_order(pair: tuple[Session, Trajectory]) -> None:
    session, made = pair
    assert [m.id for m in made.messages if m.role == "assistant"] == session.message_ids()


def test_same_words_of_the_person(pair: tuple[Session, Trajectory]) -> None:
    session, made = pair
    ids = [m.id for m in made.messages if m.role == "user" and m.id in session.main]
    lines = [i for i in ids if session.main[i]["type"] == "user"]
    assert lines == session.prompts()


def test_same_calls_and_results(pair: tuple[Session, Trajectory]) -> None:
    session, made = pair
    assert {c.id for m in made.messages for c in m.tool_calls or ()} == session.calls()
    assert {m.tool_call_id for m in made.messages if m.role == "tool"} == session.results()


def test_same_tokens(pair: tuple[Session, Trajectory]) -> None:
    session, made = pair
    usage = made.usage
    known = ((usage.prompt_tokens or 0, usage.completion_tokens or 0)) if usage else (0, 0)
    assert known == session.tokens()


def test_every_line_is_somewhere(pair: tuple[Session, Trajectory]) -> None:
    """On the chain, or in a branch: at least 99.9 % of main-thread lines are on the chain or known
    to be abandoned, and what is abandoned is exactly what the second reading says."""
    session, made = pair
    inside: set[str] = set()
    for branch in made.branches or ():
        assert 0 <= branch.index <= len(made.messages)
        for message in branch.messages:
            inside |= {message.id or "", message.tool_call_id or ""}
            inside |= {call.id for call in message.tool_calls or ()}
    for uuid in session.abandoned:
        row = session.main[uuid]
        names = {uuid, (row.get("message") or {}).get("id") or ""}
        names |= {b.get("id") or b.get("tool_use_id") or "" for b in blocks(row)}
        assert names & inside, row


def test_growing() -> None:
    """A later copy of a growing file leaves all messages as they were, save the last open one."""
    root = corpus("claude-code", "growing")
    if root is None:
        pytest.skip("no corpus on this machine")
    for folder in sorted(root.iterdir()):
        before: list[dict[str, object]] = []
        for path in sorted(folder.glob("*.jsonl")):
            (made,) = plain(reduce_all(facts_of(origins_of(path))), root)
            messages = made["messages"]
            closed = [
                m for m in before if m.get("id") != (before[-1].get("id") if before else None)
            ]
            assert messages[: len(closed)] == closed
            before = messages


def _known(messages: list[dict[str, Any]]) -> list[tuple[str, Any, Any]]:
    """What the transcript itself holds, without what only another channel saw."""
    echoes = {
        call["id"]
        for message in messages
        if message.get("extra", {}).get("echo_only")
        for call in message.get("tool_calls", ())
    }
    return [
        (m["role"], m["content"], m.get("id"))
        for m in messages
        if not m.get("extra", {}).get("echo_only") and m.get("tool_call_id") not in echoes
    ]


def test_hooks_join_their_transcript() -> None:
    """One conversation: the transcript's messages are as they were, and the hooks add what only
    they know."""
    root = corpus("claude-code", "hooks_and_transcript")
    if root is None:
        pytest.skip("no corpus on this machine")
    (alone,) = plain(reduce_all(facts_of(origins_of(root / "logs__chat.json"))), root)
    ident = alone["conversation_id"]
    both = [
        t
        for t in plain(reduce_all(facts_of(origins_of(root))), root)
        if t["conversation_id"] == ident
    ]
    assert len(both) == 1
    assert _known(both[0]["messages"]) == _known(alone["messages"])
    assert both[0]["usage"] == alone["usage"]
    calls = [c["id"] for m in both[0]["messages"] for c in m.get("tool_calls", ())]
    assert len(calls) == len(set(calls))
    logged = json.loads((root / "logs__post_tool_use.json").read_bytes())
    assert {p["tool_use_id"] for p in logged} <= set(calls)
    prompts = json.loads((root / "logs__user_prompt_submit.json").read_bytes())
    said = [p["prompt"].strip() for p in prompts if p["session_id"] == ident]
    typed = [
        m["typed"].strip() for m in both[0]["messages"] if m["role"] == "user" and m.get("typed")
    ]
    assert [text for text in typed if text in said] == said
