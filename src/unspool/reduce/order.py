"""Order: the records of all origins of a conversation in one order.

Each origin keeps its own order and is spliced in at the records that it shares with others; origins
that share none are woven by time, or, where they have no times, by what in them begins and ends a
turn. Every "first" and "last" in the reducer means this order.

    a.jsonl   {"uuid": "1"} {"uuid": "2"}                  one order: 1 2 3
    b.jsonl                 {"uuid": "2"} {"uuid": "3"}    (cases/claude_code/fork_copies)
"""

from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, get_args

from unspool.facts import AnyFact, Marked, MessageSeen, ToolCalled, ToolReturned
from unspool.reduce.records import NOT_TYPED, Record


class Ordered(NamedTuple):
    """Records in their one order, and how many copies of them were dropped."""

    records: list[Record]
    superseded: int


def put_in_order(facts: list[AnyFact]) -> Ordered:
    sequences = _sequences(facts)
    best: dict[str, Record] = {}
    editions: dict[str, int] = {}
    superseded = 0
    for sequence in sequences.values():
        for record in sequence:
            earlier = best.setdefault(record.entry, record)
            if earlier is record:
                continue
            if not editions:
                editions = {
                    name: max(one.edition for one in records) for name, records in sequences.items()
                }
            superseded += 1
            editions_of = (editions[record.origin], editions[earlier.origin])
            better = (record.worth, editions_of[0]) > (earlier.worth, editions_of[1])
            kept, gone = (record, earlier) if better else (earlier, record)
            kept.others = (*earlier.others, *record.others, gone.origin)
            # What the newer store says of it; of equally old ones, both must.
            newest = zip((record, earlier), editions_of, strict=True)
            kept.withdrawn = all(r.withdrawn for r, e in newest if e == max(editions_of))
            best[record.entry] = kept
    if len(sequences) == 1:
        return Ordered(list(best.values()), superseded)
    merged = _merge([[best[record.entry] for record in own] for own in sequences.values()])
    return Ordered(merged, superseded)


_origin_of = attrgetter("origin")
_KINDS = {kind: number for number, kind in enumerate(get_args(AnyFact))}


def _sequences(facts: list[AnyFact]) -> dict[str, list[Record]]:
    """The records of every origin, in its order."""
    if len(set(map(_origin_of, facts))) == 1:
        return {facts[0].origin: _records(facts[0].origin, facts)}
    origins: dict[str, list[AnyFact]] = {}
    origin = ""
    own: list[AnyFact] = []
    for fact in facts:
        if fact.origin is not origin:
            origin = fact.origin
            own = origins.setdefault(origin, [])
        own.append(fact)
    return {origin: _records(origin, origins[origin]) for origin in sorted(origins)}


def _records(origin: str, facts: list[AnyFact], is_sorted: bool = False) -> list[Record]:
    """The records of one origin. Its facts mostly come as it was read, one by one; else they are sorted
    first, and each is taken once."""
    records: list[Record] = []
    offset, number = -_LAST, -1
    here: dict[str, Record] = {}
    """The records at the offset, by their ids: mostly one."""
    for fact in facts:
        entry, at = fact.entry, fact.offset
        if at > offset:
            offset, here, record = at, {}, None
        elif at == offset and (fact.number > number or is_sorted):
            record = here.get(entry)
        else:
            unique = {(f.offset, f.number, _KINDS[type(f)]): f for f in reversed(facts)}
            return _records(origin, [unique[place] for place in sorted(unique)], is_sorted=True)
        number = fact.number
        if record is None:
            record = here[entry] = Record(entry or f"{origin}:{offset}", origin, offset)
            records.append(record)
        record.add(fact)
    return records


def _merge(sequences: list[list[Record]]) -> list[Record]:
    """One order out of the orders of the origins."""
    order: list[Record] = []
    untimed: list[list[Record]] = []
    for block in sorted(_blocks(sequences), key=_sort_key):
        if _clock(block):
            order = weave(order, block)
        else:
            untimed.append(block)
    if any(record.after is not None for own in sequences for record in own):
        return [*order, *(record for block in untimed for record in block)]
    return _weave_turns(order, untimed) if untimed else order


def _blocks(sequences: list[list[Record]]) -> list[list[Record]]:
    """The orders of origins that share records, or of which one goes on from a record that only the
    other holds, as one each."""
    waiting = [
        (own, {record.entry for record in own}, {record.after for record in own if record.after})
        for own in sorted(sequences, key=_sort_key)
    ]
    blocks: list[list[Record]] = []
    while waiting:
        own, entries, follows = waiting.pop(0)
        block = list(dict.fromkeys(own))
        while True:
            sharing = (at for at, one in enumerate(waiting) if not entries.isdisjoint(one[1]))
            tails = (at for at, one in enumerate(waiting) if not entries.isdisjoint(one[2]))
            heads = (at for at, one in enumerate(waiting) if not follows.isdisjoint(one[1]))
            linked = next(chain(sharing, tails, heads), None)
            if linked is None:
                break
            own, more_entries, more_follows = waiting.pop(linked)
            block = _splice(block, own)
            entries |= more_entries
            follows |= more_follows
        blocks.append(block)
    return blocks


