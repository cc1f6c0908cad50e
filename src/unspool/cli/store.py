"""`unspool store`: look after the store."""

from typing import Any

import click
import msgspec

from unspool.cli.display import number
from unspool.cli.screen import say
from unspool.cli.sync import path_of, store_option
from unspool.store import care
from unspool.store.opening import reading, writing
from unspool.store.rebuild import rebuild as rebuild_store
from unspool.views.figures import size

EXAMPLES = """
\b
Examples:
  unspool store info
  unspool store verify --store work.db
"""
as_json_option = click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")


@click.group("store", epilog=EXAMPLES)
def command() -> None:
    """Look after the store: what it holds, whether it is sound, how large it is."""


@command.command("info")
@store_option
@as_json_option
def info(store_path: str | None, as_json: bool) -> None:
    """Say what the store holds."""
    path = path_of(store_path)
    with reading(path) as connection:
        made = care.info(connection, path)
    if as_json:
        click.echo(msgspec.json.encode(made).decode())
        return
    _print_info(made)


def _print_info(made: dict[str, Any]) -> None:
    say(f"{made['path']} (version {made['version']}, {size(made['size_bytes'])})")
    for row in made["sources"]:
        when = f"{(row['first'] or '?')[:10]} to {(row['last'] or '?')[:10]}"
        counts = f"{number(row['conversations'])} conversations, {number(row['messages'])} messages"
        say(f"  {row['source']:<20} {counts}, {when}")
    kept = f"{size(made['raw_bytes'])} of raw records in {size(made['raw_stored_bytes'])}"
    gone = f", {number(made['origins_gone'])} of them gone" if made["origins_gone"] else ""
    say(f"  {number(made['origins'])} origins{gone}; {kept}")
    for code, count in made["problems"].items():
        say(f"  {number(count)} × {code}")
    if made["unwritten"]:
        say(f"  {number(made['unwritten'])} conversations wait for the next sync")


@command.command("verify")
@store_option
@as_json_option
def verify(store_path: str | None, as_json: bool) -> int:
    """Check that the store is sound. Exit code 1 where it is not."""
    with reading(path_of(store_path)) as connection:
        found = care.verify(connection)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        for text in found:
            say(text)
        if not found:
            say("sound")
    return 1 if found else 0


@command.command("vacuum")
@store_option
def vacuum(store_path: str | None) -> None:
    """Give unused space back."""
    path = path_of(store_path)
    with writing(path, make=False) as connection:
        before, after = care.vacuum(connection, path)
    say(f"{size(before)} → {size(after)}", err=True)


@command.command("rebuild")
@store_option
@as_json_option
def rebuild(store_path: str | None, as_json: bool) -> None:
    """Make every conversation anew from the records that the store kept."""
    with writing(path_of(store_path), make=False) as connection:
        report = rebuild_store(connection)
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        say(f"{number(report.written)} conversations made anew", err=True)
