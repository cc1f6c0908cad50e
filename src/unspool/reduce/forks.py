"""Forks: two copies of a log that go on differently from what they share.

A log without a tree is only ever added to, save by a rewind, which cuts its end off without a
trace. So where a copy of old has an end that the newest one does not have, though both have what
stands before it, and somebody's words begin it, that end was taken back. (A copy that merely ends
earlier has no such end; a file that holds the beginning, and another that holds the rest, have none
either.)
"""

from unspool.facts import MessageSeen, ToolCalled
from unspool.reduce.records import Record

Branches = list[tuple[str, list[Record]]]


def split_forks(records: list[Record]) -> tuple[list[Record], Branches]:
    """The records of the copy that goes on last, and what only others have behind what they share."""
    if not any(record.others for record in records):
        return records, []
    spoken = [record for record in records if _speaks(record)]
    current = _holders(spoken[-1]) if spoken else set()
    gone: dict[str, set[str]] = {}
    for origin in sorted({o for record in spoken for o in _holders(record)} - current):
        fork, tail = _end(spoken, origin, current)
        if fork is not None and tail and _asks(tail[0]):
            behind = records[records.index(fork) + 1 :]
            gone.setdefault(fork.entry, set()).update(
                record.entry
                for record in behind
                if origin in _holders(record) and not current & _holders(record)
            )
    lost = {entry for entries in gone.values() for entry in entries}
    return [record for record in records if record.entry not in lost], [
        (fork, [record for record in records if record.entry in entries])
        for fork, entries in gone.items()
    ]


def _end(
    spoken: list[Record], origin: str, current: set[str]
) -> tuple[Record | None, list[Record]]:
    """The last record that two copies share, and what the first of them has behind it."""
    own = [record for record in spoken if origin in _holders(record)]
    shared = [at for at, record in enumerate(own) if current & _holders(record)]
    return (own[shared[-1]], own[shared[-1] + 1 :]) if shared else (None, [])


def _holders(record: Record) -> set[str]:
    return {record.origin, *record.others}


def _asks(record: Record) -> bool:
    return any(isinstance(fact, MessageSeen) and fact.role == "user" for fact in record.facts)


def _speaks(record: Record) -> bool:
    """Whether something was said or called there: the thing itself, no echo of it."""
    return any(
        fact.rank == 0 and (isinstance(fact, ToolCalled) or bool(fact.text) or fact.role == "user")
        for fact in record.facts
        if isinstance(fact, MessageSeen | ToolCalled)
    )
