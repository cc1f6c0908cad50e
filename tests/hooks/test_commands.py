"""`unspool hooks` as a person meets it: what it prints, what it returns, what it leaves alone."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import unspool
from tests.harness import obey_modes
from tests.hooks.conftest import Installer
from unspool.cli import group, hooks
from unspool.errors import HooksRefused
from unspool.hooks import install


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "RECHECK_SECONDS", 0)


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(group, ["hooks", *words], standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.return_value or 0, result.stdout, result.stderr


def start(
    *words: str, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    source = str(Path(unspool.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "unspool", "hooks", *words],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        preexec_fn=before,
        check=False,
    )


def everything(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_nobody_here(home: Path) -> None:
    told = start("install")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == (
        "unspool: none of the agents with hooks is here"
        " (claude-code, cursor, copilot, codex, gemini-cli, opencode); start one once, then install\n"
    )
    told = start("install", "gemini-cli")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == (
        f"unspool: gemini-cli: Gemini CLI is not here (no {home}/.gemini, no command gemini);"
        " start it once, then install again\n"
    )
    assert start("install", "nano").returncode == 2
    assert not everything(home)


def test_one_bad_file_does_not_stop_the_others(home: Path, agent_is_here: Installer) -> None:
    agent_is_here("claude-code", "")
    agent_is_here("cursor", "")
    path = home / ".claude" / "settings.json"
    path.write_bytes(b'{"hooks": {')
    told = start("install")
    assert told.returncode == 1
    assert (
        f"unspool: claude-code: {path} cannot be read as settings (line 1, column 12: "
    ) in told.stderr
    assert "; it stays as it is, mend it and try again\n" in told.stderr
    assert path.read_bytes() == b'{"hooks": {'
    assert f"cursor: {home}/.cursor/hooks.json: 13 events" in told.stderr
    assert '+    "sessionStart": [' in told.stdout
    told = start("remove")
    assert told.returncode == 0
    assert not (home / ".cursor" / "hooks.json").exists()


def test_cannot_be_written(home: Path, agent_is_here: Installer) -> None:
    agent_is_here("claude-code", "")
    path = home / ".claude" / "settings.json"
    path.write_text("{}")
    for place, mode in ((path, 0o444), (path.parent, 0o555), (path, 0o000)):
        usual = place.stat().st_mode & 0o777
        place.chmod(mode)
        told = start("install", "claude-code", before=obey_modes)
        place.chmod(usual)
        assert told.returncode == 1
        assert told.stderr.startswith(f"unspool: claude-code: {path} cannot be ")
        assert told.stderr.endswith(
            " (Permission denied); it stays as it is, mend that and try again\n"
        )
        assert told.stderr.count("\n") == 1
        assert path.read_text() == "{}"


def test_dry_run_changes_nothing(home: Path, agent_is_here: Installer) -> None:
    agent_is_here("claude-code", "")
    (home / ".claude" / "settings.json").write_text('{\n  "model": "opus"\n}\n')
    before = everything(home)
    code, out, err = run("install", "--dry-run")
    assert (code, everything(home)) == (0, before)
    assert '-  "model": "opus"\n+  "model": "opus",\n+  "hooks": {' in out
    assert "15 events" in err
    run("install")
    installed = everything(home)
    code, out, err = run("remove", "--dry-run")
    assert '-  "hooks": {' in out
    assert everything(home) == installed
    run("remove")
    assert {
        path: data for path, data in everything(home).items() if "/.local/" not in path
    } == before


def test_install_status_remove(home: Path, agent_is_here: Installer) -> None:
    agent_is_here("codex", "")
    agent_is_here("opencode", "")
    code, _, err = run("install", "codex", "opencode")
    assert code == 0
    assert (
        "codex: Codex runs new hooks only after you trust them: start codex, type /hooks, press t"
        in err
    )
    code, out, err = run("install", "codex")
    assert (code, out) == (0, "")
    assert "7 events already installed" in err
    code, out, _ = run("status")
    lines = out.splitlines()
    assert lines[0].startswith(
        f"codex        untrusted      {home}/.codex/hooks.json, 7 events, none seen yet"
    )
    assert lines[2].startswith("opencode     installed")
    assert lines[-1] == f"spool        {home}/.local/share/unspool/live/spool"
    told = json.loads(run("status", "--json")[1])
    assert [one["state"] for one in told] == [
        "absent", "absent", "absent", "untrusted", "absent", "installed"
    ]  # fmt: skip
    assert run("remove", "codex")[0] == 0
    code, out, err = run("remove", "codex")
    assert (code, out, err) == (0, "", "codex: no hooks are installed\n")
    assert run("remove")[0] == 0
    assert run("remove")[2] == "unspool: no hooks are installed\n"


def test_undone_by_a_running_agent(
    home: Path, agent_is_here: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_is_here("gemini-cli", "")
    path = home / ".gemini" / "settings.json"
    path.write_text("{}")
    real = install.undone

    def write_back(done: list[install.Change], seconds: float) -> list[install.Change]:
        path.write_text("{}")
        return real(done, seconds)

    monkeypatch.setattr(install, "undone", write_back)
    code, _, err = run("install")
    assert code == 1
    assert (
        f"unspool: gemini-cli: {path} was changed again by another program; end Gemini CLI" in err
    )
    assert "stripped" in run("status")[1]


def test_project(home: Path, agent_is_here: Installer, monkeypatch: pytest.MonkeyPatch) -> None:
    agent_is_here("cursor", "")
    inside = home / "repo" / "src"
    inside.mkdir(parents=True)
    (home / "repo" / ".git").mkdir()
    monkeypatch.chdir(inside)
    code, _, err = run("install", "--project")
    assert code == 0
    assert ".cursor/hooks.json may be committed: on other machines the command does nothing" in err
    assert (home / "repo" / ".cursor" / "hooks.json").exists()
    assert "not installed" in run("status", "cursor")[1]
    assert "installed" in run("status", "cursor", "--project")[1]
    other = home / "repo-2"
    (other / ".git").mkdir(parents=True)
    monkeypatch.chdir(other)
    run("install", "--project")
    monkeypatch.chdir(inside)
    assert run("remove")[2] == "unspool: no hooks are installed\n"
    assert run("remove", "--project")[0] == 0
    assert not (home / "repo" / ".cursor").exists()
    assert (other / ".cursor" / "hooks.json").exists()


def test_spool_lies_beside_the_store(home: Path, agent_is_here: Installer) -> None:
    agent_is_here("cursor", "")
    run("install", "--store", "data/work.db")
    assert (home / "data" / "live" / "spool" / "new").is_dir()
    assert str(home / "data" / "live" / "spool") in (home / ".cursor" / "hooks.json").read_text()
    assert "not installed" in run("status", "cursor")[1]
    assert "installed" in run("status", "cursor", "--store", "data/work.db")[1]


def test_windows_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(HooksRefused, match="no hooks are installed on Windows: unspool follows"):
        install.refuse_platform()


def test_last_event(home: Path, agent_is_here: Installer) -> None:
    agent_is_here("claude-code", "")
    agent_is_here("copilot", "")
    run("install")
    assert run("status")[1].count("none seen yet") == 2
    new = home / ".local" / "share" / "unspool" / "live" / "spool" / "new"
    payload = new / "any.abc"
    payload.write_text('{"session_id": "s", "hook_event_name": "Stop", "prompt_id": "p"}')
    os.utime(payload, ns=(0, 1_794_000_000_123_456_789))
    (new / "any.broken").write_bytes(b"\xff{")
    (new / "any.def").write_text('{"session_id": "s", "timestamp": "2026-11-16T10:00:00Z"}')
    told = {one["agent"]: one.get("last_event") for one in json.loads(run("status", "--json")[1])}
    assert told["copilot"] > 1_794_000_000_123_456
    assert told["cursor"] is None
    (new / "any.broken").unlink()
    told = {one["agent"]: one.get("last_event") for one in json.loads(run("status", "--json")[1])}
    assert told["claude-code"] == 1_794_000_000_123_456


def test_last_event_after_a_sync(home: Path, agent_is_here: Installer) -> None:
    agent_is_here("claude-code", "")
    run("install")
    new = home / ".local" / "share" / "unspool" / "live" / "spool" / "new"
    payload = new / "any.abc"
    payload.write_text('{"session_id": "s", "hook_event_name": "Stop", "prompt_id": "p"}')
    os.utime(payload, ns=(0, 1_794_000_000_123_456_789))
    source = str(Path(unspool.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-m", "unspool", "sync"],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        check=True,
    )
    assert not list(new.iterdir())
    (told,) = json.loads(run("status", "claude-code", "--json")[1])
    assert told["last_event"] == 1_794_000_000_123_456
