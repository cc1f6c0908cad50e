"""Relations: the store's tables for those who ask in SQL, with the types that SQLite does not keep."""

import sqlite3
from collections.abc import Iterator

RELATIONS = (
    "conversations",
    "conversation_turns",
    "messages",
    "texts",
    "tool_calls",
    "files_touched",
    "model_usage",
    "git_references",
    "checkpoints",
    "links",
    "conversation_alignments",
    "cursor_sessions",
    "origins",
    "conversation_origins",
    "problems",
)
"""What the store says of conversations; not what only `sync` and `search` need."""
ROWS = 10_000
_KINDS = {"INTEGER": "count", "REAL": "number", "TIMESTAMP": "time", "JSON": "json"}
_JSON = ("context", "metadata", "tool_sequence", "acceptance_decisions", "tools", "files", "data")
"""Columns of text that hold JSON."""


def columns_of(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """Column → kind, as the tables of Parquet have them (`sinks/parquet/rows.py`)."""
    columns: dict[str, str] = {}
    for _, name, declared, *_ in connection.execute(f"PRAGMA table_info({table})"):
        if declared != "BLOB":
            text = "json" if name in _JSON else "long"
            columns[name] = _KINDS.get(declared, text)
    return columns


def iter_values(
    connection: sqlite3.Connection, table: str, columns: dict[str, str]
) -> Iterator[list[list[object]]]:
    """Its values, column by column, some thousand rows at a time."""
    cursor = connection.execute(f"SELECT {', '.join(columns)} FROM {table}")
    while rows := cursor.fetchmany(ROWS):
        yield [list(values) for values in zip(*rows, strict=True)]
