"""Rows: a trajectory as rows of the store's tables, their way in, and back.

`make_rows` needs no store, so a worker can do it; `put_rows` is left to the one process that writes.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec

from unspool.inspect.collection import make_entry
from unspool.io.packing import tamed
from unspool.io.times import parse_time
from unspool.reduce.totals import is_turn
from unspool.store import metrics, substrings
from unspool.store.blocks import expand, squeeze
from unspool.store.ids import platform_of, row_id
from unspool.store.substrings import TEXTS
from unspool.trajectory import Message, Trajectory, pack_trajectory, text_of, unpack_trajectory

LONGEST_TEXT = 32_768
"""Of a longer text the two ends are searchable: tool results of megabytes are rarely read."""
_TAIL = 8192
CHECKPOINT = "checkpoint"
"""The role of a row that is no message."""
_MODEL_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")

Row = tuple[Any, ...]
_NO_TEXTS = (None,) * 4


class Rows(NamedTuple):
    """All that the tables say of one conversation."""

    ident: str
    origins: list[str]
    """Paths of where it was read."""
    packed: bytes
    """The whole trajectory, compressed."""
    session: dict[str, Any] | None
    conversation: dict[str, Any]
    messages: list[Row]
    """Numbered from 0: `put_rows` knows the first free number."""
    texts: list[Row]
    """The same numbers, and what can be searched."""
    tables: list[tuple[str, list[Row]]]
    links: list[Row]
    known: int | None = None
    """So many messages at the beginning the store has as they are, and they are left out here; None
    where nobody has looked."""


def put_trajectory(
    connection: sqlite3.Connection, trajectory: Trajectory, origin_ids: Iterable[int]
) -> None:
    put_rows(connection, make_rows(trajectory), origin_ids)


def put_rows(connection: sqlite3.Connection, rows: Rows, origin_ids: Iterable[int]) -> None:
    """Write the conversation, in place of what the store had of it."""
    connection.execute("SAVEPOINT conversation")
    try:
        _put(connection, rows, origin_ids)
    except OverflowError:
        # A number in it is larger than any column: those count nothing and are left out.
        connection.execute("ROLLBACK TO conversation")
        _put(connection, make_rows(tamed(unpack(rows.packed))), origin_ids)
    connection.execute("RELEASE conversation")


def _put(connection: sqlite3.Connection, rows: Rows, origin_ids: Iterable[int]) -> None:
    ident = rows.ident
    rows = rows if rows.known is not None else only_new(connection, rows)
    kept = rows.known or 0
    if connection.execute("SELECT 1 FROM conversations WHERE id = ?", (ident,)).fetchone():
        drop_rows(connection, ident, kept)
    if rows.session is not None:
        connection.execute(_PUT_SESSION, rows.session)
    connection.execute(_upsert(tuple(rows.conversation)), rows.conversation)
    connection.execute("INSERT OR REPLACE INTO trajectories VALUES (?, ?)", (ident, rows.packed))
    (start,) = connection.execute("SELECT ifnull(max(id), 0) + 1 FROM messages").fetchone()
    start -= kept
    texts = [(start + row[0], *row[1:]) for row in rows.texts]
    tables = [
        ("messages", [(start + row[0], *row[1:]) for row in rows.messages]),
        ("texts", texts),
        (f"words (rowid, {TEXTS})", texts),
        *rows.tables,
        ("conversation_origins", [(ident, origin) for origin in sorted(set(origin_ids))]),
    ]
    for into, values in tables:
        if values:  # most conversations have nothing for most tables
            marks = ", ".join("?" * len(values[0]))
            connection.executemany(f"INSERT INTO {into} VALUES ({marks})", values)
    connection.executemany("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?)", rows.links)
    substrings.put_off(connection, ident)


def only_new(connection: sqlite3.Connection, rows: Rows) -> Rows:
    """Without the messages that the store has as they are: a conversation that goes on is not indexed
    anew."""
    known = connection.execute(
        f"SELECT m.*, {TEXTS} FROM messages m LEFT JOIN texts t ON t.id = m.id"
        " WHERE m.conversation_id = ? ORDER BY m.id",
        (rows.ident,),
    )
    texts = {row[0]: row[1:] for row in rows.texts}
    kept = 0
    for row, old in zip(rows.messages, known, strict=False):
        columns = len(row)
        if old[1:columns] != row[1:] or old[columns:] != texts.get(row[0], _NO_TEXTS):
            break
        kept += 1
    return rows._replace(
        messages=rows.messages[kept:],
        texts=[row for row in rows.texts if row[0] >= kept],
        known=kept,
    )


def make_rows(trajectory: Trajectory) -> Rows:
    try:
        return _make_rows(trajectory)
    except OverflowError:
        return _make_rows(tamed(trajectory))


def _make_rows(trajectory: Trajectory) -> Rows:
    ident = row_id(trajectory.source, trajectory.conversation_id)
    session = _session(trajectory)
    messages, texts = _messages(ident, trajectory)
    turns = _turns(ident, trajectory)
    references: list[Row] = [
        (ident, *_reference(ref), ref.get("turn"), as_json(ref))
        for ref in trajectory.references or ()
    ]
    checkpoints: list[Row] = [
        (ident, kept.get("number", number), kept.get("title"), as_json(kept))
        for number, kept in enumerate(trajectory.checkpoints or (), 1)
    ]
    return Rows(
        ident,
        [path for path in (trajectory.file_path, *(trajectory.origins or ())) if path],
        squeeze(pack_trajectory(trajectory)),
        session,
        _conversation(ident, session["id"] if session else None, trajectory),
        messages,
        texts,
        [
            ("model_usage", _model_usage(ident, trajectory)),
            ("model_work", _model_work(ident, trajectory, turns)),
            ("conversation_turns", turns),
            ("tool_calls", _calls(ident, trajectory)),
            ("files_touched", _files(ident, trajectory)),
            ("git_references", references),
            ("checkpoints", checkpoints),
        ],
        list(_links(ident, trajectory)),
    )


def _conversation(ident: str, session_id: str | None, trajectory: Trajectory) -> dict[str, Any]:
    entry = make_entry(trajectory)
    workspace = trajectory.workspace
    usage = trajectory.usage
    return {
        "id": ident,
        "session_id": session_id,
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


@cache
def _upsert(columns: tuple[str, ...]) -> str:
    marks = ", ".join(f":{name}" for name in columns)
    updates = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "id")
    return (
        f"INSERT INTO conversations ({', '.join(columns)}) VALUES ({marks})"
        f" ON CONFLICT(id) DO UPDATE SET {updates}"
    )


def _session(trajectory: Trajectory) -> dict[str, Any] | None:
    """Cursor groups conversations in sessions; Claude Code has none, and others need none."""
    if trajectory.source != "cursor":
        return None
    external = trajectory.session_id or trajectory.conversation_id
    workspace = trajectory.workspace
    return {
        "id": f"cursor_session:{external}",
        "external": external,
        "hash": (workspace.hash if workspace else None) or "",
        "name": workspace.name if workspace else None,
        "path": workspace.path if workspace else None,
        "start": trajectory.started_at or "",
        "end": trajectory.ended_at,
    }


_PUT_SESSION = (
    "INSERT INTO cursor_sessions VALUES (:id, :external, :hash, :name, :path, :start, :end, '{}')"
    " ON CONFLICT(id) DO UPDATE SET"
    " started_at = min(started_at, excluded.started_at),"
    " ended_at = nullif(max(ifnull(ended_at, ''), ifnull(excluded.ended_at, '')), ''),"
    " workspace_name = ifnull(excluded.workspace_name, workspace_name),"
    " workspace_path = ifnull(excluded.workspace_path, workspace_path),"
    " workspace_hash = CASE excluded.workspace_hash WHEN '' THEN workspace_hash"
    " ELSE excluded.workspace_hash END"
)


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def clip(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return text[: LONGEST_TEXT - _TAIL] + "\n…\n" + text[-_TAIL:]


def _texts(message: Message) -> tuple[str | None, str | None, str | None, str | None]:
    """(typed, answered, called, returned) of a message, as far as it has them."""
    if message.role == "tool":
        return None, None, None, clip(message.content) or None
    called = "\n".join(f"{c.name} {clip(c.arguments)}" for c in message.tool_calls or ()) or None
    if message.role == "assistant":
        return None, clip(message.content) or None, called, None
    if message.role == "user" and message.kind not in ("injected", "summary"):
        return clip(text_of(message)) or None, None, called, None
    return None, None, called, None


def _messages(ident: str, trajectory: Trajectory) -> tuple[list[Row], list[Row]]:
    """Rows of the messages, and what can be searched of them."""
    rows: list[Row] = []
    texts: list[Row] = []
    for index, message in enumerate(trajectory.messages):
        usage = message.usage
        rows.append(
            (
                index,
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
        fields = _texts(message)
        if not message.copied and any(fields):
            texts.append((index, *fields))
    # What the program kept of the conversation is found with it: checkpoints, memories, summaries.
    for number, kept in enumerate(trajectory.checkpoints or (), len(rows)):
        text = "\n\n".join(part for part in kept.values() if isinstance(part, str))
        row: list[Any] = [number, ident, number, None, CHECKPOINT, kept.get("kind")]
        rows.append((*row, *[None] * 5, False, None, *[None] * 4, len(text)))
        texts.append((number, None, clip(text), None, None))
    return rows, texts


def _turns(ident: str, trajectory: Trajectory) -> list[Row]:
    turns: dict[int, list[tuple[int, Message]]] = {}
    for index, message in enumerate(trajectory.messages):
        if message.turn is not None:
            turns.setdefault(message.turn, []).append((index, message))
    files: dict[int, list[str]] = {}
    for touch in trajectory.files or ():
        if touch.turn is not None:
            files.setdefault(touch.turn, []).append(touch.path)
    return [
        _turn_row(ident, turn, messages, list(dict.fromkeys(files.get(turn, ()))))
        for turn, messages in sorted(turns.items())
    ]


def _turn_row(ident: str, turn: int, messages: list[tuple[int, Message]], files: list[str]) -> Row:
    asked = [m for _, m in messages if m.role == "user" and text_of(m)]
    prompts = [
        m for m in asked if is_turn(m)
    ] or asked  # what a program injects comes first at times
    answers = [m for _, m in messages if m.role == "assistant" and m.content]
    times = [t for _, m in messages if (t := parse_time(m.timestamp)) is not None]
    stamps = [m.timestamp for _, m in messages if m.timestamp]
    usages = [m.usage for _, m in messages if m.usage is not None and not m.copied]

    def total(field: str) -> int | None:
        values = [value for usage in usages if (value := getattr(usage, field)) is not None]
        return sum(values) if values else None

    return (
        ident,
        turn,
        clip(text_of(prompts[0])) if prompts else None,
        clip(answers[-1].content) if answers else None,
        next((m.model for _, m in reversed(messages) if m.model), None),
        next((m.mode for m in prompts if m.mode), None),
        total("prompt_tokens"),
        total("completion_tokens"),
        total("cached_tokens"),
        as_json([call.name for _, m in messages for call in m.tool_calls or ()]),
        as_json(files),
        min(stamps) if stamps else None,
        max(stamps) if stamps else None,
        (max(times) - min(times)) / 1000 if times else None,
        messages[0][0],
    )


def _model_usage(ident: str, trajectory: Trajectory) -> list[Row]:
    """Tokens by model; all on the primary one where the models' shares are not known."""
    used = trajectory.model_usage or {}
    shares: dict[str, Any] = dict(used.get("by_model") or {})
    if not shares and trajectory.usage is not None:
        shares = {used.get("primary_model") or "": msgspec.to_builtins(trajectory.usage)}
    return [
        (ident, model, *(tokens.get(name) for name in _MODEL_TOKENS))
        for model, tokens in shares.items()
        if isinstance(tokens, dict)
    ]


