"""Link: the only step that sees several conversations: parents, children, forks, copied history.

It works on cards, small extracts of trajectories, so that it can see all conversations of a run at
once; what it finds goes back as a patch per conversation.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.cards import Card, Key, make_card
from unspool.copies import digest, digest_of, find_copies, holds, pieces
from unspool.indexes import find_claims, give_times, give_up
from unspool.reduce.totals import drop_calls, leave_out
from unspool.ties import find_ties, find_twins
from unspool.trajectory import Link, Message, Trajectory, Workspace

__all__ = ["Card", "Patch", "Patches", "apply_patch", "link", "make_card"]

LEAST_ID_CHARS = 16


class Patch(msgspec.Struct):
    """What linking found out about one conversation."""

    parent: Link | None = None
    children: list[Link] = []
    spawned: dict[str, str] = {}
    session_id: str | None = None
    workspace: Workspace | None = None
    """Where it ran, if only its parent says so."""
    dropped: list[str] = []
    """Calls that are another conversation's."""
    copied: bytes = b""
    """Digests of the ids of messages that belong to another conversation."""
    replayed: bytes = b""
    """Digests of the ids of answers that its session gave, and that it only repeats."""
    absorbed: bool = False
    """Nothing but another conversation seen again: it does not go out."""
    origins: list[str] = []
    """Where those were read that it stands for."""
    opinions: dict[str, dict[str, Any]] = {}
    """Message → what only they know that a person thought of it."""
    times: dict[str, str] = {}
    """Request → when it was made, as an index says."""
    claimed: list[str] = []
    """Messages that an index put here and another conversation holds."""
    title: str | None = None
    """A better one, that stands in the files of another conversation."""


Patches = dict[Key, Patch]


def link(cards: Iterable[Card]) -> Patches:
    """Every tie that one side knows, told to both."""
    by_key = {card.key: card for card in cards}
    patches: Patches = {}

    def patch(key: Key) -> Patch:
        return patches.setdefault(key, Patch())

    for key, title in _titles(by_key).items():
        patch(key).title = title
    for key, card in by_key.items():
        if card.hollow:
            patch(key).absorbed = True
    for key, whole in _absorbed(by_key).items():
        patch(key).absorbed = True
        copy = by_key.pop(key)
        patch(whole).origins += copy.origins
        patch(whole).opinions |= copy.opinions
    for key, twin in find_twins(by_key).items():
        patch(key).absorbed = True
        patch(twin).origins += by_key.pop(key).origins
    claims = find_claims(by_key)
    for key, times in claims.times.items():
        patch(key).times = times
        patch(key).origins += sorted(claims.origins.get(key, ()))
    for key, claimed in claims.claimed.items():
        patch(key).claimed = claimed
    for key in claims.empty:
        patch(key).absorbed = True
        del by_key[key]
    for (parent_key, child_key), tie in find_ties(by_key).items():
        if parent_key == child_key:
            continue
        foreign = parent_key[0] != child_key[0]
        if child_key in by_key:
            up = msgspec.structs.replace(
                tie, conversation_id=parent_key[1], source=parent_key[0] if foreign else None
            )
            patch(child_key).parent = up
        if parent_key in by_key:
            down = msgspec.structs.replace(
                tie, conversation_id=child_key[1], source=child_key[0] if foreign else None
            )
            patch(parent_key).children.append(down)
    for key, (owner, copied) in find_copies(by_key).items():
        patch(key).copied = b"".join(sorted(copied))
        if patch(key).parent is None and by_key[key].parent is None:
            patch(key).parent = Link(owner[1], kind="fork")
            patch(owner).children.append(Link(key[1], kind="fork"))
    for key, replayed in _replays(by_key).items():
        patch(key).replayed = replayed
    _inherit(by_key, patches)
    for key, dropped in _misplaced(by_key).items():
        patch(key).dropped = dropped
    for key, made in patches.items():
        made.children.sort(key=lambda tie: _age(tie, key[0], by_key))
        for tie in made.children:  # a call may have started several: the first stands for all
            if tie.tool_call_id:
                made.spawned.setdefault(tie.tool_call_id, tie.conversation_id)
    return patches


