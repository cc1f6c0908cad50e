"""What was taken back, told again by hooks and a transcript, is in the branch and not in the thread."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cursor_stores import bubble, rows_of, tool, write_editor
from tests.harness import facts_of, origins_of, reduce_all
from unspool.trajectory import Message, Trajectory

CID = "5ca1ab1e-0000-4000-8000-000000000002"
TURNS = (("one", "Done once."), ("regretted", "Done wrongly."), ("two", "Done twice."))
"""Each asks the same tool of a server, which is all that its events tell."""


def at(second: int) -> dict[str, str]:
    return {"createdAt": f"2026-01-01T10:00:{second:02d}.000Z"}


def write_bubbles(folder: Path) -> None:
    made: list[dict[str, Any]] = []
    for number, (asked, answered) in enumerate(TURNS):
        call = tool(f"{number}c", "mcp_find", f"call-{number}", {"tools": [{"name": "find"}]},
                    {"result": f"found {number}"})  # fmt: skip
        made += [
            bubble(f"{number}a", 1, asked, requestId=f"gen-{number}", **at(number * 10)),
            {**call, **at(number * 10 + 1)},
            bubble(f"{number}z", 2, answered, **at(number * 10 + 2)),
        ]
    listed = [*made[:3], *made[6:], *made[3:6]]
    rows = rows_of({"composerId": CID}, *listed, listed=6)
    write_editor(folder / "Cursor/User/globalStorage/state.vscdb", rows)


def write_hooks(folder: Path) -> None:
    lines: list[dict[str, Any]] = []
    for number, (asked, answered) in enumerate(TURNS):
        mcp = {"tool_name": "find", "tool_input": "{}"}
        events = [
            {"hook_event_name": "beforeSubmitPrompt", "prompt": asked},
            {"hook_event_name": "beforeMCPExecution", **mcp},
            {"hook_event_name": "afterMCPExecution", **mcp, "result_json": f"found {number}"},
            {"hook_event_name": "afterAgentResponse", "text": answered},
            {
                "hook_event_name": "stop",
                "status": "completed",
                "input_tokens": 10,
                "output_tokens": 1,
            },
        ]
        base = {"conversation_id": CID, "generation_id": f"gen-{number}", "cursor_version": "3.8"}
        lines += [{**base, **event} for event in events]
    (folder / "hooks.log").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_transcript(folder: Path) -> None:
    lines: list[dict[str, Any]] = []
    use = {"type": "tool_use", "name": "CallMcpTool", "input": {"toolName": "find"}}
    for asked, answered in TURNS:
        for role, part in (
            ("user", {"type": "text", "text": f"<user_query>{asked}</user_query>"}),
            ("assistant", use),
            ("assistant", {"type": "text", "text": answered}),
        ):
            lines.append({"role": role, "message": {"content": [part]}})
        lines.append({"type": "turn_ended", "status": "success"})
    path = folder / f"projects/w/agent-transcripts/{CID}/{CID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def only(folder: Path) -> Trajectory:
    (made,) = reduce_all(facts_of(origins_of(folder)))
    return made


def said(messages: list[Message]) -> list[tuple[str, str, list[str]]]:
    return [(m.role, m.typed or m.content, [c.id for c in m.tool_calls or ()]) for m in messages]


@pytest.mark.parametrize(
    "others", [(write_hooks,), (write_transcript,), (write_hooks, write_transcript)]
)
def test_the_echoes_of_a_branch_are_the_branchs(tmp_path: Path, others: Any) -> None:
    write_bubbles(tmp_path)
    alone = only(tmp_path)
    assert [m.content for m in alone.messages if m.role == "user"] == ["one", "two"]
    for write in others:
        write(tmp_path)
    made = only(tmp_path)
    assert said(made.messages) == said(alone.messages)
    (before,), (after,) = alone.branches or (), made.branches or ()
    assert (before.index, said(before.messages)) == (after.index, said(after.messages))
    ends = [mark.index for mark in made.marks or () if mark.kind == "turn_end"]
    assert set(ends) == {4, 8}
    if write_hooks in others:
        assert made.usage is not None
        assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (20, 2)
