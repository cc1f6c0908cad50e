"""Clocks: logs whose times have no zone are set right by what other origins saw too.

    [2026-05-04 12:00:01] {"tool_use_id": "c1", …}         a log of a script, no zone
    {"timestamp": "2026-05-04T10:00:01Z", … "id": "c1"}    the same call: the log is two hours ahead

(cases/claude_code/hooks_prefixed has such a log alone: its times stay as they are, and say so)

Such times were read as UTC. Where a log and an origin that knows the zone tell of the same call,
result, prompt or sub-agent, the difference, in whole quarters of an hour, is the zone; the logs of
one conversation were written on one machine, so what one of them shows holds for all. Where they
share nothing, the one zone holds that puts the log inside the conversation.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from unspool.facts import (
    NO_ZONE,
    ZONE,
    AnyFact,
    Marked,
    MessageSeen,
    Noted,
    ToolCalled,
    ToolReturned,
)

QUARTER = 15 * 60 * 1_000_000
FARTHEST = 14 * 4
"""No zone is more than 14 hours from UTC."""
_SLACK = 2 * 60 * 1_000_000
"""A hook may run a little before the first record or behind the last one."""
Evidence = tuple[str, str]


def set_clocks(facts: list[AnyFact]) -> list[AnyFact]:
    """The facts, those of logs without a zone at their true times; else they keep their note."""
    local = {fact.origin for fact in facts if type(fact) is Noted and _is_zoneless(fact)}
    if not local:
        return facts
    votes = _votes(facts, local)
    shared = sum(votes.values(), Counter[int]())
    fitting = None if shared else _fitting(facts, local)
    made: list[AnyFact] = []
    for fact in facts:
        if fact.origin in local:
            found = _winner(votes.get(fact.origin) or shared)
            quarters = found if found is not None else fitting
            made.append(fact if quarters is None else _shifted(fact, quarters))
        else:
            made.append(fact)
    return made


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


def _winner(votes: Counter[int]) -> int | None:
    return min(votes, key=lambda quarters: (-votes[quarters], abs(quarters)), default=None)


def _times(facts: Iterable[AnyFact]) -> dict[Evidence, int]:
    """What is recognised elsewhere → when it was; nothing that was seen twice."""
    found: dict[Evidence, int] = {}
    often: set[Evidence] = set()
    for fact in facts:
        for evidence in _evidence(fact) if fact.time is not None else ():
            if evidence in found and evidence[0] not in _FIRST:
                often.add(evidence)
            found[evidence] = min(fact.time or 0, found.get(evidence, 1 << 62))
    return {evidence: time for evidence, time in found.items() if evidence not in often}


_FIRST = ("call", "result", "asked", "agent")
"""What has an id of its own: told of twice, the first time counts."""


def _evidence(fact: AnyFact) -> Iterator[Evidence]:
    if type(fact) is ToolCalled:
        if fact.id:
            yield "call", fact.id
    elif type(fact) is ToolReturned:
        if fact.call:
            yield "result", fact.call
    elif isinstance(fact, MessageSeen):
        if fact.role == "user" and fact.request and fact.kind != "injected":
            yield "asked", fact.request
        words = fact.typed or fact.text
        if words.strip():
            yield fact.role, words.strip()
    elif type(fact) is Marked:
        child = (fact.data or {}).get("conversation_id")
        if fact.kind in ("subagent_start", "subagent_end") and isinstance(child, str):
            yield "agent", child
    elif type(fact) is Noted and fact.name == "child_id" and isinstance(fact.value, str):
        yield "agent", fact.value


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


def _shifted(fact: AnyFact, quarters: int) -> AnyFact:
    if type(fact) is Noted and _is_zoneless(fact):
        sign, minutes = ("-" if quarters > 0 else "+"), abs(quarters) * 15
        zone = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
        fact = msgspec.structs.replace(fact, value=zone)
    if fact.time is None:
        return fact
    return msgspec.structs.replace(fact, time=fact.time + quarters * QUARTER)
