"""Installing into the settings of agents, and taking it out again."""

import json
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.conftest import Installer
from unspool.errors import HooksRefused
from unspool.hooks import files, install, manifest
from unspool.hooks.agents import AGENTS
from unspool.hooks.install import Change, plan_install, remove, wish
from unspool.hooks.spool import Layout

CLAUDE = (
    b"\xef\xbb\xbf"
    + b"""\
{
\t// mine
\t"permissions": {"allow": ["Bash"]},
\t"hooks": {
\t\t"Stop": [
\t\t\t{"hooks": [{"type": "command", "command": "beep"}]} // ding
\t\t]
\t}
}
""".replace(b"\n", b"\r\n")
)


def put(layout: Layout, name: str, project: Path | None = None, gates: bool = False) -> Change:
    return install.install(layout, wish(layout, AGENTS[name], project, gates))


def take(layout: Layout, name: str) -> Change:
    (entry,) = [one for one in manifest.load(layout).installed if one.agent == name]
    return remove(layout, entry)


def settings_of(home: Path) -> Path:
    return home / ".claude" / "settings.json"


def value_of(path: Path) -> Any:
    return json.loads(path.read_bytes())


@pytest.mark.parametrize("name", AGENTS)
def test_twice_is_once_and_remove_leaves_nothing(
    home: Path, layout: Layout, agent_is_here: Installer, name: str
) -> None:
    agent_is_here(name, "")
    before = sorted(home.rglob("*"))
    change = put(layout, name)
    data = change.path.read_bytes()
    stamp = change.path.stat().st_mtime_ns
    assert not change.is_nothing
    assert put(layout, name).is_nothing
    assert (change.path.read_bytes(), change.path.stat().st_mtime_ns) == (data, stamp)
    take(layout, name)
    assert not manifest.load(layout).installed
    assert [p for p in sorted(home.rglob("*")) if not p.is_relative_to(home / ".local")] == before


@pytest.mark.parametrize("name", ["claude-code", "cursor", "codex", "gemini-cli", "copilot"])
def test_remove_gives_the_bytes_from_before(
    home: Path, layout: Layout, agent_is_here: Installer, name: str
) -> None:
    agent_is_here(name, "")
    path = AGENTS[name].file(None)
    path.parent.mkdir(exist_ok=True, parents=True)
    for data in (CLAUDE, b"{ }", b'{"a":1,"hooks":{\n}}', b'{"hooks": {"Stop": [ ]}, }\n'):
        path.write_bytes(data)
        path.chmod(0o640)
        put(layout, name)
        assert path.read_bytes() != data
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        put(layout, name)
        take(layout, name)
        assert path.read_bytes() == data
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert not [p for p in path.parent.iterdir() if p.name.startswith(".settings")]


def test_changes_of_others_in_between_stay(
    home: Path, layout: Layout, agent_is_here: Installer
) -> None:
    agent_is_here("claude-code", "")
    path = settings_of(home)
    path.write_bytes(CLAUDE)
    put(layout, "claude-code")
    changed = path.read_bytes().replace(b'["Bash"]', b'["Bash", "Read"]')
    path.write_bytes(changed)
    assert put(layout, "claude-code").is_nothing
    take(layout, "claude-code")
    assert path.read_bytes() == CLAUDE.replace(b'["Bash"]', b'["Bash", "Read"]')


def test_exactly_the_events_of_the_version(
    home: Path, layout: Layout, agent_is_here: Installer
) -> None:
    expected = {
        "2.1.325": 15, "2.1.324": 14, "2.1.75": 11, "2.0.55": 9, "1.0.62": 7, "1.0.38": 3
    }  # fmt: skip
    for version, count in expected.items():
        agent_is_here("claude-code", f"{version} (Claude Code)")
        put(layout, "claude-code")
        events = value_of(settings_of(home))["hooks"]
        assert len(events) == count, version
        assert not {"PreToolUse", "PermissionRequest", "WorktreeCreate"} & set(events)
        assert ("PreCompact" in events) == (version in ("2.1.75", "2.0.55", "1.0.62"))
        (handler,) = events["Stop"][0]["hooks"]
        assert ('printf "{}"' in handler["command"]) == (version >= "2.1.1")
    agent_is_here("claude-code", "0.2.9")
    before = settings_of(home).read_bytes()
    with pytest.raises(HooksRefused, match="has no hooks; update it"):
        put(layout, "claude-code")
    assert settings_of(home).read_bytes() == before


