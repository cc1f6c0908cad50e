"""The examples of docs/record.md run, and its tables name what there is."""

import re
from pathlib import Path
from typing import Any

import pytest

import unspool.record
from unspool.record import Recorder

PAGE = Path(__file__).parent.parent / "docs" / "record.md"


def test_the_examples_run(
    tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "assistant It says: hello.\n" in printed
    assert (tmp_path / "trajectories" / "chat-1.trajectory.json").exists()
    found = {t.conversation_id: t for t in names["recorder"].trajectories()}
    asked = {m.content for m in found["chat-2"].messages if m.role == "user"}
    assert asked == {f"part {n}" for n in range(4)}
    names["recorder"].close()


def test_everything_public_is_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in (*vars(Recorder), *unspool.record.__all__):
        if not name.startswith("_"):
            assert name in page, name


def test_public_names_are_pinned() -> None:
    assert sorted(unspool.record.__all__) == [
        "Change", "Conversation", "Executor", "Recorder", "Request", "Tool", "bind", "replay",
    ]  # fmt: skip
    assert sorted(name for name in vars(Recorder) if not name.startswith("_")) == [
        "clear", "close", "conversation", "export", "listen", "log_element", "log_request",
        "log_tool_call", "lost", "path", "request", "sizes", "subagent", "tool", "trajectories", "wrap",
    ]  # fmt: skip
