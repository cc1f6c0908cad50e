"""The timeline sink: the shape that the telemetry dashboard reads, from every source."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import CASES, case_id, cases, facts_of, origins_of, reduce_all
from unspool.sinks import Family, load
from unspool.sinks.timeline import to_timeline
from unspool.trajectory import (
    FileTouch,
    Mark,
    Message,
    ToolCall,
    ToolFunction,
    Trajectory,
    Usage,
    Workspace,
)

KINDS = {
    "session_start", "user_turn", "user_prompt", "ai_response", "file_edit",
    "context_compaction", "session_end",
}  # fmt: skip


def lines(trajectory: Trajectory) -> list[dict[str, Any]]:
    pieces = load("timeline").write(Family(trajectory), {})
    return [json.loads(piece.data) for piece in pieces]


def holds(made: Any, expected: Any, where: str = "") -> None:
    """Every field that is expected is there and equal."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert name in made, f"{where}.{name}"
            holds(made[name], value, f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(made) == len(expected), where
        for number, value in enumerate(expected):
            holds(made[number], value, f"{where}[{number}]")
    else:
        assert made == expected, where


@pytest.mark.parametrize(
    "case", sorted(CASES.glob("*/*/timeline.json")), ids=lambda p: p.parent.name
)
def test_examples_come_out_field_by_field(case: Path) -> None:
    (made,) = reduce_all(facts_of(origins_of(case.parent / "input")))
    (line,) = lines(made)
    holds(line, json.loads(case.read_text()))


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_it_works_for_every_source(case: Path) -> None:
    for made in reduce_all(facts_of(origins_of(case / "input"))):
        (line,) = lines(made)
        assert line["platform"]
        assert line["session_id"]
        assert {entry["type"] for entry in line["timeline"]} <= KINDS
        calls = sum(len(m.tool_calls or ()) for m in made.messages)
        assert line["tools_executed"] == calls
        if made.source != "cursor":
            used = [tool for e in line["timeline"] for tool in e.get("tools_used", ())]
            assert len(used) == calls
            turns = [e for e in line["timeline"] if e.get("sequence_num")]
            assert len(turns) == line["user_turns"]


def call(ident: str, name: str, status: str | None = "completed") -> ToolCall:
    return ToolCall(ident, function=ToolFunction(name, '{"a": 1}'), status=status)


def test_a_conversation_of_another_agent_is_told_in_turns() -> None:
    made = Trajectory(
        "c-1",
        [
            Message("user", "fix it please", timestamp="2025-11-06T10:05:12.000Z"),
            Message("assistant", "", tool_calls=[call("t1", "Read"), call("t2", "Bash", "failed")]),
            Message("tool", "12345", tool_call_id="t1", timestamp="2025-11-06T10:05:14.500Z"),
            Message("user", "a note of the program's", kind="injected"),
            Message("user", "and now", typed="and now"),
        ],
        source="claude-code",
        workspace=Workspace(path="/w", name="w", hash="50ab"),
        marks=[
            Mark("start", 0, "2025-11-06T10:00:00.000Z", data={"source": "startup"}),
            Mark(
                "compaction", 4, data={"trigger": "auto", "messages_before": 9, "messages_after": 2}
            ),
            Mark("turn_end", 5),
            Mark("end", 5, data={"reason": "user_stopped"}),
        ],
    )
    line = to_timeline(made)
    assert (line["platform"], line["session_id"]) == ("claude", "c-1")
    assert (line["user_turns"], line["tools_executed"], line["compactions"]) == (2, 2, 1)
    assert (line["event_count"], line["transcript_messages"]) == (8, 4)
    assert [entry["type"] for entry in line["timeline"]] == [
        "session_start",
        "user_turn",
        "context_compaction",
        "user_turn",
        "session_end",
    ]
    start, turn, compaction, second, end = line["timeline"]
    assert start == {
        "type": "session_start", "timestamp": "2025-11-06T10:00:00Z", "source": "startup",
        "workspace_hash": "50ab",
    }  # fmt: skip
    assert (turn["sequence_num"], turn["prompt_length"], turn["word_count"]) == (1, 13, 3)
    assert turn["tools_used"] == [
        {
            "tool": "Read", "end_time": "2025-11-06T10:05:14.500Z", "parameters": {"a": 1},
            "success": True, "result_length": 5,
        },
        {"tool": "Bash", "parameters": {"a": 1}, "success": False},
    ]  # fmt: skip
    assert (compaction["messages_before"], compaction["messages_after"]) == (9, 2)
    assert second["sequence_num"] == 2
    assert end["reason"] == "user_stopped"


def test_a_duration_that_nobody_measured_is_the_time_since_the_prompt() -> None:
    made = Trajectory(
        "c-1",
        [
            Message("user", "hi", timestamp="2025-11-06T10:00:00.000Z"),
            Message("assistant", "Hello.", timestamp="2025-11-06T10:00:01.250Z"),
        ],
        source="cursor",
    )
    assert to_timeline(made)["timeline"][1]["duration_ms"] == 1250
    made.messages[1].duration_ms = 900.0
    (piece,) = load("timeline").write(Family(made), {})
    assert b'"duration_ms":900}' in piece.data


def test_a_turn_tells_what_it_came_to() -> None:
    made = Trajectory(
        "c-1",
        [
            Message("user", "go", timestamp="2025-11-06T10:00:00.000Z"),
            Message(
                "assistant", "Hm.", timestamp="2025-11-06T10:00:01.000Z",
                usage=Usage(prompt_tokens=10, completion_tokens=5), tool_calls=[call("t1", "Edit")],
            ),
            Message("tool", "ok", tool_call_id="t1", timestamp="2025-11-06T10:00:03.500Z"),
            Message("assistant", "Done.", usage=Usage(completion_tokens=7)),
            Message("user", "and", timestamp="2025-11-06T10:05:00.000Z"),
            Message("assistant", "", timestamp="2025-11-06T10:05:02.000Z"),
        ],
        source="claude-code",
        files=[
            FileTouch("/a", lines_added=3, lines_removed=1, index=1),
            FileTouch("/b", lines_added=2, index=1),
            FileTouch("/c", operation="read", lines_added=9, index=1),
            FileTouch("/d", index=5),
        ],
        marks=[Mark("turn_end", 6, data={"duration_ms": 1900})],
    )  # fmt: skip
    first, second = to_timeline(made)["timeline"]
    assert (first["response_length"], first["tokens_used"], first["duration_ms"]) == (8, 22, 3500)
    assert (first["lines_added"], first["lines_removed"]) == (5, 1)
    assert second["duration_ms"] == 1900
    assert "lines_added" not in second
    assert to_timeline(made)["total_lines_added"] == 5


def test_half_a_character_is_replaced() -> None:
    trajectory = Trajectory(conversation_id="c", messages=[], title="a\ud83d")
    assert lines(trajectory)[0]["title"] == "a\ufffd"
