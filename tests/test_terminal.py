"""What commands say on a terminal: no word of the data moves the cursor, colours or forges a line."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from unspool.cli import group, main
from unspool.sinks import Family
from unspool.sinks.jsonl import write
from unspool.trajectory import (
    FileTouch,
    Message,
    ToolCall,
    ToolFunction,
    Trajectory,
    Usage,
    Workspace,
)

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202eend"
FORGED = "\nunspool: forged"
OURS = re.compile("\x1b\\[[0-9;]*m")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def conversation(ident: str, source: str, answer: str) -> Trajectory:
    evil = EVIL + FORGED
    edit = {"file_path": f"/w/{evil}", "old_string": "a", "new_string": evil}
    call = ToolCall(f"c{evil}", function=ToolFunction(f"Edit{evil}", json.dumps(edit)))
    when = ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z"]
    prompt = f"<weird>fix the limiter {evil}</weird>"
    messages = [
        Message("user", prompt, typed=f"fix the limiter {evil}", timestamp=when[0]),
        Message("assistant", f"{answer}{evil}", model=f"m{evil}", tool_calls=[call]),
        Message("tool", f"done{evil}", tool_call_id=call.id, name=call.name, timestamp=when[1]),
    ]
    return Trajectory(
        ident + evil, messages, source=source, title=f"T{evil}", agent_version=f"1{evil}",
        started_at=when[0], ended_at=when[1], file_path=f"f{evil}", partial=[f"why{evil}"],
        workspace=Workspace(path=f"/w/{evil}", branch=evil), files=[FileTouch(f"/w/{evil}", index=1)],
        usage=Usage(prompt_tokens=5, completion_tokens=2), model_usage={"primary_model": evil},
    )  # fmt: skip


def put(path: Path, *trajectories: Trajectory) -> None:
    pieces = [piece.data for one in trajectories for piece in write(Family(one), {})]
    path.write_bytes(b"".join(pieces))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of nothing but traps, with a store of them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    put(Path("a.jsonl"), conversation("one", "claude-code", "A"), conversation("x", "cursor", "A"))
    put(Path("b.jsonl"), conversation("one", "claude-code", "B"), conversation("y", "cursor", "A"))
    names = ("conversationId", "source", "turnIndex", "messageText", "baseModel")
    properties = dict.fromkeys(names, EVIL)
    event = {"name": f"GitHub.copilot-chat/conversation.messageText{EVIL}"}
    event["data"] = {"baseData": {"properties": properties}}  # type: ignore[assignment]
    known = {**event, "name": "GitHub.copilot-chat/conversation.messageText"}
    Path("telemetry").mkdir()
    log = f'{json.dumps(event)}\n{json.dumps(known)}\n{{"name": "GitHub{EVIL}\n'
    Path("telemetry", f"log{EVIL}.jsonl").write_text(log)
    step = {"step_id": 7, "source": f"s{EVIL}", "message": 3, f"k{EVIL}": 1}
    run = {"schema_version": "ATIF-v1.5", "session_id": "s", "steps": [step]}
    Path("atif").mkdir()
    Path("atif", f"run{EVIL}.json").write_text(
        json.dumps({**run, "agent": {"name": "a", "version": "1"}})
    )
    projects = Path(".claude", "projects", f"p{EVIL}")
    projects.mkdir(parents=True)
    (projects / "bad.jsonl").write_text('{"type":"user","sessionId":"x","uuid":"u","version":"2"\n')
    CliRunner().invoke(group, ["sync", "a.jsonl", "b.jsonl", ".claude"])
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["scan", "-v"],
        ["list", "a.jsonl"],
        ["show", "x", "--from", "a.jsonl", "--full", "--context"],
        ["extract", ".", "-o", "out.jsonl", "-v"],
        ["extract", "telemetry", "-o", "out.jsonl", "-v"],
        ["export", "a.jsonl", "--to", "markdown", "-o", "out"],
        ["sync", "a.jsonl"],
        ["search", "limiter"],
        *(["stats", "--by", by] for by in ("project", "model", "tool", "file", "source")),
        ["align", "--auto"],
        ["store", "info"],
        ["compare", "a.jsonl", "b.jsonl"],
        ["diff-messages", "a.jsonl", "b.jsonl", "one" + EVIL + FORGED],
        ["conversation-tags", "a.jsonl"],
        ["check", "telemetry-type-search", "telemetry"],
        ["check", "model-correlation", "telemetry", "-v"],
        ["validate", "atif"],
    ],
    ids=lambda arguments: " ".join(arguments[:3]).partition(EVIL)[0],
)
def test_what_commands_say(arguments: list[str]) -> None:
    done = CliRunner().invoke(group, arguments, color=True)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code != 2 or arguments[0] == "diff-messages", done.output
    assert done.output
    said = OURS.sub("", done.output)
    assert not UNSAFE.search(said), UNSAFE.search(said)
    if arguments[0] != "show":  # there, a text has its lines
        assert not [line for line in said.splitlines() if line.startswith("unspool: forged")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "o", "--from", "a.jsonl", "--from", "b.jsonl"],
        ["show", "a.jsonl"],
        ["show", "nothing" + EVIL, "--from", "a.jsonl"],
        ["extract", "nothing" + EVIL],
        ["list", "telemetry" + EVIL],
        ["compare", "a.jsonl", "nothing" + EVIL],
    ],
    ids=lambda arguments: " ".join(arguments[:2]).partition(EVIL)[0],
)
def test_what_errors_say(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["unspool", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    said = capsys.readouterr().err
    assert said.startswith("unspool: ")
    assert not UNSAFE.search(said)
    assert "\nunspool: forged" not in said
