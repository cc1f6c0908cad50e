"""`unspool search`: find what was said in any conversation of the store."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from unspool.cli.options import filter_options, store_option
from unspool.cli.screen import coloured, columns, cut, print_json, say
from unspool.cli.sync import take_arrived
from unspool.errors import UsageError
from unspool.facts import Key
from unspool.store.collection import short_names
from unspool.store.filters import Filters
from unspool.store.opening import reading
from unspool.store.search import CLOSE, FIELDS, OPEN, RANKED, Hit, Mode, search
from unspool.views.characters import one_line
from unspool.views.figures import day_and_time

EXAMPLES = """
\b
Examples:
  unspool search "rate limiter"
  unspool search 'retry* NOT test' --in typed --since 30d
  unspool search --substring 'llow_redirect' --source claude-code
  unspool search --regex 'TODO\\(\\w+\\)' --in returned --json
"""


@click.command("search", epilog=EXAMPLES)
@click.argument("query")
@click.option(
    "--in",
    "fields",
    type=click.Choice(FIELDS),
    multiple=True,
    help="Only in what was typed, answered, called or returned (may be repeated).",
)
@click.option("--substring", is_flag=True, help="Any piece of a text, not whole words.")
@click.option("--regex", is_flag=True, help="A regular expression.")
@click.option("--role", help="Only messages of this role.")
@click.option("--model", metavar="TEXT", help="Only messages of such a model.")
@filter_options
@click.option("--limit", "-n", type=click.IntRange(1), default=20, show_default=True)
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON array; found text in «marks».")
def command(
    query: str,
    fields: tuple[str, ...],
    substring: bool,
    regex: bool,
    limit: int,
    store: Path,
    as_json: bool,
    **filters: Any,
) -> None:
    """Find QUERY in what was typed, answered, called and returned.

    Words are combined with AND, OR and NOT; "…" is a phrase; word* is a beginning. Of languages
    that put no spaces between words (Chinese, Japanese, Thai) any piece is found.
    """  # fmt: skip
    if substring and regex:
        raise UsageError("--substring and --regex do not go together")
    mode: Mode = "substring" if substring else "regex" if regex else "words"
    take_arrived(store)
    with reading(store) as connection:
        result = search(connection, query, mode, fields or FIELDS, Filters(**filters), limit)
        # A person has no need of all of an id, and a line has no room for it.
        shown = short_names(connection) if columns() else {}
    if not result.complete:
        say("unspool: not everything is searched: the store cannot be written just now", err=True)
    if as_json:
        rows = []
        for hit in result.hits:
            row = {name: getattr(hit, name) for name in hit.__struct_fields__}
            row["snippet"] = hit.snippet.replace(OPEN, "«").replace(CLOSE, "»")
            row["show"] = _show(hit)
            rows.append(row)
        print_json(rows)
    else:
        if not result.hits:
            say("nothing found", err=True)
            return
        color = coloured()
        for hit in result.hits:
            head = _show(hit, shown)
            when = day_and_time(hit.timestamp)
            title = one_line(hit.title or "")[:60]
            what = f"{hit.field} by {hit.tool}" if hit.tool else hit.field
            say(head, fg="yellow" if color else None, nl=False)
            text = "".join(f"  {part}" for part in (when, what, title) if part)
            width = columns()
            say(cut(text, width - len(head)) if width else text)
            before, _, rest = one_line(
                hit.snippet.replace(OPEN, "\ue000").replace(CLOSE, "\ue001")
            ).partition("\ue000")
            say(f"    {before}", nl=False)
            while rest:
                match, _, rest = rest.partition("\ue001")
                say(match, nl=False, bold=color, fg="red" if color else None)
                between, _, rest = rest.partition("\ue000")
                say(between, nl=False)
            say()
        if result.capped:
            say(f"(of the latest {max(RANKED, limit):,} places)", err=True)


def _show(hit: Hit, shown: Mapping[Key, str] | None = None) -> str:
    """The command that opens the turn."""
    turn = f" --turn {hit.turn + 1}" if hit.turn is not None else ""
    full = f"{hit.source}/{hit.conversation_id}"
    return f"unspool show {(shown or {}).get((hit.source, hit.conversation_id), full)}{turn}"
