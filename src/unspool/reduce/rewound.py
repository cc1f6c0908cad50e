"""Rewound: what another channel repeats of an abandoned branch belongs to that branch.

A log has no tree: it tells of the prompt that was taken back as of any other. A record that names
nothing it follows, and whose words or calls only a branch knows, goes there.
"""

from collections.abc import Iterable, Iterator

from unspool.facts import ECHO, MessageSeen, Noted, ToolCalled, ToolReturned
from unspool.reduce.notes import GUESS
from unspool.reduce.order import Record
from unspool.reduce.thread import Thread

_THINGS = (MessageSeen, ToolCalled, ToolReturned)
Evidence = tuple[str, str]


def still_told(notes: list[Noted], thread: Thread) -> list[Noted]:
    """Without titles that are the words of prompts that were taken back, whoever offers them."""
    gone = _guesses(record for _, records in thread.branches for record in records)
    gone -= _guesses(thread.records) if gone else set()
    return [n for n in notes if n.name != "title" or n.rank <= 0 or str(n.value) not in gone]


def _guesses(records: Iterable[Record]) -> set[str]:
    """Titles that were drawn from what the records say."""
    return {
        fact.value
        for record in records
        for fact in record.facts
        if isinstance(fact, Noted)
        and fact.name == "title"
        and fact.rank >= GUESS
        and isinstance(fact.value, str)
    }


def thing_times(thread: Thread) -> list[int]:
    """When what was taken back happened: the conversation was there already."""
    return [
        fact.time
        for _, records in thread.branches
        for record in records
        for fact in record.facts
        if fact.time is not None and isinstance(fact, _THINGS) and fact.rank < ECHO
    ]


def settle_echoes(thread: Thread) -> Thread:
    """The thread with the echoes of its branches moved to them."""
    if not thread.branches:
        return thread
    chain = [record for record in thread.records if record.after is not None]
    chain = chain or [record for record in thread.records if not _is_echo(record)]
    kept = _all_evidence(chain)
    known = [_all_evidence(records) - kept for _, records in thread.branches]
    rest: list[Record] = []
    moved: list[list[Record]] = [[] for _ in thread.branches]
    for record in thread.records:
        told = set(_evidence(record)) if _is_echo(record) else set()
        place = next((n for n, words in enumerate(known) if told & words), None)
        (rest if place is None else moved[place]).append(record)
    branches = [
        (fork, [*records, *more])
        for (fork, records), more in zip(thread.branches, moved, strict=True)
    ]
    return Thread(rest, branches)


def _is_echo(record: Record) -> bool:
    told = [f for f in record.facts if isinstance(f, _THINGS)]
    return record.after is None and bool(told) and all(fact.rank > 0 for fact in told)


def _all_evidence(records: Iterable[Record]) -> set[Evidence]:
    return {item for record in records for item in _evidence(record)}


def _evidence(record: Record) -> Iterator[Evidence]:
    """What a record is recognised by: words by their role, calls by id or likeness."""
    for fact in record.facts:
        if isinstance(fact, MessageSeen):
            for words in (fact.text, fact.typed or "", fact.thinking):
                if words.strip():
                    yield fact.role, words.strip()
        elif isinstance(fact, ToolCalled | ToolReturned):
            ident = fact.id if isinstance(fact, ToolCalled) else fact.call
            if ident:
                yield "call", ident
            if fact.like:
                yield "like", fact.like
