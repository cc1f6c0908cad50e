"""Turns: logs without times, woven by what in them begins and ends a turn.

Scripts that keep a file per event and write no time down leave only this: the k-th prompt comes
before the k-th end of a turn, a start before all, an end behind all, and what names its prompt
stands in that prompt's turn. Each log keeps its own order.
"""

from collections.abc import Iterable

from unspool.facts import Marked, MessageSeen, ToolCalled, ToolReturned
from unspool.reduce.records import Record

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
    requests = _requests(blocks, records)
    placed: list[tuple[Key, int, int, str]] = []
    for number, block in enumerate(blocks):
        keys = _keys([records[entry] for entry in block], requests)
        placed += [(key, number, at, block[at]) for at, key in enumerate(keys)]
    return [*dict.fromkeys(entry for *_, entry in sorted(placed)), *silent]


def _tells(block: list[str], records: dict[str, Record]) -> bool:
    return any(isinstance(f, _EVENTS) for entry in block for f in records[entry].facts)


def _requests(blocks: list[list[str]], records: dict[str, Record]) -> dict[str, int]:
    """Request → the turn that its prompt opens, in the log that has the most prompts."""
    best: list[MessageSeen] = []
    for block in blocks:
        found = [fact for entry in block for fact in _prompts(records[entry])]
        best = found if len(found) > len(best) else best
    return {fact.request: turn for turn, fact in enumerate(best, 1) if fact.request}


def _prompts(record: Record) -> list[MessageSeen]:
    return [
        fact
        for fact in record.facts
        if isinstance(fact, MessageSeen) and fact.role == "user" and fact.kind in ("", "command")
    ]


def _keys(records: Iterable[Record], requests: dict[str, int]) -> list[Key]:
    """Where the records of one log stand, never before what the log has before them."""
    asked = ended = 0
    keys: list[Key] = []
    for record in records:
        kinds = {fact.kind for fact in record.facts if isinstance(fact, Marked)}
        if _prompts(record):
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
            key = (_named_turn(record, requests) or max(asked, ended + 1, 1), _WITHIN)
        keys.append(max(key, keys[-1]) if keys else key)
    return keys


def _named_turn(record: Record, requests: dict[str, int]) -> int | None:
    named = (f.request for f in record.facts if isinstance(f, ToolCalled) and f.request)
    return next((requests[name] for name in named if name in requests), None)
