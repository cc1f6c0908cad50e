"""`unspool sync`: bring the store up to date."""

import time
from contextlib import suppress
from pathlib import Path

import click

from unspool.cli.options import store_option
from unspool.cli.screen import Display, print_json, say_rows
from unspool.errors import NothingToRead, QueueError, StoreError
from unspool.inspect.scan import found_paths, is_there, usual_places
from unspool.live.drain import drain, has_arrived
from unspool.store.conversations import INDEXES, WORDS, is_new
from unspool.store.intake import Report
from unspool.store.opening import writing
from unspool.store.survey import Survey, survey
from unspool.store.sync import Sync
from unspool.views.figures import size

EXAMPLES = """
\b
Examples:
  unspool sync
  unspool sync ~/.claude/projects --store work.db
  unspool sync --json | jq .written
"""


@click.command("sync", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@store_option
@click.option("--no-raw", is_flag=True, help="Do not keep the records themselves.")
@click.option("--wait", type=float, default=0, metavar="SECONDS", help="If another one is writing.")
@click.option("--json", "as_json", is_flag=True, help="What was done, as JSON on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def command(
    paths: tuple[str, ...],
    store: Path,
    no_raw: bool,
    wait: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """Read what is new or changed under PATH… (or in the usual places) into the store.

    Conversations whose files are gone stay in the store.
    """
    started = time.monotonic()
    report = sync(list(paths), store, raw=not no_raw, wait_seconds=wait, quiet=quiet or as_json)
    if as_json:
        print_json(report, indent=0)
    elif not quiet:
        say_rows(
            (
                "origins",
                f"{report.read:,} read ({size(report.bytes)}), {report.unchanged:,} unchanged, "
                f"{report.gone:,} newly gone",
            ),
            ("conversations", f"{report.written:,} written"),
            *(("problem", f"{n:,} × {code}") for code, n in sorted(report.problems.items())),
            ("store", f"{store} ({size(store.stat().st_size)})"),
            ("took", f"{time.monotonic() - started:.1f} s"),
        )


def sync(
    paths: list[str],
    path: Path,
    raw: bool = True,
    wait_seconds: float = 0,
    quiet: bool = False,
    complete: bool = True,
) -> Report:
    """Bring the store at `path` up to date, with progress on a terminal.

    Unless it is to be `complete`, some indexes are left to the search, if ever one is made: `pieces`,
    and in a new store `words`.
    """
    places = usual_places() if not paths else []
    # A place that is no longer there is looked at as well: what it held is gone.
    tops = paths or [*found_paths(places), *(one.path for one in places if not one.exists)]
    if paths and not any(is_there(Path(top)) for top in tops):
        raise NothingToRead(f"nothing to read: {', '.join(tops)} is not there")
    with Display(quiet=quiet) as display, writing(path, wait_seconds) as connection:
        drain(connection, path, raw)
        changes = survey(connection, tops)
        progress = display.start(sum(changed.size_bytes for changed in changes.changed))
        # Only in a new store: a server that runs on an older one only reads, and would miss the rest.
        indexes = INDEXES if complete else () if is_new(connection) else (WORDS,)
        return Sync(connection, raw, progress, indexes).run([], changes)


def take_arrived(path: Path) -> None:
    """What hooks have handed over since, without a look at any file; where that can be done."""
    if has_arrived(path):
        with suppress(StoreError, QueueError), writing(path) as connection:
            if drain(connection, path):
                Sync(connection).run([], Survey())
