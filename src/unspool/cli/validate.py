"""`unspool validate`: whether ATIF documents are valid."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from unspool.origins import read_head, walk
from unspool.sinks.atif import claims
from unspool.sinks.atif.rules import Finding, check_file

EXAMPLES = """
\b
Examples:
  unspool validate run.trajectory.json
  unspool validate trajectories/ --json | jq '.[] | select(.errors > 0).file'
"""


class Verdict(msgspec.Struct):
    """All findings on one file."""

    file: str
    errors: int
    warnings: int
    findings: list[Finding]


@click.command("validate", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="FILE…")
@click.option("--json", "as_json", is_flag=True, help="All findings as JSON, a list of files.")
@click.option("-q", "--quiet", is_flag=True, help="Only errors, no warnings and no summary.")
def command(paths: tuple[str, ...], as_json: bool, quiet: bool) -> int:
    """Check ATIF trajectory files against the format's rules, all of them.

    FILE may be a folder: then every ATIF file below it. Errors are what a producer can always
    avoid, warnings what real conversations contain. Exits with 1 if there is any error.
    """
    verdicts = [_verdict(path) for path in _files(paths)]
    errors = sum(verdict.errors for verdict in verdicts)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(verdicts), indent=2).decode())
    else:
        _print(verdicts, quiet)
    if not verdicts:
        click.echo("unspool: no ATIF file there", err=True)
    return 1 if errors or not verdicts else 0


def _files(paths: tuple[str, ...]) -> Iterator[str]:
    for argument in paths:
        named = not Path(argument).is_dir()
        for path, _ in walk(argument):
            if named or _is_atif(path):
                yield path


def _is_atif(path: str) -> bool:
    try:
        return claims(read_head(path))
    except OSError:
        return False


def _verdict(path: str) -> Verdict:
    try:
        found = check_file(Path(path))
    except OSError as error:
        found = [Finding("error", "unreadable", "$", error.strerror or str(error))]
    errors = sum(1 for finding in found if finding.level == "error")
    return Verdict(path, errors, len(found) - errors, found)


def _print(verdicts: list[Verdict], quiet: bool) -> None:
    for verdict in verdicts:
        for finding in verdict.findings:
            if finding.level == "error" or not quiet:
                click.echo(
                    f"{verdict.file}: {finding.level}: {finding.path}: "
                    f"{finding.message} [{finding.rule}]"
                )
    if not quiet and verdicts:
        bad = sum(1 for verdict in verdicts if verdict.errors)
        errors, warnings = (
            sum(getattr(v, name) for v in verdicts) for name in ("errors", "warnings")
        )
        click.echo(
            f"{len(verdicts)} files, {bad} invalid: {errors} errors, {warnings} warnings", err=True
        )
