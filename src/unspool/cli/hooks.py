"""`unspool hooks`: have agents tell of their events as they happen."""

import difflib
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from unspool.cli.options import store_option
from unspool.cli.screen import coloured, print_json, say, verdict
from unspool.errors import HooksRefused, StoreError
from unspool.hooks import install as installing
from unspool.hooks import manifest
from unspool.hooks.agents import AGENTS, Agent
from unspool.hooks.install import Change
from unspool.hooks.manifest import Installed
from unspool.hooks.spool import Layout
from unspool.hooks.status import Status, running, status
from unspool.io.times import parse_time
from unspool.live.intake import make_arrival
from unspool.store.events import DATABASE_TRACE
from unspool.store.opening import reading
from unspool.views.figures import plural

EXAMPLES = """
\b
Examples:
  unspool hooks install                    for every agent that is here
  unspool hooks install claude-code --dry-run
  unspool hooks status
  unspool hooks remove
"""
RECHECK_SECONDS = 2.0
"""A running agent writes back the settings that it has in memory within this time."""
NEWEST_PAYLOADS = 200
COPILOTS = ("copilot-cli", "copilot-vscode", "vscode-chat")
"""Sources whose hooks stand in one file."""
T = TypeVar("T")

agents_argument = click.argument(
    "names", metavar="[AGENT]…", nargs=-1, type=click.Choice(list(AGENTS))
)
project_option = click.option(
    "--project", is_flag=True, help="In the settings of this project instead of yours."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would change.")


@click.group("hooks", epilog=EXAMPLES)
def command() -> None:
    """Have agents tell of their events as they happen.

    A hook lays a copy of each event into a folder of unspool's. It decides nothing, answers nothing
    and takes a few milliseconds. Agents: claude-code, cursor, copilot (Copilot CLI and VS Code),
    codex, gemini-cli, opencode.
    """


@command.command("install")
@agents_argument
@project_option
@dry_run_option
@click.option("--gates", is_flag=True, help="Also hear of tool calls before they run.")
@store_option
def install(names: tuple[str, ...], project: bool, dry_run: bool, gates: bool, store: Path) -> int:
    """Add hooks to the settings of agents, and show what changes."""
    installing.refuse_platform()
    layout = Layout.beside(store)
    folder = _project() if project else None
    chosen = [AGENTS[name] for name in names] or [one for one in AGENTS.values() if one.is_here()]
    if not chosen:
        raise HooksRefused(
            f"none of the agents with hooks is here ({', '.join(AGENTS)}); start one once, then install"
        )

    def change(agent: Agent) -> Change:
        wanted = installing.wish(layout, agent, folder, gates)
        plan = installing.plan_install if dry_run else installing.install
        made = plan(layout, wanted)
        events = plural(len(wanted.commands), "event")
        _show(made, f"{events} already installed" if made.is_nothing else events)
        for note in made.notes:
            say(f"{agent.name}: {note}", err=True)
        return made

    return _change_all(change, chosen, dry_run)


@command.command("remove")
@agents_argument
@project_option
@dry_run_option
@store_option
def remove(names: tuple[str, ...], project: bool, dry_run: bool, store: Path) -> int:
    """Take the hooks out of the settings again."""
    layout = Layout.beside(store)
    folder = _project() if project else None
    entries = [
        entry
        for entry in manifest.load(layout).installed
        if entry.project == project
        and (not names or entry.agent in names)
        and (folder is None or entry.path == str(AGENTS[entry.agent].file(folder)))
    ]
    for name in names or ([] if entries else ["unspool"]):
        if not any(entry.agent == name for entry in entries):
            say(f"{name}: no hooks are installed", err=True)

    def change(entry: Installed) -> Change:
        plan = installing.plan_remove if dry_run else installing.remove
        made = plan(layout, entry)
        _show(made, "removed")
        return made

    return _change_all(change, entries, dry_run)


def _change_all(change: Callable[[T], Change], items: Iterable[T], dry_run: bool) -> int:
    """One file after the other; where one cannot be changed, the others still are."""
    done: list[Change] = []
    refused = False
    for item in items:
        try:
            done.append(change(item))
        except HooksRefused as error:
            say(f"unspool: {error}", err=True)
            refused = True
    if not dry_run:
        refused = _recheck([made for made in done if not made.is_nothing]) or refused
    return verdict(1 if refused else 0)


@command.command("status")
@agents_argument
@project_option
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
@store_option
def show_status(names: tuple[str, ...], project: bool, as_json: bool, store: Path) -> None:
    """Say whether the hooks are installed, switched on and heard from."""
    layout = Layout.beside(store)
    folder = _project() if project else None
    seen = _last_events(store, layout)
    statuses = [status(layout, AGENTS[name], folder, seen.get) for name in names or AGENTS]
    if as_json:
        print_json(statuses, indent=0)
        return
    for one in statuses:
        if one.state == "absent" and not names:
            continue
        say(f"{one.agent:<12} {one.state:<14} {_figures(one)}".rstrip())
        if one.missing:
            say(f"{'':<12} missing: {', '.join(one.missing)}")
        for advice in one.advice:
            say(f"{'':<12} {advice}")
    say(f"{'spool':<12} {layout.spool}")


def _last_events(store: Path, layout: Layout) -> dict[str, int]:
    """When each agent was last heard of, in microseconds: by the spool, and by the store."""
    heard: list[tuple[str, int]] = []
    with suppress(OSError):
        newest = sorted((path.stat().st_mtime_ns, path) for path in layout.new.iterdir())
        for stamp, path in newest[-NEWEST_PAYLOADS:]:
            arrival = make_arrival(path.read_bytes(), path.name, stamp)
            heard.append((arrival.platform, stamp // 1000))
    with suppress(StoreError), reading(store) as connection:
        rows = connection.execute(
            "SELECT platform, max(received_at) FROM raw_traces WHERE event_id IS NOT NULL"
            " AND event_type <> ? GROUP BY platform",
            (DATABASE_TRACE,),
        )
        heard += [(platform, parse_time(at) or 0) for platform, at in rows]
    last_heard: dict[str, int] = {}
    for platform, at in heard:
        agent = "copilot" if platform in COPILOTS else platform
        last_heard[agent] = max(at, last_heard.get(agent, 0))
    return last_heard


def _figures(one: Status) -> str:
    parts = [one.path]
    if one.events:
        parts.append(plural(len(one.events), "event"))
    if one.state not in ("absent", "not installed"):
        moment = one.last_event
        seen = "none seen yet"
        if moment is not None:
            when = datetime.fromtimestamp(moment / 1_000_000, UTC).astimezone()
            seen = f"last seen {when:%Y-%m-%d %H:%M:%S}"
        parts.append(seen)
    if one.median_ms is not None:
        parts.append(f"{one.median_ms:.0f} ms each")
    return ", ".join(parts)


def _show(change: Change, what: str) -> None:
    say(f"{change.agent.name}: {change.path}: {what}", err=True)
    if change.is_nothing:
        return
    lines = difflib.unified_diff(
        _lines(change.before),
        _lines(change.after),
        str(change.path) if change.before is not None else "/dev/null",
        str(change.path) if change.after is not None else "/dev/null",
        lineterm="",
    )
    colours = {"+": "green", "-": "red"}
    for line in lines:
        say(line, fg=colours.get(line[:1]) if coloured() else None)


def _lines(data: bytes | None) -> list[str]:
    return [] if data is None else data.decode("utf-8", "replace").splitlines()


def _recheck(done: list[Change]) -> bool:
    """Whether a running agent has already undone a change; says which sessions want a new start."""
    if not done:
        return False
    undone = installing.undone(done, RECHECK_SECONDS)
    for change in undone:
        say(
            f"unspool: {change.agent.name}: {change.path} was changed again by another program;"
            f" end {change.agent.title}, then try once more",
            err=True,
        )
    for agent in {change.agent.name: change.agent for change in done}.values():
        for pid, folder in running(agent):
            where = f" in {folder}" if folder else ""
            say(f"{agent.name}: restart the session of process {pid}{where} to see it", err=True)
    return bool(undone)


def _project() -> Path:
    """The repository around the current folder, else the folder."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
