"""States: what an agent is doing now, as its events and its conversation tell.

working   it answers, or a tool runs
waiting   it waits for you: a permission, an answer to a question
idle      its turn is over, or nothing was heard of it for a while
failed    its turn ended with an error
ended     the session is over
"""

import sqlite3
import time
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from unspool import sources
from unspool.facts import Key
from unspool.io.times import parse_time
from unspool.live.queue import Arrival
from unspool.sources.hook_events import Told
from unspool.store.events import stamp
from unspool.trajectory import Trajectory

SILENT_SECONDS = 600
"""Whoever worked or waited and was not heard of for so long is idle: sessions end without a word."""

RECENT_SECONDS = 86_400
HOOKS_KNOW_BETTER_US = 2_000_000
"""A transcript is written a moment after the hook has told of it."""

RUNNING = frozenset(("working", "waiting"))
ENDS = frozenset(("waiting", "idle", "failed", "ended"))
"""Somebody may be waiting to see what came of it: such conversations go first."""


class Doing(NamedTuple):
    """What one conversation is doing."""

    key: Key
    state: str
    tool: str | None
    since: str
    at: str


_decode = msgspec.json.Decoder(Told).decode


def _event(arrival: Arrival) -> str:
    return arrival.event_type.replace("_", "").replace("-", "").lower()


def ends_turn(arrival: Arrival) -> bool:
    hooks = sources.hooks_of(arrival.platform)
    return hooks is not None and hooks.states.get(_event(arrival)) in ENDS


def state_of(arrival: Arrival) -> tuple[str, str | None]:
    """(state, tool) after the event; an empty state where it tells nothing."""
    hooks, name = sources.hooks_of(arrival.platform), _event(arrival)
    if hooks is None:
        return "", None
    try:
        told = _decode(arrival.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = Told()
    tool = hooks.tool(told) if name == hooks.calls else None
    state = hooks.settle(name, told, hooks.states.get(name, ""))
    return state, tool if isinstance(tool, str) else None


def put_states(connection: sqlite3.Connection, arrivals: Iterable[Arrival]) -> None:
    for arrival in arrivals:
        state, tool = state_of(arrival)
        if state and arrival.session:
            at = stamp(arrival.received_ns)
            put_state(connection, (arrival.platform, arrival.session), state, tool, at)


def put_state(
    connection: sqlite3.Connection,
    key: Key,
    state: str,
    tool: str | None,
    at: str,
    hooked: bool = True,
) -> None:
    """What is newer holds, whatever comes first."""
    connection.execute(
        "INSERT INTO activity VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6) ON CONFLICT DO UPDATE SET"
        " since = CASE state WHEN ?3 THEN since ELSE ?5 END, state = ?3, tool = ?4, at = ?5,"
        " hooked = ?6 WHERE at <= ?5",
        (*key, state, tool, at, hooked),
    )


class Ending(NamedTuple):
    """What a conversation itself says of its agent."""

    key: Key
    state: str
    tool: str | None
    at: int


def ending_of(trajectory: Trajectory) -> Ending | None:
    """None where it is long ago."""
    ended = parse_time(trajectory.ended_at)
    if ended is None or ended / 1e6 < time.time() - RECENT_SECONDS:
        return None
    state, tool = state_in(trajectory)
    if state == "idle" and trajectory.parent is not None and trajectory.parent.kind == "subagent":
        state = "ended"  # it has answered, and nobody can ask it more
    return Ending((trajectory.source, trajectory.conversation_id), state, tool, ended)


def put_ending(connection: sqlite3.Connection, ending: Ending | None) -> None:
    """What the conversation itself says, where no hook has just said it."""
    if ending is None:
        return
    row = connection.execute(
        "SELECT at FROM activity WHERE platform = ? AND external_id = ? AND hooked", ending.key
    ).fetchone()
    told = parse_time(row[0]) if row else None
    if told is None or ending.at > told + HOOKS_KNOW_BETTER_US:
        at = stamp(ending.at * 1000)
        put_state(connection, ending.key, ending.state, ending.tool, at, hooked=False)


def state_in(trajectory: Trajectory) -> tuple[str, str | None]:
    """What the end of a conversation says: who has the word, and which call has no result yet."""
    messages = [message for message in trajectory.messages if message.role != "system"]
    if not messages:
        return "idle", None
    last = messages[-1]
    answered = {message.tool_call_id for message in messages[-50:] if message.role == "tool"}
    for message in reversed(messages[-50:]):
        open_calls = [call for call in message.tool_calls or () if call.id not in answered]
        if open_calls and message.role == "assistant":
            return "working", open_calls[-1].name
        if message.role == "assistant":
            break
    return ("working" if last.role in ("user", "tool") else "idle"), None


def doings(connection: sqlite3.Connection) -> list[Doing]:
    """What everybody does who was heard of lately, the last one first."""
    silent = stamp(time.time_ns() - SILENT_SECONDS * 1_000_000_000)
    oldest = stamp(time.time_ns() - RECENT_SECONDS * 1_000_000_000)
    rows = connection.execute(
        "SELECT platform, external_id, state, tool, since, at FROM activity WHERE at >= ?"
        " ORDER BY at DESC",
        (oldest,),
    )
    found: list[Doing] = []
    for platform, ident, state, tool, since, at in rows:
        if state in ("working", "waiting") and at < silent:
            state, tool, since = "idle", None, at
        found.append(Doing((platform, ident), state, tool, since, at))
    return found
