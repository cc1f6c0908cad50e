"""Hooks: the same call by several events is one, in every generation of the hooks."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.harness import facts_of, origins_of, reduce_all
from unspool.io.origins import Tally
from unspool.trajectory import Trajectory

CID = "c0ffee00-0000-4000-8000-000000000002"
GEN = "9e0e0000-0000-4000-8000-000000000002"
BASE = {"conversation_id": CID, "generation_id": GEN, "workspace_roots": ["/w/p"]}


def write(path: Path, events: list[dict[str, Any]], **more: Any) -> None:
    path.write_text("".join(json.dumps({**BASE, **more, **event}) + "\n" for event in events))


def only(folder: Path, tally: Tally | None = None) -> Trajectory:
    (made,) = reduce_all(facts_of(origins_of(folder), tally or Tally()))
    return made


def event(name: str, **fields: Any) -> dict[str, Any]:
    return {"hook_event_name": name, **fields}


RUN = {"tool_name": "Shell", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
ASK = {"tool_name": "MCP:find", "tool_input": {"q": 1}, "tool_use_id": "t2"}
PUT = {
    "tool_name": "Write",
    "tool_input": {"file_path": "/w/p/a", "content": "x\n"},
    "tool_use_id": "t3",
}
WAYS: dict[str, list[dict[str, Any]]] = {
    "shell": [
        event("preToolUse", **RUN),
        event("beforeShellExecution", command="ls", cwd="", sandbox=False),
        event("afterShellExecution", command="ls", output="a b", duration=5),
        event("postToolUse", **RUN, tool_output=json.dumps({"output": "a b", "exitCode": 0})),
    ],
    "mcp": [
        event("preToolUse", **ASK),
        event("beforeMCPExecution", tool_name="find", tool_input='{"q": 1}', command="server"),
        event("afterMCPExecution", tool_name="find", tool_input='{"q": 1}', result_json='"found"'),
        event("postToolUse", **ASK, tool_output='"found"'),
    ],
    "edit": [
        event("preToolUse", **PUT),
        event("afterFileEdit", file_path="/w/p/a", edits=[{"old_string": "", "new_string": "x\n"}]),
        event("postToolUse", **PUT, tool_output='{"ok": true}'),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", WAYS)
def test_any_of_the_events_of_a_call_are_one_call(kind: str, tmp_path: Path) -> None:
    """All events that a version may log of two calls, one after the other, and any part of them."""
    steps = WAYS[kind]
    for size in range(1, len(steps) + 1):
        for number, chosen in enumerate(combinations(steps, size)):
            folder = tmp_path / f"{size}-{number}"
            folder.mkdir()
            again = [
                {**e, "tool_use_id": f"{e['tool_use_id']}b"} if "tool_use_id" in e else e
                for e in chosen
            ]
            prompt = event("beforeSubmitPrompt", prompt="go")
            write(
                folder / "hooks.jsonl", [prompt, *chosen, *again, event("stop", status="completed")]
            )
            made = only(folder)
            calls = [call for m in made.messages for call in m.tool_calls or ()]
            assert len(calls) == 2, [e["hook_event_name"] for e in chosen]
            assert len([m for m in made.messages if m.role == "tool"]) <= 2
            if kind == "edit":
                assert sorted({f.path for f in made.files or ()}) == ["/w/p/a"]
                assert len(made.files or ()) == 2
                assert sum(f.lines_added or 0 for f in made.files or ()) == 2


EVENTS = (
    "beforeSubmitPrompt afterAgentResponse afterAgentThought preToolUse postToolUse postToolUseFailure"
    " beforeShellExecution afterShellExecution beforeMCPExecution afterMCPExecution beforeReadFile"
    " afterFileEdit afterTabFileEdit sessionStart sessionEnd stop preCompact subagentStart subagentStop"
    " workspaceOpen beforeTabFileRead"
)


def test_every_event_is_known_and_counted(tmp_path: Path) -> None:
    events = [event(name, session_id=CID, prompt="p", text="t", command="c", status="s",
                    tool_name="Shell", tool_input={"command": "c"}, file_path="/w/p/f",
                    edits=[], subagent_id="sub", parent_conversation_id=CID)
              for name in EVENTS.split()]  # fmt: skip
    write(tmp_path / "hooks.jsonl", events)
    tally = Tally()
    reduce_all(facts_of(origins_of(tmp_path), tally))
    assert (tally.records, tally.unrecognised, tally.problems) == (len(events), 0, 0)


def test_without_a_name_a_call_of_a_server_is_not_a_command(tmp_path: Path) -> None:
    beta = [
        {"prompt": "go", "attachments": []},
        {"tool_name": "find", "tool_input": "{}", "command": "npx server"},
        {"command": "ls", "cwd": "/w/p"},
        {"file_path": "/w/p/a", "edits": [{"old_string": "a", "new_string": "b"}]},
        {"file_path": "/w/p/b", "content": "b"},
        {"status": "completed"},
    ]
    path = tmp_path / "hooks.jsonl"
    write(path, beta)
    names = [call.name for m in only(tmp_path).messages for call in m.tool_calls or ()]
    assert names == ["MCP:find", "Shell", "edit_file"]


def test_the_id_of_the_conversation_is_no_turn(tmp_path: Path) -> None:
    """The command line writes it as the generation of every event."""
    events = [
        event("beforeSubmitPrompt", prompt="one"),
        event("afterAgentResponse", text="First."),
        event("beforeSubmitPrompt", prompt="two"),
        event("afterAgentResponse", text="Second."),
    ]
    for name in ("user", "project"):  # two scripts that log the same events in their own ways
        write(tmp_path / f"{name}.jsonl", events, generation_id=CID, logged_by=name)
    made = only(tmp_path)
    assert [m.content for m in made.messages] == ["one", "First.", "two", "Second."]


def test_the_newer_name_of_the_model_is_taken_where_it_stands_alone(tmp_path: Path) -> None:
    events = [event("beforeSubmitPrompt", prompt="one", model_id="new-name"),
              event("afterAgentResponse", text="First.")]  # fmt: skip
    write(tmp_path / "hooks.jsonl", events)
    assert only(tmp_path).messages[1].model == "new-name"


def test_an_event_tells_of_the_call_that_runs_not_of_one_that_was_refused(tmp_path: Path) -> None:
    """A refused edit has no event of its own: the next edit of the file keeps its place."""

    def edit(number: int, post: str, **fields: Any) -> list[dict[str, Any]]:
        base = {"tool_name": "Write", "tool_use_id": f"t{number}",
                "tool_input": {"file_path": "/w/p/a", "content": "x\n"}}  # fmt: skip
        done = {"file_path": "/w/p/a", "edits": [{"old_string": "", "new_string": "x\n"}]}
        told = [event("afterFileEdit", **done)] if post == "postToolUse" else []
        return [event("preToolUse", **base), *told, event(post, **base, **fields)]

    first = [event("beforeSubmitPrompt", prompt="one"), event("afterAgentResponse", text="So.")]
    refused = edit(1, "postToolUseFailure", error_message="no", failure_type="permission_denied")
    then = [event("afterAgentThought", text="Again."), *edit(2, "postToolUse", tool_output="ok")]
    other = [event("beforeSubmitPrompt", prompt="two"), *edit(3, "postToolUse", tool_output="ok")]
    write(tmp_path / "hooks.log", [*first, *refused, *then, *other])
    made = only(tmp_path)
    told = [
        (m.role, m.content, m.thinking, [c.id for c in m.tool_calls or ()])
        for m in made.messages
        if m.role != "tool"
    ]
    assert told == [
        ("user", "one", None, []),
        ("assistant", "So.", None, ["t1"]),
        ("assistant", "", "Again.", ["t2"]),
        ("user", "two", None, []),
        ("assistant", "", None, ["t3"]),
    ]
    assert [(f.tool_call_id, f.outcome) for f in made.files or ()] == [
        ("t1", "denied"),
        ("t2", None),
        ("t3", None),
    ]
