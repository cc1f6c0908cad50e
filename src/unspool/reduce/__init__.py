"""Reduce: the facts of one conversation become its trajectory. Knows no format.

One chain, in this order:

records.py    the facts of one record, together
clocks.py     times of logs that do not tell their zone
order.py      records of all origins in one order
joining.py    message lists that begin alike are one text: what adds nothing is never decoded
              (begun by the driver as the lists come in, pipeline/collect.py)
lists.py      message lists that calls logged, decoded once each
references.py lists that name their messages, whose bodies came apart
candidates.py lists with their answers joined, that compete
models.py     which call made which message
strands.py    what the lists tell becomes records of the chain
thread.py     the chain, the abandoned branches
drafts.py     facts by the message and the call that they are about
echoes.py     the same message seen by several channels
matching.py   the same call seen by several channels
messages.py   messages, calls, results, marks
notes.py      what knows best wins, field by field
usage.py      tokens: of messages, requests, runs, the conversation
totals.py     turns, segments, files, references
"""

from bisect import bisect_right
from collections.abc import Iterable

import msgspec

from unspool.facts import (
    ECHO,
    NO_ZONE,
    ZONE,
    AnyFact,
    Key,
    ListSeen,
    MessageSeen,
    Noted,
    PieceSeen,
    Problem,
    SnapshotSeen,
    ToolCalled,
)
from unspool.io.times import format_time
from unspool.reduce.candidates import Beside, by_side
from unspool.reduce.clocks import set_clocks
from unspool.reduce.drafts import Assembly
from unspool.reduce.joining import Joiner
from unspool.reduce.lists import read_lists
from unspool.reduce.messages import (
    Provenance,
    Statement,
    build_marks,
    build_messages,
    count_preserved,
)
from unspool.reduce.notes import (
    Naming,
    apply_to_messages,
    apply_to_trajectory,
    describe,
    find_naming,
)
from unspool.reduce.order import Ordered, put_in_order, weave
from unspool.reduce.records import LIST, SPOKEN, Record
from unspool.reduce.references import read_references
from unspool.reduce.strands import Strand
from unspool.reduce.thread import (
    Thread,
    find_parents,
    find_thread,
    settle_echoes,
    still_told,
    thing_times,
    tree_tops,
)
from unspool.reduce.totals import complete, is_turn
from unspool.reduce.usage import Runs, assign_usage
from unspool.trajectory import Branch, Link, Trajectory


class Reduction(msgspec.Struct):
    """The trajectory of a conversation, those of its side threads, and what fell away."""

    trajectories: list[Trajectory]
    superseded: int = 0
    problems: list[Problem] = []
    """What only showed when message lists were decoded."""
    naming: Naming = msgspec.field(default_factory=Naming)
    """Titles that the conversation has for others, and what they know it by."""

    def conversations(self) -> list[tuple[Trajectory, Naming]]:
        """Those that hold something, be it only another one's title."""
        return [
            (made, naming)
            for number, made in enumerate(self.trajectories)
            for naming in [self.naming if number == 0 else Naming()]
            if made.messages or made.checkpoints or naming.offered
        ]


_LISTS: frozenset[type] = frozenset((SnapshotSeen, ListSeen, PieceSeen))


