"""Order: the records of all origins of a conversation in one order.

Each origin keeps its own order and is spliced in at the records that it shares with others; origins
that share none are woven by time, and where they have none go as another tells what they tell, or by
name. Every "first" and "last" in
the reducer means this order.
"""

from collections.abc import Iterable
from typing import get_args

from unspool.facts import AnyFact
from unspool.reduce.records import Record
from unspool.reduce.turns import weave_turns
from unspool.reduce.witness import by_witness

__all__ = ["Ordered", "Record", "merge", "put_in_order"]


class Ordered:
    """Records in their one order, and how many copies of them were dropped."""

    def __init__(self, records: list[Record], superseded: int) -> None:
        self.records = records
        self.superseded = superseded


def put_in_order(facts: Iterable[AnyFact]) -> Ordered:
    sequences = _sequences(facts)
    best: dict[str, Record] = {}
    superseded = 0
    editions = {name: max(r.edition for r in records) for name, records in sequences.items()}
    for sequence in sequences.values():
        for record in sequence:
            known = best.get(record.entry)
            if known is None:
                best[record.entry] = record
                continue
            superseded += 1
            editions_of = (editions[record.origin], editions[known.origin])
            better = (record.worth, editions_of[0]) > (known.worth, editions_of[1])
            kept, gone = (record, known) if better else (known, record)
            kept.others = (*known.others, *record.others, gone.origin)
            kept.withdrawn = _is_withdrawn(record, known, *editions_of)
            best[record.entry] = kept
    order = merge({name: [r.entry for r in records] for name, records in sequences.items()}, best)
    return Ordered([best[entry] for entry in order], superseded)


def _is_withdrawn(first: Record, second: Record, edition: int, other: int) -> bool:
    """What the later edition says of it; of equal ones, both must."""
    if edition == other:
        return first.withdrawn and second.withdrawn
    return first.withdrawn if edition > other else second.withdrawn


_KINDS = {kind: number for number, kind in enumerate(get_args(AnyFact))}


def _identity(fact: AnyFact) -> tuple[str, int, int, int]:
    return (fact.origin, fact.offset, fact.number, _KINDS[type(fact)])


def _sequences(facts: Iterable[AnyFact]) -> dict[str, list[Record]]:
    """The records of every origin, in its order. Facts may come in any order, and twice."""
    found: dict[tuple[str, int, str], Record] = {}
    last: tuple[str, int, int, int] | None = None
    record: Record | None = None
    for fact in sorted(facts, key=_identity):
        identity = _identity(fact)
        if identity == last:
            continue  # the origin was read twice
        last = identity
        origin, offset, _, _ = identity
        entry = fact.entry or f"{origin}:{offset}"
        if (
            record is None
            or record.offset != offset
            or record.entry != entry
            or record.origin != origin
        ):
            place = (origin, offset, entry)
            record = found.get(place)
            if record is None:
                record = found[place] = Record(entry, origin, offset)
        record.add(fact)
    sequences: dict[str, list[Record]] = {}
    for (origin, _, _), record in found.items():
        sequences.setdefault(origin, []).append(record)
    return sequences


def merge(sequences: dict[str, list[str]], records: dict[str, Record]) -> list[str]:
    """One order of entries out of the orders of the origins."""
    if not sequences:
        return []
    if len(sequences) == 1:
        return list(dict.fromkeys(next(iter(sequences.values()))))
    blocks = [_merge_linked(group, records) for group in _linked(sequences, records)]
    blocks.sort(key=lambda block: _sort_key(block, records))
    timed = [block for block in blocks if _clock(block, records)]
    untimed = [block for block in blocks if not _clock(block, records)]
    result = timed[0] if timed else []
    for block in timed[1:]:
        result = _weave(result, block, records)
    if not untimed or any(record.after is not None for record in records.values()):
        behind = by_witness(untimed, blocks, records)
        return [*result, *(entry for block in behind for entry in block)]
    return weave_turns(result, untimed, records)


def weave_records(base: list[Record], other: list[Record]) -> list[Record]:
    """Two orders as one, by time; where one has none, the first comes first."""
    records = {record.entry: record for record in (*base, *other)}
    first, second = [record.entry for record in base], [record.entry for record in other]
    if not _clock(first, records) or not _clock(second, records):
        return [*base, *other]
    return [records[entry] for entry in _weave(first, second, records)]


