"""Rows: a trajectory into the store's tables, and back."""

import sqlite3
from collections.abc import Iterable
from functools import cache
from typing import Any

from unspool.inspect.collection import make_entry
from unspool.io.packing import tamed
from unspool.store import metrics, pieces
from unspool.store.ids import platform_of, row_id
from unspool.store.keeping import Press, expand, squeeze
from unspool.store.messages import TEXTS, as_json, put_messages, put_rows, put_turns
from unspool.store.parts import put_model_usage, put_parts
from unspool.trajectory import Trajectory, pack_trajectory, unpack_trajectory


def put_trajectory(
    connection: sqlite3.Connection,
    trajectory: Trajectory,
    origin_ids: Iterable[int],
    press: Press | None = None,
) -> None:
    """Write the conversation, in place of what the store had of it."""
    connection.execute("SAVEPOINT conversation")
    try:
        _put(connection, trajectory, origin_ids, press)
    except OverflowError:
        # A number in it is larger than any column: those count nothing and are left out.
        connection.execute("ROLLBACK TO conversation")
        _put(connection, tamed(trajectory), origin_ids, press)
    connection.execute("RELEASE conversation")


def _put(
    connection: sqlite3.Connection,
    trajectory: Trajectory,
    origin_ids: Iterable[int],
    press: Press | None,
) -> None:
    ident = row_id(trajectory.source, trajectory.conversation_id)
    if connection.execute("SELECT 1 FROM conversations WHERE id = ?", (ident,)).fetchone():
        drop_rows(connection, ident)
    _put_conversation(connection, ident, trajectory)
    statement = "INSERT OR REPLACE INTO trajectories VALUES (?, ?)"
    packed = pack_trajectory(trajectory)
    if press is not None:
        press.put(statement, (ident,), packed)
    else:
        connection.execute(statement, (ident, squeeze(packed)))
    put_messages(connection, ident, trajectory)
    pieces.put_off(connection, ident)
    put_model_usage(connection, ident, trajectory)
    put_turns(connection, ident, trajectory)
    put_parts(connection, ident, trajectory)
    origins: list[tuple[Any, ...]] = [(ident, origin) for origin in sorted(set(origin_ids))]
    put_rows(connection, "conversation_origins", origins)


def drop_rows(connection: sqlite3.Connection, ident: str) -> None:
    """All rows of a conversation but its own: foreign keys of others may point there."""
    known = "SELECT id FROM messages WHERE conversation_id = ?"
    connection.execute(
        f"INSERT INTO words (words, rowid, {TEXTS})"
        f" SELECT 'delete', id, {TEXTS} FROM texts WHERE id IN ({known})",
        (ident,),
    )
    pieces.forget(connection, ident)
    connection.execute(f"DELETE FROM texts WHERE id IN ({known})", (ident,))
    for table in (
        "messages",
        "model_usage",
        "tool_calls",
        "files_touched",
        "git_references",
        "checkpoints",
        "conversation_turns",
        "conversation_origins",
    ):
        connection.execute(f"DELETE FROM {table} WHERE conversation_id = ?", (ident,))
    connection.execute("DELETE FROM links WHERE parent_id = ? OR child_id = ?", (ident, ident))


def remove(connection: sqlite3.Connection, ident: str) -> None:
    drop_rows(connection, ident)
    connection.execute(
        "DELETE FROM conversation_alignments WHERE claude_conversation_id = ?"
        " OR cursor_conversation_id = ?",
        (ident, ident),
    )
    connection.execute("DELETE FROM trajectories WHERE conversation_id = ?", (ident,))
    connection.execute("DELETE FROM conversations WHERE id = ?", (ident,))


