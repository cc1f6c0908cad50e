"""`unspool extract`: rebuild conversations and write them out."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import click
import msgspec

from unspool import sinks, sources
from unspool.cli.options import TO_STDOUT, Moment, Size, output_options, prepare_sink
from unspool.cli.screen import Display, say_rows
from unspool.errors import UsageError, unwritable
from unspool.facts import Problem
from unspool.pipeline.batch import Run, open_run
from unspool.pipeline.job import MEGABYTE, Job, Summary
from unspool.pipeline.output import is_special, opened, write_output
from unspool.prompts import catalogue
from unspool.prompts.census import write_summary
from unspool.views.figures import plural, size

EXAMPLES = """
\b
Examples:
  unspool extract telemetry/ -o conversations.jsonl
  unspool extract ~/.claude ~/.copilot --to atif -o trajectories/
  zcat log.gz | unspool extract - --regex 'TypeError' | jq .title
"""

STRICT_CODE = 3
_FILTERS = ("since", "require_system_first", "sample", "seed", "sample_mode")


class Extract(click.Command):
    """Takes `--require-system-first true|false` too, as older scripts have it."""

    FLAG = "--require-system-first"
    WORDS: ClassVar = {f"{FLAG}=true": FLAG, f"{FLAG}=false": "--no-require-system-first"}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        joined: list[str] = []
        for arg in args:
            if joined[-1:] == [self.FLAG] and arg.lower() in ("true", "false"):
                joined[-1] += f"={arg.lower()}"
            else:
                joined.append(arg)
        return super().parse_args(ctx, [self.WORDS.get(arg, arg) for arg in joined])


@click.command("extract", cls=Extract, epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@output_options("jsonl", TO_STDOUT)
@click.option(
    "--source",
    type=click.Choice([*sources.SOURCES, *sinks.READERS]),
    help="Read all files as this format. Default: found out from the content.",
)
@click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="Processes. Default: all cores."
)
@click.option(
    "--memory-limit",
    type=Size(),
    default="64M",
    show_default=True,
    help="Facts beyond this go to disk.",
)
@click.option("--json-recovery", is_flag=True, help="Repair JSON that was cut off.")
@click.option("--since", type=Moment(), help="Only conversations with activity since then.")
@click.option(
    "--require-system-first/--no-require-system-first",
    default=None,
    help="Only conversations that begin with a system message. Default: of telemetry.",
)
@click.option("--regex", help="Only conversations with a message in which this is found.")
@click.option("--sample", type=click.IntRange(0), metavar="N", help="Only N conversations.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random sample.")
@click.option(
    "--sample-mode", type=click.Choice(["random", "first"]), default="random", show_default=True
)
@click.option("--context-tag-map", metavar="FILE", help="Another catalogue of prompt tags.")
@click.option(
    "--context-tag-summary-dir",
    metavar="DIR",
    help="Write the tag scan summary of telemetry into this folder, whatever the output is. "
    "Default: analysis/prompt_context beside the output file.",
)
@click.option("--no-context-tag-summary", is_flag=True, help="Write no tag scan summary.")
@click.option(
    "--problems",
    "problems_file",
    metavar="FILE",
    help="Write every problem, one JSON object per line.",
)
@click.option(
    "--engine",
    type=click.Choice(["spark"]),
    help="Run on a cluster; -o is then a folder. Default: on this machine.",
)
@click.option("--master", metavar="URL", help="Of --engine spark: spark://host:7077, sc://host …")
@click.option(
    "--conf", multiple=True, metavar="NAME=VALUE", help="Of --engine spark: a setting of Spark."
)
@click.option(
    "--staging",
    metavar="DIR",
    help="Of --engine spark: where files wait between its jobs. Default: in the output folder.",
)
@click.option("--strict", is_flag=True, help="Exit with 3 if there was any problem.")
@click.option("--json", "as_json", is_flag=True, help="The closing summary as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show samples of problems and unknown kinds.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
def command(
    paths: tuple[str, ...],
    sink: str,
    output: str | None,
    regex: str | None,
    context_tag_map: str | None,
    context_tag_summary_dir: str | None,
    no_context_tag_summary: bool,
    problems_file: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Rebuild the conversations in files and folders, whole, each piece once.

    PATH is a file, a folder that is searched through, or - for standard input. A conversation that
    is known only second-hand (its prompts stand in a history file, its rows in a log) is written
    too, marked as partial.
    """  # fmt: skip
    if given["engine"] is not None:
        from unspool.cli.cluster import run_on_cluster

        return run_on_cluster(click.get_current_context())
    for name in ("master", "conf", "staging"):
        if given[name]:
            raise UsageError(f"--{name} goes with --engine spark")
    many = sinks.load(sink).MANY_FILES
    to_file = output is not None and output != "-" and not is_special(output)
    options, combine = prepare_sink(sink, output, given)
    if problems_file == "-" and not many and (output is None or output == "-"):
        raise UsageError("--problems -: standard output has the conversations; name a file")
    check_regex(regex)
    if context_tag_map is not None:
        catalogue.use(context_tag_map)
    catalogue.active()
    job = Job(
        paths=list(paths),
        source=given["source"],
        sink=sink,
        sink_options=options,
        scan_tags=not no_context_tag_summary
        and (context_tag_summary_dir is not None or (to_file and not many)),
        workers=given["workers"] or os.cpu_count() or 1,
        memory_bytes=max(given["memory_limit"], MEGABYTE),
        recover=given["json_recovery"],
        reasoning=not given["no_reasoning"],
        regex=regex,
        **{name: given[name] for name in _FILTERS},
    )
    display = Display(quiet=quiet or as_json)
    with display, open_run(job, display.start) as run:
        summary = _run(run, output, combine, problems_file)
        if job.scan_tags and any(map(sources.has_rendered_prompts, summary.sources)):
            beside = Path(str(output)).parent / "analysis" / "prompt_context"
            written = write_summary(run.scan, Path(context_tag_summary_dir or beside))
            summary.tag_summary = str(written)
    return tell(summary, click.get_current_context().params)


