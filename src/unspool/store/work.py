"""Work: which tools were called, which files touched, and what each model did."""

import sqlite3

from unspool.store.figures import UNKNOWN, Table, decide
from unspool.store.filters import Filters, where


def by_tool(connection: sqlite3.Connection, filters: Filters, table: Table) -> None:
    terms, values = filters.of_conversations()
    when, times = filters.of_moments(_moment("t", "started_at"))
    rows = connection.execute(
        "SELECT t.name, count(*), sum(ifnull(t.is_error, 0)), count(DISTINCT t.conversation_id)"
        " FROM tool_calls t JOIN conversations c ON c.id = t.conversation_id JOIN messages m"
        " ON m.conversation_id = t.conversation_id AND m.message_index = t.message_index"
        f" WHERE {where([*terms, *when])} GROUP BY t.name",
        [*values, *times],
    )
    for name, calls, failures, conversations in rows:
        if filters.tool is None or name == filters.tool:
            row = table.row(name)
            row.tool_calls, row.tool_failures, row.conversations = calls, failures, conversations


def by_file(connection: sqlite3.Connection, filters: Filters, table: Table) -> None:
    terms, values = filters.of_conversations()
    when, times = filters.of_moments(_moment("f", "timestamp"))
    rows = connection.execute(
        "SELECT f.path, f.conversation_id, f.operation, f.lines_added, f.lines_removed, f.outcome"
        " FROM files_touched f JOIN conversations c ON c.id = f.conversation_id LEFT JOIN messages m"
        " ON m.conversation_id = f.conversation_id AND m.message_index = f.message_index"
        f" WHERE {where([*terms, *when])}",
        [*values, *times],
    )
    conversations: dict[str, set[str]] = {}
    for path, ident, operation, added, removed, outcome in rows:
        if filters.file is not None and filters.file.lower() not in path.lower():
            continue
        row = table.row(path)
        row.touches += 1
        row.add("lines_added", added)
        row.add("lines_removed", removed)
        if operation != "read":
            decide(row, [outcome if outcome != "failed" else None])
        conversations.setdefault(path or UNKNOWN, set()).add(ident)
    for path, idents in conversations.items():
        table.row(path).conversations = len(idents)


def add_work(connection: sqlite3.Connection, filters: Filters, table: Table) -> None:
    """Turns, calls and failures of every model, and the models whose tokens nobody counted."""
    terms, values = filters.of_conversations()
    when, times = filters.of_moments("x.started_at")
    for field, source in _WORK.items():
        rows = connection.execute(
            f"SELECT x.model, c.id, c.parent_id IS NOT NULL, count(*), sum(ifnull(x.failed, 0))"
            f" FROM ({source}) x JOIN conversations c ON c.id = x.conversation_id"
            f" WHERE x.model IS NOT NULL AND {where([*terms, *when])} GROUP BY 1, 2",
            [*values, *times],
        )
        for model, ident, inner, number, failed in rows:
            if filters.model is None or filters.model.lower() in model.lower():
                row = table.join(model, ident, bool(inner))
                row.add(field, 0 if field == "turns" and inner else number)
                row.tool_failures += failed


def _moment(table: str, column: str) -> str:
    """When something was done: its own time, its message's, or its turn's."""
    return (
        f"coalesce({table}.{column}, m.timestamp, (SELECT n.started_at FROM conversation_turns n"
        f" WHERE n.conversation_id = {table}.conversation_id AND n.turn_index = {table}.turn_index))"
    )


_WORK = {
    "turns": "SELECT n.conversation_id, n.model, n.started_at, 0 AS failed FROM conversation_turns n"
    " JOIN messages m ON m.conversation_id = n.conversation_id"
    " AND m.message_index = n.first_message AND NOT m.copied",
    "tool_calls": f"SELECT m.conversation_id, m.model, {_moment('t', 'started_at')} AS started_at,"
    " t.is_error AS failed FROM tool_calls t JOIN messages m"
    " ON m.conversation_id = t.conversation_id AND m.message_index = t.message_index",
}
