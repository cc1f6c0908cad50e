"""Reach: what two conversations must share to concern each other.

Linking all cards of a store because one of them got a line would be wasteful. A card *asks* for a few
things (the conversations that it names, its first messages, the call that started it) and *holds* many
(its messages, calls and requests). Two cards can concern each other only where one asks for what the
other asks for or holds; who is reached from a card in this way, and from those in turn, is its family.
"""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from unspool.io.digests import digest
from unspool.link.cards import Card, iter_digests, tells
from unspool.link.copies import FIRST


class Reach(NamedTuple):
    """Both as numbers that mean the same in every process: they are kept."""

    asks: set[int]
    holds: set[int]


def reach_of(card: Card) -> Reach:
    source = card.source
    named = [(source, card.id), (source, card.session_id or card.id)]
    if "/" in card.id:  # a sub-agent is named after its conversation
        named.append((source, card.id.partition("/")[0]))
    if card.same_as:
        named.append((source, card.same_as))
    asks: set[int] = set()
    if card.parent is not None:
        named.append((card.parent.source or source, card.parent.conversation_id))
        if call := card.parent.tool_call_id:
            asks |= _tokens("call", source, [digest(call)])
            asks |= _tokens("call", card.parent.source or source, [digest(call)])
    named += [(child.source or source, child.conversation_id) for child in card.children]
    named += [(source, child) for child in card.spawned.values()]
    for key in named:
        asks |= _tokens("conversation", key[0], [digest(key[1])])
    asks |= _tokens("call", source, map(digest, card.strays))
    asks |= _tokens("message", source, islice(filter(tells, iter_digests(card.ids)), FIRST))
    asks |= _tokens("request", source, map(digest, card.indexed))
    asks |= _tokens("record", source, card.naming.offered)
    holds = _tokens("message", source, iter_digests(card.ids))
    holds |= _tokens("call", source, map(digest, card.calls))
    holds |= _tokens("request", source, iter_digests(card.requests))
    holds |= _tokens("record", source, iter_digests(card.naming.entries))
    return Reach(asks, holds - asks)


def _tokens(kind: str, source: str, digests: Iterable[bytes]) -> set[int]:
    """Equal where the kind of thing, its source and its digest are."""
    salt = int.from_bytes(digest(f"{kind} {source}"))
    return {(int.from_bytes(one) ^ salt) - _HALF for one in digests}


_HALF = 1 << 63
"""SQLite's numbers have a sign."""
