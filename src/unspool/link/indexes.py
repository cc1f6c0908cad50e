"""Indexes: prompts that a program listed by their request alone, and the conversations that hold them.

Such a list knows when something was asked, but not in which conversation; who has the request knows
the rest. It gives them the time, and is left with what nobody has. Titles that one conversation's
files have for another go the same way, by the record that they name.
"""

import msgspec

from unspool.facts import INDEXED, Key
from unspool.io.digests import digest
from unspool.link.cards import Card, pieces


class Claims(msgspec.Struct):
    """What indexes and conversations know of each other."""

    times: dict[Key, dict[str, str]] = {}
    """Conversation → its requests → when an index says that they were made."""
    origins: dict[Key, set[str]] = {}
    """Conversation → where those indexes were read."""
    claimed: dict[Key, list[str]] = {}
    """Conversation that an index made or was put into → its messages that another one holds."""
    empty: list[Key] = []
    """Of these, those of which nothing is left."""


def find_claims(by_key: dict[Key, Card]) -> Claims:
    made = Claims()
    listing = [card for card in by_key.values() if card.indexed]
    if not listing:
        return made
    owners: dict[tuple[str, bytes], list[Key]] = {}
    for key, card in sorted(by_key.items()):
        for piece in pieces(card.requests):
            owners.setdefault((card.source, piece), []).append(key)
    for card in listing:
        for request, time in card.indexed.items():
            found = owners.get((card.source, digest(request)), [])
            for key in found:
                made.times.setdefault(key, {})[request] = time
                if key != card.key:
                    made.origins.setdefault(key, set()).update(card.origins)
            if found:
                made.claimed.setdefault(card.key, []).append(INDEXED + request)
        left = len(card.indexed) - len(made.claimed.get(card.key, ()))
        if card.only_indexed and not left:
            made.empty.append(card.key)
    return made


def find_titles(by_key: dict[Key, Card]) -> dict[Key, str]:
    """Conversation → the title that another one's file has for it, if it has no better one."""
    offered: dict[tuple[str, bytes], tuple[int, str]] = {}
    for key, card in sorted(by_key.items()):
        for entry, offer in card.naming.offered.items():
            known = offered.get((key[0], entry))
            if known is None or offer[0] <= known[0]:
                offered[(key[0], entry)] = offer
    found: dict[Key, str] = {}
    for key, card in by_key.items() if offered else ():
        best = card.naming.rank
        for entry in pieces(card.naming.entries):
            rank, title = offered.get((key[0], entry), (best, ""))
            if title and (rank < best or (rank == best and key in found)):
                best, found[key] = rank, title
    return found
