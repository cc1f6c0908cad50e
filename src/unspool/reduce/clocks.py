"""Clocks: logs whose times have no zone are set right by what other origins saw too.

    [2026-05-04 12:00:01] {"tool_use_id": "c1", …}         a log of a script, no zone
    {"timestamp": "2026-05-04T10:00:01Z", … "id": "c1"}    the same call: the log is two hours ahead

(cases/claude_code/hooks_prefixed has such a log alone: its times stay as they are, and say so)

Such times were read as UTC. Where a log and an origin that knows the zone tell of the same call,
prompt or sub-agent, the difference, in whole quarters of an hour, is the zone; the logs of
one conversation were written on one machine, so what one of them shows holds for all. Where they
share nothing, the one zone holds that puts the log inside the conversation.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from unspool.facts import NO_ZONE, ZONE, AnyFact, Noted
from unspool.reduce.records import Evidence, evidence_of

QUARTER = 15 * 60 * 1_000_000
FARTHEST = 14 * 4
"""No zone is more than 14 hours from UTC."""
_SLACK = 2 * 60 * 1_000_000
"""A hook may run a little before the first record or behind the last one."""


def set_clocks(facts: list[AnyFact]) -> list[AnyFact]:
    """The facts, those of logs without a zone at their true times; else they keep their note."""
    local = {fact.origin for fact in facts if type(fact) is Noted and _is_zoneless(fact)}
    if not local:
        return facts
    votes = _votes(facts, local)
    shared = sum(votes.values(), Counter[int]())
    fitting = None if shared else _fitting(facts, local)
    zones = {
        origin: _winner(own) if (own := votes.get(origin) or shared) else fitting
        for origin in local
    }
    return [_shifted(fact, zones.get(fact.origin)) for fact in facts]


def _is_zoneless(note: Noted) -> bool:
    return note.name == ZONE and note.value == NO_ZONE


def _votes(facts: list[AnyFact], local: set[str]) -> dict[str, Counter[int]]:
    """Origin → by how many quarters of an hour its times are behind, and how often."""
    seen = _times(fact for fact in facts if fact.origin not in local)
    votes: dict[str, Counter[int]] = {}
    for origin in local:
        for evidence, time in _times(f for f in facts if f.origin == origin).items():
            if evidence in seen:
                quarters = round((seen[evidence] - time) / QUARTER)
                if abs(quarters) <= FARTHEST:
                    votes.setdefault(origin, Counter())[quarters] += 1
    return votes


def _winner(votes: Counter[int]) -> int:
    return min(votes, key=lambda quarters: (-votes[quarters], abs(quarters)))


def _times(facts: Iterable[AnyFact]) -> dict[Evidence, int]:
    """What is recognised elsewhere → when it was told of first; no words that were said twice."""
    times: dict[Evidence, int] = {}
    again: set[Evidence] = set()
    for fact in facts:
        for evidence in evidence_of([fact]) if fact.time is not None else ():
            if evidence in times and evidence[0] not in _NAMED:
                again.add(evidence)
            times[evidence] = min(fact.time or 0, times.get(evidence, 1 << 62))
    return {evidence: time for evidence, time in times.items() if evidence not in again}


_NAMED = ("call", "request", "agent")
"""What has an id of its own: told of twice, the first time counts."""


def _fitting(facts: list[AnyFact], local: set[str]) -> int | None:
    """The one zone that puts all times of the logs inside the time of the conversation."""
    inside = [f.time for f in facts if f.time is not None and f.origin not in local]
    logged = [f.time for f in facts if f.time is not None and f.origin in local]
    if not inside or not logged:
        return None
    first, last = min(inside) - _SLACK - min(logged), max(inside) + _SLACK - max(logged)
    fit = [q for q in range(-FARTHEST, FARTHEST + 1) if first <= q * QUARTER <= last]
    whole = [quarters for quarters in fit if quarters % 4 == 0]
    if len(fit) == 1 or len(whole) == 1:
        return (whole or fit)[0]
    return None


def _shifted(fact: AnyFact, quarters: int | None) -> AnyFact:
    if quarters is None:
        return fact
    if type(fact) is Noted and _is_zoneless(fact):
        sign, minutes = ("-" if quarters > 0 else "+"), abs(quarters) * 15
        zone = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
        fact = msgspec.structs.replace(fact, value=zone)
    if fact.time is None:
        return fact
    return msgspec.structs.replace(fact, time=fact.time + quarters * QUARTER)
