"""Rows: a trajectory into the store's tables, and back."""

import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.shelf import make_entry
from unspool.store import metrics
from unspool.store.keeping import expand, squeeze
from unspool.times import parse_time
from unspool.trajectory import (
    Message,
    Trajectory,
    pack_trajectory,
    text_of,
    unpack_trajectory,
)

LONGEST_TEXT = 32_768
"""Of a longer text the two ends are searchable: tool results of megabytes are rarely read."""
_TAIL = 8192


def platform_of(source: str) -> str:
    """The seed's spelling: `claude_code` for the source `claude-code`."""
    return source.replace("-", "_")


_WORDS = "typed, answered, called, returned"
_PIECES = "typed, answered, called"


def row_id(source: str, ident: str) -> str:
    return f"{platform_of(source)}:{ident}"


def put_trajectory(
    connection: sqlite3.Connection, trajectory: Trajectory, origin_ids: Iterable[int]
) -> None:
    """Write the conversation, in place of what the store had of it."""
    ident = row_id(trajectory.source, trajectory.conversation_id)
    drop_rows(connection, ident)
    _put_conversation(connection, ident, trajectory)
    data = squeeze(pack_trajectory(trajectory))
    connection.execute("INSERT OR REPLACE INTO trajectories VALUES (?, ?)", (ident, data))
    _put_messages(connection, ident, trajectory)
    _put_model_usage(connection, ident, trajectory)
    _put_turns(connection, ident, trajectory)
    _put_parts(connection, ident, trajectory)
    connection.executemany(
        "INSERT INTO conversation_origins VALUES (?, ?)",
        [(ident, origin) for origin in sorted(set(origin_ids))],
    )


