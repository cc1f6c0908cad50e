"""`unspool validate`: whether ATIF documents are valid."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec

from unspool.cli.screen import print_json, say, verdict
from unspool.errors import NothingToRead
from unspool.io.folders import is_folder, walk
from unspool.io.origins import read_head
from unspool.sinks.atif import claims
from unspool.sinks.atif.rules import Finding, check_file
from unspool.views.figures import plural

EXAMPLES = """
\b
Examples:
  unspool validate run.trajectory.json
  unspool validate trajectories/ --json | jq '.[] | select(.errors > 0).file'
"""


@click.command("validate", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="FILE…")
@click.option("--json", "as_json", is_flag=True, help="All findings as JSON, a list of files.")
@click.option("-q", "--quiet", is_flag=True, help="Only errors, no warnings and no summary.")
def command(paths: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Check ATIF trajectory files against the format's rules, all of them.

    FILE may be a folder: then every ATIF file below it. Errors are what a producer can always
    avoid, warnings what real conversations contain. Exits with 1 if there is any error.
    """
    verdicts = list(check_paths(paths))
    if not verdicts:
        raise NothingToRead(f"no ATIF file in {', '.join(paths)}")
    code = verdict(1 if any(one.errors for one in verdicts) else 0)
    if as_json:
        print_json(verdicts)
    else:
        for checked in verdicts:
            for finding in checked.findings:
                if finding.level == "error" or not quiet:
                    say(
                        f"{checked.file}: {finding.level}: {finding.path}: "
                        f"{finding.message} [{finding.rule}]"
                    )
        if not quiet:
            invalid = sum(1 for checked in verdicts if checked.errors)
            errors = plural(sum(checked.errors for checked in verdicts), "error")
            warnings = plural(sum(checked.warnings for checked in verdicts), "warning")
            files = plural(len(verdicts), "file")
            say(f"{files}, {invalid} invalid: {errors}, {warnings}", err=True)
    return code


class Verdict(msgspec.Struct):
    """All findings on one file."""

    file: str
    errors: int
    warnings: int
    findings: list[Finding]


def check_paths(paths: Iterable[str]) -> Iterator[Verdict]:
    """A verdict on every file, and on every ATIF file below every folder."""
    for argument in paths:
        named = not is_folder(argument)
        for path, _ in walk(argument):
            try:
                if not named and not claims(read_head(path)):
                    continue
            except OSError:
                continue
            try:
                findings = check_file(Path(path))
            except OSError as error:
                findings = [Finding("error", "unreadable", "$", error.strerror or str(error))]
            errors = sum(1 for finding in findings if finding.level == "error")
            yield Verdict(path, errors, len(findings) - errors, findings)
