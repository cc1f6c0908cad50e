"""`unspool check`: look at raw telemetry before anything is rebuilt from it."""

import click
import msgspec

from unspool.cli.screen import Display, print_json, say, verdict
from unspool.inspect.telemetry import (
    EXAMPLES,
    Problems,
    Violation,
    check_models,
    search_types,
)

STRICT_CODE = 3


@click.group("check", epilog="\b\nExample:\n  unspool check model-correlation telemetry/ -v")
def command() -> None:
    """Look at raw telemetry: what it holds, and whether it fits together."""


@command.command(
    "model-correlation",
    epilog="\b\nExample:\n  unspool check model-correlation telemetry/ --examples 3",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "--examples",
    type=click.IntRange(0),
    default=EXAMPLES,
    show_default=True,
    help="Of every violation.",
)
@click.option("--strict", is_flag=True, help="Exit with 3 where anything is violated.")
@click.option("-v", "--verbose", is_flag=True, help="Say what every invariant means.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
@click.pass_context
def model_correlation(
    ctx: click.Context,
    paths: tuple[str, ...],
    examples: int,
    strict: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Check the models that events name, against each other and the last role of the list."""
    with Display(quiet=as_json) as display:
        report = check_models(paths, examples, display.start)
    code = verdict(STRICT_CODE if strict and report.violated else 0)
    if as_json:
        print_json(report)
    else:
        say(
            f"{report.events:,} events, {report.engine_events:,} of the engine, "
            f"{report.session_events:,} of interactive sessions"
        )
        for finding in report.findings:
            word, colour = ("broken", "red") if finding.violated else ("holds", "green")
            counts = f"{finding.violated:,} of {finding.checked:,} violate it"
            say(f"{finding.name:<26} ", nl=False)
            if finding.checked:
                say(f"{word:<8}", fg=colour, nl=False)
            else:
                say("not met ", nl=False)
            say(f" {counts}")
            if verbose:
                say(f"    {finding.meaning}")
            for violation in finding.examples:
                say(f"    {_describe(violation)}")
        for count, text in (
            (report.unreadable_lists, "lists could not be read: their last role is unknown"),
            (report.unmatched_sessions, "session models belong to requests without engine events"),
        ):
            if count:
                say(f"{count:,} {text}")
        _print_problems(report)
    ctx.exit(code)


def _print_problems(report: Problems) -> None:
    if report.problems:
        say(f"{report.problems:,} could not be read, first:", err=True)
    for place in report.unread:
        say(f"    {place.origin}:{place.offset}  {place.code}  {place.sample[:80]}", err=True)


def _describe(violation: Violation) -> str:
    fields = msgspec.to_builtins(violation)
    place = f"{fields.pop('origin')}:{fields.pop('offset')}"
    return f"{place}  " + "  ".join(
        f"{name}={','.join(value) if isinstance(value, list) else value}"
        for name, value in fields.items()
    )


@command.command(
    "telemetry-type-search",
    epilog="\b\nExample:\n  unspool check telemetry-type-search telemetry/ --contains engine",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("--contains", default="", metavar="TEXT", help="In the type's name; any case.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def telemetry_type_search(paths: tuple[str, ...], contains: str, as_json: bool) -> None:
    """Types of events with counts, first and last time, property names and an example."""
    with Display(quiet=as_json) as display:
        report = search_types(paths, contains, display.start)
    if as_json:
        print_json(report)
        return
    for event_type in report.types:
        say(event_type.name, bold=True, nl=False)
        say(f"  {event_type.count:,}")
        if event_type.first:
            say(f"    from {event_type.first} to {event_type.last}")
        for label, names in (
            ("properties", event_type.properties),
            ("measurements", event_type.measurements),
        ):
            if names:
                listed = (n if c == event_type.count else f"{n} ({c:,})" for n, c in names.items())
                say(f"    {label}: " + ", ".join(listed))
        say(f"    example: {event_type.example['origin']}:{event_type.example['offset']}")
        for name, value in event_type.example["properties"].items():
            say(f"        {name} = {' '.join(value.split())}")
    shown = sum(event_type.count for event_type in report.types)
    say(f"{len(report.types):,} types, {shown:,} of {report.events:,} events", err=True)
    _print_problems(report)
