"""Copies: messages that two conversations hold, and whose they are.

A fork keeps the ids, times and words of what it copies; an export is a conversation seen again; a
sub-agent may be given the conversation so far. Only digests are compared, and only of conversations of
which one holds one of the other's first messages, so that many stay small.
"""

from collections import defaultdict
from collections.abc import Mapping
from itertools import islice

from unspool.facts import Key
from unspool.link.cards import Card, iter_digests, tells

FIRST = 8
"""So many messages at the beginning are looked for elsewhere: a fork may open with a few lines of
its own before those that it copied."""

Copies = dict[Key, tuple[Key, set[bytes]]]
"""Conversation → (the owner of what it copied last, the digests of what it copied)."""


def find_seen_again(by_key: dict[Key, Card]) -> dict[Key, Key]:
    """Copies without an id of their own that hold nothing new → the conversation that they are."""
    wholes: dict[Key, Key] = {}
    for key, card in sorted(by_key.items()):
        whole = by_key.get((card.source, card.same_as)) if card.same_as else None
        if whole is None or whole.same_as or not _holds(whole.ids, card.ids):
            continue
        above = (card.source, card.parent.conversation_id) if card.parent is not None else None
        if above not in by_key or above in wholes:  # a sub-agent goes the way of its parent
            wholes[key] = whole.key
    return wholes


def _holds(whole: bytes, part: bytes) -> bool:
    """Whether every message of one conversation is also the other's; nothing is part of nothing."""
    return bool(part) and set(iter_digests(part)) <= set(iter_digests(whole))


def find_pieces(by_key: dict[Key, Card]) -> dict[Key, Key]:
    """Pieces without a name → the conversation that holds one of their messages, and for their
    sub-agents that of the same call (cases/copilot_cli/stdout_killed)."""
    pieces = {key: card for key, card in by_key.items() if card.piece}
    wanted = {piece: key for key, card in pieces.items() for piece in iter_digests(card.ids)}
    wholes: dict[Key, Key] = {}
    for key, card in by_key.items() if pieces else ():
        for piece in iter_digests(card.ids) if key not in pieces else ():
            if piece in wanted and tells(piece):
                wholes.setdefault(wanted[piece], key)
    for key in pieces:
        session, _, call = key[1].partition("/")
        whole = wholes.get((key[0], session))
        if call and whole is not None:
            wholes[key] = (key[0], f"{whole[1]}/{call}")
    return {key: whole for key, whole in wholes.items() if whole in by_key}


def find_copies(cards: Mapping[Key, Card]) -> Copies:
    copies: Copies = {}
    for group in _groups(cards):
        owners = _owners(group, cards)
        for key in group:
            copied: set[bytes] = set()
            owner: Key | None = None
            for piece in iter_digests(cards[key].ids):
                if owners[piece] != key:
                    copied.add(piece)
                    owner = owners[piece]  # the last one: that is where it forked off
            if owner is not None and any(map(tells, copied)):
                copies[key] = (owner, copied)
    return copies


def _owners(group: list[Key], cards: Mapping[Key, Card]) -> dict[bytes, Key]:
    """Message → the first of those that do not say they have it from elsewhere, if there is one."""
    oldest = sorted(group, key=lambda k: cards[k].seniority)
    owners: dict[bytes, Key] = {}
    for key in oldest:
        copied = set(iter_digests(cards[key].said_copied))
        for piece in iter_digests(cards[key].ids):
            if piece not in copied:
                owners.setdefault(piece, key)
    for key in oldest:
        for piece in iter_digests(cards[key].said_copied):
            owners.setdefault(piece, key)
    return owners


def _groups(cards: Mapping[Key, Card]) -> list[list[Key]]:
    """Conversations of which one holds one of another's first messages."""
    firsts: dict[str, dict[bytes, Key]] = defaultdict(dict)
    leader: dict[Key, Key] = {}

    def find(key: Key) -> Key:
        while leader.setdefault(key, key) != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    for key, card in cards.items():
        for first in islice(filter(tells, iter_digests(card.ids)), FIRST):
            # Those that begin alike are one group: any of them stands for all.
            other = firsts[key[0]].setdefault(first, key)
            leader[find(key)] = find(other)
    for key, card in cards.items():
        holders = firsts[key[0]]
        for piece in filter(holders.__contains__, iter_digests(card.ids)):
            leader[find(key)] = find(holders[piece])
    groups: dict[Key, list[Key]] = {}
    for key in list(leader):
        groups.setdefault(find(key), []).append(key)
    return [group for group in groups.values() if len(group) > 1]


def child_elsewhere(key: Key, child: str, by_key: Mapping[Key, Card], copies: Copies) -> Key | None:
    """The sub-agent that a copied call started in the conversation that it was copied from, unless
    the fork holds more of it (`<conversation>/<name>` is the same one in both by its name)."""
    name = child.removeprefix(f"{key[1]}/")
    own = by_key.get((key[0], child))
    seen = {key}
    while name != child and key in copies and (key := copies[key][0]) not in seen:
        seen.add(key)
        other = by_key.get((key[0], f"{key[1]}/{name}"))
        if other is not None:
            names = set(iter_digests(other.names))
            return other.key if own is None or names.issuperset(iter_digests(own.names)) else None
    return None


def find_begun(owner: Card, fork: Card) -> bytes:
    """The answers that a fork took over, also one that was not yet whole at that moment."""
    moments = set(iter_digests(owner.moments))
    answers = zip(iter_digests(fork.moments), iter_digests(fork.names), strict=True)
    return b"".join(sorted(name for moment, name in answers if moment in moments))


def find_replays(by_key: dict[Key, Card]) -> dict[Key, bytes]:
    """Sub-agents that were given the conversation so far → the answers of it that they hold.

    They may be told again with other times and by other requests, but an id is one answer's.
    """
    answers: dict[Key, set[bytes]] = {}
    replays: dict[Key, bytes] = {}
    for key, card in by_key.items():
        above = (card.source, card.session_id or "")
        if card.parent is None or card.parent.kind != "subagent" or above == key:
            continue
        if above not in answers:
            answers[above] = set(iter_digests(by_key[above].names)) if above in by_key else set()
        shared = answers[above].intersection(iter_digests(card.names))
        if shared:
            replays[key] = b"".join(sorted(shared))
    return replays
