"""Installing and removing: one agent, one file, one change, made whole or not at all."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from unspool.errors import HooksRefused
from unspool.hooks import files, manifest, plugin
from unspool.hooks.agents import AGENTS, Agent, Version, dotted
from unspool.hooks.manifest import Installed, digest, keep, kept
from unspool.hooks.settings import Settings, said_by
from unspool.hooks.spool import PROGRAM, Layout, hand_over
from unspool.io.temporary import lock_file
from unspool.io.values import dict_of

TRIES = 3
WAIT_SECONDS = 10


class Change(NamedTuple):
    """What is to become of one file, and of the manifest's entry for it."""

    agent: Agent
    path: Path
    before: bytes | None
    after: bytes | None
    entry: Installed | None
    """None: the file has no hooks of ours afterwards."""
    pristine: bytes | None = None
    """The file without our hooks."""
    notes: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        return self.before == self.after


class Wish(NamedTuple):
    """What is wanted of an agent: its events and their command."""

    agent: Agent
    path: Path
    project: bool
    commands: dict[str, str]
    notes: tuple[str, ...]


def refuse_platform() -> None:
    if sys.platform == "win32":
        raise HooksRefused(
            "no hooks are installed on Windows: unspool follows the agents' files there instead"
        )


def wish(layout: Layout, agent: Agent, project: Path | None, gates: bool) -> Wish:
    """Which events to install, by the version that is here; refuses what would be no good."""
    if not agent.is_here():
        raise HooksRefused(
            f"{agent.name}: {agent.title} is not here"
            f" (no {agent.folder()}, no command {agent.programs[0]}); start it once, then install again"
        )
    if gates and agent.no_gate:
        raise HooksRefused(f"{agent.name}: no gate is installed: {agent.no_gate}")
    if gates and agent.name == "claude-code" and AGENTS["cursor"].is_here():
        raise HooksRefused(
            "claude-code: no gate is installed: Cursor is here and may run Claude Code's hooks too,"
            " and it blocks a call whose hook does not allow it"
        )
    path = agent.file(project)
    config = path.with_name("config.toml")
    others = dict_of(said_by(config).get("hooks")).keys() - {"state"}  # what the person trusts
    if agent.name == "codex" and others and not path.exists():
        raise HooksRefused(
            f"codex: {config} holds hooks, and Codex warns at each start of a second file with some;"
            f" move them to {path}, then install again"
        )
    version = agent.version()
    events = agent.wanted(version, gates)
    if not events:
        raise HooksRefused(
            f"{agent.name}: version {dotted(version) or 'unknown'} has no hooks; update it,"
            " then install again"
        )
    return Wish(
        agent,
        path,
        project is not None,
        dict.fromkeys(events, command_for(layout, agent, version)),
        tuple(_notes(agent, version, project)),
    )


def command_for(layout: Layout, agent: Agent, version: Version | None) -> str:
    """What an agent of that version runs."""
    silent = bool(agent.silent_before) and (version is None or version < agent.silent_before)
    for path in (layout.spool, PROGRAM):
        if not str(path).isprintable() or "$" in str(path):
            raise HooksRefused(f"the path {str(path)!r} cannot stand in a command; choose another")
    return hand_over(layout.spool, agent.command_name, answer="" if silent else "{}")


def _notes(agent: Agent, version: Version | None, project: Path | None) -> Iterator[str]:
    if version is None and len(agent.wanted(None, False)) < len(agent.events):
        yield (
            f"{agent.programs[0]} --version gives no answer: only the events that every version knows"
        )
    if project is not None and agent.shared_project:
        yield (f"{agent.project_file} may be committed: on other machines the command does nothing")
    if agent.trust:
        yield agent.trust


