"""A store with four conversations of three programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import put_trajectory
from unspool.store.conversations import WORDS, catch_up
from unspool.store.opening import transaction, writing
from unspool.trajectory import (
    FileTouch,
    Message,
    ToolCall,
    ToolFunction,
    Trajectory,
    Usage,
    Workspace,
)

FAILURE = "ValueError: no such bucket"


def made(
    ident: str,
    source: str,
    said: str,
    answer: str,
    minute: int = 0,
    model: str = "claude-sonnet-4-5",
    path: str = "/w/app/limiter.py",
) -> Trajectory:
    """Two turns: a prompt with an edit and its result; a question and its answer."""
    stamp = f"2026-03-04T10:{minute:02d}:"
    call = ToolCall(id=f"{ident}-1", function=ToolFunction("Edit", json.dumps({"file_path": path})))
    call.started_at = stamp + "02.000Z"
    usage = Usage(prompt_tokens=1000, completion_tokens=100, cached_tokens=400)
    messages = [
        Message("user", said, typed=said, timestamp=stamp + "01.000Z", turn=0),
        Message("assistant", answer, model=model, tool_calls=[call], usage=usage, turn=0),
        Message("tool", FAILURE, tool_call_id=call.id, name="Edit", is_error=True, turn=0),
        Message("user", "<environment_info>secret sauce</environment_info>", kind="injected", turn=0),
        Message("user", "and the tests?", typed="and the tests?", timestamp=stamp + "40.000Z", turn=1),
        Message("assistant", "They pass: naïve_parse() is covered.", model=model, turn=1),
    ]  # fmt: skip
    trajectory = Trajectory(ident, messages, source=source)
    trajectory.usage = usage
    trajectory.model_usage = {"primary_model": model, "models_used": [model]}
    trajectory.workspace = Workspace(path="/w/app", name="app", hash="a" * 16)
    trajectory.started_at, trajectory.ended_at = stamp + "01.000Z", stamp + "50.000Z"
    trajectory.title = f"About {ident}"
    trajectory.files = [
        FileTouch(path, lines_added=5, lines_removed=2, turn=0, outcome="accepted"),
        FileTouch(path, lines_added=9, lines_removed=9, turn=0, outcome="rejected"),
    ]
    return trajectory


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with writing(tmp_path / "s.db") as connection:
        with transaction(connection):
            for trajectory in (
                made("c1", "claude-code", "Please fix the rate limiter", "Fixed foo-bar."),
                made("k1", "cursor", "please fix the rate limiter!", "Done with it."),
                made("k2", "cursor", "Write a poem", "Roses.", minute=30, path="/p/poem.txt"),
                made(
                    "t1",
                    "copilot-cli",
                    "What is C++ for?",
                    "Speed.",
                    minute=45,
                    model="who-knows-1",
                ),
            ):
                put_trajectory(connection, trajectory)
        catch_up(connection, [WORDS])
        yield connection
