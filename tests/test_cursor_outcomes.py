"""What became of Cursor's calls, told in as many ways as real databases tell it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cursor_stores import bubble, rows_of, tool, write_chat, write_editor
from tests.harness import facts_of, origins_of, reduce_all
from unspool.sources.cursor.tools import kind_of
from unspool.trajectory import Trajectory


def only(folder: Path) -> Trajectory:
    (made,) = reduce_all(facts_of(origins_of(folder)))
    return made


def of_bubbles(folder: Path, *bubbles: dict[str, Any], **composer: Any) -> Trajectory:
    write_editor(folder / "state.vscdb", rows_of({"composerId": "c", **composer}, *bubbles))
    return only(folder)


@pytest.mark.parametrize("stub", [{}, {"additionalData": {}}, {"additionalData": {"status": "x"}}])
def test_a_bubble_with_an_empty_tool_called_nothing(tmp_path: Path, stub: dict[str, Any]) -> None:
    """Most bubbles of some versions have the field, and nothing in it."""
    made = of_bubbles(
        tmp_path,
        bubble("u", 1, "look", toolFormerData=stub, thinking={}),
        bubble("t", 2, "", toolFormerData=stub, thinking={"text": "hm"}),
        bubble("n", 2, "", toolFormerData=stub, thinking={}, capabilityType=15),
        bubble("a", 2, "seen", toolFormerData=stub, thinking={}),
    )
    assert [(m.role, m.content, m.thinking, m.tool_calls) for m in made.messages] == [
        ("user", "look", None, None),
        ("assistant", "seen", "hm", None),
    ]


def test_an_empty_tool_hides_no_old_one_and_no_error(tmp_path: Path) -> None:
    old = {"tool": 15, "name": "run_terminal_cmd", "toolCallId": "k", "rawArgs": '{"command":"ls"}'}
    made = of_bubbles(
        tmp_path,
        bubble("u", 1, "look"),
        bubble("a", 2, "", toolFormerData={}),
        bubble("e", 2, "", toolFormerData={}, errorDetails={"message": "out of money"}),
        capabilities=[{"type": 15, "data": {"bubbleDataMap": json.dumps({"a": old})}}],
    )
    assert [c.id for c in made.messages[1].tool_calls or ()] == ["k"]
    assert (made.messages[2].kind, made.messages[2].content) == ("error", "out of money")


SHELL = "run_terminal_command_v2"
OUTCOMES: list[tuple[str, dict[str, Any], Any, str]] = [
    (SHELL, {}, {"output": "x", "exitCodeV2": 0, "rejected": False}, "completed"),
    (SHELL, {}, {"output": "x", "exitCodeV2": 2}, "failed"),
    (SHELL, {}, {"output": "x", "exitCode": 1}, "failed"),
    (SHELL, {}, {"output": "x", "exitCode": 1, "exitCodeV2": 0}, "completed"),
    (SHELL, {"additionalData": {"status": "error"}}, {"output": "x"}, "failed"),
    (SHELL, {"additionalData": {"status": "rejected"}}, {"output": ""}, "denied"),
    (SHELL, {}, {"output": "", "rejected": True}, "denied"),
    (SHELL, {}, {"output": "", "endedReason": "RUN_TERMINAL_ENDED_REASON_ABORTED"}, "cancelled"),
    (SHELL, {"status": "skipped"}, None, "denied"),
    (SHELL, {"status": "loading"}, None, "pending"),
    ("read_file_v2", {}, {"error": {"message": "no such file"}}, "failed"),
    ("read_file_v2", {"status": "error", "error": '{"modelVisibleErrorMessage": "gone"}'}, None,
     "failed"),
    ("edit_file_v2", {"status": "cancelled"}, None, "cancelled"),
    ("edit_file_v2", {"status": "cancelled", "userDecision": "rejected"}, None, "denied"),
    ("edit_file_v2", {"userDecision": "rejected"}, {"afterContentId": "x"}, "denied"),
    ("grep", {}, {"success": {"pattern": "x"}}, "completed"),
    ("grep", {"additionalData": {"blockReason": "Not in allowlist: x", "reviewData":
     {"selectedOption": "rejectAndTellWhatToDoDifferently"}}}, {"success": {}}, "completed"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fields", "result", "status"), OUTCOMES)
def test_the_outcome_of_a_call_in_the_editor(
    tmp_path: Path, name: str, fields: dict[str, Any], result: Any, status: str
) -> None:
    made = of_bubbles(
        tmp_path, bubble("u", 1, "go"), tool("a", name, "k", {"path": "/w/a"}, result, **fields)
    )
    (call,) = made.messages[1].tool_calls or ()
    assert call.status == status
    said = [m for m in made.messages if m.role == "tool"]
    assert {m.is_error for m in said} <= {True if status in ("failed", "denied") else None}
    if "error" in fields:
        assert said[0].content == "gone"


SENT: list[tuple[Any, str, str]] = [
    ({"output": {"success": {}}, "isError": False}, "Exit code: 0\n\nok", "completed"),
    ({"output": {"failure": {}}, "isError": False}, "Exit code: 1\n\nno", "failed"),
    ({"output": {"error": {"errorMessage": "x"}}}, "Error: x", "failed"),
    ({"output": {"rejected": {"reason": ""}}}, "Rejected: ", "denied"),
    ({"output": {"success": {}, "isError": True}}, "oh", "failed"),
    ({"output": [], "isError": True}, "oh", "failed"),
    (None, "Exit code: 127\n\nno", "failed"),
    (None, "Exit code: 0\n\nok", "completed"),
    (None, "Rejected: ", "denied"),
]


@pytest.mark.parametrize(("told", "text", "status"), SENT)
def test_the_outcome_of_a_call_on_the_command_line(
    tmp_path: Path, told: Any, text: str, status: str
) -> None:
    part = {"toolCallId": "k", "toolName": "Shell"}
    messages = [
        {"role": "user", "content": "<user_query>go</user_query>"},
        {"role": "assistant", "content": [{"type": "tool-call", **part, "args": {"command": "x"}}]},
        {"role": "tool", "content": [{"type": "tool-result", **part, "result": text}],
         "providerOptions": {"cursor": {"highLevelToolCallResult": told}}},
    ]  # fmt: skip
    write_chat(tmp_path / "chats/0/c/store.db", messages)
    (call,) = only(tmp_path).messages[1].tool_calls or ()
    assert call.status == status


@pytest.mark.parametrize(
    "names",
    [
        ("ReadFile", "read_file_v2", "read_file", "read", "Read"),
        ("run_terminal_command_v2", "Shell", "shell", "run_terminal_cmd"),
        ("StrReplace", "search_replace", "edit_file_v2", "ApplyPatch", "Write", "apply_patch"),
        ("semSearch", "codebase_search", "SemanticSearch"),
        ("create_plan", "CreatePlan", "createPlan"),
        ("TodoWrite", "todo_write", "updateTodos"),
        ("mcp-linear-find", "MCP:find", "mcp_linear_find", "CallMcpTool", "call_mcp_tool", "mcp"),
    ],
)
def test_a_tool_is_one_by_whatever_name(names: tuple[str, ...]) -> None:
    assert len({kind_of(name) for name in names}) == 1


def test_a_server_that_answers_with_an_error_failed(tmp_path: Path) -> None:
    """The command line writes the texts of a server one level deeper than the servers do."""
    answer = {"content": [{"text": {"text": "no such tea"}}], "isError": True}
    base = {"session_id": "s", "timestamp_ms": 1_748_179_900_000}
    call = {"args": {"toolName": "find", "args": {"q": "tea"}}}
    events = [
        {"type": "system", "subtype": "init", "session_id": "s", "cwd": "/w"},
        {"type": "user", "message": {"role": "user", "content": "find it"}, "session_id": "s"},
        {"type": "tool_call", "subtype": "started", "call_id": "k", "tool_call": {"mcpToolCall": call}},
        {"type": "tool_call", "subtype": "completed", "call_id": "k",
         "tool_call": {"mcpToolCall": {**call, "result": {"success": answer}}}},
    ]  # fmt: skip
    (tmp_path / "run.jsonl").write_text("".join(json.dumps({**base, **e}) + "\n" for e in events))
    made = only(tmp_path)
    (asked,) = [c for m in made.messages for c in m.tool_calls or ()]
    assert (asked.status, made.messages[-1].content) == ("failed", "no such tea")

    sent = {"output": {"success": answer}, "isError": False}
    write_chat(tmp_path / "chats/x/one/store.db", [
        {"role": "user", "content": "find it"},
        {"role": "assistant", "content": [
            {"type": "tool-call", "toolCallId": "k", "toolName": "find", "args": {}}]},
        {"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "k", "toolName": "find", "result": "no such tea"}],
         "providerOptions": {"cursor": {"highLevelToolCallResult": sent}}},
    ])  # fmt: skip
    assert [c.status for m in only(tmp_path / "chats").messages for c in m.tool_calls or ()] == [
        "failed"
    ]
