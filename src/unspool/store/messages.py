"""Messages of a trajectory into the store: rows, searchable texts, turns."""

import sqlite3
from typing import Any

import msgspec

from unspool.io.times import parse_time
from unspool.reduce.totals import is_turn
from unspool.trajectory import Message, Trajectory, text_of

LONGEST_TEXT = 32_768
"""Of a longer text the two ends are searchable: tool results of megabytes are rarely read."""
_TAIL = 8192


CHECKPOINT = "checkpoint"
"""The role of a row that is no message."""

TEXTS = "typed, answered, called, returned"
"""What both indexes hold."""


def put_rows(connection: sqlite3.Connection, into: str, rows: list[tuple[Any, ...]]) -> None:
    if rows:  # most conversations have nothing for most tables
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {into} VALUES ({marks})", rows)


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


def put_messages(connection: sqlite3.Connection, ident: str, trajectory: Trajectory) -> None:
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
    # What the program kept of the conversation is found with it: checkpoints, memories, summaries.
    for number, kept in enumerate(trajectory.checkpoints or (), start + len(rows)):
        text = "\n\n".join(part for part in kept.values() if isinstance(part, str))
        row: list[Any] = [number, ident, number - start, None, CHECKPOINT, kept.get("kind")]
        rows.append((*row, *[None] * 5, False, None, *[None] * 4, len(text)))
        texts.append((number, None, clip(text), None, None))
    put_rows(connection, "messages", rows)
    put_rows(connection, "texts", texts)
    put_rows(connection, f"words (rowid, {TEXTS})", texts)


def put_turns(connection: sqlite3.Connection, ident: str, trajectory: Trajectory) -> None:
    turns: dict[int, list[tuple[int, Message]]] = {}
    for index, message in enumerate(trajectory.messages):
        if message.turn is not None:
            turns.setdefault(message.turn, []).append((index, message))
    files: dict[int, list[str]] = {}
    for touch in trajectory.files or ():
        if touch.turn is not None:
            files.setdefault(touch.turn, []).append(touch.path)
    rows = [
        _turn_row(ident, turn, messages, list(dict.fromkeys(files.get(turn, ()))))
        for turn, messages in sorted(turns.items())
    ]
    put_rows(connection, "conversation_turns", rows)


def _turn_row(
    ident: str, turn: int, messages: list[tuple[int, Message]], files: list[str]
) -> tuple[Any, ...]:
    asked = [m for _, m in messages if m.role == "user" and text_of(m)]
    said = [m for m in asked if is_turn(m)] or asked  # what a program injects comes first at times
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
        clip(text_of(said[0])) if said else None,
        clip(answers[-1].content) if answers else None,
        next((m.model for _, m in reversed(messages) if m.model), None),
        next((m.mode for m in said if m.mode), None),
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
