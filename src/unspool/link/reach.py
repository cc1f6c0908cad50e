"""Reach: what two conversations must share to concern each other.

Linking all cards of a store because one of them got a line would be wasteful. A card *asks* for a few
things (the conversations that it names, its first messages, the call that started it) and *holds* many
(its messages, calls and requests). Two cards can concern each other only where one asks for what the
other asks for or holds; who is reached from a card in this way, and from those in turn, is its family.
"""

from itertools import islice
from typing import NamedTuple

from unspool.io.digests import digest
from unspool.link.cards import Card, iter_digests, tells
from unspool.link.copies import FIRST


class Reach(NamedTuple):
    """Both as hashes, which mean something only in this process."""

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
            asks.add(hash(("call", source, call)))
            asks.add(hash(("call", card.parent.source or source, call)))
    named += [(child.source or source, child.conversation_id) for child in card.children]
    named += [(source, child) for child in card.spawned.values()]
    asks.update(hash(("conversation", *key)) for key in named)
    asks.update(hash(("call", source, call)) for call in card.strays)
    first = islice(filter(tells, iter_digests(card.ids)), FIRST)
    asks.update(hash(("message", source, piece)) for piece in first)
    asks.update(hash(("request", source, digest(request))) for request in card.indexed)
    asks.update(hash(("record", source, entry)) for entry in card.naming.offered)
    holds = {hash(("message", source, piece)) for piece in iter_digests(card.ids)}
    holds.update(hash(("call", source, call)) for call in card.calls)
    holds.update(hash(("request", source, piece)) for piece in iter_digests(card.requests))
    holds.update(hash(("record", source, piece)) for piece in iter_digests(card.naming.entries))
    return Reach(asks, holds - asks)