def _absorbed(by_key: dict[Key, Card]) -> dict[Key, Key]:
    """Copies without an id of their own that hold nothing new → the conversation that they are."""
    found: dict[Key, Key] = {}
    for key, card in sorted(by_key.items()):
        whole = by_key.get((card.source, card.same_as)) if card.same_as else None
        if whole is None or whole.same_as or not holds(whole.ids, card.ids):
            continue
        above = (card.source, card.parent.conversation_id) if card.parent is not None else None
        if above not in by_key or above in found:  # a sub-agent goes the way of its parent
            found[key] = whole.key
    return found


def _titles(by_key: dict[Key, Card]) -> dict[Key, str]:
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


def _replays(by_key: dict[Key, Card]) -> dict[Key, bytes]:
    """Sub-agents that were given the conversation so far → the answers of it that they hold.

    They may be told again with other times and by other requests, but an id is one answer's.
    """
    answers: dict[Key, set[bytes]] = {}
    found: dict[Key, bytes] = {}
    for key, card in by_key.items():
        above = (card.source, card.session_id or "")
        if card.parent is None or card.parent.kind != "subagent" or above == key:
            continue
        if above not in answers:
            answers[above] = set(pieces(by_key[above].names)) if above in by_key else set()
        shared = answers[above].intersection(pieces(card.names))
        if shared:
            found[key] = b"".join(sorted(shared))
    return found


def _inherit(by_key: dict[Key, Card], patches: Patches) -> None:
    """A sub-agent works in the session and the workspace of its parent, unless it says another."""
    for key, made in patches.items():
        if made.absorbed:
            continue
        card = by_key[key]
        above = made.parent
        seen = {key}
        while above is not None and above.kind == "subagent":
            parent_key = (above.source or key[0], above.conversation_id)
            parent = by_key.get(parent_key)
            if parent is None or parent_key in seen:
                break
            seen.add(parent_key)
            if card.workspace is None:
                made.workspace = made.workspace or parent.workspace
            if card.session_id is None:
                made.session_id = made.session_id or parent.session_id
            above = patches[parent_key].parent if parent_key in patches else None


def _age(tie: Link, source: str, by_key: dict[Key, Card]) -> tuple[str, str]:
    card = by_key.get((source, tie.conversation_id))
    return (card.started_at if card is not None else "", tie.conversation_id)


def _misplaced(by_key: dict[Key, Card]) -> dict[Key, list[str]]:
    """Calls that a channel ascribed to a conversation though a child of its own made them: old
    hook payloads name the session only, not the sub-agent."""
    strays = {key: set(card.strays) for key, card in by_key.items() if card.strays}
    wanted = {(key[0], call) for key, calls in strays.items() for call in calls}
    owners: dict[Key, Key] = {}
    for key, card in by_key.items() if wanted else ():
        for call in card.calls:
            if (key[0], call) in wanted and call not in strays.get(key, ()):
                owners[(key[0], call)] = key
    found = {
        key: [c for c in by_key[key].strays if owners.get((key[0], c), key) != key]
        for key in strays
    }
    return {key: calls for key, calls in found.items() if calls}


def _is_replay(message: Message, names: set[bytes]) -> bool:
    """Programs that count their answers give many the same id: only a long one tells."""
    if message.role != "assistant" or len(message.id or "") < LEAST_ID_CHARS:
        return False
    return digest(message.id or "") in names


def apply_patch(trajectory: Trajectory, patch: Patch | None) -> None:
    if patch is None:
        return
    trajectory.parent = patch.parent or trajectory.parent
    trajectory.children = patch.children or trajectory.children
    trajectory.session_id = trajectory.session_id or patch.session_id
    trajectory.workspace = trajectory.workspace or patch.workspace
    trajectory.title = patch.title or trajectory.title
    if patch.origins:
        known_places = {trajectory.file_path, *(trajectory.origins or ())}
        more = sorted(path for path in set(patch.origins) if path not in known_places)
        trajectory.origins = [*(trajectory.origins or []), *more] or None
    for message in trajectory.messages if patch.opinions else ():
        if message.id in patch.opinions:
            message.extra = {**patch.opinions[message.id], **(message.extra or {})}
    if patch.times:
        give_times(trajectory, patch.times)
    if patch.claimed:
        give_up(trajectory, patch.claimed)
    if patch.dropped:
        drop_calls(trajectory, set(patch.dropped))
    if patch.copied or patch.replayed:
        known, names = set(pieces(patch.copied)), set(pieces(patch.replayed))
        leave_out(trajectory, lambda m: digest_of(m) in known or _is_replay(m, names))
    for message in trajectory.messages:
        for call in message.tool_calls or ():
            call.child_id = patch.spawned.get(call.id, call.child_id)
