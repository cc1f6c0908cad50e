"""Gaps: messages of a list whose bodies were lost, where another list that begins alike has them."""

from collections import defaultdict

from unspool.reduce.listing import Gap, Listing, identity, is_empty
from unspool.trajectory import Message


def fill_gaps(lists: list[Listing]) -> list[Listing]:
    """The lists, with what is missing taken from those that are whole."""
    if not any(listing.gaps for listing in lists):
        return lists
    whole = Whole(lists)
    return [_filled(listing, whole) if listing.gaps else listing for listing in lists]


class Whole:
    """What is whole: lists with the answers of the calls that saw all of them, and the beginnings
    of others, up to their first gap, with theirs."""

    def __init__(self, lists: list[Listing]) -> None:
        self._by_beginning: dict[int, list[list[Message]]] = defaultdict(list)
        for listing in lists:
            if not listing.missing:
                for messages in _with_answers(listing):
                    for link in listing.chain:
                        self._by_beginning[link].append(messages)
            for at, _ in listing.gaps[:1]:
                seen = [call for call in listing.calls if call.count == at]
                beginning = Listing(listing.messages[:at], seen)
                self._by_beginning[listing.chain[at]] += _with_answers(beginning)

    def between(self, listing: Listing, gap: Gap) -> list[Message] | None:
        """The messages that stand in the gap wherever a list begins alike; None if they differ."""
        at, count = gap
        right = identity(listing.messages[at])
        found: dict[tuple[object, ...], list[Message]] = {}
        for messages in self._by_beginning.get(listing.chain[at], ()):
            inside = messages[at : at + count]
            behind = messages[at + count : at + count + 1]
            if len(inside) == count and (not behind or identity(behind[0]) == right):
                found.setdefault(tuple(map(identity, inside)), inside)
        return next(iter(found.values())) if len(found) == 1 else None


def _with_answers(listing: Listing) -> list[list[Message]]:
    answers = [call.answer.message for call in listing.final if call.answer is not None]
    said = {identity(answer): answer for answer in answers if not is_empty(answer)}
    return [[*listing.messages, answer] for answer in said.values()] or [listing.messages]


def _filled(listing: Listing, whole: Whole) -> Listing:
    left: list[Gap] = []
    shift = 0
    for at, count in listing.gaps:
        gap = (at + shift, count)
        inside = None if left or gap[0] >= len(listing.messages) else whole.between(listing, gap)
        if inside is None:
            left.append(gap)
            continue
        messages = [*listing.messages[: gap[0]], *inside, *listing.messages[gap[0] :]]
        for call in listing.calls:
            call.count += count if call.count > gap[0] else 0
        shift += count
        listing = Listing(messages, listing.calls)
    return Listing(listing.messages, listing.calls, bool(left), tuple(left))