def _model_work(ident: str, trajectory: Trajectory, turns: list[Row]) -> list[Row]:
    """Turns, calls and failures by model, as far as messages tell theirs."""
    failed = _failed(trajectory)
    work: dict[str, list[int]] = {}
    for _, _, _, _, model, *_, first in turns:
        if model is not None and not trajectory.messages[first].copied:
            work.setdefault(model, [0, 0, 0])[0] += 1
    for message in trajectory.messages:
        if message.tool_calls and message.model is not None and not message.copied:
            done = work.setdefault(message.model, [0, 0, 0])
            done[1] += len(message.tool_calls)
            done[2] += sum(1 for call in message.tool_calls if failed.get(call.id))
    return [(ident, model, *done) for model, done in work.items()]


def _failed(trajectory: Trajectory) -> dict[str | None, bool | None]:
    """Call → whether it failed, where its result is known."""
    return {m.tool_call_id: m.is_error for m in trajectory.messages if m.role == "tool"}


def _files(ident: str, trajectory: Trajectory) -> list[Row]:
    return [
        (
            None, ident, touch.path, touch.operation, touch.lines_added, touch.lines_removed,
            touch.index, touch.turn, touch.tool, touch.tool_call_id, touch.outcome,
            touch.timestamp,
        )
        for touch in trajectory.files or ()
    ]  # fmt: skip


