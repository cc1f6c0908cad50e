"""`unspool scan`: what this machine holds."""

import os
from pathlib import Path

import click

from unspool import sinks
from unspool.cli.screen import Display, print_json
from unspool.inspect.scan import (
    Findings,
    Trouble,
    found_paths,
    main_places,
    scan,
    usual_places,
)
from unspool.views.characters import one_line
from unspool.views.figures import day_and_time, plural, size

EXAMPLES = """
\b
Examples:
  unspool scan
  unspool scan --json | jq '.holdings[].conversations'
  unspool scan -v --json ~/.some-agent > report.json
"""
TROUBLES = 8


@click.command("scan", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option("--json", "as_json", is_flag=True, help="Everything that was found, as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show every place and every trouble.")
def command(paths: tuple[str, ...] = (), as_json: bool = False, verbose: bool = False) -> None:
    """See what the agents on this machine have left behind, and what cannot be read.

    Looks into PATHs, or else into the usual places of every agent. With both -v and --json it writes a
    report to attach to an issue: types of records, names of fields, versions, sizes and counts, and
    nothing that anybody wrote.
    """  # fmt: skip
    with Display(quiet=as_json) as display:
        findings = scan(usual_places(), display.start, paths)
    if as_json and verbose:
        from unspool.inspect.shapes import report

        print_json(report(findings, paths or found_paths(findings.places)))
        return
    if as_json:
        print_json(findings)
        return
    if not findings.holdings:
        click.echo("No conversations found on this machine. Looked in")
        shown = findings.places if verbose else main_places(findings.places)
        for place in shown:
            click.echo(f"  {place.source:<14} {_short(place.path)}")
        if len(shown) < len(findings.places):
            click.echo(
                f"  … and {plural(len(findings.places) - len(shown), 'more place')}: unspool scan -v"
            )
    else:
        for holding in findings.holdings:
            counts = [
                plural(holding.conversations, "conversation"),
                plural(holding.subagents, "sub-agent") if holding.subagents else "",
                plural(holding.messages, "message"),
                f"{size(holding.size_bytes)} in {plural(holding.files, 'file')}",
            ]
            click.echo(
                f"{click.style(holding.source, bold=True)}  {', '.join(filter(None, counts))}"
            )
            days = (day_and_time(stamp)[:10] for stamp in (holding.first, holding.last))
            span = [day for day in days if day]
            facts = [" … ".join(dict.fromkeys(span))]
            if holding.versions:
                ends = list(dict.fromkeys((holding.versions[0], holding.versions[-1])))
                word = "version" if len(ends) == 1 else "versions"
                facts.append(f"{word} {one_line(' … '.join(ends), 60)}")
            line = "  ".join(fact for fact in facts if fact)
            if line:
                click.echo(f"    {line}")
            for path in holding.places if verbose else holding.places[:2]:
                click.secho(f"    {_short(path)}", dim=True)
            if len(holding.places) > 2 and not verbose:
                click.secho(f"    … and {plural(len(holding.places) - 2, 'more place')}", dim=True)
        held_sources = {holding.source for holding in findings.holdings}
        missing = dict.fromkeys(p.source for p in findings.places if p.source not in held_sources)
        if missing:
            click.secho(f"Nothing of {', '.join(missing)}.", dim=True)
            if verbose:
                for looked in findings.places:
                    if looked.source in missing:
                        click.secho(f"    {looked.source:<14} {_short(looked.path)}", dim=True)
    _troubles(findings.troubles, verbose)
    _next(findings)


def _short(path: str) -> str:
    """With ~ for the home folder."""
    home = str(Path.home())
    if path == home or path.startswith(home + os.sep):
        path = "~" + path[len(home) :]
    return one_line(path)


def _troubles(troubles: list[Trouble], verbose: bool) -> None:
    if not troubles:
        return
    shown = troubles if verbose else troubles[:TROUBLES]
    click.echo()
    # A line that is not quite JSON is named here too, though most of it was read.
    click.secho("Not wholly readable", fg="yellow")
    for trouble in shown:
        times = f" ({trouble.count} times)" if trouble.count > 1 else ""
        # The sample of a bad record says nothing at a glance, the system's reason does.
        telling = verbose or trouble.reason == "unreadable"
        why = f": {one_line(trouble.sample, 80)}" if trouble.sample and telling else ""
        click.echo(f"  {_short(trouble.path)}: {trouble.reason}{times}{why}")
    if len(shown) < len(troubles):
        click.echo(f"  … and {len(troubles) - len(shown)} more: unspool scan -v")


def _next(findings: Findings) -> None:
    click.echo()
    if findings.newest is None:
        click.echo("Next: unspool list PATH     the conversations in files or folders of yours")
        return
    ident = one_line(findings.newest_id or findings.newest.id)
    title = one_line(findings.newest.title or "", 50)
    click.echo("Next: unspool list              all of them, newest first")
    click.echo(f"      unspool show {ident:<12} the newest: {title}")
    shape = "html" if sinks.is_installed("html") else "markdown"
    click.echo(f"      unspool export {ident} --to {shape}")