def _run(
    run: Run,
    output: str | None,
    combine: sinks.Combine | None,
    problems_file: str | None,
) -> Summary:
    names = sinks.combined_files(run.job.sink)
    for path in (output, problems_file, *(f"{output}/{name}" for name in names)):
        if path is not None and run.reads(path):
            raise UsageError(f"{path} is read from: writing there would replace it")
    try:
        written = run.write()
        write_output(written, run.job.sink, combine, output)
        if problems_file is not None:
            write_problems(problems_file, run.problems())
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise unwritable(error) from None
    return run.finish()


def public_problem(problem: Problem) -> dict[str, Any]:
    fields = {"code": problem.code, "file": problem.origin, "offset": problem.offset}
    if problem.key[1]:
        fields["conversation_id"] = problem.key[1]
    return {**fields, "sample": problem.sample}


def check_regex(regex: str | None) -> None:
    try:
        re.compile(regex or "")
    except re.error as error:
        raise UsageError(f"--regex: {error}") from None


def write_problems(path: str, problems: Iterable[Problem]) -> None:
    with opened(path) as file:
        for problem in problems:
            file.write(msgspec.json.encode(public_problem(problem)) + b"\n")


def tell(summary: Summary, given: Mapping[str, Any]) -> int:
    """The closing lines on stderr, as the options ask for them; the exit code."""
    code = STRICT_CODE if given["strict"] and summary.problems else 0
    if given["as_json"]:
        fields: dict[str, Any] = msgspec.to_builtins(summary)
        fields["samples"] = [public_problem(problem) for problem in summary.samples]
        fields["megabytes_per_second"] = round(summary.megabytes_per_second, 1)
        click.echo(msgspec.json.encode(fields).decode(), err=True)
    if given["as_json"] or given["quiet"]:
        return code
    skipped = f", {summary.files_skipped:,} of no known format" if summary.files_skipped else ""
    kinds = ", ".join(f"{count:,} {name}" for name, count in summary.sources.items())
    say_rows(
        ("files", f"{summary.files:,} ({size(summary.bytes)}){skipped}"),
        (
            "records",
            f"{summary.records:,}: {summary.used:,} used, {summary.superseded:,} superseded, "
            f"{summary.noise:,} noise, {summary.unrecognised:,} unrecognised, "
            f"{summary.problem_records:,} bad",
        ),
        ("conversations", f"{summary.conversations:,} ({kinds})" if kinds else "0"),
        (
            "written",
            f"{summary.written:,} with {plural(summary.messages, 'message')}; "
            f"{summary.merged:,} merged from several files, {summary.partial:,} partial",
        ),
        *(("left out", f"{count:,} by {name}") for name, count in summary.filtered.items()),
    )
    if summary.empty:
        shown = ", ".join(summary.empty[:5]) + (" …" if len(summary.empty) > 5 else "")
        say_rows(("nothing in", f"{len(summary.empty):,}: {shown}"))
    say_rows(*(("problem", f"{count:,} × {code}") for code, count in summary.problems.items()))
    if given["verbose"]:
        for problem in summary.samples:
            sample = f"{problem.sample!r:.120}"
            say_rows(("", f"{problem.origin}:{problem.offset} {problem.code} {sample}"))
        for kind, count in list(summary.unknown.items())[:20]:
            say_rows(("unrecognised", f"{count:,} × {kind}"))
    if summary.tag_summary:
        say_rows(("prompt tags", summary.tag_summary))
    say_rows(("took", f"{summary.seconds:.1f} s, {summary.megabytes_per_second:.0f} MB/s"))
    return code
