"""Rewound: what another channel repeats of an abandoned branch belongs to that branch.

A log has no tree: it tells of the prompt that was taken back as of any other. A record that names
nothing it follows, and whose request, words or calls only a branch knows, goes there.
"""

from collections.abc import Iterable, Iterator

from unspool.facts import ECHO, Marked, MessageSeen, Noted, ToolCalled, ToolReturned
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
    taken = [_all_evidence(records) for _, records in thread.branches]
    only_kept = kept.difference(*taken)
    only_taken = [evidence - kept for evidence in taken]
    rest: list[Record] = []
    moved: list[list[Record]] = [[] for _ in thread.branches]
    last: dict[str, int | None] = {}
    """Origin → the branch that its records speak of, where what they say does not tell."""
    for record in thread.records:
        place = None
        if record.after is None:
            told = _told(record)
            place = next((n for n, words in enumerate(only_taken) if told & words), None)
            if place is not None or told & only_kept or _asks(record):
                last[record.origin] = place
            elif told or _ends_turn(record):
                place = last.get(record.origin)
        (rest if place is None else moved[place]).append(record)
    branches = [
        (fork, [*records, *more])
        for (fork, records), more in zip(thread.branches, moved, strict=True)
    ]
    return Thread(rest, branches)


def _told(record: Record) -> set[Evidence]:
    """What an echo, or the end of a turn, is recognised by."""
    ended = {("request", f.subject) for f in record.facts if isinstance(f, Marked) and f.subject}
    return set(_evidence(record)) if _is_echo(record) else ended if _ends_turn(record) else set()


def _asks(record: Record) -> bool:
    return any(isinstance(fact, MessageSeen) and fact.role == "user" for fact in record.facts)


def _ends_turn(record: Record) -> bool:
    return any(isinstance(fact, Marked) and fact.kind == "turn_end" for fact in record.facts)


def _is_echo(record: Record) -> bool:
    told = [f for f in record.facts if isinstance(f, _THINGS)]
    return record.after is None and bool(told) and all(fact.rank > 0 for fact in told)


def _all_evidence(records: Iterable[Record]) -> set[Evidence]:
    return {item for record in records for item in _evidence(record)}


def _evidence(record: Record) -> Iterator[Evidence]:
    """What a record is recognised by: its request, words by their role, calls by id or likeness."""
    for fact in record.facts:
        if isinstance(fact, MessageSeen):
            if fact.request:
                yield "request", fact.request
            for words in (fact.text, fact.typed or "", fact.thinking):
                if words.strip():
                    yield fact.role, words.strip()
        elif isinstance(fact, ToolCalled | ToolReturned):
            ident = fact.id if isinstance(fact, ToolCalled) else fact.call
            if ident:
                yield "call", ident
            if fact.like:
                yield "like", fact.like
