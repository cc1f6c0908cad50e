"""`unspool export`: conversations taken away as files."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from unspool import sinks
from unspool.cli.options import no_reasoning_option, partition_option
from unspool.cli.screen import Display
from unspool.cli.selection import choose, tell_problems
from unspool.errors import UnspoolError, UsageError
from unspool.pipeline.finish import drop_reasoning
from unspool.pipeline.output import whole_file, write_combined
from unspool.sinks import Family, Piece, unique_names

EXAMPLES = """
\b
Examples:
  unspool export 7d1e2f3 --to html
  unspool export 7d1e2f3 9ab4c01 --to markdown -o notes/
  unspool export session.jsonl --to atif -o out/
  unspool export 7d1e2f3 --to jsonl | jq .title
"""


@click.command("export", epilog=EXAMPLES)
@click.argument("conversations", nargs=-1, required=True, metavar="ID|FILE…")
@click.option(
    "--to", "to", type=click.Choice(list(sinks.SINKS)), default="html", show_default=True,
    help="Shape of the output.",
)  # fmt: skip
@click.option("--from", "paths", multiple=True, metavar="PATH", help="Look for the ids in there.")
@click.option("-o", "--output", metavar="PATH", help="File or folder; - for standard output.")
@partition_option
@no_reasoning_option
def command(
    conversations: tuple[str, ...],
    to: str,
    paths: tuple[str, ...],
    output: str | None,
    partition_by: str | None,
    no_reasoning: bool,
) -> None:
    """Write conversations, with their sub-agents, as HTML, Markdown, ATIF, …

    Formats of several files go to the current folder, others to standard output.
    """
    sink = sinks.load(to)
    options = {"partition_by": partition_by}
    combine = sinks.load_combine(to, options)
    if combine is not None and output == "-":
        raise UsageError(f"--to {to} writes several files: name a folder with -o")
    with Display(quiet=False) as display:
        families: list[Family] = []
        for argument in conversations:
            collection, entries = choose(argument, paths, display)
            tell_problems(collection)
            families += map(collection.family, entries)
    if no_reasoning:
        for family in families:
            for member in (family.root, *family.descendants):
                drop_reasoning(member)
    if not sink.FAMILIES:
        families = [
            Family(one) for family in families for one in (family.root, *family.descendants)
        ]
    pieces = [piece for family in families for piece in sink.write(family, options)]
    if not pieces:
        raise UnspoolError(f"{to} has nothing to show of this")
    if combine is not None:
        groups: dict[str, list[bytes]] = {}
        for piece in pieces:
            groups.setdefault(piece.name, []).append(piece.data)
        for path in write_combined(combine, sinks.combined_files(to), groups, output or "."):
            click.echo(str(path))
    elif sink.MANY_FILES and output != "-":
        for path in _write_files(pieces, output):
            click.echo(str(path))
    elif output is None or output == "-":
        stdout = sys.stdout.buffer
        for piece in pieces:
            stdout.write(piece.data)
        stdout.flush()
    else:
        with whole_file(Path(output)) as file:
            for piece in pieces:
                file.write(piece.data)


def _write_files(pieces: list[Piece], output: str | None) -> Iterator[Path]:
    """One page goes to the file that was named; else every piece goes into the folder."""
    target = Path(output) if output is not None else Path()
    if len(pieces) == 1 and output is not None and target.suffix and not target.is_dir():
        with whole_file(target) as file:
            file.write(pieces[0].data)
        yield target
        return
    named = bool(target.suffix) and target.suffix == Path(pieces[0].name).suffix
    if (named or target.exists()) and not target.is_dir():
        raise UsageError(f"{target} is a file; several files need a folder")
    top = unique_names(piece.name for piece in pieces if "/" not in piece.name)
    for piece in pieces:
        path = target / (piece.name if "/" in piece.name else next(top))
        with whole_file(path) as file:
            file.write(piece.data)
        if "/" not in piece.name:
            yield path
