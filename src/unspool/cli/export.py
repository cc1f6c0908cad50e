"""`unspool export`: conversations taken away as files."""

from pathlib import Path

import click

from unspool import sinks
from unspool.cli.options import output_options
from unspool.cli.screen import Display
from unspool.cli.selection import choose, tell_problems
from unspool.errors import UnspoolError, UsageError
from unspool.io.temporary import scratch
from unspool.pipeline.output import spool_families, write_one, write_output
from unspool.sinks import Family

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
@click.option("--from", "paths", multiple=True, metavar="PATH", help="Look for the ids in there.")
@output_options("html", "File or folder; - for standard output.")
def command(
    conversations: tuple[str, ...],
    paths: tuple[str, ...],
    sink: str,
    output: str | None,
    no_reasoning: bool,
    **options: str | None,
) -> None:
    """Write conversations, with their sub-agents, as HTML, Markdown, ATIF, …

    Formats of several files go to the current folder, others to standard output.
    """
    shape = sinks.load(sink)
    combine = sinks.load_combine(sink, options)
    if combine is not None and output == "-":
        raise UsageError(f"--to {sink} writes several files: name a folder with -o")
    with Display(quiet=False) as display:
        families: list[Family] = []
        for argument in conversations:
            collection, entries = choose(argument, paths, display)
            tell_problems(collection)
            families += map(collection.family, entries)
    if not shape.FAMILIES:
        families = [
            Family(one) for family in families for one in (family.root, *family.descendants)
        ]
    with scratch() as folder:
        written = spool_families(families, sink, options, not no_reasoning, folder / "pieces")
        names = [name for one in written for name, _ in one.pieces]
        if not names:
            raise UnspoolError(f"{sink} has nothing to show of this")
        target = Path(output or ".")
        alone = combine is None and len(names) == 1 and bool(target.suffix)
        if output == "-" or (
            alone and not target.is_dir()
        ):  # one page goes to the file that was named
            write_one(written, output)
            if shape.MANY_FILES and output != "-":
                click.echo(str(target))
            return
        if shape.MANY_FILES:
            output = str(target)
            named = bool(target.suffix) and target.suffix == Path(names[0]).suffix
            if (named or target.exists()) and not target.is_dir():
                raise UsageError(f"{target} is a file; several files need a folder")
        for path in write_output(written, sink, combine, output):
            if path.parent == target:  # pictures lie in folders below it
                click.echo(str(path))
