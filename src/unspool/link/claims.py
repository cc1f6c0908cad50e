"""Claims: what the files of one conversation know of another.

    prompts-7   "Fix the cart", asked in request r1 at 10:00    a program's bare list of prompts
    c1          "Fix the cart", asked in request r1             the conversation that holds it

The list gives c1 the time, and the mode if it tells one, and keeps only the prompts that no
conversation holds (`test_the_global_database_beside_it_has_the_conversations_of_the_prompts`,
cases/copilot_telemetry/request_alone). Titles that one conversation's files have for another go the
same way, by the record that they name.
"""

import msgspec

from unspool.facts import Key
from unspool.io.digests import digest
from unspool.link.cards import Card, iter_digests


class Claims(msgspec.Struct):
    """What indexes and conversations know of each other."""

    times: dict[Key, dict[str, str]] = {}
    """Conversation → its requests → when an index says that they were made."""
    modes: dict[Key, dict[str, str]] = {}
    """Conversation → its requests → the mode that an index tells."""
    origins: dict[Key, set[str]] = {}
    """Conversation → where those indexes were read."""
    claimed: dict[Key, list[str]] = {}
    """Conversation that an index made or was put into → its requests that another one holds."""
    empty: list[Key] = []
    """Of these, those of which nothing is left."""


def find_claims(by_key: dict[Key, Card]) -> Claims:
    claims = Claims()
    listing = [card for card in by_key.values() if card.indexed]
    if not listing:
        return claims
    owners: dict[tuple[str, bytes], list[Key]] = {}
    for key, card in sorted(by_key.items()):
        for piece in iter_digests(card.requests):
            owners.setdefault((card.source, piece), []).append(key)
    for card in listing:
        for request, time in card.indexed.items():
            holders = owners.get((card.source, digest(request)), [])
            for key in holders:
                claims.times.setdefault(key, {})[request] = time
                if request in card.modes:
                    claims.modes.setdefault(key, {})[request] = card.modes[request]
                if key != card.key:
                    claims.origins.setdefault(key, set()).update(card.origins)
            if holders:
                claims.claimed.setdefault(card.key, []).append(request)
        left = len(card.indexed) - len(claims.claimed.get(card.key, ()))
        if card.only_indexed and not left:
            claims.empty.append(card.key)
    return claims


def find_titles(by_key: dict[Key, Card]) -> dict[Key, str]:
    """Conversation → the title that another one's file has for it, if it has no better one."""
    offered: dict[tuple[str, bytes], tuple[int, str]] = {}
    for key, card in sorted(by_key.items()):
        for entry, offer in card.naming.offered.items():
            best_offer = offered.get((key[0], entry))
            if best_offer is None or offer[0] <= best_offer[0]:
                offered[(key[0], entry)] = offer
    titles: dict[Key, str] = {}
    for key, card in by_key.items() if offered else ():
        best = card.naming.rank
        for entry in iter_digests(card.naming.entries):
            rank, title = offered.get((key[0], entry), (best, ""))
            if title and (rank < best or (rank == best and key in titles)):
                best, titles[key] = rank, title
    return titles
