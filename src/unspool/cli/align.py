"""`unspool align`: which conversations of different agents belong to the same work."""

from typing import Any

import click
import msgspec

from unspool.cli.screen import say
from unspool.cli.search import filter_options
from unspool.cli.sync import path_of, store_option
from unspool.errors import UsageError
from unspool.store.align import Alignment, align, align_all, in_order, keep
from unspool.store.filters import Filters
from unspool.store.ids import row_id
from unspool.store.opening import writing
from unspool.store.shelf import StoreShelf
from unspool.views.characters import one_line

EXAMPLES = """
\b
Examples:
  unspool align --auto --since 30d
  unspool align 3f2a91c 8b77d04
"""


@click.command("align", epilog=EXAMPLES)
@click.argument("idents", nargs=-1, metavar="[ID ID]")
@click.option(
    "--auto", is_flag=True, help="Find pairs that share a workspace or a file, and a day."
)
@filter_options
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def command(
    idents: tuple[str, ...], auto: bool, store_path: str | None, as_json: bool, **filters: Any
) -> None:
    """Say how sure it is that two conversations belong to the same work, and why.

    What is found is kept in the store's table conversation_alignments.
    """
    if auto == bool(idents) or (idents and len(idents) != 2):
        raise UsageError("name two conversations, or use --auto")
    with writing(path_of(store_path), make=False) as connection:
        if auto:
            found = align_all(connection, Filters(**filters))
        else:
            shelf = StoreShelf(connection)
            first, second = (shelf.find(ident) for ident in idents)
            ids = row_id(first.source, first.id), row_id(second.source, second.id)
            found = [align(connection, *in_order(*ids))]
            keep(connection, found[0])
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    if not found:
        say("no two conversations of different agents belong together", err=True)
    for alignment in found:
        _print(alignment, full=not auto)


def _print(alignment: Alignment, full: bool) -> None:
    say(f"{alignment.confidence:.0%}  {alignment.left}  ↔  {alignment.right}")
    shown = alignment.correlations if full else _best(alignment)
    for one in shown:
        gap = f" ({one.time_difference_ms:.0f} ms)" if one.time_difference_ms is not None else ""
        left, right = one_line(one.left)[:48], one_line(one.right)[:48]
        say(f"  {one.confidence:>4.0%} {one.type:<9} {left:<50} {right}{gap}")


def _best(alignment: Alignment) -> list[Any]:
    """The best piece of evidence of every kind."""
    best: dict[str, Any] = {}
    for one in alignment.correlations:
        known = best.get(one.type)
        if known is None or one.confidence > known.confidence:
            best[one.type] = one
    return list(best.values())
