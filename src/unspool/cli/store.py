"""`unspool store`: look after the store."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click
import msgspec

from unspool.cli.options import (
    TO_STDOUT,
    filter_options,
    output_options,
    prepare_sink,
    store_option,
)
from unspool.cli.screen import print_json, say
from unspool.hooks.spool import Layout
from unspool.io.temporary import scratch
from unspool.live.daemon import live_status
from unspool.live.queue import SqliteQueue, queue_path
from unspool.pipeline.output import write_output
from unspool.store import maintenance
from unspool.store.collection import StoreCollection
from unspool.store.collection import export as export_store
from unspool.store.events import iter_events
from unspool.store.filters import Filters
from unspool.store.maintenance import rebuild as rebuild_store
from unspool.store.opening import reading, writing
from unspool.views.characters import one_line
from unspool.views.figures import plural, size

EXAMPLES = """
\b
Examples:
  unspool store info
  unspool store verify --store work.db
  unspool store export --to parquet -o tables/ --since 30d
  unspool store events 4f0c --type PostToolUse --json
"""
as_json_option = click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")


@click.group("store", epilog=EXAMPLES)
def command() -> None:
    """Look after the store: what it holds, whether it is sound, how large it is; write it out."""


@command.command("info")
@store_option
@as_json_option
def info(store: Path, as_json: bool) -> None:
    """Say what the store holds."""
    with reading(store) as connection:
        report: dict[str, Any] = maintenance.info(connection, store)
        report["live"] = live_status(connection, store)
    if as_json:
        print_json(report, indent=0)
        return
    say(f"{report['path']} (version {report['version']}, {size(report['size_bytes'])})")
    for row in report["sources"]:
        when = f"{(row['first'] or '?')[:10]} to {(row['last'] or '?')[:10]}"
        counts = (plural(row[f"{name}s"], name) for name in ("conversation", "message"))
        say(f"  {row['source']:<20} {', '.join(counts)}, {when}")
    kept = f"{size(report['raw_bytes'])} of raw records in {size(report['raw_stored_bytes'])}"
    gone = f", {report['origins_gone']:,} of them gone" if report["origins_gone"] else ""
    say(f"  {plural(report['origins'], 'origin')}{gone}; {kept}")
    for code, count in report["problems"].items():
        say(f"  {count:,} × {code}")
    live = report["live"]
    if live["running"]:
        lag = f", lag {live['lag_ms_p50']} ms" if live.get("lag_ms_p50") is not None else ""
        since = f"{live.get('pid', '?')} since {live.get('started_at', '?')}"
        say(f"  watched by process {since}{lag}")
    if waiting := live["spooled"] + live["queued"]:
        say(f"  {plural(waiting, 'event waits', 'events wait')} to be read")
    if live["dead"]:
        say(f"  {plural(live['dead'], 'dead event')}; `unspool store dead` shows them")
    if report["unwritten"]:
        waiting = plural(report["unwritten"], "conversation waits", "conversations wait")
        say(f"  {waiting} for the next sync")


@command.command("dead")
@click.option("--retry", is_flag=True, help="Put them back into the queue.")
@store_option
@as_json_option
def dead(retry: bool, store: Path, as_json: bool) -> None:
    """List live events that could not be taken in for a fault of unspool's."""
    layout = Layout.beside(store)
    if not queue_path(layout).exists():
        events = []
    else:
        with closing(SqliteQueue(queue_path(layout))) as queue:
            events = queue.dead()
            if retry:
                queue.retry()
    for event in events:
        arrival = event.arrival
        if as_json:
            names = ("event_id", "platform", "event_type", "session")
            row = {"at": event.at, **{name: getattr(arrival, name) for name in names}}
            row |= {"error": event.error, "payload": arrival.data.decode("utf-8", "replace")}
            print_json(row, indent=0)
        else:
            say(
                f"{event.at}  {arrival.platform}/{one_line(arrival.session, 40)}"
                f"  {one_line(arrival.event_type, 40)}  {event.error}"
            )
    if retry:
        say(f"{plural(len(events), 'event')} back in the queue", err=True)
    elif not events and not as_json:
        say("no dead events", err=True)


@command.command("verify")
@store_option
@as_json_option
def verify(store: Path, as_json: bool) -> int:
    """Check that the store is sound. Exit code 1 where it is not."""
    with reading(store) as connection:
        faults = maintenance.verify(connection)
    if as_json:
        print_json(faults, indent=0)
    else:
        for fault in faults or ["sound"]:
            say(fault)
    return 1 if faults else 0


@command.command("export")
@output_options("jsonl", TO_STDOUT)
@filter_options
@click.option("-q", "--quiet", is_flag=True, help="No closing line.")
@store_option
def export(
    sink: str, output: str | None, no_reasoning: bool, quiet: bool, store: Path, **given: Any
) -> None:  # fmt: skip
    """Write what the store holds, all of it or what the filters mean, oldest first."""
    options, combine = prepare_sink(sink, output, given)
    with reading(store) as connection, scratch() as folder:
        spool = Path(folder, "pieces")
        chosen = Filters(**given)
        written = export_store(connection, chosen, sink, options, not no_reasoning, spool)
        write_output(written, sink, combine, output)
    if not quiet:
        messages = plural(sum(one.messages for one in written if one.pieces), "message")
        count = sum(1 for one in written if one.pieces)
        say(f"{plural(count, 'conversation')} with {messages} written", err=True)


@command.command("vacuum")
@store_option
def vacuum(store: Path) -> None:
    """Give unused space back."""
    with writing(store, make=False) as connection:
        before, after = maintenance.vacuum(connection, store)
    say(f"{size(before)} → {size(after)}", err=True)


@command.command("rebuild")
@store_option
@as_json_option
def rebuild(store: Path, as_json: bool) -> None:
    """Make every conversation anew from the records that the store kept."""
    with writing(store, make=False) as connection:
        report = rebuild_store(connection)
    if as_json:
        print_json(report, indent=0)
    else:
        say(f"{plural(report.written, 'conversation')} made anew", err=True)


@command.command("events")
@click.argument("ident", metavar="ID")
@click.option("--type", "event_type", metavar="TYPE", help="Only events of this type.")
@store_option
@as_json_option
def events(ident: str, event_type: str | None, store: Path, as_json: bool) -> None:
    """List the raw records that the store keeps of a conversation: hook events as they arrived,
    database traces, lines of transcripts. With `--json`, one object per line with the payload.
    """
    with reading(store) as connection:
        entry = StoreCollection(connection).find(ident)
        for event in iter_events(connection, (entry.source, entry.id), event_type):
            if as_json:
                click.echo(msgspec.json.encode(event))
            else:
                place = f"{one_line(event.origin)}:{event.offset}"
                say(f"{event.received_at or '':<27}  {one_line(event.event_type, 40):<24}  {place}")