def weave(base: list[Record], other: list[Record]) -> list[Record]:
    """Two orders as one: each is kept, and between them the latest time seen so far decides; where one
    has no times, the first comes first."""
    first, second = _clock(base), _clock(other)
    if not first or not second:
        return [*base, *other]
    result: list[Record] = []
    at = 0
    for record, time in zip(base, first, strict=True):
        while at < len(other) and second[at] < time:
            result.append(other[at])
            at += 1
        result.append(record)
    return result + other[at:]


def _clock(records: list[Record]) -> list[int]:
    """The latest time up to each record; empty where none has a time at all."""
    now = _first_time(records)
    if now is None:
        return []
    clock: list[int] = []
    for record in records:
        if record.time is not None and record.time > now:
            now = record.time
        clock.append(now)
    return clock


def _first_time(records: list[Record]) -> int | None:
    return next((record.time for record in records if record.time is not None), None)


def _sort_key(records: list[Record]) -> tuple[int, str, int]:
    first = _first_time(records)
    return (_LAST if first is None else first, records[0].origin, records[0].offset)


def _goes_on(records: list[Record], others: list[Record]) -> bool:
    """Whether one of the records follows one of the others."""
    return not {record.entry for record in others}.isdisjoint([r.after for r in records])


def _splice(base: list[Record], other: list[Record]) -> list[Record]:
    """`other` woven into `base` at the records that they share."""
    shared = set(base).intersection(other)
    if not shared:
        onward, back = _goes_on(other, base), _goes_on(base, other)
        blocks = sorted((base, other), key=_sort_key)
        if onward != back:  # head and tail of one chain, whatever their times say
            blocks = [base, other] if onward else [other, base]
        return list(dict.fromkeys(blocks[0] + blocks[1]))
    front: list[Record] = []
    behind: dict[Record, list[Record]] = {}
    own, placed = front, set[Record]()
    for record in other:
        if record in shared:
            own = behind.setdefault(record, [])
        elif record not in placed:
            placed.add(record)
            own.append(record)
    result: list[Record] = []
    waiting = front
    """What goes before the next shared record, or before one that is later."""
    for record in base:
        is_shared = record in shared
        if is_shared or (waiting is not front and waiting and _is_later(record, waiting[0])):
            result += waiting
            waiting = []
        result.append(record)
        if is_shared:
            waiting = behind[record]
    return result + waiting


def _is_later(record: Record, other: Record) -> bool:
    """Whether the record is not known to be earlier: two origins may go on differently."""
    return record.time is None or other.time is None or record.time > other.time


_EVENTS = (MessageSeen, ToolCalled, ToolReturned, Marked)
Key = tuple[int, int]
_ASKED, _WITHIN, _ENDED = range(3)
_LAST = 1 << 62


def _weave_turns(timed: list[Record], untimed: list[list[Record]]) -> list[Record]:
    """The logs without times woven into the rest; what tells of no event goes behind all."""
    silent: list[Record] = []
    blocks = [timed]
    for block in untimed:
        if any(isinstance(fact, _EVENTS) for record in block for fact in record.facts):
            blocks.append(block)
        else:
            silent += block
    placed = [
        (key, number, at)
        for number, block in enumerate(blocks)
        for at, key in enumerate(_keys(block))
    ]
    return [*(blocks[number][at] for _, number, at in sorted(placed)), *silent]


def _keys(records: Iterable[Record]) -> list[Key]:
    """Where the records of one log stand, never before what the log has before them."""
    asked = ended = 0
    keys: list[Key] = []
    for record in records:
        kinds = {fact.kind for fact in record.facts if type(fact) is Marked}
        if any(
            isinstance(fact, MessageSeen) and fact.role == "user" and fact.kind not in NOT_TYPED
            for fact in record.facts
        ):
            asked += 1
            key = (asked, _ASKED)
        elif "turn_end" in kinds:
            ended = max(asked, ended + 1)
            key = (ended, _ENDED)
        elif "start" in kinds:
            key = (asked, _ENDED) if asked else (0, 0)
        elif "end" in kinds:
            key = (_LAST, 0)
        else:
            key = (max(asked, ended + 1, 1), _WITHIN)
        keys.append(max(key, keys[-1]) if keys else key)
    return keys