def _weave(base: list[str], other: list[str], records: dict[str, Record]) -> list[str]:
    """Two orders as one: each is kept, and between them the latest time seen so far decides."""
    first, second = _clock(base, records), _clock(other, records)
    if second[0] >= first[-1]:
        return base + other
    result: list[str] = []
    at = 0
    for entry, time in zip(base, first, strict=True):
        while at < len(other) and second[at] < time:
            result.append(other[at])
            at += 1
        result.append(entry)
    return result + other[at:]


def _clock(entries: list[str], records: dict[str, Record]) -> list[int]:
    """The latest time up to each entry; empty where the entries have no time at all."""
    times = [records[entry].time for entry in entries]
    now = next((time for time in times if time is not None), None)
    if now is None:
        return []
    clock: list[int] = []
    for time in times:
        now = max(now, time) if time is not None else now
        clock.append(now)
    return clock


def _sort_key(block: list[str], records: dict[str, Record]) -> tuple[int, str, int]:
    times = (records[entry].time for entry in block)
    first = next((time for time in times if time is not None), None)
    head = records[block[0]]
    return (first if first is not None else 1 << 62, head.origin, head.offset)


def _linked(sequences: dict[str, list[str]], records: dict[str, Record]) -> list[list[list[str]]]:
    """Groups of origins that share records, directly or through others."""
    leader: dict[str, str] = {name: name for name in sequences}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    owner: dict[str, str] = {}
    for name, entries in sequences.items():
        for entry in entries:
            other = owner.setdefault(entry, name)
            if other != name:
                leader[find(name)] = find(other)
    # A record may also follow one that only another origin holds: head and tail of one chain.
    for name, entries in sequences.items():
        for entry in entries:
            after = records[entry].after
            if after and after in owner:
                leader[find(name)] = find(owner[after])
    groups: dict[str, list[list[str]]] = {}
    for name in sorted(sequences):
        groups.setdefault(find(name), []).append(sequences[name])
    return list(groups.values())


def _merge_linked(group: list[list[str]], records: dict[str, Record]) -> list[str]:
    waiting = sorted(group, key=lambda entries: _sort_key(entries, records))
    result = list(dict.fromkeys(waiting.pop(0)))
    while waiting:
        known = set(result)
        touching = next((s for s in waiting if not known.isdisjoint(s)), None)
        if touching is None:
            tails = (s for s in waiting if _goes_on(s, known, records))
            heads = (s for s in waiting if _goes_on(result, set(s), records))
            touching = next(tails, None) or next(heads, waiting[0])
        waiting.remove(touching)
        result = _splice(result, touching, records)
    return result


def _goes_on(entries: list[str], known: set[str], records: dict[str, Record]) -> bool:
    """Whether one of the entries follows a known one."""
    return any(records[entry].after in known for entry in entries)


def _splice(base: list[str], other: list[str], records: dict[str, Record]) -> list[str]:
    """`other` woven into `base` at the entries that they share."""
    known = set(base)
    if known.isdisjoint(other):
        onward, back = _goes_on(other, known, records), _goes_on(base, set(other), records)
        blocks = sorted((base, other), key=lambda block: _sort_key(block, records))
        if onward != back:  # head and tail of one chain, whatever their times say
            blocks = [base, other] if onward else [other, base]
        return list(dict.fromkeys(blocks[0] + blocks[1]))
    behind: dict[str, list[str]] = {}
    front: list[str] = []
    anchor: str | None = None
    placed: set[str] = set()
    for entry in other:
        if entry in known:
            anchor = entry
        elif entry not in placed:
            placed.add(entry)
            (front if anchor is None else behind.setdefault(anchor, [])).append(entry)
    shared = known.intersection(other)
    first = next(entry for entry in base if entry in shared)
    result: list[str] = []
    held: list[str] = []
    for entry in base:
        if entry == first:
            result.extend(front)
        if held and (entry in shared or not _earlier(entry, held[0], records)):
            result.extend(held)
            held = []
        result.append(entry)
        held = behind.get(entry, held)
    return result + held


def _earlier(entry: str, other: str, records: dict[str, Record]) -> bool:
    """Whether the entry is known not to be later: two origins may go on differently."""
    time, second = records[entry].time, records[other].time
    return time is not None and second is not None and time <= second
