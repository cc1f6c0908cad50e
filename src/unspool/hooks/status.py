"""How the hooks of an agent stand: settings are rewritten by the agents that read them."""

import os
import statistics
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from unspool.errors import HooksRefused
from unspool.hooks import files, manifest, plugin
from unspool.hooks.agents import Agent, Version, dotted
from unspool.hooks.install import command_for
from unspool.hooks.manifest import Installed, digest
from unspool.hooks.settings import Settings, said_by
from unspool.hooks.spool import Layout
from unspool.io.values import dict_of, field_of

LastEvent = Callable[[str], int | None]
"""Agent → when an event of its was last seen, in microseconds. Whoever empties the spool knows best."""

_NEWEST_TRANSCRIPTS = 20
_TAIL_BYTES = 1 << 20


class Status(msgspec.Struct):
    agent: str
    state: str
    """absent, not installed, installed, drifted, stripped, disabled, untrusted or unreadable"""
    path: str
    project: bool = False
    version: str | None = None
    events: list[str] = []
    """Events that are installed and stand in the file."""
    missing: list[str] = []
    """Events that were installed and do not."""
    advice: list[str] = []
    last_event: int | None = None
    median_ms: float | None = None
    """What the agent says that a hook took it."""


def status(
    layout: Layout, agent: Agent, project: Path | None = None, last_event: LastEvent | None = None
) -> Status:
    path = agent.file(project)
    told = Status(agent.name, "not installed", str(path), project is not None)
    if not agent.is_here():
        told.state = "absent"
        return told
    version = agent.version()
    told.version = dotted(version)
    entry = manifest.load(layout).of(agent.name, path)
    if entry is None:
        return told
    told.last_event = last_event(agent.name) if last_event is not None else None
    told.median_ms = median_cost_ms(agent, set(entry.commands.values()))
    try:
        told.state = _state(layout, agent, version, path, entry, told)
    except HooksRefused as error:
        told.state, told.advice = "unreadable", [str(error)]
    if told.state == "installed":
        for state, why in (
            ("disabled", _disabled(agent, project)),
            ("untrusted", _untrusted(agent, path, entry)),
        ):
            if why:
                told.state = state
                told.advice.append(why)
                break
    newer = [event for event in agent.wanted(version, False) if event not in entry.commands]
    if newer and version is not None and told.state == "installed":
        told.advice.append(f"this version also has {', '.join(newer)}: install again")
    if not layout.new.is_dir():
        told.advice.append(f"the spool {layout.spool} is gone, so hooks do nothing: install again")
    return told


def _unless_other(told: Status, is_other: bool) -> str:
    """Hooks of an unspool that was moved or updated since may do nothing: they look for it."""
    if is_other:
        told.advice.append(
            "written by an unspool at another place or of another version: install again"
        )
    return "drifted" if is_other else "installed"


def _state(
    layout: Layout,
    agent: Agent,
    version: Version | None,
    path: Path,
    entry: Installed,
    told: Status,
) -> str:
    data = files.read(path, agent.name)
    if agent.is_plugin:
        told.events = list(entry.commands) if data is not None else []
        if data is None:
            told.missing = list(entry.commands)
            return "stripped"
        if digest(data) != entry.after:
            return "drifted"
        text = plugin.text(layout.spool, told.events)
        return _unless_other(told, digest(text.encode()) != entry.after)
    settings = Settings(agent, str(path), data)
    for event, command in entry.commands.items():
        there = command in settings.commands(event)
        (told.events if there else told.missing).append(event)
    if not told.missing:
        command = command_for(layout, agent, version)
        return _unless_other(told, set(entry.commands.values()) != {command})
    told.advice.append("install again")
    return "drifted" if told.events else "stripped"


def _disabled(agent: Agent, project: Path | None) -> str | None:
    """Which switch keeps the agent from running hooks."""
    for name, keys, off in agent.switches:
        path = agent.folder() / name
        if name.startswith("~"):
            path = Path(name).expanduser()
        elif name.startswith("./"):
            path = (project or Path.cwd()) / name
        told: Any = said_by(path)
        for key in keys:
            told = field_of(told, key)
        if told == off or (isinstance(told, list) and off in told):
            return f"hooks are switched off in {path}"
    return None


def _untrusted(agent: Agent, path: Path, entry: Installed) -> str | None:
    """Codex notes which hooks the person trusts, by file, event and place in the list:

        [hooks.state."/home/u/.codex/hooks.json:session_start:0:0"]
        trusted_hash = "sha256:…"

    The hash is Codex's own affair: a hook that changed since it was trusted is not told apart here.
    """
    if agent.trust is None:
        return None
    state = field_of(said_by(agent.folder() / "config.toml").get("hooks"), "state")
    trusted = {
        key
        for key, value in dict_of(state).items()
        if field_of(value, "trusted_hash") and field_of(value, "enabled") is not False
    }
    settings = Settings(agent, str(path), files.read(path, agent.name))
    for event, command in entry.commands.items():
        snake = "".join("_" + c.lower() if c.isupper() else c for c in event).lstrip("_")
        keys = {
            f"{name}:{snake}:{group}:{within}"
            for name in (entry.path, os.path.realpath(path))
            for group, within in settings.places(event, command)
        }
        if not keys & trusted:
            return agent.trust
    return None


def median_cost_ms(agent: Agent, commands: set[str]) -> float | None:
    """What Claude Code notes in its transcripts of our hooks; other agents note nothing."""
    if agent.name != "claude-code":
        return None
    newest: list[tuple[float, Path]] = []
    for path in agent.folder().glob("projects/*/*.jsonl"):
        with suppress(OSError):
            newest.append((path.stat().st_mtime, path))
    costs = [
        cost
        for _, path in sorted(newest, reverse=True)[:_NEWEST_TRANSCRIPTS]
        for cost in _costs(path, commands)
    ]
    return statistics.median(costs) if costs else None


def _costs(path: Path, commands: set[str]) -> Iterator[float]:
    """{"type":"attachment","attachment":{"type":"hook_success","command":"…","durationMs":6,…}}"""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return
    for line in lines:
        if b'"hook_success"' not in line:
            continue
        with suppress(msgspec.MsgspecError):
            attachment = msgspec.json.decode(line).get("attachment") or {}
            if attachment.get("command") in commands and "durationMs" in attachment:
                yield float(attachment["durationMs"])


def running(agent: Agent) -> list[tuple[int, str]]:
    """(process, folder) of the agent's sessions that run now: they may not see a change."""
    sessions: list[tuple[int, str]] = []
    listing = ["ps", "-axwwo", "pid=,command="]
    with suppress(OSError, subprocess.SubprocessError):
        run = subprocess.run(listing, capture_output=True, text=True, timeout=5, check=False)
        for line in run.stdout.splitlines():
            pid, *words = line.split(maxsplit=3)
            programs = (Path(word).name for word in words[:2] if not word.startswith("-"))
            if {name.removesuffix(".js") for name in programs} & set(agent.programs):
                folder = ""
                with suppress(OSError):
                    folder = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - a name, not a place
                sessions.append((int(pid), folder))
    return sessions
