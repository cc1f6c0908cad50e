"""Claims: what the files of one conversation know of another.

    prompts-7   "Fix the cart", asked in request r1 at 10:00    a program's bare list of prompts
    c1          "Fix the cart", asked in request r1             the conversation that holds it

The list gives c1 the time, and the mode if it tells one, and keeps only the prompts that no
conversation holds (`test_the_global_database_beside_it_has_the_conversations_of_the_prompts`,
cases/copilot_telemetry/request_alone). Titles that one conversation's files have for another go the
same way, by the record that they name.
"""

from unspool.facts import Key
from unspool.io.digests import digest
from unspool.link.apply import Patch, Patches
from unspool.link.cards import Card, iter_digests


def settle_claims(by_key: dict[Key, Card], patches: Patches) -> None:
    """What indexes say of conversations that other files hold. An index of which nothing is left is
    no conversation."""
    listing = [card for card in by_key.values() if card.indexed]
    if not listing:
        return
    owners: dict[tuple[str, bytes], list[Key]] = {}
    for key, card in sorted(by_key.items()):
        for piece in iter_digests(card.requests):
            owners.setdefault((card.source, piece), []).append(key)
    for card in listing:
        claimed: list[str] = []
        for request, time in card.indexed.items():
            holders = owners.get((card.source, digest(request)), [])
            for key in holders:
                patch = patches.setdefault(key, Patch())
                patch.times[request] = time
                if request in card.modes:
                    patch.modes[request] = card.modes[request]
                if key != card.key:
                    patch.origins += [path for path in card.origins if path not in patch.origins]
            if holders:
                claimed.append(request)
        if claimed:
            patches.setdefault(card.key, Patch()).claimed = claimed
        if card.only_indexed and len(claimed) == len(card.indexed):
            patches[card.key].absorbed = True
            del by_key[card.key]


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
