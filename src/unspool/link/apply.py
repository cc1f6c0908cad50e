"""Patches: what linking found out about one conversation, and how its trajectory is told."""

from typing import Any

import msgspec

from unspool.facts import Key
from unspool.io.digests import digest
from unspool.link.cards import LEAST_ID_CHARS, digest_of, iter_calls, iter_digests
from unspool.reduce.totals import count_modes, drop_calls, drop_messages, leave_out, put_in
from unspool.trajectory import Link, Message, Trajectory, Workspace


class Patch(msgspec.Struct):
    """What linking found out about one conversation."""

    parent: Link | None = None
    children: list[Link] = []
    spawned: dict[str, str] = {}
    session_id: str | None = None
    workspace: Workspace | None = None
    """Where it ran, if only its parent says so."""
    dropped: list[str] = []
    """Calls that are another conversation's."""
    copied: bytes = b""
    """Digests of the ids of messages that belong to another conversation."""
    replayed: bytes = b""
    """Digests of the ids of answers that its session gave, and that it only repeats."""
    absorbed: bool = False
    """Nothing but another conversation seen again: it does not go out."""
    origins: list[str] = []
    """Where those were read that it stands for."""
    opinions: dict[str, dict[str, Any]] = {}
    """Message → what only they know that a person thought of it."""
    times: dict[str, str] = {}
    """Request → when it was made, as an index says."""
    modes: dict[str, str] = {}
    """Request → the mode that it was made in, as an index says."""
    claimed: list[str] = []
    """Requests of prompts that a mere list put here and another conversation holds."""
    gained: list[tuple[str, Message]] = []
    """Answers that only a piece of it, which had no name, knows, each with the message before it."""
    title: str | None = None
    """A better one, that stands in the files of another conversation."""


Patches = dict[Key, Patch]


def apply_patch(trajectory: Trajectory, patch: Patch | None) -> None:
    """Tell a trajectory what linking found out about it."""
    if patch is None:
        return
    trajectory.parent = patch.parent or trajectory.parent
    trajectory.children = patch.children or trajectory.children
    trajectory.session_id = trajectory.session_id or patch.session_id
    trajectory.workspace = trajectory.workspace or patch.workspace
    trajectory.title = patch.title or trajectory.title
    if patch.origins:
        known_places = {trajectory.file_path, *(trajectory.origins or ())}
        more = sorted(path for path in set(patch.origins) if path not in known_places)
        trajectory.origins = [*(trajectory.origins or []), *more] or None
    for before, message in patch.gained:
        put_in(trajectory, before, message)
    for message in trajectory.messages if patch.opinions else ():
        if message.id in patch.opinions:
            message.extra = {**patch.opinions[message.id], **(message.extra or {})}
    if patch.times:
        # The times of requests to the words that they were made with, where these have none.
        for message in trajectory.messages:
            asked_at = patch.times.get(message.request_id or "") if message.role == "user" else None
            if asked_at and message.timestamp is None and message.kind is None:
                message.timestamp = asked_at
                trajectory.started_at = min(trajectory.started_at or asked_at, asked_at)
                trajectory.ended_at = max(trajectory.ended_at or asked_at, asked_at)
    if patch.modes:
        for message in trajectory.messages:
            if message.role == "user" and message.kind is None and message.mode is None:
                message.mode = patch.modes.get(message.request_id or "")
        count_modes(trajectory)
    if patch.claimed:
        _give_up(trajectory, patch.claimed)
    if patch.dropped:
        drop_calls(trajectory, set(patch.dropped))
    if patch.copied or patch.replayed:
        copied, names = set(iter_digests(patch.copied)), set(iter_digests(patch.replayed))
        given = _given(trajectory, names)
        leave_out(
            trajectory,
            lambda m: id(m) in given or digest_of(m) in copied or _is_replay(m, names),
        )
    for call in iter_calls(trajectory) if patch.spawned else ():
        call.child_id = patch.spawned.get(call.id, call.child_id)


def _given(trajectory: Trajectory, names: set[bytes]) -> set[int]:
    """What a sub-agent was told of its session: all up to the last answer of it. A fork's prompts
    keep their ids, and it may open with lines of its own."""
    if trajectory.parent is None or trajectory.parent.kind != "subagent":
        return set()
    given: set[int] = set()
    met: list[int] = []
    for message in trajectory.messages:
        met.append(id(message))
        if _is_replay(message, names):
            given.update(met)
            met.clear()
    return given


def _is_replay(message: Message, names: set[bytes]) -> bool:
    """Programs that count their answers give many the same id: only a long one tells."""
    if message.role != "assistant" or len(message.id or "") < LEAST_ID_CHARS:
        return False
    return digest(message.id or "") in names


def _give_up(trajectory: Trajectory, claimed: list[str]) -> None:
    """Without the messages that another conversation holds."""
    gone = set(claimed)
    drop_messages(trajectory, lambda message: message.request_id in gone)
    times = [m.timestamp for m in trajectory.messages if m.timestamp]
    if times and not any(m.role == "assistant" for m in trajectory.messages):
        trajectory.started_at, trajectory.ended_at = min(times), max(times)