OBSERVED = {
    "claude-code": "SessionStart UserPromptSubmit PostToolUse PostToolUseFailure PermissionDenied"
    " Notification Stop StopFailure SubagentStart SubagentStop PostCompact PostModelSwitch"
    " InstructionsLoaded CwdChanged SessionEnd",
    "cursor": "sessionStart sessionEnd beforeSubmitPrompt afterAgentResponse afterAgentThought"
    " postToolUse postToolUseFailure afterShellExecution afterMCPExecution afterFileEdit subagentStop"
    " preCompact stop",
    "copilot": "SessionStart UserPromptSubmit PostToolUse PostToolUseFailure Stop SubagentStop"
    " PreCompact SessionEnd ErrorOccurred",
    "codex": "SessionStart UserPromptSubmit PostToolUse PostCompact SubagentStop Stop SessionEnd",
    "gemini-cli": "SessionStart BeforeAgent AfterAgent AfterTool PreCompress Notification SessionEnd",
}
GATES = {
    "claude-code": "PreToolUse", "copilot": "PreToolUse", "codex": "PreToolUse",
    "gemini-cli": "BeforeTool",
}  # fmt: skip


@pytest.mark.parametrize("name", OBSERVED)
def test_only_events_that_decide_nothing(
    home: Path, layout: Layout, agent_is_here: Installer, name: str
) -> None:
    """The whole list by name; with `--gates` one more, whose answer is neither yes nor no."""
    agent_is_here(name, "")
    written = value_of(put(layout, name).path)["hooks"]
    assert set(written) == set(OBSERVED[name].split())
    if name in GATES:
        gated = value_of(put(layout, name, gates=True).path)["hooks"]
        assert set(gated) - set(written) == {GATES[name]}
        text = json.dumps(gated)
        assert 'printf \\"{}\\"' in text
        assert "allow" not in text
    else:
        with pytest.raises(HooksRefused, match=f"{name}: no gate is installed"):
            put(layout, name, gates=True)


def test_entries_that_only_look_like_ours_stay(
    home: Path, layout: Layout, agent_is_here: Installer
) -> None:
    agent_is_here("claude-code", "")
    put(layout, "claude-code")
    path = settings_of(home)
    value = value_of(path)
    (group,) = value["hooks"]["Stop"]
    ours = group["hooks"][0]["command"]
    looks = {"type": "command", "command": f"{ours} "}
    value["hooks"]["Stop"].append({"hooks": [looks]})
    path.write_text(json.dumps(value, indent=2))
    take(layout, "claude-code")
    assert value_of(path) == {"hooks": {"Stop": [{"hooks": [looks]}]}}


