"""Indexes: prompts that a program listed by their request alone, and the conversations that hold them.

Such a list knows when something was asked, but not in which conversation; who has the request knows
the rest. It gives them the time, and is left with what nobody has.
"""

import msgspec

from unspool.facts import INDEXED
from unspool.io.digests import digest
from unspool.link.cards import Card, Key
from unspool.link.copies import pieces
from unspool.reduce.totals import drop_messages
from unspool.trajectory import Trajectory


class Claims(msgspec.Struct):
    """What indexes and conversations know of each other."""

    times: dict[Key, dict[str, str]] = {}
    """Conversation → its requests → when an index says that they were made."""
    origins: dict[Key, set[str]] = {}
    """Conversation → where those indexes were read."""
    claimed: dict[Key, list[str]] = {}
    """Conversation that an index made or was put into → its messages that another one holds."""
    empty: list[Key] = []
    """Of these, those of which nothing is left, or only what is known not to be missing."""


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
        if card.only_indexed and (not left or card.spare):
            made.empty.append(card.key)
    return made


def give_times(trajectory: Trajectory, times: dict[str, str]) -> None:
    """The times of requests to the words that they were made with, where these have none."""
    for message in trajectory.messages:
        told = times.get(message.request_id or "") if message.role == "user" else None
        if told and message.timestamp is None and message.kind is None:
            message.timestamp = told
            trajectory.started_at = min(trajectory.started_at or told, told)
            trajectory.ended_at = max(trajectory.ended_at or told, told)


def give_up(trajectory: Trajectory, claimed: list[str]) -> None:
    """Without the messages that another conversation holds."""
    gone = set(claimed)
    drop_messages(trajectory, lambda message: message.id in gone)
    times = [m.timestamp for m in trajectory.messages if m.timestamp]
    if times and not any(m.role == "assistant" for m in trajectory.messages):
        trajectory.started_at, trajectory.ended_at = min(times), max(times)
