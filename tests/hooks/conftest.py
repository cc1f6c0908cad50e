"""A home of its own, with agents whose commands tell a version."""

from collections.abc import Callable
from pathlib import Path

import pytest

from unspool.hooks.agents import AGENTS
from unspool.hooks.spool import Layout

VERSIONS = {
    "claude": "2.1.325 (Claude Code)",
    "cursor": "3.24.18\n4f2b6c\nx64",
    "copilot": "GitHub Copilot CLI 1.0.102.\nCommit: abc",
    "codex": "codex-cli 0.166.0",
    "gemini": "0.61.0",
    "opencode": "1.18.33",
}

Installer = Callable[[str, str], None]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No agent is here yet."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    for agent in AGENTS.values():
        if agent.home_variable:
            monkeypatch.delenv(agent.home_variable, raising=False)
    for name in ("UNSPOOL_STORE", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def agent_is_here(home: Path) -> Installer:
    def install(name: str, says: str = "") -> None:
        """An agent of that name; its command says that it is of this version."""
        agent = AGENTS[name]
        (home / agent.homes[0]).mkdir(parents=True, exist_ok=True)
        program = home / "bin" / agent.programs[0]
        program.write_text(f"#!/bin/sh\necho '{says or VERSIONS[program.name]}'\n")
        program.chmod(0o755)

    return install


@pytest.fixture
def layout(home: Path) -> Layout:
    return Layout.beside(home / ".local" / "share" / "unspool" / "conversations.db")