def drop_rows(connection: sqlite3.Connection, ident: str) -> None:
    """All rows of a conversation but its own: foreign keys of others may point there."""
    known = "SELECT id FROM messages WHERE conversation_id = ?"
    for table, columns in (("words", _WORDS), ("pieces", _PIECES)):
        # Taking out what was never put in spoils the index's own count of its rows.
        connection.execute(
            f"INSERT INTO {table} ({table}, rowid, {columns})"
            f" SELECT 'delete', id, {columns} FROM texts WHERE id IN ({known})"
            f" AND coalesce({columns}) IS NOT NULL",
            (ident,),
        )
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


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


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
        "context": _json(trajectory.context),
        "metadata": _json(trajectory.metadata),
        "tool_sequence": _json(metrics.tool_sequence(trajectory)),
        "acceptance_decisions": _json(metrics.acceptance_decisions(trajectory)),
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
        "partial": _json(trajectory.partial) if trajectory.partial else None,
    }
    names = ", ".join(row)
    marks = ", ".join(f":{name}" for name in row)
    updates = ", ".join(f"{name} = excluded.{name}" for name in row if name != "id")
    connection.execute(
        f"INSERT INTO conversations ({names}) VALUES ({marks})"
        f" ON CONFLICT(id) DO UPDATE SET {updates}",
        row,
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


def _clip(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return text[: LONGEST_TEXT - _TAIL] + "\n…\n" + text[-_TAIL:]


def _texts(message: Message) -> tuple[str | None, str | None, str | None, str | None]:
    """(typed, answered, called, returned) of a message, as far as it has them."""
    if message.role == "tool":
        return None, None, None, _clip(message.content) or None
    called = "\n".join(f"{c.name} {_clip(c.arguments)}" for c in message.tool_calls or ()) or None
    if message.role == "assistant":
        return None, _clip(message.content) or None, called, None
    if message.role == "user" and message.kind not in ("injected", "summary"):
        return _clip(text_of(message)) or None, None, called, None
    return None, None, called, None


def _put_messages(connection: sqlite3.Connection, ident: str, trajectory: Trajectory) -> None:
    (start,) = connection.execute("SELECT ifnull(max(id), 0) + 1 FROM messages").fetchone()
    rows: list[tuple[Any, ...]] = []
    texts: list[tuple[Any, ...]] = []
    for index, message in enumerate(trajectory.messages):
        usage = message.usage
        rows.append(
            (
                start + index,
                ident,
                index,
                message.id,
                message.role,
                message.kind,
                message.turn,
                message.model,
                message.mode,
                message.name,
                message.is_error,
                message.copied,
                message.timestamp,
                usage.prompt_tokens if usage else None,
                usage.completion_tokens if usage else None,
                usage.cached_tokens if usage else None,
                usage.cache_write_tokens if usage else None,
                len(message.content),
            )
        )
        found = _texts(message)
        if not message.copied and any(found):
            texts.append((start + index, *found))
    marks = ", ".join("?" * 18)
    connection.executemany(f"INSERT INTO messages VALUES ({marks})", rows)
    connection.executemany("INSERT INTO texts VALUES (?, ?, ?, ?, ?)", texts)
    connection.executemany(f"INSERT INTO words (rowid, {_WORDS}) VALUES (?, ?, ?, ?, ?)", texts)
    connection.executemany(
        f"INSERT INTO pieces (rowid, {_PIECES}) VALUES (?, ?, ?, ?)",
        [text[:4] for text in texts if any(text[1:4])],
    )


_MODEL_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")


def _put_model_usage(connection: sqlite3.Connection, ident: str, trajectory: Trajectory) -> None:
    """Tokens by model; all on the primary one where the models' shares are not known."""
    used = trajectory.model_usage or {}
    shares: dict[str, Any] = dict(used.get("by_model") or {})
    if not shares and trajectory.usage is not None:
        shares = {used.get("primary_model") or "": msgspec.to_builtins(trajectory.usage)}
    rows = [
        (ident, model, *(tokens.get(name) for name in _MODEL_TOKENS))
        for model, tokens in shares.items()
        if isinstance(tokens, dict)
    ]
    connection.executemany("INSERT INTO model_usage VALUES (?, ?, ?, ?, ?, ?)", rows)


def _put_turns(connection: sqlite3.Connection, ident: str, trajectory: Trajectory) -> None:
    turns: dict[int, list[tuple[int, Message]]] = {}
    for index, message in enumerate(trajectory.messages):
        if message.turn is not None:
            turns.setdefault(message.turn, []).append((index, message))
    files: dict[int, list[str]] = {}
    for touch in trajectory.files or ():
        if touch.turn is not None:
            files.setdefault(touch.turn, []).append(touch.path)
    connection.executemany(
        f"INSERT INTO conversation_turns VALUES ({', '.join('?' * 15)})",
        [
            _turn_row(ident, turn, messages, list(dict.fromkeys(files.get(turn, ()))))
            for turn, messages in sorted(turns.items())
        ],
    )


def _turn_row(
    ident: str, turn: int, messages: list[tuple[int, Message]], files: list[str]
) -> tuple[Any, ...]:
    said = [m for _, m in messages if m.role == "user" and text_of(m)]
    answers = [m for _, m in messages if m.role == "assistant" and m.content]
    times = [t for _, m in messages if (t := parse_time(m.timestamp)) is not None]
    stamps = [m.timestamp for _, m in messages if m.timestamp]
    usages = [m.usage for _, m in messages if m.usage is not None and not m.copied]

    def total(field: str) -> int | None:
        known = [value for usage in usages if (value := getattr(usage, field)) is not None]
        return sum(known) if known else None

    return (
        ident,
        turn,
        _clip(text_of(said[0])) if said else None,
        _clip(answers[-1].content) if answers else None,
        next((m.model for _, m in reversed(messages) if m.model), None),
        next((m.mode for m in said if m.mode), None),
        total("prompt_tokens"),
        total("completion_tokens"),
        total("cached_tokens"),
        _json([call.name for _, m in messages for call in m.tool_calls or ()]),
        _json(files),
        min(stamps) if stamps else None,
        max(stamps) if stamps else None,
        (max(times) - min(times)) / 1000 if times else None,
        messages[0][0],
    )


def _put_parts(connection: sqlite3.Connection, ident: str, trajectory: Trajectory) -> None:
    """Calls, files, references, checkpoints and links."""
    failed = {m.tool_call_id: m.is_error for m in trajectory.messages if m.role == "tool"}
    connection.executemany(
        f"INSERT INTO tool_calls VALUES (NULL, {', '.join('?' * 12)})",
        [
            (
                ident, index, call.id, call.name, _clip(call.arguments), call.status,
                failed.get(call.id), call.duration_ms, call.started_at, call.ended_at,
                call.child_id, message.turn,
            )
            for index, message in enumerate(trajectory.messages)
            if not message.copied
            for call in message.tool_calls or ()
        ],
    )  # fmt: skip
    connection.executemany(
        f"INSERT INTO files_touched VALUES (NULL, {', '.join('?' * 11)})",
        [
            (
                ident, touch.path, touch.operation, touch.lines_added, touch.lines_removed,
                touch.index, touch.turn, touch.tool, touch.tool_call_id, touch.outcome,
                touch.timestamp,
            )
            for touch in trajectory.files or ()
        ],
    )  # fmt: skip
    connection.executemany(
        "INSERT INTO git_references VALUES (?, ?, ?, ?, ?)",
        [
            (ident, ref.get("kind"), _plain(ref.get("value")), ref.get("turn"), _json(ref))
            for ref in trajectory.references or ()
        ],
    )
    connection.executemany(
        "INSERT INTO checkpoints VALUES (?, ?, ?, ?)",
        [
            (ident, made.get("number", number), made.get("title"), _json(made))
            for number, made in enumerate(trajectory.checkpoints or (), 1)
        ],
    )
    links = [
        (ident, row_id(t.source or trajectory.source, t.conversation_id), t.kind, t.tool_call_id)
        for t in trajectory.children or ()
    ]
    if trajectory.parent is not None:
        up = trajectory.parent
        parent = row_id(up.source or trajectory.source, up.conversation_id)
        links.append((parent, ident, up.kind, up.tool_call_id))
    connection.executemany("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?)", links)


def _plain(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else str(value)


def get_trajectory(connection: sqlite3.Connection, ident: str) -> Trajectory | None:
    row = connection.execute(
        "SELECT data FROM trajectories WHERE conversation_id = ?", (ident,)
    ).fetchone()
    return unpack_trajectory(expand(row[0])) if row else None
