"""`unspool extract`: rebuild conversations and write them out."""

import sys
from pathlib import Path

import click

from unspool import pipeline
from unspool.sinks import SINKS, Family, load


@click.command("extract")
@click.argument("paths", nargs=-1, required=True)
@click.option("--to", "sink_name", type=click.Choice(list(SINKS)), default="jsonl")
@click.option("-o", "--output", type=click.Path())
def command(paths: tuple[str, ...], sink_name: str, output: str | None) -> None:
    """Rebuild the conversations under PATHS."""
    sink = load(sink_name)
    for trajectory in pipeline.extract(paths):
        for piece in sink.write(Family(trajectory), {}):
            if piece.name and output:
                target = Path(output) / piece.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(piece.data)
            else:
                sys.stdout.buffer.write(piece.data)
