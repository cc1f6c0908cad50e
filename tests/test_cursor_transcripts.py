"""Agent transcripts beside the stores that know more: what they leave out adds nothing."""

import json
from pathlib import Path
from typing import Any

from tests.cursor_stores import bubble, rows_of, tool, write_editor
from tests.harness import facts_of, origins_of, reduce_all
from unspool.trajectory import Trajectory

CID = "5ca1ab1e-0000-4000-8000-000000000001"


def only(folder: Path) -> Trajectory:
    (made,) = reduce_all(facts_of(origins_of(folder)))
    return made


def write_transcript(folder: Path, *lines: tuple[str, list[dict[str, Any]]]) -> None:
    path = folder / f"projects/w/agent-transcripts/{CID}/{CID}.jsonl"
    path.parent.mkdir(parents=True)
    told = [{"role": role, "message": {"content": parts}} for role, parts in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in told))


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


SHELL = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}
READ = {"type": "tool_use", "name": "Read", "input": {"path": "/w/a"}}
LINES = (
    ("user", [text("<user_query>\nlook\n</user_query>")]),
    ("assistant", [text("I will look.\n\n[REDACTED]"), SHELL]),
    ("assistant", [text("[REDACTED]"), READ]),
    ("assistant", [text("**Reading it**\n\n[REDACTED]")]),
    ("assistant", [text("All [REDACTED] here.")]),
)


def test_left_out_reasoning_is_neither_said_nor_thought(tmp_path: Path) -> None:
    write_transcript(tmp_path, *LINES)
    made = only(tmp_path)
    assert [(m.content, m.thinking, m.extra) for m in made.messages[1:]] == [
        ("I will look.", None, {"reasoning_encrypted": True}),
        ("", None, {"reasoning_encrypted": True}),
        ("", "**Reading it**", {"reasoning_encrypted": True}),
        ("All [REDACTED] here.", None, None),
    ]


def test_a_transcript_with_left_out_reasoning_repeats_no_bubble(tmp_path: Path) -> None:
    rows = rows_of(
        {"composerId": CID},
        bubble("1", 1, "look"),
        bubble("2", 2, thinking={"text": "where?"}),
        bubble("3", 2, "I will look."),
        tool("4", "run_terminal_cmd", "call-1", {"command": "ls"}, {"output": "a"}),
        bubble("5", 2, thinking={"text": "a!"}),
        tool("6", "read_file_v2", "call-2", {"targetFile": "/w/a"}, {"contents": "b"}),
        bubble("7", 2, "All [REDACTED] here."),
    )
    write_editor(tmp_path / "Cursor/User/globalStorage/state.vscdb", rows)
    alone = only(tmp_path)
    write_transcript(tmp_path, *LINES[:3], LINES[4])
    made = only(tmp_path)
    assert [(m.role, m.content, m.thinking) for m in made.messages] == [
        (m.role, m.content, m.thinking) for m in alone.messages
    ]


def test_a_call_has_the_id_that_hooks_know_it_by(tmp_path: Path) -> None:
    """The transcript has none; a sub-agent is tied to its call by it."""
    task = {"type": "tool_use", "name": "Task", "input": {"description": "d", "prompt": "dig"}}
    write_transcript(tmp_path, LINES[0], ("assistant", [SHELL, task]))
    base = {"conversation_id": CID, "generation_id": "g", "cursor_version": "3.8"}
    events = [
        {"hook_event_name": "beforeSubmitPrompt", "prompt": "look"},
        {"hook_event_name": "preToolUse", "tool_name": "Shell", "tool_use_id": "toolu_1",
         "tool_input": {"command": "ls"}},
        {"hook_event_name": "postToolUse", "tool_name": "Shell", "tool_use_id": "toolu_1",
         "tool_input": {"command": "ls"}, "tool_output": "a"},
        {"hook_event_name": "preToolUse", "tool_name": "Task", "tool_use_id": "toolu_2",
         "tool_input": {"description": "d", "prompt": "dig"}},
        {"hook_event_name": "subagentStart", "subagent_id": "sub-1", "tool_call_id": "toolu_2",
         "subagent_type": "explore", "task": "dig", "parent_conversation_id": CID},
    ]  # fmt: skip
    (tmp_path / "hooks.log").write_text("".join(json.dumps({**base, **e}) + "\n" for e in events))
    made = only(tmp_path)
    calls = made.messages[1].tool_calls or []
    assert [(c.id, c.status, c.child_id) for c in calls] == [
        ("toolu_1", "completed", None),
        ("toolu_2", None, "sub-1"),
    ]
    assert [(m.role, m.tool_call_id) for m in made.messages[2:]] == [("tool", "toolu_1")]
    assert [(link.conversation_id, link.tool_call_id) for link in made.children or ()] == [
        ("sub-1", "toolu_2")
    ]


def test_what_a_tool_returned_is_no_transcript(tmp_path: Path) -> None:
    """Long results are kept as files beside the transcripts; one may be the text of a transcript."""
    for folder in ("agent-tools", "terminals"):
        path = tmp_path / f".cursor/projects/w/{folder}/{CID}.txt"
        path.parent.mkdir(parents=True)
        path.write_text("user:\nlook\nassistant:\nI looked.\n")
    assert reduce_all(facts_of(origins_of(tmp_path))) == []
    path.rename(tmp_path / f"{CID}.txt")
    assert len(only(tmp_path).messages) == 2


def test_a_turn_that_ended_with_an_error_has_both(tmp_path: Path) -> None:
    write_transcript(tmp_path, *LINES[:1])
    with (tmp_path / f"projects/w/agent-transcripts/{CID}/{CID}.jsonl").open("a") as file:
        file.write(
            json.dumps({"type": "turn_ended", "status": "error", "error": "no kettle"}) + "\n"
        )
    made = only(tmp_path)
    assert [(m.kind, m.content) for m in made.messages[1:]] == [("error", "no kettle")]
    assert [(m.kind, m.data) for m in made.marks or ()] == [("turn_end", {"status": "error"})]
