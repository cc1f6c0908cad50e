"""Copies: history that a fork took over from another conversation, found by message ids.

A fork keeps the ids, times and words of what it copies. Only digests are compared, and only of
conversations of which one holds one of the other's first messages, so that many stay small.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol, TypeVar

from unspool.io.digests import WIDTH, digest
from unspool.trajectory import Message, Trajectory

FIRST = 8
"""So many messages at the beginning are looked for elsewhere: a fork may open with a few lines of
its own before those that it copied."""
Key = tuple[str, str]


class Copyable(Protocol):
    """What is known of a conversation when copies are looked for."""

    @property
    def ids(self) -> bytes:
        """Digests of its messages, one after the other."""

    @property
    def said_copied(self) -> bytes:
        """Of these, those that it says itself it has from elsewhere."""

    @property
    def seniority(self) -> tuple[bool, bool, str, str]:
        """Of two that hold the same message, the lower one owns it."""


Card = TypeVar("Card", bound=Copyable)


def digest_of(message: Message) -> bytes | None:
    """Of its id, time and words; the first bit says whether it tells a copy. None without an id.

    The id alone does not tell: programs that count their messages give many the same, and where a
    format has none it is made from the words. Nobody says the same twice at the same moment; only
    programs do, that put one and the same line into each of their conversations.
    """
    if not message.id:
        return None
    time = message.timestamp or ""
    made = digest(f"{message.id} {message.role} {time} {message.content}")
    tells = time and message.kind != "injected"
    return bytes([made[0] | 0x80 if tells else made[0] & 0x7F]) + made[1:]


def _tells(piece: bytes) -> bool:
    return piece[0] >= 0x80


def digests(messages: Iterable[Message]) -> bytes:
    return b"".join(filter(None, map(digest_of, messages)))


def pieces(ids: bytes) -> Iterator[bytes]:
    return (ids[at : at + WIDTH] for at in range(0, len(ids), WIDTH))


def holds(whole: bytes, part: bytes) -> bool:
    """Whether every message of one conversation is also the other's; nothing is part of nothing."""
    return bool(part) and set(pieces(part)) <= set(pieces(whole))


def find_copies(cards: Mapping[Key, Card]) -> dict[Key, tuple[Key, set[bytes]]]:
    """Conversation → (the owner of what it copied, the digests of the copied messages)."""
    found: dict[Key, tuple[Key, set[bytes]]] = {}
    for group in _groups(cards):
        owners = _owners(group, cards)
        for key in group:
            copied: set[bytes] = set()
            owner: Key | None = None
            for piece in pieces(cards[key].ids):
                if owners[piece] != key:
                    copied.add(piece)
                    owner = owners[piece]  # the last one: that is where it forked off
            if owner is not None and any(map(_tells, copied)):
                found[key] = (owner, copied)
    return found


def _owners(group: list[Key], cards: Mapping[Key, Card]) -> dict[bytes, Key]:
    """Message → the first of those that do not say they have it from elsewhere, if there is one."""
    oldest = sorted(group, key=lambda k: cards[k].seniority)
    owners: dict[bytes, Key] = {}
    for key in oldest:
        told = set(pieces(cards[key].said_copied))
        for piece in pieces(cards[key].ids):
            if piece not in told:
                owners.setdefault(piece, key)
    for key in oldest:
        for piece in pieces(cards[key].said_copied):
            owners.setdefault(piece, key)
    return owners


def _groups(cards: Mapping[Key, Card]) -> list[list[Key]]:
    """Conversations of which one holds one of another's first messages."""
    firsts: dict[tuple[str, bytes], Key] = {}
    leader: dict[Key, Key] = {}

    def find(key: Key) -> Key:
        while leader.setdefault(key, key) != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    for key, card in cards.items():
        for first in islice(filter(_tells, pieces(card.ids)), FIRST):
            # Those that begin alike are one group: any of them stands for all.
            other = firsts.setdefault((key[0], first), key)
            leader[find(key)] = find(other)
    for key, card in cards.items():
        for piece in pieces(card.ids):
            holder = firsts.get((key[0], piece))
            if holder is not None:
                leader[find(key)] = find(holder)
    groups: dict[Key, list[Key]] = {}
    for key in list(leader):
        groups.setdefault(find(key), []).append(key)
    return [group for group in groups.values() if len(group) > 1]


def opening_of(trajectory: Trajectory) -> bytes:
    """The digest of the words that a conversation opens with."""
    for message in trajectory.messages:
        if message.role == "user" and message.kind is None:
            return digest((message.typed or message.content).strip())
    return b""