def test_a_command_that_hangs_or_fails_tells_no_version(
    home: Path, layout: Layout, agent_is_here: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.hooks.agents.ASK_SECONDS", 0.2)
    agent_is_here("claude-code", "")
    for script in ("exec sleep 60", "exit 3", "echo hello"):
        (home / "bin" / "claude").write_text(f"#!/bin/sh\n{script}\n")
        change = put(layout, "claude-code")
        assert change.notes == (
            "claude --version gives no answer: only the events that every version knows",
        )
        assert sorted(value_of(settings_of(home))["hooks"]) == [
            "Notification", "PostToolUse", "PreCompact", "SessionEnd", "SessionStart", "Stop",
            "SubagentStop", "UserPromptSubmit",
        ]  # fmt: skip


def test_gates_come_and_go(home: Path, layout: Layout, agent_is_here: Installer) -> None:
    agent_is_here("claude-code", "")
    put(layout, "claude-code")
    without = settings_of(home).read_bytes()
    put(layout, "claude-code", gates=True)
    (group,) = value_of(settings_of(home))["hooks"]["PreToolUse"]
    assert "allow" not in json.dumps(group)
    put(layout, "claude-code")
    assert settings_of(home).read_bytes() == without
    agent_is_here("cursor", "")
    for name in ("cursor", "claude-code"):  # Cursor may run Claude Code's hooks too
        with pytest.raises(HooksRefused, match=f"{name}: no gate is installed"):
            put(layout, name, gates=True)
    assert settings_of(home).read_bytes() == without
    for name in ("codex", "gemini-cli", "copilot", "opencode"):
        agent_is_here(name, "")
        assert put(layout, name, gates=True).entry is not None


def test_an_older_command_of_ours_is_replaced(
    home: Path, layout: Layout, agent_is_here: Installer
) -> None:
    agent_is_here("codex", "")
    path = home / ".codex" / "hooks.json"
    path.write_text('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]}}')
    before = path.read_bytes()
    put(layout, "codex")
    moved = Layout(home / "elsewhere" / "live")
    moved.make()
    layout.manifest.rename(moved.manifest)
    for copy in layout.backups.iterdir():
        copy.rename(moved.backups / copy.name)
    put(moved, "codex")
    commands = [
        handler["command"]
        for groups in value_of(path)["hooks"].values()
        for group in groups
        for handler in group["hooks"]
    ]
    assert len(commands) == 8
    assert sum("elsewhere" in command for command in commands) == 7
    assert value_of(path)["hooks"]["Stop"][0]["hooks"][0]["command"] == "beep"
    take(moved, "codex")
    assert path.read_bytes() == before


def test_interrupted_before_the_rename(
    home: Path, layout: Layout, agent_is_here: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_is_here("claude-code", "")
    path = settings_of(home)
    path.write_bytes(CLAUDE)

    def stop(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "swap", stop)
        with pytest.raises(KeyboardInterrupt):
            put(layout, "claude-code")
    assert path.read_bytes() == CLAUDE
    take(layout, "claude-code")
    assert path.read_bytes() == CLAUDE
    put(layout, "claude-code")
    take(layout, "claude-code")
    assert path.read_bytes() == CLAUDE


def test_follows_links(home: Path, layout: Layout, agent_is_here: Installer) -> None:
    agent_is_here("claude-code", "")
    target = home / "dotfiles" / "claude.json"
    target.parent.mkdir()
    target.write_bytes(CLAUDE)
    settings_of(home).symlink_to(target)
    put(layout, "claude-code")
    assert settings_of(home).is_symlink()
    assert b"live/spool" in target.read_bytes()
    take(layout, "claude-code")
    assert settings_of(home).is_symlink()
    assert target.read_bytes() == CLAUDE


def test_a_writer_in_between_loses_nothing(
    home: Path, layout: Layout, agent_is_here: Installer
) -> None:
    """Somebody else writes the file all the time: each of their last words survives, or we refuse."""
    agent_is_here("claude-code", "")
    path = settings_of(home)
    path.write_text('{"count": 0}')
    wanted = wish(layout, AGENTS["claude-code"], None, False)
    change = plan_install(layout, wanted)
    path.write_text('{"count": 1}')
    assert not files.swap(path, "claude-code", change.before, change.after)
    assert path.read_text() == '{"count": 1}'
    halt = threading.Event()

    def write() -> None:
        while not halt.is_set():
            path.write_text('{"count": %d}' % time.monotonic_ns())  # noqa: UP031 - braces
            time.sleep(0.0005)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            with suppress(HooksRefused):  # it changed each time, or was empty just then
                install.install(layout, wanted)
    finally:
        halt.set()
        writer.join()
    path.write_text('{"count": 7}')
    install.install(layout, wanted)
    assert value_of(path)["count"] == 7
    take(layout, "claude-code")
    assert path.read_text() == '{"count": 7}'


def test_project_settings(home: Path, layout: Layout, agent_is_here: Installer) -> None:
    project = home / "work"
    project.mkdir()
    for name, agent in AGENTS.items():
        agent_is_here(name, "")
        change = put(layout, name, project)
        assert change.path == project / agent.project_file
        assert change.entry is not None
        assert change.entry.project
    assert not settings_of(home).exists()
    for name in AGENTS:
        take(layout, name)
    assert not list(project.iterdir())


def test_folders_that_variables_name(
    home: Path, layout: Layout, agent_is_here: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, variable, file in (
        ("claude-code", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("copilot", "COPILOT_HOME", "hooks/unspool.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/plugins/unspool.js"),
        ("opencode", "OPENCODE_CONFIG_DIR", "plugins/unspool.js"),
    ):
        agent_is_here(name, "")
        monkeypatch.setenv(variable, str(home / variable))
        assert put(layout, name).path == home / variable / file


def test_a_plugin_of_somebody_else_stays(
    home: Path, layout: Layout, agent_is_here: Installer
) -> None:
    agent_is_here("opencode", "")
    path = home / ".config" / "opencode" / "plugins" / "unspool.js"
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(HooksRefused, match="not as unspool wrote it"):
        put(layout, "opencode")
    path.unlink()
    put(layout, "opencode")
    path.write_text(path.read_text() + "// mine")
    for attempt in (put, take):
        with pytest.raises(HooksRefused, match="not as unspool wrote it"):
            attempt(layout, "opencode")
    assert path.read_text().endswith("// mine")


def test_without_a_manifest_entries_are_not_doubled(
    home: Path, layout: Layout, agent_is_here: Installer
) -> None:
    agent_is_here("cursor", "")
    put(layout, "cursor")
    data = (home / ".cursor" / "hooks.json").read_bytes()
    layout.manifest.unlink()
    assert put(layout, "cursor").is_nothing
    assert (home / ".cursor" / "hooks.json").read_bytes() == data
    layout.manifest.write_text("{")
    with pytest.raises(HooksRefused, match="move it away, then install again"):
        put(layout, "cursor")


def test_codex_with_hooks_in_its_other_file(
    home: Path, layout: Layout, agent_is_here: Installer
) -> None:
    agent_is_here("codex", "")
    config = home / ".codex" / "config.toml"
    config.write_text('[hooks.state."x"]\ntrusted_hash = "y"\n')
    put(layout, "codex")
    take(layout, "codex")
    config.write_text('[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "beep"\n')
    with pytest.raises(HooksRefused, match="Codex warns at each start"):
        put(layout, "codex")
    (home / ".codex" / "hooks.json").write_text("{}")  # it warns already
    put(layout, "codex")
