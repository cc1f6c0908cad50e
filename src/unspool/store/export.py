"""Export: conversations of the store in any shape that a run writes."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from unspool import sinks
from unspool.inspect.collection import Entry
from unspool.pipeline.finish import Written
from unspool.pipeline.output import spool_families
from unspool.sinks import Family, Options
from unspool.store.collection import StoreCollection
from unspool.store.filters import Filters, where


def export(
    connection: sqlite3.Connection,
    filters: Filters,
    sink_name: str,
    options: Options,
    reasoning: bool,
    spool_path: Path,
) -> list[Written]:
    """Those that the filters mean, oldest first, one at a time into a file, from where the output is
    put together. A sync that goes on meanwhile changes nothing about them."""
    connection.execute("BEGIN")
    try:
        families = _families(connection, filters, sinks.load(sink_name).FAMILIES)
        return spool_families(families, sink_name, options, reasoning, spool_path)
    finally:
        connection.execute("ROLLBACK")


def _families(connection: sqlite3.Connection, filters: Filters, together: bool) -> Iterator[Family]:
    """Each conversation by itself, or `together` with its sub-agents, which then do not come again."""
    terms, values = filters.of_conversations()
    query = (
        "SELECT c.source, c.external_id, c.parent_id FROM conversations c"
        f" WHERE {where(terms)} ORDER BY c.started_at, c.source, c.external_id"
    )
    rows = connection.execute(query, values).fetchall()
    chosen = {(source, ident) for source, ident, _ in rows}
    collection = StoreCollection(connection)
    for source, ident, parent in rows:
        entry = Entry(id=ident, source=source)
        if not together:
            yield Family(collection.trajectory(entry))
        elif parent is None or (source, parent) not in chosen:
            yield collection.family(entry)
