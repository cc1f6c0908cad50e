"""Real agents, with the hooks that `unspool hooks install` writes after they were configured.

Only where the lab is (UNSPOOL_LAB) and its agents are installed.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import unspool
from tests.hooks import lab

LAB = os.environ.get("UNSPOOL_LAB", "")
CACHE = Path(os.environ.get("LAB_CACHE") or Path.home() / ".cache" / "unspool-lab")
pytestmark = [
    pytest.mark.skipif(not LAB, reason="no lab here (UNSPOOL_LAB)"),
    pytest.mark.slow,
]


class Played(NamedTuple):
    exits: list[int]
    texts: list[str]
    """What the model was sent and the agent printed."""
    payloads: list[tuple[str, dict[str, object]]]
    """Name of the file without its end, and what it holds, as they arrived."""


def play(tmp_path: Path, agent: str, scenario: str, **environment: str) -> Played:
    if not (CACHE / agent / "installed").exists():
        pytest.skip(f"{agent} is not installed in {CACHE}")
    out = tmp_path / "out"
    run = subprocess.run(
        [sys.executable, lab.__file__, LAB, agent, scenario, str(out), "--requests"],
        env={
            **os.environ,
            "LAB_PLACE": str(tmp_path),
            "PYTHONPATH": str(Path(unspool.__file__).parents[1]),
            **environment,
        },
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert not run.returncode, run.stdout[-3000:]
    truth = json.loads((out / "truth.json").read_text())
    spool = tmp_path / f"lab-{agent}-{scenario}-1" / "home/.local/share/unspool/live/spool"
    arrived = sorted(spool.glob("new/*"), key=lambda path: path.stat().st_mtime_ns)
    assert not list(spool.glob("tmp/*"))
    return Played(
        [run["exit"] for run in truth["runs"]],
        [path.read_text(errors="replace") for path in (out / "raw").iterdir() if path.is_file()],
        [(path.name.rpartition(".")[0], json.loads(path.read_bytes())) for path in arrived],
    )


HEARD = {
    "claude-code": {
        "SessionStart": 2, "UserPromptSubmit": 2, "PostToolUse": 7, "PostToolUseFailure": 1,
        "SubagentStart": 1, "SubagentStop": 1, "Stop": 2, "SessionEnd": 2,
    },
    "codex": {
        "SessionStart": 2, "UserPromptSubmit": 2, "PostToolUse": 9, "SubagentStop": 1, "Stop": 2,
        "SessionEnd": 2,
    },
    "copilot-cli": {
        "SessionStart": 2, "UserPromptSubmit": 3, "PostToolUse": 9, "Stop": 3, "SubagentStop": 1,
        "SessionEnd": 2,
    },
    "gemini": {
        "SessionStart": 2, "BeforeAgent": 2, "PreCompress": 10, "AfterTool": 10, "AfterAgent": 2,
        "SessionEnd": 2,
    },
    "opencode": {
        "session.created": 2, "chat.message": 3, "tool.execute.after": 8, "session.idle": 3,
    },
}  # fmt: skip
"""Agent → how often the scenario `hooks` makes it tell of each event."""


@pytest.mark.parametrize("agent", HEARD)
def test_every_event_arrives_and_nobody_notices(tmp_path: Path, agent: str) -> None:
    played = play(tmp_path, agent, "hooks")
    assert played.exits == [0, 0]
    assert (
        Counter(str(payload["hook_event_name"]) for _, payload in played.payloads) == HEARD[agent]
    )
    names = {name for name, _ in played.payloads}
    shared = agent in ("claude-code", "copilot-cli")
    assert names == {"any" if shared else lab.NAMES.get(agent, agent)}
    order = [str(payload["hook_event_name"]) for _, payload in played.payloads]
    # Copilot CLI starts the hooks of a session's start and of its first prompt side by side.
    assert {"SessionStart", "session.created"} & set(order[: 1 + (agent == "copilot-cli")])
    assert order[-1] in ("SessionEnd", "session.idle")
    assert not any("hook success" in text or "hook error" in text for text in played.texts)


@pytest.mark.parametrize("agent", ["claude-code", "codex", "copilot-cli"])
def test_with_the_spool_gone(tmp_path: Path, agent: str) -> None:
    played = play(tmp_path, agent, "plain", UNSPOOL_LAB_BREAK="1")
    assert (played.exits, played.payloads) == ([0], [])


def test_codex_is_not_trusted_by_itself(tmp_path: Path) -> None:
    played = play(tmp_path, "codex", "plain", UNSPOOL_LAB_TRUST="1")
    assert (played.exits, played.payloads) == ([0], [])


def test_a_gate_stops_nothing(tmp_path: Path) -> None:
    played = play(tmp_path, "claude-code", "tools", UNSPOOL_LAB_INSTALL="--gates")
    assert played.exits == [0]
    counts = Counter(payload["hook_event_name"] for _, payload in played.payloads)
    assert counts["PreToolUse"] > counts["PostToolUse"] > 0