def _put_conversation(connection: sqlite3.Connection, ident: str, trajectory: Trajectory) -> None:
    entry = make_entry(trajectory)
    workspace = trajectory.workspace
    usage = trajectory.usage
    row: dict[str, Any] = {
        "id": ident,
        "session_id": _put_session(connection, trajectory),
        "external_id": trajectory.conversation_id,
        "platform": platform_of(trajectory.source),
        "workspace_hash": workspace.hash if workspace else None,
        "workspace_name": workspace.name if workspace else None,
        "started_at": trajectory.started_at or "",
        "ended_at": trajectory.ended_at,
        "interaction_count": metrics.interaction_count(trajectory),
        "acceptance_rate": metrics.acceptance_rate(trajectory),
        "total_tokens": metrics.total_tokens(trajectory),
        "total_changes": metrics.total_changes(trajectory),
        "context": as_json(trajectory.context),
        "metadata": as_json(trajectory.metadata),
        "tool_sequence": as_json(metrics.tool_sequence(trajectory)),
        "acceptance_decisions": as_json(metrics.acceptance_decisions(trajectory)),
        "source": trajectory.source,
        "title": entry.title,
        "project": entry.project,
        "workspace_path": workspace.path if workspace else None,
        "repository": workspace.repository if workspace else None,
        "branch": workspace.branch if workspace else None,
        "agent_version": trajectory.agent_version,
        "model": entry.model,
        "parent_id": entry.parent_id,
        "children": entry.children,
        "messages": entry.messages,
        "turns": entry.turns,
        "tools": entry.tools,
        "tool_failures": sum(1 for m in trajectory.messages if m.is_error and not m.copied),
        "prompt_tokens": usage.prompt_tokens if usage else None,
        "completion_tokens": usage.completion_tokens if usage else None,
        "cached_tokens": usage.cached_tokens if usage else None,
        "cache_write_tokens": usage.cache_write_tokens if usage else None,
        "cost_usd": usage.cost_usd if usage else None,
        "lines_added": metrics.lines(trajectory, "lines_added"),
        "lines_removed": metrics.lines(trajectory, "lines_removed"),
        "partial": as_json(trajectory.partial) if trajectory.partial else None,
    }
    connection.execute(_upsert(tuple(row)), row)


@cache
def _upsert(columns: tuple[str, ...]) -> str:
    marks = ", ".join(f":{name}" for name in columns)
    updates = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "id")
    return (
        f"INSERT INTO conversations ({', '.join(columns)}) VALUES ({marks})"
        f" ON CONFLICT(id) DO UPDATE SET {updates}"
    )


def _put_session(connection: sqlite3.Connection, trajectory: Trajectory) -> str | None:
    """Cursor groups conversations in sessions; Claude Code has none, and others need none."""
    if trajectory.source != "cursor":
        return None
    external = trajectory.session_id or trajectory.conversation_id
    workspace = trajectory.workspace
    connection.execute(
        "INSERT INTO cursor_sessions VALUES (:id, :external, :hash, :name, :path, :start, :end, '{}')"
        " ON CONFLICT(id) DO UPDATE SET"
        " started_at = min(started_at, excluded.started_at),"
        " ended_at = max(ifnull(ended_at, ''), ifnull(excluded.ended_at, '')),"
        " workspace_name = ifnull(excluded.workspace_name, workspace_name),"
        " workspace_path = ifnull(excluded.workspace_path, workspace_path),"
        " workspace_hash = CASE excluded.workspace_hash WHEN '' THEN workspace_hash"
        " ELSE excluded.workspace_hash END",
        {
            "id": f"cursor_session:{external}",
            "external": external,
            "hash": (workspace.hash if workspace else None) or "",
            "name": workspace.name if workspace else None,
            "path": workspace.path if workspace else None,
            "start": trajectory.started_at or "",
            "end": trajectory.ended_at,
        },
    )
    return f"cursor_session:{external}"


def get_trajectory(connection: sqlite3.Connection, ident: str) -> Trajectory | None:
    row = connection.execute(
        "SELECT data FROM trajectories WHERE conversation_id = ?", (ident,)
    ).fetchone()
    return unpack_trajectory(expand(row[0])) if row else None
