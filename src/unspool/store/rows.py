"""Rows: a trajectory as rows of the store's tables; a worker can make them, for they need no store."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from unspool.inspect.collection import make_entry
from unspool.io.packing import tamed
from unspool.io.times import parse_time
from unspool.reduce.totals import is_turn
from unspool.store.blocks import squeeze
from unspool.store.ids import platform_of, row_id
from unspool.trajectory import (
    FileTouch,
    Message,
    Trajectory,
    Usage,
    Workspace,
    pack_trajectory,
    text_of,
)

LONGEST_TEXT = 32_768
"""Of a longer text the two ends are searchable: tool results of megabytes are rarely read."""
_TAIL = 8192
CHANGES = frozenset(("create", "edit", "delete", "rename"))
KEPT = frozenset(("accepted", "modified"))
REFUSED = frozenset(("rejected", "denied", "undone"))
NOT_MADE = frozenset(("failed", *REFUSED))
CHECKPOINT = "checkpoint"
"""The role of a row that is no message."""
_MODEL_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")

Row = tuple[Any, ...]
_UNCOUNTED = Usage()


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


def make_rows(trajectory: Trajectory) -> Rows:
    try:
        return _make_rows(trajectory)
    except OverflowError:
        return _make_rows(tamed(trajectory))


def _make_rows(trajectory: Trajectory) -> Rows:
    ident = row_id(trajectory.source, trajectory.conversation_id)
    session = _session(trajectory)
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
        _messages(ident, trajectory),
        _texts(trajectory),
        [
            ("model_usage", _model_usage(ident, trajectory)),
            ("conversation_turns", _turns(ident, trajectory)),
            ("tool_calls", _calls(ident, trajectory)),
            ("files_touched", _files(ident, trajectory)),
            ("git_references", references),
            ("checkpoints", checkpoints),
        ],
        list(_links(ident, trajectory)),
    )


def _conversation(ident: str, session_id: str | None, trajectory: Trajectory) -> dict[str, Any]:
    """`docs/store.md` has the formulas of its figures, and what they cannot know."""
    entry = make_entry(trajectory)
    workspace = trajectory.workspace or Workspace()
    usage = trajectory.usage or Usage()
    changes = [touch for touch in trajectory.files or () if touch.operation in CHANGES]
    made = [touch for touch in changes if touch.outcome not in NOT_MADE]
    decided = [touch for touch in changes if touch.outcome in KEPT or touch.outcome in REFUSED]
    kept = sum(1 for touch in decided if touch.outcome in KEPT)
    tokens = [n for n in (usage.prompt_tokens, usage.completion_tokens) if n is not None]
    own = [message for message in trajectory.messages if not message.copied]
    return {
        "id": ident,
        "session_id": session_id,
        "external_id": trajectory.conversation_id,
        "platform": platform_of(trajectory.source),
        "workspace_hash": workspace.hash,
        "workspace_name": workspace.name,
        "started_at": trajectory.started_at or "",
        "ended_at": trajectory.ended_at,
        "interaction_count": entry.turns,
        "acceptance_rate": kept / len(decided) if decided else None,
        "total_tokens": sum(tokens) if tokens else None,
        "total_changes": len(made),
        "context": as_json(trajectory.context),
        "metadata": as_json(trajectory.metadata),
        "tool_sequence": as_json([call.name for m in own for call in m.tool_calls or ()]),
        "acceptance_decisions": as_json([_decision(touch) for touch in decided]),
        "source": trajectory.source,
        "title": entry.title,
        "project": entry.project,
        "workspace_path": workspace.path,
        "repository": workspace.repository,
        "branch": workspace.branch,
        "agent_version": trajectory.agent_version,
        "model": entry.model,
        "parent_id": entry.parent_id,
        "children": entry.children,
        "messages": entry.messages,
        "turns": entry.turns,
        "tools": entry.tools,
        "tool_failures": sum(1 for m in own if m.is_error),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost_usd": usage.cost_usd,
        "lines_added": _total(touch.lines_added for touch in made),
        "lines_removed": _total(touch.lines_removed for touch in made),
        "partial": as_json(trajectory.partial) if trajectory.partial else None,
    }


def _decision(touch: FileTouch) -> dict[str, Any]:
    """What became of a change."""
    fields = ("path", "outcome", "tool_call_id", "turn", "timestamp")
    values = {name: getattr(touch, name) for name in fields}
    return {name: value for name, value in values.items() if value is not None}


def _total(values: Iterable[int | None]) -> int | None:
    """None where none is known."""
    counts = [value for value in values if value is not None]
    return sum(counts) if counts else None


def _session(trajectory: Trajectory) -> dict[str, Any] | None:
    """Cursor groups conversations in sessions; Claude Code has none, and others need none."""
    if trajectory.source != "cursor":
        return None
    external = trajectory.session_id or trajectory.conversation_id
    workspace = trajectory.workspace or Workspace()
    return {
        "id": f"cursor_session:{external}",
        "external": external,
        "hash": workspace.hash or "",
        "name": workspace.name,
        "path": workspace.path,
        "start": trajectory.started_at or "",
        "end": trajectory.ended_at,
    }


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def clip(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return text[: LONGEST_TEXT - _TAIL] + "\n…\n" + text[-_TAIL:]


def _fields(message: Message) -> tuple[str | None, str | None, str | None, str | None]:
    """(typed, answered, called, returned) of a message, as far as it has them."""
    if message.role == "tool":
        return None, None, None, clip(message.content) or None
    called = "\n".join(f"{c.name} {clip(c.arguments)}" for c in message.tool_calls or ()) or None
    if message.role == "assistant":
        return None, clip(message.content) or None, called, None
    if message.role == "user" and message.kind not in ("injected", "summary"):
        return clip(text_of(message)) or None, None, called, None
    return None, None, called, None


def _texts(trajectory: Trajectory) -> list[Row]:
    """What can be searched, by the number of its message."""
    texts: list[Row] = []
    for index, message in enumerate(trajectory.messages):
        fields = _fields(message)
        if not message.copied and any(fields):
            texts.append((index, *fields))
    # What the program kept of the conversation is found with it: checkpoints, memories, summaries.
    for number, kept in enumerate(trajectory.checkpoints or (), len(trajectory.messages)):
        texts.append((number, None, clip(_checkpoint_text(kept)), None, None))
    return texts


def _checkpoint_text(kept: dict[str, Any]) -> str:
    return "\n\n".join(part for part in kept.values() if isinstance(part, str))


def _messages(ident: str, trajectory: Trajectory) -> list[Row]:
    rows: list[Row] = []
    for index, message in enumerate(trajectory.messages):
        usage = message.usage or _UNCOUNTED
        rows.append(
            (
                index, ident, index, message.id, message.role, message.kind, message.turn,
                message.model, message.mode, message.name, message.is_error, message.copied,
                message.timestamp,
                usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens,
                usage.cache_write_tokens, len(message.content),
            )
        )  # fmt: skip
    for number, kept in enumerate(trajectory.checkpoints or (), len(rows)):
        row: list[Any] = [number, ident, number, None, CHECKPOINT, kept.get("kind")]
        length = len(_checkpoint_text(kept))
        rows.append((*row, *[None] * 5, False, None, *[None] * 4, length))
    return rows


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
    # What a program injects comes first at times.
    prompts = [m for m in asked if is_turn(m)] or asked
    answers = [m for _, m in messages if m.role == "assistant" and m.content]
    times = [t for _, m in messages if (t := parse_time(m.timestamp)) is not None]
    stamps = [m.timestamp for _, m in messages if m.timestamp]
    usages = [m.usage for _, m in messages if m.usage is not None and not m.copied]
    return (
        ident,
        turn,
        clip(text_of(prompts[0])) if prompts else None,
        clip(answers[-1].content) if answers else None,
        next((m.model for _, m in reversed(messages) if m.model), None),
        next((m.mode for m in prompts if m.mode), None),
        _total(usage.prompt_tokens for usage in usages),
        _total(usage.completion_tokens for usage in usages),
        _total(usage.cached_tokens for usage in usages),
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
