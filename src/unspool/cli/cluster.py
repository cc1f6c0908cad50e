"""`unspool extract --engine spark`: the same command, run on a cluster."""

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from unspool.cli.extract import STRICT_CODE, print_summary, public_problem, public_summary
from unspool.errors import OutputError, UsageError
from unspool.pipeline.output import opened

SUPPORTED = (
    "paths", "sink", "output", "source", "json_recovery", "since", "require_system_first", "regex",
    "no_context_tag_summary", "no_reasoning", "problems_file", "engine", "master", "conf", "staging",
    "strict", "as_json", "verbose", "quiet",
)  # fmt: skip


def run_on_cluster(context: click.Context) -> int:
    given = context.params
    output, settings = _check(context)
    from unspool.engines.spark.elsewhere import remove_folder
    from unspool.engines.spark.frames import run
    from unspool.engines.spark.session import open_session  # first: it says what is not installed

    staging = _url(given["staging"]) if given["staging"] else f"{output}/_staging"
    quiet = given["quiet"] or given["as_json"]
    try:
        with open_session(given["master"], settings, not quiet and sys.stderr.isatty()) as spark:
            extraction = run(
                spark,
                given["paths"],
                staging=staging,
                to=given["sink"],
                source=given["source"],
                recover=given["json_recovery"],
                reasoning=not given["no_reasoning"],
                since=given["since"],
                require_system_first=given["require_system_first"],
                regex=given["regex"],
            )
            extraction.write(output)
    finally:
        remove_folder(staging)
        if output.startswith(_LOCAL):
            with suppress(OSError):  # it stays unless it is empty
                Path(output.removeprefix(_LOCAL)).rmdir()
    if given["problems_file"] is not None:
        with opened(given["problems_file"]) as file:
            for problem in extraction.problems:
                file.write(msgspec.json.encode(public_problem(problem)) + b"\n")
    summary = extraction.summary
    if given["as_json"]:
        click.echo(msgspec.json.encode(public_summary(summary)).decode(), err=True)
    elif not given["quiet"]:
        print_summary(summary, given["verbose"])
    return STRICT_CODE if given["strict"] and summary.problems else 0


def _check(context: click.Context) -> tuple[str, dict[str, str]]:
    """What is wrong with the options is told before anything is started."""
    given: Mapping[str, Any] = context.params
    for option in context.command.params:
        name = option.name or ""
        chosen = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if chosen and name not in SUPPORTED:
            raise UsageError(f"--engine spark does not take {option.opts[-1]}")
    if given["sink"] not in ("jsonl", "parquet"):
        raise UsageError(f"--engine spark writes jsonl or parquet, not {given['sink']}")
    if given["master"] is None:
        raise UsageError("--engine spark needs --master URL (local[*] is this machine)")
    if given["output"] is None or given["output"] == "-":
        raise UsageError("--engine spark writes several files: name a folder with -o")
    if "-" in given["paths"]:
        raise UsageError("--engine spark cannot read standard input: the workers do not have it")
    try:
        re.compile(given["regex"] or "")
    except re.error as error:
        raise UsageError(f"--regex: {error}") from None
    settings = {}
    for setting in given["conf"]:
        name, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--conf {setting}: expected NAME=VALUE")
        settings[name] = value
    output = _url(given["output"])
    folder = Path(output.removeprefix(_LOCAL))
    if output.startswith(_LOCAL) and folder.exists():
        if not folder.is_dir():
            raise OutputError(f"{given['output']} is a file; Spark writes a folder")
        if any(folder.iterdir()):
            raise OutputError(
                f"{given['output']} is not empty: Spark would mix its files with others"
            )
    return output, settings


_LOCAL = "file://"


def _url(path: str) -> str:
    """As Spark has it; a bare path would be one in the cluster's own file system."""
    if re.match(r"\w[\w+.-]*:/", path):
        return path.rstrip("/")
    return f"{_LOCAL}{Path(path).absolute()}"
