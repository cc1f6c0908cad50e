"""What `hooks status` finds out."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.hooks.conftest import Installer
from unspool.hooks import plugin, spool
from unspool.hooks.agents import AGENTS
from unspool.hooks.install import install, wish
from unspool.hooks.spool import Layout
from unspool.hooks.status import Status, running, status


def put(layout: Layout, name: str) -> None:
    install(layout, wish(layout, AGENTS[name], None, False))


def look(layout: Layout, name: str) -> Status:
    return status(layout, AGENTS[name])


def test_from_absent_to_installed(home: Path, layout: Layout, agent_is_here: Installer) -> None:
    assert look(layout, "cursor").state == "absent"
    agent_is_here("cursor", "")
    told = look(layout, "cursor")
    assert (told.state, told.version) == ("not installed", "3.24.18")
    put(layout, "cursor")
    told = look(layout, "cursor")
    assert (told.state, len(told.events), told.missing, told.advice) == ("installed", 13, [], [])


def test_drifted_stripped_unreadable(home: Path, layout: Layout, agent_is_here: Installer) -> None:
    agent_is_here("claude-code", "")
    put(layout, "claude-code")
    path = home / ".claude" / "settings.json"
    value = json.loads(path.read_text())
    del value["hooks"]["Stop"]
    value["hooks"]["SessionEnd"][0]["hooks"][0]["command"] += " "
    path.write_text(json.dumps(value))
    told = look(layout, "claude-code")
    assert (told.state, told.missing) == ("drifted", ["Stop", "SessionEnd"])
    path.write_text("{}")
    told = look(layout, "claude-code")
    assert (told.state, len(told.missing), told.advice) == ("stripped", 15, ["install again"])
    path.unlink()
    assert look(layout, "claude-code").state == "stripped"
    path.write_text('{"hooks": ')
    told = look(layout, "claude-code")
    assert told.state == "unreadable"
    assert "mend it" in told.advice[0]
    path.write_text("{}")
    put(layout, "claude-code")
    assert look(layout, "claude-code").state == "installed"


def test_unspool_has_moved(
    home: Path, layout: Layout, agent_is_here: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gemini-cli", "opencode"):
        agent_is_here(name, "")
        put(layout, name)
        with monkeypatch.context() as patch:
            other = Path("/elsewhere/unspool/__init__.py")
            patch.setattr(spool.hand_over, "__defaults__", (spool.ANYBODY, "{}", other))
            patch.setattr(plugin, "PROGRAM", other)
            assert look(layout, name).state == "drifted"
            put(layout, name)
            assert look(layout, name).state == "installed"
        put(layout, name)
        assert look(layout, name).state == "installed"


def test_plugin(home: Path, layout: Layout, agent_is_here: Installer) -> None:
    agent_is_here("opencode", "")
    put(layout, "opencode")
    path = home / ".config" / "opencode" / "plugins" / "unspool.js"
    assert look(layout, "opencode").state == "installed"
    path.write_text("// nothing")
    assert look(layout, "opencode").state == "drifted"
    path.unlink()
    assert look(layout, "opencode").state == "stripped"


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("claude-code", ".claude/settings.local.json", '{"disableAllHooks": true}'),
        ("copilot", ".copilot/settings.json", '{"disableAllHooks": true}'),
        ("copilot", ".config/Code/User/settings.json", '{"chat.useHooks": false, /* x */}'),
        ("codex", ".codex/config.toml", "[features]\nhooks = false\n"),
    ],
)
def test_switched_off(
    home: Path, layout: Layout, agent_is_here: Installer, name: str, path: str, text: str
) -> None:
    agent_is_here(name, "")
    put(layout, name)
    (home / path).parent.mkdir(parents=True, exist_ok=True)
    (home / path).write_text(text)
    told = look(layout, name)
    assert (told.state, told.advice) == ("disabled", [f"hooks are switched off in {home / path}"])


def test_gemini_switched_off_where_its_hooks_are(
    home: Path, layout: Layout, agent_is_here: Installer
) -> None:
    agent_is_here("gemini-cli", "")
    for text in (
        '{"hooksConfig": {"enabled": false}}',
        '{"hooksConfig": {"disabled": ["unspool"]}}',
    ):
        (home / ".gemini" / "settings.json").write_text(text)
        put(layout, "gemini-cli")
        assert look(layout, "gemini-cli").state == "disabled"


def test_codex_wants_trust(home: Path, layout: Layout, agent_is_here: Installer) -> None:
    agent_is_here("codex", "")
    hooks = home / ".codex" / "hooks.json"
    hooks.write_text('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]}}')
    put(layout, "codex")
    told = look(layout, "codex")
    assert told.state == "untrusted"
    assert "/hooks" in told.advice[0]
    assert not (home / ".codex" / "config.toml").exists()  # nobody approves himself
    events = (
        "session_start", "user_prompt_submit", "post_tool_use", "stop", "post_compact", "subagent_stop",
        "session_end",
    )  # fmt: skip
    text = "".join(
        f'[hooks.state."{hooks}:{event}:0:0"]\ntrusted_hash = "sha256:ab"\n' for event in events
    )
    config = home / ".codex" / "config.toml"
    config.write_text(text)
    assert look(layout, "codex").state == "untrusted"  # stop:0:0 is the beep
    config.write_text(text + f'[hooks.state."{hooks}:stop:1:0"]\ntrusted_hash = "sha256:cd"\n')
    assert look(layout, "codex").state == "installed"


def test_what_a_hook_costs(home: Path, layout: Layout, agent_is_here: Installer) -> None:
    agent_is_here("claude-code", "")
    put(layout, "claude-code")
    assert look(layout, "claude-code").median_ms is None
    settings = json.loads((home / ".claude" / "settings.json").read_text())
    command = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
    transcript = home / ".claude" / "projects" / "p" / "s.jsonl"
    transcript.parent.mkdir(parents=True)
    lines = [
        {
            "type": "attachment",
            "attachment": {"type": "hook_success", "command": one, "durationMs": ms},
        }
        for one, ms in ((command, 4), (command, 6), (command, 90), ("beep", 5000))
    ]
    transcript.write_text("\n".join(json.dumps(line, separators=(",", ":")) for line in lines))
    assert look(layout, "claude-code").median_ms == 6


def test_last_event_is_asked_for(home: Path, layout: Layout, agent_is_here: Installer) -> None:
    agent_is_here("copilot", "")
    put(layout, "copilot")
    assert look(layout, "copilot").last_event is None
    assert status(layout, AGENTS["copilot"], last_event={"copilot": 5}.get).last_event == 5


def test_spool_gone_and_newer_version(home: Path, layout: Layout, agent_is_here: Installer) -> None:
    agent_is_here("claude-code", "2.1.80")
    agent_is_here("gemini-cli", "")
    put(layout, "claude-code")
    put(layout, "gemini-cli")
    agent_is_here("claude-code", "2.1.89")
    assert look(layout, "claude-code").advice == [
        "this version also has PermissionDenied, CwdChanged: install again"
    ]
    layout.new.rmdir()
    assert look(layout, "gemini-cli").advice == [
        f"the spool {layout.spool} is gone, so hooks do nothing: install again"
    ]
    put(layout, "gemini-cli")
    assert look(layout, "gemini-cli").advice == []


def test_sessions_that_run(home: Path, agent_is_here: Installer) -> None:
    program = home / "bin" / "gemini"
    program.write_text("#!/bin/sh\nsleep 60\n")
    program.chmod(0o755)
    process = subprocess.Popen([program], cwd=home, start_new_session=True)
    try:
        end = time.monotonic() + 10  # the kernel shows a new program's name a moment later
        while (process.pid, str(home)) not in running(AGENTS["gemini-cli"]):
            assert time.monotonic() < end
        assert process.pid not in dict(running(AGENTS["codex"]))
    finally:
        os.killpg(process.pid, 9)
        process.wait()
