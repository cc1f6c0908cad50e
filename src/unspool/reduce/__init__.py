"""Reduce: the facts of one conversation become its trajectory. Knows no format.

clocks.py     times of logs that do not tell their zone
records.py    the facts of one record
order.py      records of all origins in one order
witness.py    origins without times, by what another tells
turns.py      logs without times
thread.py     the chain, the abandoned branches
forks.py      copies of a log that go on differently
drafts.py     facts by the message and the call that they are about
rewound.py    echoes of what was abandoned
messages.py   messages, calls, results, marks
listing.py    a message list, the calls that saw it, their answers
listtext.py   a list's text, decoded between the ends that calls saw
broken.py     lists that are cut off or not clean
lists.py      message lists that calls logged, decoded once each
references.py lists that name their messages, whose bodies came apart
gaps.py       lost messages of such lists, from lists that begin alike
sides.py      which calls are a sub-agent's
candidates.py lists with their answers joined, that compete
snapshots.py  the winner of each segment
leftovers.py  what was said where no list was logged
numbering.py  turns of a conversation whose beginning is lost
models.py     which call made which message
notes.py      what knows best wins
naming.py     titles of other conversations
echoes.py     the same message seen by several channels
matching.py   the same call seen by several channels
anchors.py    where a channel stands among the others
runs.py       run segments: their usage, the calls that they cut off
totals.py     turns, segments, usage, models
width.py      long conversations are narrow throughout
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Literal

from unspool.facts import (
    ECHO,
    MESSAGE_BEARING,
    AnyFact,
    Key,
    ListSeen,
    MessageSeen,
    Noted,
    PieceSeen,
    SnapshotSeen,
    ToolCalled,
)
from unspool.io.times import format_time
from unspool.reduce import snapshots
from unspool.reduce.clocks import is_zoneless, set_clocks
from unspool.reduce.drafts import Assembly
from unspool.reduce.messages import build_marks, build_messages, count_preserved
from unspool.reduce.naming import find_naming
from unspool.reduce.notes import apply_to_messages, apply_to_trajectory
from unspool.reduce.order import Ordered, Record, put_in_order
from unspool.reduce.reduction import Reduction
from unspool.reduce.rewound import settle_echoes, still_told, thing_times
from unspool.reduce.runs import Runs, assign_usage
from unspool.reduce.thread import Thread, find_thread
from unspool.reduce.totals import complete, is_turn, mark_injected
from unspool.reduce.width import is_narrow, narrowed
from unspool.trajectory import Branch, Link, Trajectory


def reduce_facts(
    key: Key,
    facts: Iterable[AnyFact],
    current: Literal["last", "longest"] = "last",
    merge_tool_metadata: bool = True,
) -> Reduction:
    """Fold the facts of one conversation. The order in which they come does not matter."""
    lists, rest = _set_apart(facts)
    long = is_narrow(lists) or is_narrow(rest)
    if long:
        rest = list(map(narrowed, rest))
    ordered = put_in_order(set_clocks(rest) if any(map(is_zoneless, rest)) else rest)
    main, sides = _split_sides(ordered)
    if lists:
        found = snapshots.reduce_lists(key, lists, ordered, merge_tool_metadata, long)
        own = any(made.messages for made in found.trajectories if made.parent is None)
        if not own and _has_words(main):
            # All lists are sub-agents', or cannot be read: what other events tell is all there is.
            whole = _reduce_records(key, main, current, _session_notes(ordered.records))
            found.trajectories = [whole, *(t for t in found.trajectories if t.parent is not None)]
        return found
    whole = _reduce_records(key, main, current, _session_notes(ordered.records))
    made = [whole]
    for root, records in sides:
        ident = (key[0], f"{key[1]}/{root}")
        side = _reduce_records(ident, records, current, _side_notes(records))
        side.parent = Link(conversation_id=key[1], tool_call_id=_only_call(root, ordered.records))
        for name in ("agent", "agent_version", "session_id", "workspace"):
            setattr(side, name, getattr(whole, name))
        made.append(side)
    kept = [t for t in made if t.messages or t is made[0]]
    return Reduction(kept, ordered.superseded, naming=find_naming(main))


def _set_apart(
    facts: Iterable[AnyFact],
) -> tuple[list[SnapshotSeen | ListSeen | PieceSeen], list[AnyFact]]:
    """The message lists, and all else."""
    lists: list[SnapshotSeen | ListSeen | PieceSeen] = []
    rest: list[AnyFact] = []
    for fact in facts:
        if isinstance(fact, SnapshotSeen | ListSeen | PieceSeen):
            lists.append(fact)
        else:
            rest.append(fact)
    return lists, rest


def _has_words(records: list[Record]) -> bool:
    return any(isinstance(fact, MessageSeen) for record in records for fact in record.facts)


def _session_notes(records: list[Record]) -> list[Noted]:
    """Notes on the conversation, also those on records that were abandoned since: a source says
    once what holds for many records. Those on a record hold for the conversation that has it."""
    entries = {record.entry for record in records}
    return [
        fact
        for record in records
        for fact in record.facts
        if isinstance(fact, Noted)
        and (
            fact.on == "conversation"
            or (fact.on == "entry" and fact.subject in entries and not record.side)
        )
    ]


def _side_notes(records: list[Record]) -> list[Noted]:
    """What the records of a side thread say of themselves."""
    notes = [fact for record in records for fact in record.facts if isinstance(fact, Noted)]
    return [note for note in notes if note.on == "entry"]


def _split_sides(ordered: Ordered) -> tuple[list[Record], list[tuple[str, list[Record]]]]:
    """Trees that stand on a side thread, each to be a trajectory of its own."""
    if not any(record.side for record in ordered.records):
        return ordered.records, []
    by_entry = {record.entry: record for record in ordered.records}
    side_root: dict[str, str] = {}
    main: list[Record] = []
    sides: dict[str, list[Record]] = {}
    for record in ordered.records:
        if not record.side:
            main.append(record)
            continue
        path = [record.entry]
        while path[-1] not in side_root:
            parent = by_entry[path[-1]].after
            if not parent or parent in path or parent not in by_entry:
                break
            if not by_entry[parent].side:
                break
            path.append(parent)
        root = side_root.get(path[-1], path[-1])
        for entry in path:
            side_root[entry] = root
        sides.setdefault(root, []).append(record)
    return main, list(sides.items())


def _only_call(root: str, records: list[Record]) -> str | None:
    """The call that a side thread hangs on, where its root follows a record with just one."""
    by_entry = {record.entry: record for record in records}
    above = by_entry.get(by_entry[root].after or "")
    calls = [f.id for f in above.facts if isinstance(f, ToolCalled)] if above is not None else []
    return calls[0] or None if len(calls) == 1 else None


def _reduce_records(
    key: Key, records: list[Record], current: Literal["last", "longest"], notes: list[Noted]
) -> Trajectory:
    thread = settle_echoes(find_thread(records, current))
    assembly = Assembly()
    assembly.take(thread.records)
    own = [n for n in assembly.notes if n.on not in ("conversation", "entry")]
    assembly.notes = own + still_told(notes, thread)
    messages, places = build_messages(assembly.in_order())
    mark_injected(messages)
    trajectory = Trajectory(conversation_id=key[1], messages=messages, source=key[0])
    usage = assign_usage(assembly, messages)
    trajectory.marks = build_marks(assembly.marks, places, messages, assembly.adrift) or None
    count_preserved(trajectory.marks, [record.entry for record in thread.records], places)
    trajectory.branches = _branches(thread, places) or None
    _set_origins(trajectory, records)
    assembly.times += thing_times(thread)
    times = assembly.times or assembly.echo_times
    if messages and _only_echoes(records):
        trajectory.partial = ["only-echoes"]
        times = assembly.times + assembly.echo_times
    if times:
        trajectory.started_at = format_time(min(times))
        trajectory.ended_at = format_time(max(times))
    runs = Runs(messages, places, usage, assembly.marks, assembly.following)
    complete(trajectory, assembly.standing_notes(), runs)
    if not messages:
        trajectory.partial = [*(trajectory.partial or ()), "no-messages"]
    return trajectory


def _only_echoes(records: list[Record]) -> bool:
    """Whether the thing itself was seen nowhere, only what other channels repeated of it."""
    return all(
        fact.rank >= ECHO
        for record in records
        for fact in record.facts
        if isinstance(fact, MessageSeen | ToolCalled)
    )


def _branches(thread: Thread, places: list[float]) -> list[Branch]:
    """The abandoned branches, each with the number of messages kept up to its fork."""
    order = {record.entry: place for place, record in enumerate(thread.records)}
    made: list[Branch] = []
    for fork, records in thread.branches:
        assembly = Assembly()
        assembly.take(records)
        messages, own = build_messages(assembly.in_order())
        assign_usage(assembly, messages)
        marks = build_marks(assembly.marks, own, messages, assembly.adrift)
        apply_to_messages(assembly.notes, messages)
        made.append(
            Branch(
                index=bisect_right(places, order.get(fork, -1)),
                messages=messages,
                fork_id=fork or None,
                reason="rewind" if any(is_turn(message) for message in messages) else "retry",
                # What was done to files is told by the calls.
                marks=[mark for mark in marks if mark.kind != "file"] or None,
            )
        )
    return made


def _set_origins(trajectory: Trajectory, records: list[Record]) -> None:
    bearing = (r for r in records if any(isinstance(f, MESSAGE_BEARING) for f in r.facts))
    first = next(bearing, records[0] if records else None)
    if first is None:
        return
    trajectory.file_path = first.origin
    others = sorted({record.origin for record in records} - {first.origin})
    trajectory.origins = others or None


__all__ = ["Reduction", "apply_to_trajectory", "reduce_facts"]
