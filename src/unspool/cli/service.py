"""`unspool service`: have `unspool watch` run with every login."""

import sys
from pathlib import Path

import click

from unspool.cli.options import store_option
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


def _service(store: Path) -> Service:
    words = [sys.executable, "-m", "unspool", "watch", "--quiet"]
    return service([*words, "--store", str(store.absolute())], Path.home())


@command.command("install")
@click.option("--dry-run", is_flag=True, help="Only print the file.")
@store_option
def install(dry_run: bool, store: Path) -> None:
    """Write the service's file, and say how to start it."""
    unit = _service(store)
    if dry_run:
        click.echo(unit.text, nl=False)
        say(f"unspool: this would be {unit.path}", err=True)
        return
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    unit.path.write_text(unit.text, encoding="utf-8")
    say(f"{unit.path} is written. Start it with")
    for line in unit.start:
        say(f"  {line}")


@command.command("remove")
@store_option
def remove(store: Path) -> None:
    """Remove the service's file."""
    unit = _service(store)
    if not unit.path.exists():
        say(f"unspool: there is no {unit.path}", err=True)
        return
    for path in (*unit.links, unit.path):
        path.unlink(missing_ok=True)
    say(f"{unit.path} is removed. If it runs, end it with")
    for line in unit.stop:
        say(f"  {line}")
