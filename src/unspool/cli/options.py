"""Options that several commands share: times, sizes, the store, the output, filters."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from unspool import sinks
from unspool.errors import UsageError
from unspool.io.times import parse_moment

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([kmg]?)i?b?$", re.IGNORECASE)


class Moment(click.ParamType[int]):
    """A time: 2026-03-01, 2026-03-01T10:00:00Z, an epoch number, or 3d, 12h, 2w ago.

    Without a zone it is in this machine's, like every time that unspool shows.
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        micros = parse_moment(value)
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


def _store(ctx: click.Context, param: click.Parameter, value: str | None) -> Path:
    """The store that was named, else the usual one."""
    from unspool.store.opening import default_path

    return Path(value) if value else default_path()


store_option = click.option(
    "--store",
    metavar="FILE",
    envvar="UNSPOOL_STORE",
    callback=_store,
    help="The store. Default: a file in your data folder.",
)


def together(*options: Decorator) -> Decorator:
    """Options that several commands have, in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def output_options(sink: str, where: str) -> Decorator:
    """What a command writes, a `sink` unless it is told, and where."""
    return together(
        click.option(
            "--to",
            "sink",
            type=click.Choice(list(sinks.SINKS)),
            default=sink,
            show_default=True,
            help="Shape of the output.",
        ),
        click.option("-o", "--output", metavar="PATH", help=where),
        click.option(
            "--atif-version",
            type=click.Choice(["1.5", "1.6", "1.7", "1.8"]),
            default="1.7",
            show_default=True,
            help="Of --to atif.",
        ),
        click.option(
            "--subagents",
            type=click.Choice(["embedded", "files"]),
            default="embedded",
            show_default=True,
            help="Where --to atif puts sub-agents.",
        ),
        click.option(
            "--partition-by",
            type=click.Choice(["source", "project", "month"]),
            help="With --to parquet: a folder for each source, project or month, as Hive has them.",
        ),
        click.option("--no-reasoning", is_flag=True, help="Leave the models' reasoning out."),
    )


TO_STDOUT = "File (or folder, for formats of several files). Default: stdout."


def prepare_sink(
    sink: str, output: str | None, given: dict[str, Any]
) -> tuple[dict[str, Any], sinks.Combine | None]:
    """The options of a sink, and its second step; what is wrong with them is told before anything
    is read."""
    if sinks.load(sink).MANY_FILES and (output is None or output == "-"):
        raise UsageError(f"--to {sink} writes several files: name a folder with -o")
    options = {name: given.pop(name) for name in ("atif_version", "subagents", "partition_by")}
    return options, sinks.load_combine(sink, options)


filter_options = together(
    click.option("--source", help="Only of this agent."),
    click.option("--project", metavar="TEXT", help="Only of projects whose path holds this."),
    click.option("--file", metavar="TEXT", help="Only of conversations that touched such a file."),
    click.option("--tool", help="Only of conversations that called this tool."),
    click.option("--since", type=Moment(), help="Only from then on: 2026-03-01, 7d, 12h."),
    click.option("--until", type=Moment(), help="Only up to then."),
)
"""The filters that search, stats and align share."""
