"""Care: is the store sound, how large is it, and how to make it smaller."""

import sqlite3
from pathlib import Path
from typing import Any

from unspool.store.pieces import catch_up, caught_up
from unspool.store.rows import CHECKPOINT, get_trajectory


def info(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """What the store holds."""

    def one(query: str) -> Any:
        return connection.execute(query).fetchone()[0]

    def count(table: str) -> int:
        return int(one(f"SELECT count(*) FROM {table}"))

    by_source = connection.execute(
        "SELECT source, count(*), sum(messages), min(nullif(started_at, '')), max(ended_at)"
        " FROM conversations GROUP BY source ORDER BY source"
    )
    return {
        "path": str(path),
        "version": one("PRAGMA user_version"),
        "size_bytes": sum(
            file.stat().st_size
            for file in (path, path.with_name(path.name + "-wal"))
            if file.exists()
        ),
        "conversations": count("conversations"),
        "messages": count("messages"),
        "tool_calls": count("tool_calls"),
        "origins": count("origins WHERE source != ''"),
        "origins_gone": count("origins WHERE gone_since IS NOT NULL"),
        "origins_bytes": one("SELECT ifnull(sum(size_bytes), 0) FROM origins WHERE source != ''"),
        "raw_bytes": one("SELECT ifnull(sum(size_bytes), 0) FROM raw_traces"),
        "raw_stored_bytes": one("SELECT ifnull(sum(length(data)), 0) FROM raw_traces"),
        "facts_stored_bytes": one("SELECT ifnull(sum(length(data)), 0) FROM facts"),
        "problems": dict(
            connection.execute("SELECT code, count(*) FROM problems GROUP BY code ORDER BY code")
        ),
        "unwritten": count("dirty"),
        "sources": [
            {
                "source": source,
                "conversations": conversations,
                "messages": messages,
                "first": first,
                "last": last,
            }
            for source, conversations, messages, first, last in by_source
        ],
    }


def verify(connection: sqlite3.Connection) -> list[str]:
    """What is wrong with the store; empty where nothing is."""
    found = [
        f"SQLite: {text}"
        for (text,) in connection.execute("PRAGMA integrity_check")
        if text != "ok"
    ]
    found += [
        f"a row of {row[0]} points to {row[2]}, where there is none"
        for row in connection.execute("PRAGMA foreign_key_check")
    ]
    caught_up(connection)
    for table in ("words", "pieces"):
        try:
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            if "readonly" not in str(error):  # which asks nothing of the index
                found.append(f"the search index {table}: {error}")
    rows = connection.execute("SELECT id, messages, tools FROM conversations").fetchall()
    for ident, messages, _ in rows:
        found += _check(connection, ident, messages)
    return found


def _check(connection: sqlite3.Connection, ident: str, messages: int) -> list[str]:
    try:
        trajectory = get_trajectory(connection, ident)
    except Exception as error:  # damaged bytes fail in as many ways as there are
        return [f"{ident}: the trajectory cannot be read ({type(error).__name__})"]
    if trajectory is None:
        return [f"{ident}: has no trajectory"]
    (rows,) = connection.execute(
        "SELECT count(*) FROM messages WHERE conversation_id = ? AND role != ?",
        (ident, CHECKPOINT),
    ).fetchone()
    if not len(trajectory.messages) == messages == rows:
        return [f"{ident}: {len(trajectory.messages)} messages, but {rows} rows of {messages}"]
    return []


def vacuum(connection: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Give unused space back; the size before and after."""
    before = path.stat().st_size
    catch_up(connection)
    for table in ("words", "pieces"):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return before, path.stat().st_size