def plan_install(layout: Layout, wanted: Wish) -> Change:
    agent, path = wanted.agent, wanted.path
    files.check_writable(path, agent.name)
    data = files.read(path, agent.name)
    entry = manifest.load(layout).of(agent.name, path)
    before = [*entry.commands.items(), *entry.former] if entry else []
    stale = [pair for pair in before if wanted.commands.get(pair[0]) != pair[1]]
    pristine = None
    if agent.is_plugin:
        after = plugin.text(layout.spool, list(wanted.commands)).encode()
        ours = entry is not None and data is not None and digest(data) == entry.after
        if data not in (None, after) and not ours:
            raise HooksRefused(
                f"{agent.name}: {path} is not as unspool wrote it and stays so; move it away, try again"
            )
    else:
        settings = Settings(agent, str(path), data)
        settings.take_out(stale)
        for event, command in wanted.commands.items():
            if command not in settings.commands(event):
                settings.add(event, command)
        after = settings.data or b""
        pristine = _without_ours(layout, agent, path, data, entry, wanted.commands)
    installed = Installed(
        agent.name,
        str(path),
        wanted.project,
        wanted.commands,
        entry.folders if entry else [],
        digest(pristine) if pristine is not None else None,
        digest(after),
        stale,
    )
    return Change(agent, path, data, after, installed, pristine, wanted.notes)


def _without_ours(
    layout: Layout,
    agent: Agent,
    path: Path,
    data: bytes | None,
    entry: Installed | None,
    commands: dict[str, str],
) -> bytes | None:
    """The file as it is without us: as it was, or what is left where others changed it since."""
    if data is None:
        return None
    if entry is not None and digest(data) == entry.after:
        copy = kept(layout, entry.before) if entry.before is not None else None
        if entry.before is None or copy is not None:
            return copy
    rest = Settings(agent, str(path), data)
    rest.take_out([*commands.items(), *(entry.commands.items() if entry else ())])
    rest.take_out(entry.former if entry else ())
    is_ours = entry is not None and entry.before is None
    return None if is_ours and rest.is_bare else rest.data


def plan_remove(layout: Layout, entry: Installed) -> Change:
    agent, path = AGENTS[entry.agent], Path(entry.path)
    data = files.read(path, agent.name)
    if data is not None:
        files.check_writable(path, agent.name)
        if agent.is_plugin and digest(data) != entry.after:
            raise HooksRefused(
                f"{agent.name}: {path} is not as unspool wrote it;"
                " it stays as it is, remove it yourself"
            )
    return Change(agent, path, data, _without_ours(layout, agent, path, data, entry, {}), None)


def install(layout: Layout, wanted: Wish) -> Change:
    """Make the change, anew where the file changed in between."""
    layout.make()
    with _alone(layout):
        for _ in range(TRIES):
            change = plan_install(layout, wanted)
            assert change.entry is not None
            change.entry.folders += _make_folders(change.path, change.agent.name)
            if change.pristine is not None:
                keep(layout, change.pristine)
            # The manifest first: of an entry that it does not name, nobody would know whose it is.
            known = manifest.load(layout)
            known.put(change.entry)
            manifest.save(layout, known)
            if change.is_nothing or files.swap(
                change.path, change.agent.name, change.before, change.after
            ):
                change.entry.former = []
                manifest.save(layout, known)
                return change
    raise _restless(wanted.agent, wanted.path)


def remove(layout: Layout, entry: Installed) -> Change:
    with _alone(layout):
        for _ in range(TRIES):
            change = plan_remove(layout, entry)
            if files.swap(change.path, change.agent.name, change.before, change.after):
                known = manifest.load(layout)
                known.drop(entry)
                manifest.save(layout, known)
                if change.after is None:
                    with suppress(OSError):  # somebody else uses it by now
                        for folder in reversed(entry.folders):
                            Path(folder).rmdir()
                return change
    raise _restless(AGENTS[entry.agent], Path(entry.path))


def undone(changes: list[Change], seconds: float) -> list[Change]:
    """Those that a running agent has written over: it keeps old settings in memory for a while."""
    time.sleep(seconds)
    return [
        change for change in changes if files.read(change.path, change.agent.name) != change.after
    ]


def _make_folders(path: Path, name: str) -> list[str]:
    missing = [folder for folder in path.parents if not folder.exists()]
    try:
        Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HooksRefused(f"{name}: {path.parent} cannot be made ({error.strerror})") from None
    return [str(folder) for folder in reversed(missing)]


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """One installer at a time."""
    with lock_file(layout.live / "hooks.lock", WAIT_SECONDS) as (_, is_ours):
        if not is_ours:
            raise HooksRefused("another `unspool hooks` is at work; try again later")
        yield


def _restless(agent: Agent, path: Path) -> HooksRefused:
    return HooksRefused(
        f"{agent.name}: {path} changed each time while it was edited; end {agent.title}, then try again"
    )
