"""Options that several commands share: times, sizes, the store, filters."""

import re
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from unspool.io.times import parse_time

_AGO = re.compile(r"^(\d+)\s*(min|h|d|w)$")
_SECONDS = {"min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([kmg]?)i?b?$", re.IGNORECASE)


class Moment(click.ParamType[int]):
    """A time: 2026-03-01, 2026-03-01T10:00:00Z, an epoch number, or 3d, 12h, 2w ago.

    Without a zone it is in this machine's, like every time that unspool shows.
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = value.strip()
        if ago := _AGO.match(text):
            return int((time.time() - int(ago[1]) * _SECONDS[ago[2]]) * 1_000_000)
        try:
            moment = datetime.fromisoformat(text)
            text = moment.astimezone().isoformat() if moment.tzinfo is None else text
        except (ValueError, OverflowError, OSError):  # no such text, or no such time in the zone
            pass
        micros = parse_time(text)
        if micros is None:
            self.fail(
                f"{value!r} is not a time like 2026-03-01, 2026-03-01T10:00:00Z or 3d", param, ctx
            )
        return micros


class Size(click.ParamType[int]):
    """Bytes: 500M, 2G, 100000."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.match(value.strip())
        if match is None:
            self.fail(f"{value!r} is not a size like 500M or 2G", param, ctx)
        power = {"": 0, "k": 1, "m": 2, "g": 3}[match[2].lower()]
        return int(float(match[1]) * 1024**power)


store_option = click.option(
    "--store",
    "store_path",
    metavar="FILE",
    envvar="UNSPOOL_STORE",
    help="The store. Default: a file in your data folder.",
)


def path_of(store_path: str | None) -> Path:
    """The store that was named, else the usual one."""
    from unspool.store.opening import default_path

    return Path(store_path) if store_path else default_path()


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The filters that search, stats and align share."""
    options = (
        click.option("--source", help="Only of this agent."),
        click.option("--project", metavar="TEXT", help="Only of projects whose path holds this."),
        click.option(
            "--file", metavar="TEXT", help="Only of conversations that touched such a file."
        ),
        click.option("--tool", help="Only of conversations that called this tool."),
        click.option("--since", type=Moment(), help="Only from then on: 2026-03-01, 7d, 12h."),
        click.option("--until", type=Moment(), help="Only up to then."),
    )
    for option in reversed(options):
        command = option(command)
    return command
