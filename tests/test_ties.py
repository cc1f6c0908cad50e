"""Who started whom: every way in which a parent and a child may be known to each other."""

import json
from pathlib import Path
from typing import Any

from tests.harness import facts_of, origins_of, reduce_all
from unspool.link import link
from unspool.link.cards import Card, Key
from unspool.trajectory import Link, Trajectory

AGENT = "claude-code"
Tie = tuple[str | None, str | None]


def child(ident: str, **fields: Any) -> Card:
    parent = Link("s", tool_call_id=fields.pop("call", None))
    return Card(AGENT, ident, parent=parent, session_id="s", **fields)


def ties(*cards: Card) -> dict[str, Tie]:
    """Child → (parent, call), told by both sides alike."""
    patches = link(cards)
    up = {
        key[1]: (patch.parent.conversation_id, patch.parent.tool_call_id)
        for key, patch in patches.items()
        if patch.parent is not None
    }
    down: dict[str, Tie] = {
        tie.conversation_id: (key[1], tie.tool_call_id)
        for key, patch in patches.items()
        for tie in patch.children
    }
    assert up == down
    return up


def test_a_run_of_several_goes_to_the_call_that_says_it() -> None:
    session = Card(AGENT, "s", session_id="s")
    lead = child("s/lead", call="c1", calls=["c2"], runs={"r": "c2"})
    cards = (session, lead, child("s/a", run="r"), child("s/b", run="r"), child("s/c", run="q"))
    assert ties(*cards) == {
        "s/lead": ("s", "c1"),
        "s/a": ("s/lead", "c2"),
        "s/b": ("s/lead", "c2"),
        "s/c": ("s", None),
    }
    assert link(cards)[(AGENT, "s/lead")].spawned == {"c2": "s/a"}


def test_a_run_of_another_session_is_another_run() -> None:
    other = Card(AGENT, "t", session_id="t", runs={"r": "c"})
    assert ties(Card(AGENT, "s", session_id="s"), other, child("s/a", run="r")) == {
        "s/a": ("s", None)
    }


def test_a_task_may_be_a_sub_agent_or_not() -> None:
    session = Card(AGENT, "s", session_id="s", tasks={"a": "c1", "shell": "c2"})
    assert ties(session, child("s/a")) == {"s/a": ("s", "c1")}


def test_the_words_are_looked_for_in_the_whole_session() -> None:
    words = b"12345678"
    session = Card(AGENT, "s", session_id="s", calls=["c1"])
    lead = child("s/lead", call="c1", calls=["c2", "c3"], prompts={"c2": words, "c3": words})
    first, second = child("s/a", opening=words), child("s/b", opening=words)
    assert ties(session, lead, first, second, child("s/c", opening=words)) == {
        "s/lead": ("s", "c1"),
        "s/a": ("s/lead", "c2"),
        "s/b": ("s/lead", "c3"),
        "s/c": ("s", None),
    }


def test_who_is_named_as_the_parent_is_asked_first() -> None:
    words = b"12345678"
    early = child("s/early", call="c0", prompts={"c1": words}, started_at="2026-01-01")
    session = Card(AGENT, "s", session_id="s", prompts={"c2": words}, started_at="2026-01-02")
    assert ties(early, session, child("s/a", opening=words))["s/a"] == ("s", "c2")


def test_another_conversation_of_the_session_is_not_the_parent() -> None:
    words = b"12345678"
    other = Card(AGENT, "t", session_id="s", prompts={"c": words})
    assert ties(Card(AGENT, "s", session_id="s"), other, child("s/a", opening=words)) == {
        "s/a": ("s", None)
    }


def test_the_first_call_started_it_and_a_later_one_sent_it_on() -> None:
    session = Card(AGENT, "s", session_id="s", spawned={"c1": "s/a", "c2": "s/a"})
    assert ties(session, child("s/a")) == {"s/a": ("s", "c1")}


def absorbed(*cards: Card) -> list[Key]:
    return [key for key, patch in link(cards).items() if patch.absorbed]


