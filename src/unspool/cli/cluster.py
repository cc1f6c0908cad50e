"""`unspool extract --engine spark`: the same command, run on a cluster."""

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from unspool.cli.extract import check_regex, tell, write_problems
from unspool.errors import OutputError, UsageError

SUPPORTED = (
    "paths", "sink", "output", "source", "json_recovery", "since", "require_system_first", "regex",
    "no_context_tag_summary", "no_reasoning", "problems_file", "engine", "master", "conf", "staging",
    "strict", "as_json", "verbose", "quiet",
)  # fmt: skip


def run_on_cluster(context: click.Context) -> int:
    given = context.params
    output, settings = _check(context)
    from unspool.engines.spark.session import open_session  # it says what is not installed

    from unspool.engines.spark.frames import run  # isort: skip
    from unspool.engines.spark.output import remove_folder

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
        write_problems(given["problems_file"], extraction.problems)
    return tell(extraction.summary, given)


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
    check_regex(given["regex"])
    settings = {}
    for setting in given["conf"]:
        name, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--conf {setting}: expected NAME=VALUE")
        settings[name] = value
    _check_empty(given["output"], "Spark would mix its files with others")
    if given["staging"]:
        _check_empty(given["staging"], "what is staged there is removed with the folder")
    return _url(given["output"]), settings


def _check_empty(path: str, why: str) -> None:
    url = _url(path)
    folder = Path(url.removeprefix(_LOCAL))
    if url.startswith(_LOCAL) and folder.exists():
        if not folder.is_dir():
            raise OutputError(f"{path} is a file; Spark needs a folder")
        if any(folder.iterdir()):
            raise OutputError(f"{path} is not empty: {why}")


_LOCAL = "file://"


def _url(path: str) -> str:
    """As Spark has it; a bare path would be one in the cluster's own file system."""
    if re.match(r"\w[\w+.-]*:/", path):
        return path.rstrip("/")
    return f"{_LOCAL}{Path(path).absolute()}"