def _calls(ident: str, trajectory: Trajectory) -> list[Row]:
    failed = _failed(trajectory)
    return [
        (
            None, ident, index, call.id, call.name, clip(call.arguments), call.status,
            failed.get(call.id), call.duration_ms, call.started_at, call.ended_at,
            call.child_id, message.turn,
        )
        for index, message in enumerate(trajectory.messages)
        if not message.copied
        for call in message.tool_calls or ()
    ]  # fmt: skip


def _links(ident: str, trajectory: Trajectory) -> Iterator[Row]:
    for down in trajectory.children or ():
        child = row_id(down.source or trajectory.source, down.conversation_id)
        yield ident, child, down.kind, down.tool_call_id
    up = trajectory.parent
    if up is not None:
        parent = row_id(up.source or trajectory.source, up.conversation_id)
        yield parent, ident, up.kind, up.tool_call_id


def _reference(reference: dict[str, Any]) -> tuple[str | None, str | None]:
    """(kind, value), under whichever names agents tell them:

    {"type": "commit", "value": "0a1b2c3"}
    {"number": 12, "url": "https://github.com/ada/shop/pull/12"}
    {"pullRequestNumber": 12}
    """
    kind = reference.get("kind") or reference.get("type")
    url = str(reference.get("url") or reference.get("uri") or "")
    number = reference.get("number") or reference.get("pullRequestNumber")
    if kind is None and ("pullRequestNumber" in reference or "/pull/" in url):
        kind = "pr"
    elif kind is None and ("/issues/" in url or number is not None):
        kind = "issue"
    elif kind is None and "/commit/" in url:
        kind = "commit"
    value = reference.get("value") or number or reference.get("commit") or url
    return (None if kind is None else str(kind), str(value) if value else None)


def drop_rows(connection: sqlite3.Connection, ident: str, kept: int = 0) -> None:
    """All rows of a conversation but its own, to which foreign keys of others may point, and those of
    its first messages that are `kept`."""
    gone = "SELECT id FROM messages WHERE conversation_id = ? AND message_index >= ?"
    substrings.forget(connection, ident)
    connection.execute(
        f"INSERT INTO words (words, rowid, {TEXTS})"
        f" SELECT 'delete', id, {TEXTS} FROM texts WHERE id IN ({gone})",
        (ident, kept),
    )
    connection.execute(f"DELETE FROM texts WHERE id IN ({gone})", (ident, kept))
    connection.execute(
        "DELETE FROM messages WHERE conversation_id = ? AND message_index >= ?", (ident, kept)
    )
    for table in (
        "model_usage",
        "model_work",
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


def unpack(packed: bytes) -> Trajectory:
    return unpack_trajectory(expand(packed))


def get_trajectory(connection: sqlite3.Connection, ident: str) -> Trajectory | None:
    row = connection.execute(
        "SELECT data FROM trajectories WHERE conversation_id = ?", (ident,)
    ).fetchone()
    return unpack(row[0]) if row else None