def reduce_facts(
    key: Key,
    facts: Iterable[AnyFact],
    merge_tools: bool = True,
    joiner: Joiner | None = None,
    provenance: Provenance | None = None,
) -> Reduction:
    """Fold the facts of one conversation. The order in which they come does not matter.

    `joiner`: message lists beside the facts, joined as they came in. `provenance` is told which
    facts each message is made from.
    """
    joiner = Joiner() if joiner is None else joiner
    references: list[ListSeen | PieceSeen] = []
    rest = list(facts)
    if not _LISTS.isdisjoint(map(type, rest)):
        told, rest = rest, []
        for fact in told:
            if type(fact) is SnapshotSeen:
                joiner.add(fact)
            elif type(fact) is ListSeen or type(fact) is PieceSeen:
                references.append(fact)
            else:
                rest.append(fact)
    snapshots = joiner.take()
    listed = bool(snapshots or references)
    ordered = put_in_order(set_clocks(rest))
    main, sides = _split_sides(ordered)
    made: list[Trajectory] = []
    reduction = Reduction(made, ordered.superseded, naming=find_naming(main))
    strands: dict[str, Strand] = {}
    """What the lists tell of the conversation itself (""), and of its sub-agents' runs."""
    if listed:
        beside = Beside(fact for record in ordered.records for fact in record.facts)
        lists = read_lists(key, snapshots, *read_references(references))
        reduction.problems = lists.problems
        for side, group in by_side(lists.lists, lists.answers, beside).items():
            strand_key = (key[0], f"{key[1]}/{side}") if side else key
            strand = Strand(strand_key, *group, beside.deciding["served"])
            strand.tell(Beside(()) if side else beside, merge_tools, provenance)
            strands[side] = strand
        records = sum(len(listing.calls) for listing in lists.lists) + len(lists.answers)
        used = sum(strand.used for strand in strands.values())
        reduction.superseded += max(records - used, 0)
    own = strands.pop("", None)
    spoken = any(record.spoken for record in main)
    if own is not None and not own.records and spoken:
        own = None  # all lists are sub-agents', or cannot be read: what other events tell is all
    whole = None
    if own is not None or spoken or not listed:
        whole = _reduce_records(key, main, _session_notes(ordered.records), own, provenance)
        made.append(whole)
    for _, strand in sorted(strands.items()):
        trajectory = _reduce_records(strand.key, [], [], strand, provenance)
        trajectory.parent = Link(conversation_id=key[1])
        made.append(trajectory)
    for root, records_of_side in sides:
        ident = (key[0], f"{key[1]}/{root}")
        facts_of_side = [fact for record in records_of_side for fact in record.facts]
        side_notes = [f for f in facts_of_side if type(f) is Noted and f.on == "entry"]
        trajectory = _reduce_records(ident, records_of_side, side_notes, None, provenance)
        if not trajectory.messages:
            continue
        call = _only_call(root, ordered.records)
        trajectory.parent = Link(conversation_id=key[1], tool_call_id=call)
        for name in ("agent", "agent_version", "session_id", "workspace") if whole else ():
            setattr(trajectory, name, getattr(whole, name))
        made.append(trajectory)
    return reduction


def _session_notes(records: list[Record]) -> list[Noted]:
    """Notes on the conversation, also those on records that were abandoned since: a source says
    once what holds for many records. Those on a record hold for the conversation that has it."""
    entries = {record.entry for record in records}
    return [
        fact
        for record in records
        if record.noted
        for fact in record.facts
        if type(fact) is Noted
        and (
            fact.on == "conversation"
            or (fact.on == "entry" and fact.subject in entries and not record.side)
        )
    ]


def _split_sides(ordered: Ordered) -> tuple[list[Record], list[tuple[str, list[Record]]]]:
    """Trees that stand on a side thread, each to be a trajectory of its own."""
    if not [record for record in ordered.records if record.side]:
        return ordered.records, []
    apart = {record.entry: record for record in ordered.records if record.side}
    sides: dict[str, list[Record]] = {}
    tops = tree_tops(find_parents(apart))
    for entry, record in apart.items():
        sides.setdefault(tops[entry], []).append(record)
    return [record for record in ordered.records if not record.side], list(sides.items())


def _only_call(root: str, records: list[Record]) -> str | None:
    """The call that a side thread hangs on, where its root follows a record with just one."""
    by_entry = {record.entry: record for record in records}
    above = by_entry.get(by_entry[root].after or "")
    calls = [f.id for f in above.facts if type(f) is ToolCalled] if above is not None else []
    return calls[0] or None if len(calls) == 1 else None


