"""`unspool service`: have `unspool watch` run with every login."""

import sys
from pathlib import Path

import click

from unspool.cli.options import path_of, store_option
from unspool.cli.screen import say
from unspool.live.service import Service, service

EXAMPLES = """
\b
Examples:
  unspool service install --dry-run
  unspool service install
  unspool service remove
"""


@click.group("service", epilog=EXAMPLES)
def command() -> None:
    """Have `unspool watch` run with every login: a systemd unit of the user's, or a launchd agent."""


def _service(store_path: str | None) -> Service:
    words = [sys.executable, "-m", "unspool", "watch", "--quiet"]
    return service([*words, "--store", str(path_of(store_path).absolute())], Path.home())


@command.command("install")
@click.option("--dry-run", is_flag=True, help="Only print the file.")
@store_option
def install(dry_run: bool, store_path: str | None) -> None:
    """Write the service's file, and say how to start it."""
    made = _service(store_path)
    if dry_run:
        click.echo(made.text, nl=False)
        say(f"unspool: this would be {made.path}", err=True)
        return
    made.path.parent.mkdir(parents=True, exist_ok=True)
    made.path.write_text(made.text, encoding="utf-8")
    say(f"{made.path} is written. Start it with")
    for line in made.start:
        say(f"  {line}")


@command.command("remove")
@store_option
def remove(store_path: str | None) -> None:
    """Remove the service's file."""
    made = _service(store_path)
    if not made.path.exists():
        say(f"unspool: there is no {made.path}", err=True)
        return
    for path in (*made.links, made.path):
        path.unlink(missing_ok=True)
    say(f"{made.path} is removed. If it runs, end it with")
    for line in made.stop:
        say(f"  {line}")
