"""Order: the records of all origins of a conversation in one order.

Each origin keeps its own order and is spliced in at the records that it shares with others; origins
that share none are woven by time, or, where they have no times, by what in them begins and ends a
turn. Every "first" and "last" in the reducer means this order.

    a.jsonl   {"uuid": "1"} {"uuid": "2"}                  one order: 1 2 3
    b.jsonl                 {"uuid": "2"} {"uuid": "3"}    (cases/claude_code/fork_copies)
"""

from collections.abc import Iterable
from typing import NamedTuple, get_args

from unspool.facts import AnyFact, Marked, MessageSeen, ToolCalled, ToolReturned
from unspool.reduce.records import Record


class Ordered(NamedTuple):
    """Records in their one order, and how many copies of them were dropped."""

    records: list[Record]
    superseded: int


def put_in_order(facts: Iterable[AnyFact]) -> Ordered:
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
    order = merge({name: [r.entry for r in records] for name, records in sequences.items()}, best)
    return Ordered([best[entry] for entry in order], superseded)


_KINDS = {kind: number for number, kind in enumerate(get_args(AnyFact))}


def _sequences(facts: Iterable[AnyFact]) -> dict[str, list[Record]]:
    """The records of every origin, in its order."""
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
    offset, number, entry = -_LAST, -1, ""
    here: dict[str, Record] = {}
    """The records at the offset, by their ids: mostly one."""
    for fact in facts:
        if fact.offset > offset:
            offset, here, record = fact.offset, {}, None
        elif fact.offset == offset and (fact.number > number or is_sorted):
            record = here[entry] if fact.entry == entry else here.get(fact.entry)
        else:
            unique = {(f.offset, f.number, _KINDS[type(f)]): f for f in reversed(facts)}
            return _records(origin, [unique[place] for place in sorted(unique)], is_sorted=True)
        number, entry = fact.number, fact.entry
        if record is None:
            record = here[entry] = Record(entry or f"{origin}:{offset}", origin, offset)
            records.append(record)
        record.add(fact)
    return records


def merge(sequences: dict[str, list[str]], records: dict[str, Record]) -> list[str]:
    """One order of entries out of the orders of the origins."""
    if not sequences:
        return []
    blocks = [_merge_linked(group, records) for group in _linked(sequences, records)]
    blocks.sort(key=lambda block: _sort_key(block, records))
    timed = [block for block in blocks if _clock(block, records)]
    untimed = [block for block in blocks if not _clock(block, records)]
    result = timed[0] if timed else []
    for block in timed[1:]:
        result = _weave(result, block, records)
    if not untimed or any(record.after is not None for record in records.values()):
        return [*result, *(entry for block in untimed for entry in block)]
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
        placed = set(result)
        touching = next((s for s in waiting if not placed.isdisjoint(s)), None)
        if touching is None:
            tails = (s for s in waiting if _goes_on(s, placed, records))
            heads = (s for s in waiting if _goes_on(result, set(s), records))
            touching = next(tails, None) or next(heads, waiting[0])
        waiting.remove(touching)
        result = _splice(result, touching, records)
    return result


def _goes_on(entries: list[str], others: set[str], records: dict[str, Record]) -> bool:
    """Whether one of the entries follows a known one."""
    return any(records[entry].after in others for entry in entries)


def _splice(base: list[str], other: list[str], records: dict[str, Record]) -> list[str]:
    """`other` woven into `base` at the entries that they share."""
    in_base = set(base)
    if in_base.isdisjoint(other):
        onward, back = _goes_on(other, in_base, records), _goes_on(base, set(other), records)
        blocks = sorted((base, other), key=lambda block: _sort_key(block, records))
        if onward != back:  # head and tail of one chain, whatever their times say
            blocks = [base, other] if onward else [other, base]
        return list(dict.fromkeys(blocks[0] + blocks[1]))
    behind: dict[str, list[str]] = {}
    front: list[str] = []
    anchor: str | None = None
    placed: set[str] = set()
    for entry in other:
        if entry in in_base:
            anchor = entry
        elif entry not in placed:
            placed.add(entry)
            (front if anchor is None else behind.setdefault(anchor, [])).append(entry)
    shared = in_base.intersection(other)
    first = next(entry for entry in base if entry in shared)
    result: list[str] = []
    before_next: list[str] = []
    for entry in base:
        if entry == first:
            result.extend(front)
        if before_next and (entry in shared or not _earlier(entry, before_next[0], records)):
            result.extend(before_next)
            before_next = []
        result.append(entry)
        before_next = behind.get(entry, before_next)
    return result + before_next


def _earlier(entry: str, other: str, records: dict[str, Record]) -> bool:
    """Whether the entry is known not to be later: two origins may go on differently."""
    time, second = records[entry].time, records[other].time
    return time is not None and second is not None and time <= second


_EVENTS = (MessageSeen, ToolCalled, ToolReturned, Marked)
Key = tuple[int, int]
_ASKED, _WITHIN, _ENDED = range(3)
_LAST = 1 << 62


def weave_turns(
    result: list[str], untimed: list[list[str]], records: dict[str, Record]
) -> list[str]:
    """The logs without times woven into the rest; what tells of no event goes behind all."""
    telling = [block for block in untimed if _tells(block, records)]
    silent = [entry for block in untimed if not _tells(block, records) for entry in block]
    blocks = [block for block in (result, *telling) if block]
    if not telling or len(blocks) == 1:
        return [*(blocks[0] if blocks else ()), *silent]
    placed: list[tuple[Key, int, int, str]] = []
    for number, block in enumerate(blocks):
        keys = _keys([records[entry] for entry in block])
        placed += [(key, number, at, block[at]) for at, key in enumerate(keys)]
    return [*dict.fromkeys(entry for *_, entry in sorted(placed)), *silent]


def _tells(block: list[str], records: dict[str, Record]) -> bool:
    return any(isinstance(f, _EVENTS) for entry in block for f in records[entry].facts)


def _keys(records: Iterable[Record]) -> list[Key]:
    """Where the records of one log stand, never before what the log has before them."""
    asked = ended = 0
    keys: list[Key] = []
    for record in records:
        kinds = {fact.kind for fact in record.facts if type(fact) is Marked}
        if any(
            isinstance(fact, MessageSeen) and fact.role == "user" and fact.kind in ("", "command")
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
