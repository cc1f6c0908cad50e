"""`unspool stats`: figures over the conversations of the store."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from unspool.cli.options import filter_options, store_option
from unspool.cli.screen import columns, print_json, say
from unspool.store.filters import Filters
from unspool.store.opening import reading
from unspool.store.stats import GROUPS, Figures, Group, stats
from unspool.views.characters import one_line
from unspool.views.figures import count as short

EXAMPLES = """
\b
Examples:
  unspool stats
  unspool stats --by model --since 30d
  unspool stats --by file --project limiter
  unspool stats --by day --csv > days.csv
"""
BAR = 24


@click.command("stats", epilog=EXAMPLES)
@click.option("--by", type=click.Choice(GROUPS), default="source", show_default=True)
@click.option("--model", metavar="TEXT", help="With --by model: only such models.")
@filter_options
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="Rows (of days the latest).",
)
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON array, all rows.")
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values, all rows.")
def command(
    by: Group, limit: int, store: Path, as_json: bool, as_csv: bool, **filters: Any
) -> None:
    """Count conversations, turns, tokens (cache apart), cost, failures, lines, and changes kept.

    What is unknown is left empty: an unknown price is not zero.
    """  # fmt: skip
    with reading(store) as connection:
        rows = stats(connection, by, Filters(**filters))
    if as_json:
        plain = [msgspec.to_builtins(row) for row in rows]
        for row, fields in zip(rows, plain, strict=True):
            if row.acceptance_rate is not None:
                fields["acceptance_rate"] = round(row.acceptance_rate, 3)
        print_json(plain)
    elif as_csv:
        out = io.StringIO()
        names = [*Figures.__struct_fields__, "acceptance_rate"]
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            values = [getattr(row, name) for name in names]
            writer.writerow(["" if value is None else value for value in values])
        click.echo(out.getvalue(), nl=False)
    elif not rows:
        say("nothing in the store matches", err=True)
    else:
        _print(rows[-limit:] if by == "day" else rows[:limit], by)


def _cost(row: Figures) -> str:
    if row.cost_usd is None:
        return "?" if row.tokens_without_price else ""
    return f"${row.cost_usd:,.2f}" + ("+?" if row.tokens_without_price else "")


def _lines(row: Figures) -> str:
    if row.lines_added is None and row.lines_removed is None:
        return ""
    return f"+{row.lines_added or 0} -{row.lines_removed or 0}"


def _tokens(name: str) -> Callable[[Figures], str]:
    return lambda row: "" if getattr(row, name) is None else short(getattr(row, name))


_CELLS: dict[str, Callable[[Figures], str]] = {
    "conversations": lambda row: str(row.conversations),
    "turns": lambda row: str(row.turns),
    "prompt": _tokens("prompt_tokens"),
    "cached": _tokens("cached_tokens"),
    "output": _tokens("completion_tokens"),
    "cost": _cost,
    "calls": lambda row: str(row.tool_calls),
    "failed": lambda row: f"{row.tool_failures / row.tool_calls:.0%}" if row.tool_calls else "",
    "touches": lambda row: str(row.touches),
    "lines": _lines,
    "kept": lambda row: f"{row.acceptance_rate:.0%}" if row.acceptance_rate is not None else "",
}
_USUAL = "conversations turns prompt cached output cost calls failed lines kept"
_COLUMNS = {
    "tool": "calls failed conversations",
    "file": "conversations touches lines kept",
    "model": "conversations turns prompt cached output cost calls failed",
}
"""The cells that say something, where a grouping has others than usual."""


def _size(row: Figures, by: Group) -> float:
    if by == "tool":
        return row.tool_calls
    if by == "file":
        return row.touches
    return row.total_tokens or row.conversations


def _print(rows: list[Figures], by: Group) -> None:
    heads = _COLUMNS.get(by, _USUAL).split()
    table = [[by, *heads]]
    for row in rows:
        if by == "model":  # sub-agents have models of their own
            row = msgspec.structs.replace(row, conversations=row.conversations + row.subagents)
        name = one_line(row.name)
        name = name if len(name) <= 48 else "…" + name[-47:]
        table.append([name, *(_CELLS[head](row) for head in heads)])
    widths = [max(len(line[n]) for line in table) for n in range(len(table[0]))]
    most = max((_size(row, by) for row in rows), default=0)
    width = columns()
    room = width - sum(widths) - 2 * len(widths)
    bars = [""] + [
        "█" * round(min(BAR, max(room, 0)) * _size(row, by) / most) if most else "" for row in rows
    ]
    for number, (line, bar) in enumerate(zip(table, bars, strict=True)):
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        text = "  ".join(cells)
        if width:
            say(text, nl=False, bold=number == 0)
            say(f"  {bar}".rstrip(), fg="cyan")
        else:
            say(text.rstrip())
