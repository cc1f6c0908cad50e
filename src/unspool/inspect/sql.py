"""SQL: questions about tables that are handed over as Arrow. The only user of DuckDB.

A question reads these tables and nothing else: no file, no network, no extension, no setting. Who
writes one may be a model, and what it read may have told it to.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from unspool.errors import MissingExtra, UsageError

try:
    import duckdb
except ImportError as error:
    raise MissingExtra("`unspool sql` needs: pip install 'unspool[duckdb]'") from error

ASKING = ("SELECT", "EXPLAIN", "MULTI")
"""Statements that only ask. SHOW, DESCRIBE and SUMMARIZE are SELECT to DuckDB, PIVOT is MULTI."""
BATCH_ROWS = 1000
_SHOWN = re.compile(r"^LINE \d+:", re.MULTILINE)
_BEFORE = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # our own variables are no tables
}


class Answer(NamedTuple):
    columns: list[str]
    types: list[str]
    """As DuckDB names them: VARCHAR, BIGINT, JSON …"""
    rows: Iterator[tuple[Any, ...]]
    """To be read once; raises UsageError where it turns out only now that there is no answer."""


def ask(query: str, tables: Mapping[str, Any], spill: Path) -> Answer:
    """The answer to one statement; `spill`: a folder for what does not fit into memory."""
    connection = duckdb.connect(":memory:", config={**_BEFORE, "temp_directory": str(spill)})
    for name, table in tables.items():
        connection.register(name, table)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    try:
        statements = connection.extract_statements(query)
        if len(statements) != 1:
            raise UsageError("one statement at a time")
        kind = statements[0].type.name
        if kind not in ASKING:
            raise UsageError(f"{kind} is refused: a question reads, and reads only its tables")
        relation = connection.sql(query)
        if relation is None:
            raise UsageError("this is no question")
        rows = _rows(relation)
        first = list(islice(rows, 1))  # most of what can go wrong does before it
        types = [str(kind) for kind in relation.types]
        return Answer(list(relation.columns), types, chain(first, rows))
    except duckdb.Error as error:
        raise UsageError(_one_line(error)) from None


def _rows(relation: Any) -> Iterator[tuple[Any, ...]]:
    try:
        for batch in relation.to_arrow_reader(BATCH_ROWS):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except duckdb.Error as error:
        raise UsageError(_one_line(error)) from None


def _one_line(error: Exception) -> str:
    """DuckDB's message on one line: without the query, which it shows again, and a mark below it."""
    return " ".join(_SHOWN.split(str(error), maxsplit=1)[0].split()) or type(error).__name__