def test_one_sub_agent_under_two_names_is_one() -> None:
    session = Card(AGENT, "s", session_id="s", spawned={"c": "s/a"})
    whole = child("s/a", names=b"1111111122222222")
    assert absorbed(session, whole, child("s/c", call="c", names=b"11111111")) == [(AGENT, "s/c")]


def test_what_only_the_other_name_knows_is_not_lost() -> None:
    session = Card(AGENT, "s", session_id="s", spawned={"c": "s/a"})
    whole = child("s/a", names=b"11111111")
    assert absorbed(session, whole, child("s/c", call="c", names=b"33333333")) == []


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def said(kind: str, uuid: str, parent: str | None, content: Any, **fields: Any) -> dict[str, Any]:
    message = {"id": f"m-{uuid}", "content": content} if kind == "assistant" else None
    message = message or {"content": content}
    base = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message}
    return {**base, **fields}


def by_id(folder: Path) -> dict[str, Trajectory]:
    return {t.conversation_id: t for t in reduce_all(facts_of(origins_of(folder)))}


def test_an_old_stream_beside_the_files_gives_each_agent_once(tmp_path: Path) -> None:
    """It names no agent: only the session's own file tells which call started which."""
    call = {"type": "tool_use", "id": "c", "name": "Task", "input": {"prompt": "go"}}
    result = [{"type": "tool_result", "tool_use_id": "c", "content": "done"}]
    folder = tmp_path / "projects" / "p"
    write(folder / "s.jsonl", [
        said("user", "1", None, "start"),
        said("assistant", "2", "1", [call]),
        said("user", "3", "2", result, toolUseResult={"agentId": "a", "totalDurationMs": 1}),
    ])  # fmt: skip
    write(folder / "agent-a.jsonl", [
        said("user", "4", None, "go", isSidechain=True, agentId="a"),
        said("assistant", "5", "4", "done", isSidechain=True, agentId="a"),
    ])  # fmt: skip
    write(tmp_path / "out.jsonl", [
        {"type": "system", "subtype": "init", "session_id": "s", "tools": []},
        {"type": "assistant", "session_id": "s", "parent_tool_use_id": None,
         "message": {"id": "m-2", "content": [call]}},
        {"type": "user", "session_id": "s", "parent_tool_use_id": "c",
         "message": {"content": "go"}},
        {"type": "assistant", "session_id": "s", "parent_tool_use_id": "c",
         "message": {"id": "m-5", "content": "done"}},
        {"type": "user", "session_id": "s", "parent_tool_use_id": None,
         "message": {"content": result}},
    ])  # fmt: skip
    made = by_id(tmp_path)
    assert sorted(made) == ["s", "s/a"]
    assert [m.content for m in made["s/a"].messages] == ["go", "done"]
    assert made["s/a"].parent == Link("s", tool_call_id="c")
    assert any(path.endswith("out.jsonl") for path in made["s/a"].origins or ())


def test_nesting_has_no_end(tmp_path: Path) -> None:
    """Fifty sub-agents, each started by the one before; no file says more than its session."""
    deepest = 50
    folder = tmp_path / "0c8d2d9e-3a4f-4a51-9d55-2f3c1a6b7c88" / "subagents"
    for depth in range(deepest + 1):
        path = folder / f"agent-a{depth}.jsonl" if depth else folder.parent.with_suffix(".jsonl")
        call = {
            "type": "tool_use", "id": f"c{depth + 1}", "name": "Agent",
            "input": {"prompt": f"go {depth + 1}"},
        }  # fmt: skip
        write(path, [
            said("user", f"u{depth}", None, f"go {depth}"),
            said("assistant", f"v{depth}", f"u{depth}", [call]),
        ])  # fmt: skip
    made = by_id(tmp_path)
    assert len(made) == deepest + 1
    session = folder.parent.name
    names = [session, *(f"{session}/a{depth}" for depth in range(1, deepest + 1))]
    for depth in range(1, deepest + 1):
        below = made[names[depth]]
        assert below.parent == Link(names[depth - 1], tool_call_id=f"c{depth}")
        above = made[names[depth - 1]]
        (call_made,) = above.messages[1].tool_calls or []
        assert call_made.child_id == names[depth]
        assert below.session_id == session