def _reduce_records(
    key: Key,
    records: list[Record],
    notes: list[Noted],
    strand: Strand | None,
    provenance: Provenance | None,
) -> Trajectory:
    thread = find_thread(records)
    if strand is not None:
        thread = _with_lists(thread, strand)
    thread = settle_echoes(thread)
    assembly = Assembly()
    assembly.take(thread.records)
    told = assembly.notes if strand is None or not strand.alone else strand.notes
    own = [note for note in told if note.on not in ("conversation", "entry")]
    assembly.notes = own + still_told(notes, thread)
    messages, places = build_messages(assembly.in_order(), assembly.listed, provenance)
    trajectory = Trajectory(conversation_id=key[1], messages=messages, source=key[0])
    usage = assign_usage(assembly, messages)
    trajectory.marks = build_marks(assembly.marks, places, messages, assembly.adrift) or None
    count_preserved(trajectory.marks, thread.records, places)
    trajectory.branches = _branches(thread, places, provenance) or None
    # The file with the first message-bearing record (or the last list), and all others.
    origins = {record.origin for record in records}
    if strand is not None:
        origins.update([view.origin for view in strand.all_views])
    if strand is not None and (strand.alone or not records):
        trajectory.file_path = strand.last_view.origin
    elif records:
        bearing = (r for r in records if any(isinstance(f, SPOKEN) for f in r.facts))
        trajectory.file_path = next(bearing, records[0]).origin
    trajectory.origins = sorted(origins - {trajectory.file_path or ""}) or None
    times = assembly.times + thing_times(thread)
    if strand is not None:
        times += strand.times
        trajectory.partial = strand.partial or None
        trajectory.tool_definitions = strand.tools()
        describe(trajectory, strand.last_view.notes)
    # A hook may run before the first record and behind the last one (cases/claude_code/hooks_envelope).
    # A log whose zone nothing tells may be hours off.
    zoneless = any(note.name == ZONE and note.value == NO_ZONE for note in notes)
    times = times if times and zoneless else times + assembly.echo_times
    if messages and strand is None and _only_echoes(records):
        trajectory.partial = ["only-echoes"]
    if times:
        trajectory.started_at = format_time(min(times))
        trajectory.ended_at = format_time(max(times))
    runs = Runs(messages, places, usage, assembly.marks, assembly.following)
    complete(trajectory, assembly.standing_notes(), runs)
    if not messages:
        trajectory.partial = [*(trajectory.partial or ()), "no-messages"]
    return trajectory


def _with_lists(thread: Thread, strand: Strand) -> Thread:
    """The thread with the records of the lists among its own: before what is later than they."""
    if strand.alone:
        # What was said beside the lists is told by them, or was left over and is told with them.
        for record in thread.records:
            if record.spoken:
                record.facts = [f for f in record.facts if not isinstance(f, MessageSeen)]
        return Thread([*strand.records, *thread.records], [*thread.branches, *strand.branches])
    woven = weave(strand.records, thread.records)
    return Thread(woven, [*thread.branches, *strand.branches])


def _only_echoes(records: list[Record]) -> bool:
    """Whether the thing itself was seen nowhere, only what other channels repeated of it."""
    return all(
        fact.rank >= ECHO for record in records for fact in record.facts if isinstance(fact, SPOKEN)
    )


def _branches(thread: Thread, places: list[float], provenance: Provenance | None) -> list[Branch]:
    """The abandoned branches, each with the number of messages kept up to its fork."""
    made: list[Branch] = []
    if not thread.branches:
        return made
    order = {record.entry: place for place, record in enumerate(thread.records)}
    for fork, records in thread.branches:
        assembly = Assembly()
        assembly.take(records)
        messages, own = build_messages(assembly.in_order(), assembly.listed, provenance)
        assign_usage(assembly, messages)
        marks = build_marks(assembly.marks, own, messages, assembly.adrift)
        apply_to_messages(assembly.notes, messages)
        made.append(
            Branch(
                index=bisect_right(places, order.get(fork, -1)),
                messages=messages,
                fork_id=fork if fork and not fork.startswith(LIST) else None,
                reason="rewind" if any(is_turn(message) for message in messages) else "retry",
                # What was done to files is told by the calls.
                marks=[mark for mark in marks if mark.kind != "file"] or None,
            )
        )
    return made


__all__ = ["Provenance", "Reduction", "Statement", "apply_to_trajectory", "reduce_facts"]
