"""`unspool conversation-tags`: an inventory of the prompt tags in conversations."""

import json
from pathlib import Path

import click

from unspool.cli.screen import Display, say
from unspool.errors import OutputError
from unspool.pipeline.batch import open_run
from unspool.pipeline.job import Job
from unspool.prompts import catalogue
from unspool.prompts.census import TagScan, summary, to_markdown
from unspool.views.characters import printable


@click.command(
    "conversation-tags",
    epilog="\b\nExamples:\n"
    "  unspool conversation-tags telemetry/ -o tags.md\n"
    "  unspool conversation-tags conversations.jsonl --json | jq '.unknown[].draft'",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("-o", "--output", metavar="FILE", help="Default: stdout.")
@click.option("--context-tag-map", metavar="FILE", help="Another catalogue of prompt tags.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--json", "as_json", is_flag=True, help="As the tag scan summary of extract.")
def command(
    paths: tuple[str, ...],
    output: str | None,
    context_tag_map: str | None,
    workers: int,
    as_json: bool,
) -> None:
    """Which tags stand in the messages of the conversations under PATH…, as Markdown.

    Takes everything that `extract` takes: telemetry, other traces, extracted trajectories.
    """
    if context_tag_map is not None:
        catalogue.use(context_tag_map)
    scan = TagScan()
    job = Job(paths=list(paths), workers=workers)
    with Display(quiet=as_json) as display, open_run(job, display.start) as run:
        for trajectory in run.trajectories():
            scan.add(trajectory)
    if run.summary.problems:
        say(f"not wholly readable: {run.summary.problems_told}", err=True)
    report = summary(scan)
    text = (
        json.dumps(report, indent=1, ensure_ascii=False) + "\n" if as_json else to_markdown(report)
    )
    if output is None:
        click.echo(text if as_json else printable(text), nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror}") from None
