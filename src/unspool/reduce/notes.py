"""Notes: what knows best wins, field by field: the lowest rank, then the last in order.

    title "Fix the cart" of rank 0          the name that the person gave: it stays
    title "fix the cart pl…" of rank 8      drawn from the first prompt

(cases/claude_code/seed_rename). The names of notes, and where they land, are a table in facts.py.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from unspool.facts import (
    CALL_NOTES,
    CALLER_NOTES,
    GROUPS,
    LIST_NOTES,
    TEXT_NOTES,
    TURN_NOTES,
    VALUE_NOTES,
    Noted,
    Rank,
)
from unspool.io.digests import digest
from unspool.reduce.records import Record
from unspool.trajectory import Link, Message, Trajectory, Workspace

_MESSAGE_FIELDS = {field for field in Message.__struct_fields__ if field != "extra"}
GUESS = Rank.GUESS
_CONTEXT = GROUPS[0]
_OPENED = ("request", "turn")


def settle(notes: Iterable[Noted]) -> dict[tuple[str, str, str], Noted]:
    """(on, subject, name) → the note that knows best."""
    best: dict[tuple[str, str, str], Noted] = {}
    for note in notes:
        if note.value is None:
            continue
        key = (note.on, note.subject, note.name)
        earlier = best.get(key)
        if earlier is None or note.rank < earlier.rank or note.rank == earlier.rank < GUESS:
            best[key] = note
    return best


def apply_to_messages(notes: list[Noted], messages: list[Message]) -> None:
    """Notes on messages (by id, request or turn) and on calls, where the field is still empty.

    A negative rank replaces what the message itself says.
    """
    on_calls: dict[str | None, list[Noted]] = defaultdict(list)
    on_messages: dict[tuple[str, str | None], list[Noted]] = defaultdict(list)
    opening: dict[tuple[str, str | None], list[Noted]] = defaultdict(list)
    """Those on the words that opened a request or turn."""
    own = [note for note in notes if note.on != "conversation" and note.on != "entry"]
    for (on, subject, name), note in settle(own).items():
        if on == "call":
            on_calls[subject].append(note)
        else:
            opens = name in TURN_NOTES or (name == "timestamp" and on in _OPENED)
            (opening if opens else on_messages)[(on, subject)].append(note)
    if not on_calls and not on_messages and not opening:
        return
    only_opening = not on_calls and not on_messages
    for message in messages:
        asked = message.role == "user" and message.kind is None
        if only_opening and not asked:
            continue
        notes_here: list[Noted] = []
        if on_messages or (asked and opening):
            for place in (
                ("message", message.id),
                ("request", message.request_id),
                ("turn", None if message.turn is None else str(message.turn)),
            ):
                notes_here += on_messages.get(place, ())
                if asked:
                    notes_here += opening.get(place, ())
        for note in sorted(notes_here, key=_by_rank) if len(notes_here) > 1 else notes_here:
            if note.name in _MESSAGE_FIELDS:
                if getattr(message, note.name) in (None, "", False) or note.rank < 0:
                    setattr(message, note.name, note.value)
            elif note.on != "turn" or message.role == "user":
                message.extra = {note.name: note.value, **(message.extra or {})}
        if message.timestamp is None and message.tool_call_id is not None:
            for note in on_calls.get(message.tool_call_id, ()):
                if note.name == "ended_at":
                    message.timestamp = note.value  # a result is there when its call has ended
        for call in message.tool_calls or ():
            for note in on_calls.get(call.id, ()):
                if note.name in CALLER_NOTES:
                    setattr(message, note.name, getattr(message, note.name) or note.value)
                elif note.name not in CALL_NOTES:
                    call.extra = {note.name: note.value, **(call.extra or {})}
                elif getattr(call, note.name) is None or note.rank < 0:
                    setattr(call, note.name, note.value)


def follow(
    notes: Sequence[tuple[float, Noted]], messages: list[Message], places: Sequence[float]
) -> None:
    """What holds from a record on: the model of answers, the mode of what the person said."""
    if not notes:
        return
    for name, role in (("model", "assistant"), ("mode", "user")):
        ordered = sorted(((p, n) for p, n in notes if n.name == name), key=lambda item: item[0])
        at = [place for place, _ in ordered]
        for message, place in zip(messages, places, strict=True) if at else ():
            if message.role != role or getattr(message, name) or message.kind == "injected":
                continue
            number = bisect_left(at, place)
            if number and ordered[number - 1][1].value:
                setattr(message, name, ordered[number - 1][1].value)


_by_rank = attrgetter("rank")


def apply_to_trajectory(notes: list[Noted], trajectory: Trajectory) -> None:
    own = [
        note
        if note.on == "conversation"
        else msgspec.structs.replace(note, on="conversation", subject="")
        for note in notes
        if note.on in ("conversation", "entry")
    ]
    for note in sorted(own, key=_by_rank):
        if note.name in LIST_NOTES and note.value is not None:
            _append(trajectory, note)
    # Context, property by property: all that was told, each thing once, in order. What is told
    # once, or always the same, stays as it is; what differs becomes a list.
    context: dict[str, dict[str, Any]] = {}
    for note in own:
        if note.name.startswith(_CONTEXT) and note.value is not None:
            values = context.setdefault(note.name.removeprefix(_CONTEXT), {})
            values.setdefault(repr(note.value), note.value)
    for name, values in context.items():
        told = list(values.values())
        if len(told) > 1:
            items = (item for v in told for item in (v if isinstance(v, list) else [v]))
            told = [list({repr(item): item for item in items}.values())]
        trajectory.context[name] = told[0]
    for (_, _, name), note in settle(own).items():
        if name.startswith(_CONTEXT):
            continue
        is_set = (name in TEXT_NOTES or name in VALUE_NOTES) and getattr(
            trajectory, name
        ) is not None
        if name not in LIST_NOTES and not (is_set and note.rank > 0):
            _set(trajectory, name, note.value)


def _append(trajectory: Trajectory, note: Noted) -> None:
    value = msgspec.convert(note.value, Link) if note.name == "children" else note.value
    values: list[Any] = getattr(trajectory, note.name) or []
    if not isinstance(value, dict):
        if value not in values:
            setattr(trajectory, note.name, [*values, value])
        return
    number = value.get("number")
    same = next(
        (item for item in values if number is not None and item.get("number") == number), None
    )
    if same is not None:  # told of twice: what knows best comes first
        same.update({name: part for name, part in value.items() if name not in same})
    elif value not in values:
        values = [*values, dict(value)]
        if number is not None:
            values.sort(key=lambda item: item.get("number") or 0)
        setattr(trajectory, note.name, values)


def describe(trajectory: Trajectory, notes: Sequence[Any]) -> None:
    """What the call that a conversation ends with says of it, before all notes."""
    for name, value in zip(notes[::2], notes[1::2], strict=True):
        if value is not None:
            _set(trajectory, name, value)


def _set(trajectory: Trajectory, name: str, value: Any) -> None:
    group, dot, rest = name.partition(".")
    if name == "parent":
        trajectory.parent = msgspec.convert(value, Link)
    elif name in VALUE_NOTES or (name in TEXT_NOTES and isinstance(value, str)):
        setattr(trajectory, name, value)
    elif group == "workspace" and dot and isinstance(value, str):
        if trajectory.workspace is None:
            trajectory.workspace = Workspace()
        setattr(trajectory.workspace, rest, value)
    elif group == "extra" and dot:
        trajectory.extra = {**(trajectory.extra or {}), rest: value}
    else:
        trajectory.metadata[name] = value


WORST = 1 << 62


class Naming(msgspec.Struct):
    """What a conversation offers others as their title, and what it needs to be offered one."""

    offered: dict[bytes, tuple[int, str]] = {}
    """Digest of a record that is not its own → how well the title knows, and the title."""
    entries: bytes = b""
    """Digests of its own records that bear an id, one after the other."""
    rank: int = WORST
    """How well its own title knows."""


def find_naming(records: list[Record]) -> Naming:
    naming = Naming()
    own = {record.entry for record in records}
    for record in records:
        for fact in record.facts if record.noted else ():
            if type(fact) is Noted and fact.name == "title" and isinstance(fact.value, str):
                if fact.on == "conversation" or (fact.on == "entry" and fact.subject in own):
                    naming.rank = min(naming.rank, fact.rank)
                elif fact.on == "entry":
                    naming.offered[digest(fact.subject)] = (fact.rank, fact.value)
    naming.entries = b"".join([digest(r.entry) for r in records if r.after is not None])
    return naming
