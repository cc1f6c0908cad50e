"""Lists: the message lists that engine calls logged, decoded once each."""

from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from unspool.facts import Key, ListSeen, PieceSeen, Problem, SnapshotSeen, View
from unspool.io.longtext import is_long
from unspool.reduce.broken import read_broken
from unspool.reduce.joining import join
from unspool.reduce.listing import Answer, Call, Listing, in_place
from unspool.reduce.listtext import ListText
from unspool.reduce.references import read_references
from unspool.trajectory import Message


def read_snapshot(fact: SnapshotSeen, others: list[SnapshotSeen]) -> Listing | None:
    """The list of a snapshot, decoded piece by piece between the ends that calls saw. Where it is not
    clean, shorter ones that it was joined with may be: they go to the others."""
    if fact.broken:
        return read_broken(fact)
    views = in_place(fact.views)
    ends = sorted({*(view.size for view in views), len(fact.text)})
    text = ListText(fact.text, fact.escaped)
    if is_long(len(fact.text)):
        if not text.can_be_taken(ends):
            return read_broken(_apart(fact, others))
        del fact  # there is no room for it while the messages are decoded
        made = text.take(ends)
    else:
        try:
            made = text.read(ends)
        except (ValueError, RecursionError):
            return read_broken(_apart(fact, others))
    counts = dict(zip(ends, accumulate(map(len, made)), strict=True))
    messages = [message for between in made for message in between]
    listing = Listing(messages, [Call(view, counts[view.size]) for view in views])
    listing.trouble = text.trouble
    return listing


def _apart(fact: SnapshotSeen, others: list[SnapshotSeen]) -> SnapshotSeen:
    """The snapshot as those saw it who saw all of it; what the others saw goes to the others."""
    views = [view for view in fact.views if view.size < len(fact.text)]
    if not views:
        return fact
    text = fact.text[: max(view.size for view in views)]
    others.append(msgspec.structs.replace(fact, text=text, views=tuple(views)))
    return msgspec.structs.replace(fact, views=_longest(fact))


def _longest(fact: SnapshotSeen) -> tuple[View, ...]:
    """Those who saw all of it."""
    return tuple(view for view in fact.views if view.size >= len(fact.text))


class Lists(NamedTuple):
    """All lists of a conversation, its answers, and what was wrong with some."""

    lists: list[Listing]
    answers: list[Answer]
    problems: list[Problem]


def read_lists(
    key: Key, facts: list[SnapshotSeen | ListSeen | PieceSeen], long: bool = False
) -> Lists:
    """The facts are taken out of the list: the text of one may be as long as all else together.

    `long`: the conversation is narrow.
    """
    snapshots = [fact for fact in facts if isinstance(fact, SnapshotSeen)]
    references = [fact for fact in facts if not isinstance(fact, SnapshotSeen)]
    facts.clear()
    snapshots.sort(key=lambda fact: fact.place)
    inputs, outputs = read_references(references)
    problems: list[Problem] = []
    answers: list[Answer] = []
    lists: list[Listing] = []
    joined = join(snapshots)
    snapshots.clear()
    joined.reverse()
    while joined:
        longest = _longest(joined[-1])
        listing = read_snapshot(joined.pop(), joined)
        if listing is None:
            problems.append(_problem(key, in_place(longest)[0], "messages-unreadable"))
        else:
            inputs.append(listing)
    if long:
        for listing in (*inputs, *outputs):
            listing.narrow()
    for listing in sorted(inputs, key=lambda made: made.calls[0].place):
        if listing.trouble:
            problems.append(_problem(key, listing.calls[0].view, listing.trouble))
        kept = []
        for call in listing.calls:
            if _is_answer(listing, call):
                text = listing.messages[0] if call.count else Message("assistant", "")
                answers.append(Answer(call.view, text))
            else:
                kept.append(call)
        if kept and (listing.messages or not listing.missing):
            listing.calls = kept
            lists.append(listing)
    for output in outputs:
        if output.messages:
            answers.append(Answer(output.calls[0].view, output.messages[0]))
        else:
            problems.append(_problem(key, output.calls[0].view, output.trouble))
    return Lists(fold(lists), _unique(answers), problems)


def _problem(key: Key, view: View, code: str) -> Problem:
    return Problem(key=key, origin=view.origin, offset=view.offset, number=98, code=code)


def _is_answer(listing: Listing, call: Call) -> bool:
    """An output event logs just the one assistant message that the call gave.

    It is empty where the model only called tools and the sender logs texts alone.
    """
    view = call.view
    if view.requested or call.count > 1:
        return False
    if call.count == 0:
        return bool(view.answered or view.completion is not None) and not listing.missing
    told = bool(view.answered or view.completion is not None or view.call)
    return told and listing.messages[0].role == "assistant"


def _unique(answers: list[Answer]) -> list[Answer]:
    """The same answer may come by two channels: by call id (or request and time) and text it is
    one."""
    best: dict[tuple[Any, ...], Answer] = {}
    for answer in sorted(answers, key=lambda a: (a.view.origin, a.view.offset)):
        view = answer.view
        key = (
            (view.call, view.request, answer.message.content)
            if view.call
            else (view.request, view.time, answer.message.content)
            if view.request and view.time is not None
            else (view.origin, view.offset)
        )
        known = best.get(key)
        best[key] = answer if known is None else _combine(known, answer)
    return list(best.values())


def _combine(known: Answer, other: Answer) -> Answer:
    """One channel names the model, the other may not; the calls likewise."""
    if other.message.tool_calls and not known.message.tool_calls:
        known, other = other, known
    missing = {
        name: getattr(other.view, name)
        for name in ("answered", "prompt", "completion", "cached", "time")
        if getattr(known.view, name) in (None, "")
    }
    return Answer(msgspec.structs.replace(known.view, **missing), known.message)


def fold(lists: list[Listing]) -> list[Listing]:
    """Lists of which, by their messages, none is the beginning of another."""
    kept: list[Listing] = []
    begun: dict[int, Listing] = {}
    """The hash of a beginning → the first of the longest lists that begin so."""
    for listing in sorted(lists, key=lambda made: (-len(made.messages), made.calls[0].place)):
        known = None if listing.missing else begun.get(listing.chain[-1])
        if known is None:
            kept.append(listing)
            for link in listing.chain:
                begun.setdefault(link, listing)
            continue
        known.calls += listing.calls
        known.missing = known.missing and len(known.messages) > len(listing.messages)
    return kept
