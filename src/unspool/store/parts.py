"""Parts of a trajectory into the store: usage, calls, files, references, checkpoints, links."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.store.ids import row_id
from unspool.store.messages import as_json, clip, put_rows
from unspool.trajectory import Trajectory

_MODEL_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")


def put_model_usage(connection: sqlite3.Connection, ident: str, trajectory: Trajectory) -> None:
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
    put_rows(connection, "model_usage", rows)


def put_parts(connection: sqlite3.Connection, ident: str, trajectory: Trajectory) -> None:
    """Calls, files, references, checkpoints and links."""
    put_rows(connection, "tool_calls", _calls(ident, trajectory))
    files: list[tuple[Any, ...]] = [
        (
            None, ident, touch.path, touch.operation, touch.lines_added, touch.lines_removed,
            touch.index, touch.turn, touch.tool, touch.tool_call_id, touch.outcome,
            touch.timestamp,
        )
        for touch in trajectory.files or ()
    ]  # fmt: skip
    put_rows(connection, "files_touched", files)
    references: list[tuple[Any, ...]] = [
        (ident, *_reference(ref), ref.get("turn"), as_json(ref))
        for ref in trajectory.references or ()
    ]
    put_rows(connection, "git_references", references)
    checkpoints: list[tuple[Any, ...]] = [
        (ident, made.get("number", number), made.get("title"), as_json(made))
        for number, made in enumerate(trajectory.checkpoints or (), 1)
    ]
    put_rows(connection, "checkpoints", checkpoints)
    links = list(_links(ident, trajectory))
    connection.executemany("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?)", links)


def _calls(ident: str, trajectory: Trajectory) -> list[tuple[Any, ...]]:
    failed = {m.tool_call_id: m.is_error for m in trajectory.messages if m.role == "tool"}
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


def _links(ident: str, trajectory: Trajectory) -> Iterator[tuple[str, str, str, str | None]]:
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
