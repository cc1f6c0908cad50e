"""`unspool sql`: questions about conversations, in SQL."""

import csv
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from unspool.cli.options import store_option
from unspool.cli.screen import columns as screen_columns
from unspool.cli.screen import cut, say
from unspool.errors import UsageError
from unspool.io.temporary import scratch
from unspool.pipeline.batch import open_run
from unspool.pipeline.job import Job
from unspool.pipeline.output import write_output
from unspool.sinks import load_combine
from unspool.sinks.parquet.rows import TABLES
from unspool.store.opening import reading
from unspool.store.tables import RELATIONS, columns_of, iter_values
from unspool.views.characters import one_line

if TYPE_CHECKING:
    from unspool.inspect.sql import Answer

EXAMPLES = """
\b
Examples:
  unspool sql "select source, count(*) from conversations group by all"
  unspool sql "select tool_name, count(*) from tool_calls group by all" tables/
  unspool sql "select role, sum(length(content)) from messages group by role" ~/.codex --csv
  unspool sql "describe conversations"
"""
SHOWN_ROWS = 100
WIDEST = 60
"""So wide is a column that is not the last one at most."""
_SAFE = 2**53
"""Whole numbers beyond are text in JSON: its programs would round them."""


@click.command("sql", epilog=EXAMPLES)
@click.argument("query")
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@store_option
@click.option("--json", "as_json", is_flag=True, help="One JSON array, all rows.")
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values, all rows.")
def command(query: str, paths: tuple[str, ...], store: Path, as_json: bool, as_csv: bool) -> None:
    """Ask a question in SQL (DuckDB's), about the store or about what PATH holds.

    The store has the tables that docs/store.md explains. A folder that `--to parquet` wrote has
    those of docs/parquet.md, and so has everything else that `unspool extract` reads. A question
    reads these tables and nothing else, neither files nor the network.
    """  # fmt: skip
    # Imported here, as pyarrow is below: --help does without them.
    from unspool.inspect.sql import ask

    if as_json and as_csv:
        raise UsageError("--json and --csv do not go together")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(scratch()))
        tables = _of_paths(paths, folder) if paths else _of_store(query, store)
        answer = ask(query, tables, folder / "spill")
        if as_json:
            _print_json(answer)
        elif as_csv:
            _print_csv(answer)
        else:
            _print(answer)


def _of_store(query: str, path: Path) -> dict[str, Any]:
    """Its tables as Arrow; those that the question does not name stay empty.

    With `query('…')` and `query_table('…')` a question may put a name together: then all are there.
    """
    from unspool.sinks.parquet.arrow import make_table

    words = set(re.findall(r"\w+", query.lower()))
    everything = not words.isdisjoint(("query", "query_table"))
    tables: dict[str, Any] = {}
    with reading(path) as connection:
        connection.execute("BEGIN")  # one state of the store, though a sync goes on
        for name in RELATIONS:
            columns = columns_of(connection, name)
            wanted = everything or name in words
            values: Iterable[Any] = iter_values(connection, name, columns) if wanted else ()
            tables[name] = make_table(columns, values)
        connection.execute("ROLLBACK")
    return tables


def _of_paths(paths: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """The tables that lie there; of anything else those that are made of it now."""
    from unspool.sinks.parquet.arrow import open_table

    if not all(_place(path, table).exists() for path in paths for table in TABLES):
        job = Job(paths=list(paths), sink="parquet", workers=1)
        combine = load_combine("parquet", {})
        with open_run(job) as run:
            write_output(run.write(), "parquet", combine, str(folder / "tables"))
            if run.summary.problems:
                say(f"unspool: not wholly readable: {run.summary.problems_told}", err=True)
        paths = (str(folder / "tables"),)
    return {table: open_table(_place(path, table) for path in paths) for table in TABLES}


def _place(path: str, table: str) -> Path:
    """Its file, or its folder with partitions."""
    folder = Path(path, table)
    return folder if folder.is_dir() else Path(path, f"{table}.parquet")


def _print_json(answer: "Answer") -> None:
    out = sys.stdout
    encode = msgspec.json.Encoder().encode
    out.write("[")
    for number, row in enumerate(answer.rows):
        fields = {
            name: _json(value, kind)
            for name, kind, value in zip(answer.columns, answer.types, row, strict=True)
        }
        out.write(("," if number else "") + "\n" + encode(fields).decode())
    out.write("\n]\n")


def _json(value: Any, kind: str = "") -> Any:
    if isinstance(value, str) and kind == "JSON":
        return msgspec.Raw(value.encode())
    if isinstance(value, list):
        inner = kind.removesuffix("[]")
        return [_json(item, inner) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -_SAFE <= value <= _SAFE else str(value)
    return _text(value)


def _print_csv(answer: "Answer") -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in answer.rows:
        writer.writerow(["" if value is None else _text(value) for value in row])


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds")
        return text.replace("+00:00", "Z").replace(" ", "T", 1)
    if isinstance(value, date | time | timedelta):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if isfinite(value) and abs(value) < 1e15 else repr(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | Mapping):
        return msgspec.json.encode(_json(value)).decode()
    return str(value)


def _print(answer: "Answer") -> None:
    """A table; on a terminal no wider than it, and only its beginning."""
    limit = SHOWN_ROWS if screen_columns() else None
    rows = list(islice(answer.rows, limit))
    more = sum(1 for _ in answer.rows)
    cells = [["" if v is None else one_line(_text(v)) for v in row] for row in rows]
    right = [
        all(v is None or (isinstance(v, int | float | Decimal) and v is not True) for v in column)
        for column in zip(*rows, strict=True)
    ] or [False] * len(answer.columns)
    heads = [one_line(name) for name in answer.columns]
    widths = [min(max(map(len, column)), WIDEST) for column in zip(heads, *cells, strict=True)]
    for number, line in enumerate([heads, ["─" * width for width in widths], *cells]):
        parts = [
            (text.rjust if alike else text.ljust)(width) if len(text) <= width else cut(text, width)
            for text, width, alike in zip(line, widths, right, strict=True)
        ]
        shown = "  ".join(parts).rstrip()
        width = screen_columns()
        say(cut(shown, width) if width else shown, bold=number == 0 and bool(width))
    if more:
        say(f"… and {more:,} more rows; --json and --csv print all", err=True)
    elif not rows:
        say("no rows", err=True)
