"""The store as a collection: what `list`, `show` and `export` read from, and `store export`."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from unspool import sinks
from unspool.errors import UnknownConversation
from unspool.facts import Key
from unspool.inspect.collection import (
    Entry,
    match,
    newest_first,
    short_ids,
    subagents_of,
    with_subagents,
)
from unspool.pipeline.finish import Written
from unspool.pipeline.output import spool_families
from unspool.sinks import Family, Options
from unspool.store.conversations import get_trajectory
from unspool.store.filters import Filters, where
from unspool.store.ids import row_id
from unspool.store.opening import explained, store_path
from unspool.trajectory import Trajectory

_ENTRY = (
    "SELECT partial IS NOT NULL, external_id AS id, source, title, project,"
    " nullif(started_at, '') AS started_at, ended_at, messages, turns, tools, prompt_tokens,"
    " completion_tokens, model, agent_version, parent_id, children FROM conversations"
)


class StoreCollection:
    """Conversations of the store."""

    def __init__(
        self, connection: sqlite3.Connection, problems: Mapping[str, int] | None = None
    ) -> None:
        self.connection = connection
        self._problems = problems or {}

    def problems(self) -> Mapping[str, int]:
        """Those of the reading that has just been done; older ones have been told before."""
        return self._problems

    def entries(self) -> Sequence[Entry]:
        with explained(store_path(self.connection)):
            rows = self.connection.execute(_ENTRY)
            names = [name for name, *_ in rows.description[1:]]
            return newest_first(
                Entry(**dict(zip(names, values, strict=True)), partial=bool(partial))
                for partial, *values in rows
            )

    def find(self, ident: str) -> Entry:
        return match(ident, self.entries())

    def family(self, entry: Entry) -> Family:
        root = self.trajectory(entry)
        key = (entry.source, entry.id)
        members: dict[Key, Trajectory | None] = {key: root}

        def subagents(key: Key) -> list[Key]:
            member = members[key] = members.get(key) or self._get(key)
            return subagents_of(member) if member is not None else []

        with_subagents(key, subagents)
        del members[key]
        return Family(root, tuple(member for member in members.values() if member is not None))

    def families(self, filters: Filters, together: bool) -> Iterator[Family]:
        """Those that the filters mean, oldest first; each conversation by itself, or `together` with
        its sub-agents, which then do not come again."""
        terms, values = filters.of_conversations()
        rows = self.connection.execute(
            "SELECT c.source, c.external_id, c.parent_id FROM conversations c"
            f" WHERE {where(terms)} ORDER BY c.started_at, c.source, c.external_id",
            values,
        ).fetchall()
        chosen = {(source, ident) for source, ident, _ in rows}
        for source, ident, parent in rows:
            entry = Entry(id=ident, source=source)
            if not together:
                yield Family(self.trajectory(entry))
            elif parent is None or (source, parent) not in chosen:
                yield self.family(entry)

    def trajectory(self, entry: Entry) -> Trajectory:
        """The conversation alone."""
        trajectory = self._get((entry.source, entry.id))
        if trajectory is None:
            raise UnknownConversation(f"no conversation {entry.source}/{entry.id} in the store")
        return trajectory

    def _get(self, key: Key) -> Trajectory | None:
        with explained(store_path(self.connection)):
            return get_trajectory(self.connection, row_id(*key))


def short_names(connection: sqlite3.Connection) -> dict[Key, str]:
    """The shortened id of every conversation, as `list` prints it."""
    rows = connection.execute("SELECT external_id, source, parent_id FROM conversations")
    entries = [Entry(id=ident, source=source, parent_id=up) for ident, source, up in rows]
    short = short_ids(entries)
    return {(entry.source, entry.id): short(entry) for entry in entries}


def export(
    connection: sqlite3.Connection,
    filters: Filters,
    sink_name: str,
    options: Options,
    reasoning: bool,
    spool_path: Path,
) -> list[Written]:
    """Those that the filters mean, one at a time into a file, from where the output is put together in
    any shape that a run writes. A sync that goes on meanwhile changes nothing about them."""
    connection.execute("BEGIN")
    try:
        families = StoreCollection(connection).families(filters, sinks.load(sink_name).FAMILIES)
        return spool_families(families, sink_name, options, reasoning, spool_path)
    finally:
        connection.execute("ROLLBACK")
