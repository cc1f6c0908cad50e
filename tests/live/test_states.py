"""What an agent does after an event, by what its source says of its hooks."""

import json
from typing import Any

import pytest

from unspool import sources
from unspool.hooks.agents import AGENTS
from unspool.live.queue import Arrival
from unspool.live.states import ENDS, ends_turn, state_of


@pytest.mark.parametrize(
    ("platform", "event", "fields", "expected"),
    [
        ("claude-code", "UserPromptSubmit", {}, ("working", None)),
        ("claude-code", "PreToolUse", {"tool_name": "Bash"}, ("working", "Bash")),
        ("claude-code", "Notification", {"message": "needs your permission"}, ("waiting", None)),
        ("claude-code", "Notification", {"notification_type": "idle_prompt"}, ("idle", None)),
        ("claude-code", "Notification", {"message": "signed in"}, ("", None)),
        ("claude-code", "StopFailure", {}, ("failed", None)),
        ("cursor", "stop", {"status": "error"}, ("failed", None)),
        ("cursor", "afterFileEdit", {}, ("working", None)),
        ("gemini-cli", "BeforeTool", {"tool_name": "replace"}, ("working", "replace")),
        ("gemini-cli", "AfterAgent", {}, ("idle", None)),
        ("opencode", "permission.asked", {}, ("waiting", None)),
        ("opencode", "tool.execute.before", {"input": {"tool": "bash"}}, ("working", "bash")),
        ("copilot-cli", "ErrorOccurred", {}, ("failed", None)),
        ("codex", "SessionEnd", {}, ("ended", None)),
        ("nobody", "Stop", {}, ("", None)),
    ],
)
def test_state_after_an_event(
    platform: str, event: str, fields: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    arrival = Arrival("e", 1, platform, event, "s", json.dumps(fields).encode())
    assert state_of(arrival) == expected
    if expected[0]:
        assert ends_turn(arrival) == (expected[0] in ENDS)


def test_every_agent_with_hooks_is_known_to_its_source() -> None:
    platforms = {"copilot": "copilot-cli"}
    for agent in AGENTS.values():
        hooks = sources.hooks_of(platforms.get(agent.name, agent.name))
        assert hooks is not None
        told = [event.name.replace("_", "").lower() for event in (*agent.events, *agent.gates)]
        silent = {name for name in told if name not in hooks.states}
        assert silent <= {"postmodelswitch", "instructionsloaded", "cwdchanged"}
