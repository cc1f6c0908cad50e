"""`unspool align`: which conversations of different agents belong to the same work."""

from pathlib import Path
from typing import Any

import click

from unspool.cli.options import filter_options, store_option
from unspool.cli.screen import print_json, say
from unspool.errors import UsageError
from unspool.store.align import align, align_all, in_order, keep
from unspool.store.collection import StoreCollection
from unspool.store.filters import Filters
from unspool.store.ids import row_id, shown_id
from unspool.store.opening import writing
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
    idents: tuple[str, ...], auto: bool, store: Path, as_json: bool, **filters: Any
) -> None:
    """Say how certain it is that two conversations belong to the same work, and why.

    The result is kept in the store's table conversation_alignments.
    """
    if auto == bool(idents) or (idents and len(idents) != 2):
        raise UsageError("name two conversations, or use --auto")
    with writing(store, make=False) as connection:
        if auto:
            alignments = align_all(connection, Filters(**filters))
        else:
            collection = StoreCollection(connection)
            first, second = (collection.find(ident) for ident in idents)
            ids = row_id(first.source, first.id), row_id(second.source, second.id)
            if ids[0] == ids[1]:
                raise UsageError(f"{idents[0]} and {idents[1]} are the same conversation")
            alignments = [align(connection, *in_order(*ids))]
            keep(connection, alignments[0])
    for alignment in alignments:
        alignment.left, alignment.right = shown_id(alignment.left), shown_id(alignment.right)
    if as_json:
        print_json(alignments)
        return
    if not alignments:
        say("no two conversations of different agents belong together", err=True)
    for alignment in alignments:
        say(f"{alignment.confidence:.0%}  {alignment.left}  ↔  {alignment.right}")
        shown = alignment.correlations
        if auto:  # the best piece of evidence of every kind
            surest = sorted(shown, key=lambda one: one.confidence)
            best = {one.type: one for one in surest}
            shown = [best[kind] for kind in dict.fromkeys(one.type for one in shown)]
        for one in shown:
            gap = (
                f" ({one.time_difference_ms:.0f} ms)" if one.time_difference_ms is not None else ""
            )
            left, right = one_line(one.left)[:48], one_line(one.right)[:48]
            say(f"  {one.confidence:>4.0%} {one.type:<9} {left:<50} {right}{gap}")
