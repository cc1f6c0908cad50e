"""`unspool list`: conversations, newest first."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from unspool import sources
from unspool.cli.options import Moment
from unspool.cli.screen import Display, coloured, columns, cut, paged, print_json
from unspool.cli.selection import open_collection, says_something, tell_problems
from unspool.inspect.collection import Entry, last_time, short_ids
from unspool.views.characters import one_line
from unspool.views.figures import ago, count, day_and_time

EXAMPLES = """
\b
Examples:
  unspool list
  unspool list ~/.claude/projects --since 7d
  unspool list --source cursor --project limiter --limit 5
  unspool list --json | jq -r '.[].id'
"""


ID, WHEN, SOURCE, PROJECT, TURNS, TOOLS, TOKENS, TITLE = range(8)
_RIGHT = frozenset((TURNS, TOOLS, TOKENS))
_FIRST_TO_GO = (TOOLS, TOKENS, TURNS, PROJECT)
"""Columns that a narrow terminal does without, so that titles can be read."""
ID_WIDTH = 12
TITLE_WIDTH = 28


@click.command("list", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option("--source", type=click.Choice([*sources.SOURCES, "atif"]), help="Only of this agent.")
@click.option("--project", metavar="TEXT", help="Only of projects whose path holds this.")
@click.option("--since", type=Moment(), help="Only with activity since then: 2026-03-01, 7d, 12h.")
@click.option("--limit", "-n", type=click.IntRange(1), metavar="N", help="Only the newest N.")
@click.option("--agents", is_flag=True, help="Sub-agents too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def command(
    paths: tuple[str, ...],
    source: str | None,
    project: str | None,
    since: int | None,
    limit: int | None,
    agents: bool,
    as_json: bool,
) -> None:
    """List conversations, newest first: of PATHs, or of all that this machine holds.

    An id may be shortened as long as it is clear which is meant.
    """
    with Display(quiet=as_json) as display:
        collection = open_collection(paths, display)
        everything = collection.entries()
    tell_problems(collection)
    matching = [
        entry
        for entry in everything
        if (source is None or entry.source == source)
        and (project is None or project.lower() in (entry.project or "").lower())
        and (since is None or last_time(entry) >= since)
    ]
    # A sub-agent whose parent is not here (Claude Code's "Warmup") is no conversation of its own.
    chosen = [e for e in matching if agents or (e.parent_id is None and says_something(e))]
    if as_json:
        print_json(chosen[:limit])
    elif not chosen:
        more = "; `--agents` shows sub-agents" if matching else ""
        click.echo(f"no conversation matches{more}", err=True)
    else:
        with paged() as out:
            for line in _table(chosen[:limit], everything):
                out.write(line + "\n")


def _table(entries: Sequence[Entry], everything: Sequence[Entry]) -> list[str]:
    width = columns()
    short = short_ids(everything)
    now = datetime.now(UTC)
    rows: list[tuple[str, ...]] = [
        ("ID", "WHEN", "SOURCE", "PROJECT", "TURNS", "TOOLS", "TOKENS", "TITLE")
    ]
    for entry in entries:
        stamp = entry.ended_at or entry.started_at
        when = ago(stamp, now) if width else day_and_time(stamp)
        tokens = "/".join(
            count(number) or "?" for number in (entry.prompt_tokens, entry.completion_tokens)
        )
        name = (entry.project or "").replace("\\", "/").rstrip("/").rpartition("/")[2]
        rows.append(
            (
                one_line(short(entry)),
                when,
                entry.source,
                one_line(name, 20),
                str(entry.turns),
                str(entry.tools),
                tokens if tokens != "?/?" else "",
                one_line(entry.title or "", 200),
            )
        )
    colours = coloured()
    from rich.cells import cell_len

    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(rows[0]))]
    if width:
        widths[ID] = min(widths[ID], ID_WIDTH)  # a longer one pushes its own row, not all rows
    shown = list(range(TITLE))
    for at in _FIRST_TO_GO if width else ():
        if width - sum(widths[column] + 2 for column in shown) >= min(TITLE_WIDTH, widths[TITLE]):
            break
        shown.remove(at)
    lines: list[str] = []
    for number, row in enumerate(rows):
        cells = []
        for at in shown:
            pad = " " * (widths[at] - cell_len(row[at]))
            cells.append(pad + row[at] if at in _RIGHT else row[at] + pad)
        left = width - sum(cell_len(cell) + 2 for cell in cells)
        title = cut(row[TITLE], left) if width else row[TITLE]
        if colours and number == 0:
            lines.append(click.style("  ".join([*cells, title]).rstrip(), dim=True))
            continue
        if colours:
            cells[0] = click.style(cells[0], fg="yellow")
            cells[1] = click.style(cells[1], dim=True)
        lines.append("  ".join([*cells, title]).rstrip())
    return lines
