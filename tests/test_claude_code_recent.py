"""Claude Code: what the versions of autumn 2026 write beside what the older ones did."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.claude_lines import SESSION, answer, call, line, read, result, said, session, write
from tests.harness import facts_of, origins_of
from unspool.io.origins import Tally
from unspool.trajectory import Message


def spoken(messages: list[Message]) -> list[tuple[str, str | None, str]]:
    return [(m.role, m.kind, m.content) for m in messages]


def snapshot(uuid: str, parent: str | None, *prompt: Any) -> dict[str, Any]:
    tools = [{"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}}]
    told = {"type": "prompt_snapshot", "systemPrompt": list(prompt), "tools": tools}
    return line("attachment", uuid, parent, attachment=told)


def test_the_system_prompt_and_the_tools_are_read(tmp_path: Path) -> None:
    """A snapshot of them is written again with every resumption; the same one is there once."""
    made = session(
        tmp_path,
        snapshot("0", None, "You are a helper.", "Be brief."),
        said("1", "0", "go"),
        answer("2", "1", "m1", "gone"),
        snapshot("3", "2", "You are a helper.", "Be brief."),
        said("4", "3", "on"),
        answer("5", "4", "m2", "on it"),
        snapshot("6", "5", {"type": "text", "text": "You are another."}),
        said("7", "6", "and?"),
    )
    assert spoken(made.messages) == [
        ("system", None, "You are a helper.\n\nBe brief."),
        ("user", None, "go"),
        ("assistant", None, "gone"),
        ("user", None, "on"),
        ("assistant", None, "on it"),
        ("system", None, "You are another."),
        ("user", None, "and?"),
    ]
    assert [tool["name"] for tool in made.tool_definitions or ()] == ["Bash"]
    assert made.marks is None


def test_an_attachment_is_what_the_model_got_of_it(tmp_path: Path) -> None:
    told = {"type": "environment", "snapshot": {"platform": "linux"}}
    shown = [{"content": "<system-reminder>\nlinux\n</system-reminder>"}, {"content": [
        {"type": "text", "text": "and more"}]}]  # fmt: skip
    made = session(
        tmp_path,
        line("attachment", "0", None, attachment=told, rendered=shown),
        said("1", "0", "go"),
    )
    assert spoken(made.messages) == [
        ("user", "injected", "<system-reminder>\nlinux\n</system-reminder>\n\nand more"),
        ("user", None, "go"),
    ]
    assert made.messages[0].extra == {"attachment": "environment"}


@pytest.mark.parametrize("kind", ["peer", "coordinator", "task-notification", "channel"])
def test_only_a_person_types(tmp_path: Path, kind: str) -> None:
    made = session(
        tmp_path,
        said("1", None, "go", origin={"kind": "human"}, promptSource="typed"),
        answer("2", "1", "m1", "gone"),
        said("3", "2", "the other one is done", origin={"kind": kind}, promptSource="system"),
        answer("4", "3", "m2", "fine"),
    )
    assert [(m.kind, m.typed, m.turn) for m in made.messages] == [
        (None, "go", 0), (None, None, 0), ("notification", None, 0), (None, None, 0),
    ]  # fmt: skip
    assert made.title == "go"


@pytest.mark.parametrize(
    ("denial", "status", "by"),
    [
        ("interrupted", "interrupted", None),
        ("cancelled", "cancelled", None),
        ("user-rejected", "denied", "user"),
        ("permission-rule", "denied", None),
    ],
)
def test_why_a_call_did_not_run_is_told(
    tmp_path: Path, denial: str, status: str, by: str | None
) -> None:
    refused = result("3", "2", "c1", "No.", toolDenialKind=denial, toolUseResult="Error: No.")
    refused["message"]["content"][0]["is_error"] = True
    made = session(tmp_path, said("1", None, "go"), answer("2", "1", "m1", call("c1")), refused)
    (called,) = made.messages[1].tool_calls or []
    assert called.status == status
    assert (called.extra or {}).get("denied_by") == by


def test_thinking_tokens_effort_and_an_answer_that_was_cut_off(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 3,
        "output_tokens": 40,
        "output_tokens_details": {"thinking_tokens": 25},
    }
    made = session(
        tmp_path,
        said("1", None, "go"),
        answer("2", "1", "m1", "Let me", body={"usage": usage}, effort="high",
               perTurnEffort=None, isAbortedMidStream=True),
    )  # fmt: skip
    message = made.messages[1]
    assert message.usage is not None
    assert message.usage.reasoning_tokens == 25
    assert message.extra == {"effort": "high"}
    assert message.status == "interrupted"
    odd = {**usage, "output_tokens_details": "none"}
    made = session(tmp_path, said("1", None, "go"), answer("2", "1", "m", "x", body={"usage": odd}))
    assert made.usage is not None
    assert (made.usage.completion_tokens, made.usage.reasoning_tokens) == (40, None)


NOTED = [
    ({"type": "relocated", "relocatedCwd": "/w/elsewhere"}, "relocated_path", "/w/elsewhere"),
    ({"type": "worktree-state", "worktreeSession": {
        "originalCwd": "/w/shop", "worktreePath": "/w/tree", "worktreeName": "tree",
        "worktreeBranch": "worktree-tree", "originalBranch": "main", "sessionId": SESSION}},
     "worktree", {"path": "/w/tree", "name": "tree", "branch": "worktree-tree",
                  "original_path": "/w/shop", "original_branch": "main"}),
    ({"type": "cost-state", "totalCostUSD": 0.5, "totalAPIDuration": 70, "totalDuration": 900,
      "totalToolDuration": 8, "totalLinesAdded": 3, "totalLinesRemoved": 0, "modelUsage": {
          "claude-x": {"inputTokens": 1, "outputTokens": 2, "costUSD": 0.5}}},
     "cost_state", {"cost_usd": 0.5, "api_duration_ms": 70, "duration_ms": 900,
                    "tool_duration_ms": 8, "lines_added": 3, "lines_removed": 0,
                    "models": {"claude-x": {"inputTokens": 1, "outputTokens": 2, "costUSD": 0.5}}}),
    ({"type": "fork-context-ref", "agentId": "a1", "parentSessionId": SESSION,
      "parentLastUuid": "u9", "contextLength": 12},
     "given_context", {"after": "u9", "messages": 12}),
]  # fmt: skip


@pytest.mark.parametrize(("row", "name", "value"), NOTED, ids=lambda x: str(x)[:20])
def test_lines_that_tell_something_of_the_session(
    tmp_path: Path, row: dict[str, Any], name: str, value: Any
) -> None:
    """Of those that are written again and again, the last one holds. What the program says a session
    cost holds its sub-agents too, so it is no total of the conversation."""
    older = {k: v if k == "type" else None for k, v in row.items()}
    rows = [{**older, "sessionId": SESSION}, {**row, "sessionId": SESSION}]
    path = write(tmp_path / f"{SESSION}.jsonl", said("1", None, "go"), *rows)
    tally = Tally()
    facts_of(origins_of(path), tally)
    assert tally.unrecognised == 0
    made = read(path)[SESSION]
    assert made.metadata[name] == value
    assert made.usage is None


def test_a_session_that_went_on_in_another(tmp_path: Path) -> None:
    other = SESSION.replace("0f", "1f")
    write(tmp_path / f"{SESSION}.jsonl", said("1", None, "go"),
          {"type": "continued-in", "continuedInSessionId": other, "sessionId": SESSION})  # fmt: skip
    write(tmp_path / f"{other}.jsonl", said("9", None, "on", 60, sessionId=other))
    made = read(tmp_path)
    (down,) = made[SESSION].children or []
    up = made[other].parent
    assert (down.conversation_id, down.kind) == (other, "continuation")
    assert up is not None
    assert (up.conversation_id, up.kind) == (SESSION, "continuation")


BOOKKEEPING = (
    "atis-latch", "bridge-session", "frame-link", "artifact-autoreact-ledger", "isolation-latch",
    "artifact-comment-monitor", "history-suppression", "attribution-snapshot", "observer-ref",
    "marble-origami-commit", "marble-origami-snapshot", "marble-origami-reset", "ended-by-model",
    "speculation-accept", "task-summary", "saved_hook_context", "file-history-delta",
)  # fmt: skip


@pytest.mark.parametrize("kind", BOOKKEEPING)
def test_the_programs_own_bookkeeping_is_noise(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", {"type": kind, "sessionId": SESSION, "v": 1},
                 said("1", None, "go"))  # fmt: skip
    tally = Tally()
    facts_of(origins_of(path), tally)
    assert (tally.records, tally.noise, tally.unrecognised) == (2, 1, 0)


def test_a_line_may_name_its_session_twice(tmp_path: Path) -> None:
    """`session_id` beside `sessionId`: still a line of the transcript, not of a stream."""
    made = session(tmp_path, said("1", None, "go", session_id=SESSION),
                   answer("2", "1", "m1", "gone", session_id=SESSION))  # fmt: skip
    assert spoken(made.messages) == [("user", None, "go"), ("assistant", None, "gone")]
    assert [m.id for m in made.messages] == ["1", "m1"]


def test_a_session_that_was_renamed(tmp_path: Path) -> None:
    """The new name lies beside the transcript."""
    root = tmp_path / "projects" / "shop"
    write(root / f"{SESSION}.jsonl", said("1", None, "go"),
          {"type": "ai-title", "aiTitle": "Going", "sessionId": SESSION})  # fmt: skip
    (root / SESSION).mkdir()
    (root / SESSION / "custom-title.json").write_text(json.dumps({"customTitle": "Mine"}))
    (root / "custom-title.json").write_text(json.dumps({"customTitle": "Nobody's"}))
    made = read(root)
    assert {ident: one.title for ident, one in made.items()} == {SESSION: "Mine"}


def test_a_hook_tells_that_a_session_is_a_fork(tmp_path: Path) -> None:
    """The fork may end before the session that it was made of: only its hook knows."""
    fork = SESSION.replace("0f", "1f")
    first = [said("1", None, "go", 1), answer("2", "1", "msg_01AAAAAAAAAAAAAAAA", "gone", second=2)]
    copy = [{**row, "sessionId": fork} for row in first]
    write(tmp_path / f"{SESSION}.jsonl", *first, said("3", "2", "on", 300))
    write(tmp_path / f"{fork}.jsonl", *copy, said("4", "2", "aside", 100, sessionId=fork))
    start = {"session_id": fork, "hook_event_name": "SessionStart", "source": "fork",
             "transcript_path": f"/h/{fork}.jsonl", "cwd": "/w/shop"}  # fmt: skip
    write(tmp_path / "hooks.jsonl", start)
    made = read(tmp_path)
    assert made[SESSION].parent is None
    above = made[fork].parent
    assert above is not None
    assert (above.conversation_id, above.kind) == (SESSION, "fork")
    assert [m.copied for m in made[fork].messages] == [True, True, False]
