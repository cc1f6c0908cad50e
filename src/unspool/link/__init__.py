"""Link: the only step that sees several conversations: parents, children, forks, copied history.

It works on cards, small extracts of trajectories, so that it can see all conversations of a run at
once; what it finds goes back as a patch per conversation.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.io.digests import digest
from unspool.link.cards import Card, Key, iter_calls, make_card, without_calls
from unspool.link.copies import digest_of, find_copies, holds, pieces
from unspool.link.forks import Copies, child_elsewhere, nearer_parents
from unspool.link.indexes import find_claims, give_times, give_up
from unspool.link.parents import find_ties, find_twins
from unspool.reduce.totals import drop_calls, leave_out
from unspool.trajectory import Link, Message, ToolCall, Trajectory, Workspace

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

    @property
    def needs_messages(self) -> bool:
        """Whether it says something that is found out only with all messages at hand."""
        return any(
            (self.dropped, self.copied, self.replayed, self.opinions, self.times, self.claimed)
        )


Patches = dict[Key, Patch]


def link(cards: Iterable[Card]) -> Patches:
    """Every tie that one side knows, told to both."""
    board = _Board(cards)
    board.name()
    board.take_away()
    board.settle_claims()
    board.find_replays()
    board.find_copies()
    board.tie()
    board.tell_copies()
    _inherit(board.by_key, board.patches)
    board.put_in_order()
    return board.patches


class _Board:
    """All cards, and what was found out so far. What is another's is taken off, step by step."""

    def __init__(self, cards: Iterable[Card]) -> None:
        self.by_key = {card.key: card for card in cards}
        self.patches: Patches = {}
        self.replays: dict[Key, bytes] = {}
        self.copies: Copies = {}

    def patch(self, key: Key) -> Patch:
        return self.patches.setdefault(key, Patch())

    def name(self) -> None:
        for key, title in _titles(self.by_key).items():
            self.patch(key).title = title

    def take_away(self) -> None:
        """Conversations that say nothing, and those that are another one seen again."""
        for key, card in self.by_key.items():
            if card.hollow:
                self.patch(key).absorbed = True
        for key, whole in _absorbed(self.by_key).items():
            self.patch(whole).opinions |= self.by_key[key].opinions
            self._absorb(key, whole)
        for key, twin in find_twins(self.by_key).items():
            self._absorb(key, twin)

    def _absorb(self, key: Key, whole: Key) -> None:
        self.patch(key).absorbed = True
        self.patch(whole).origins += self.by_key.pop(key).origins

    def settle_claims(self) -> None:
        """What indexes say of conversations that other files hold."""
        claims = find_claims(self.by_key)
        for key, times in claims.times.items():
            self.patch(key).times = times
            self.patch(key).origins += sorted(claims.origins.get(key, ()))
        for key, claimed in claims.claimed.items():
            self.patch(key).claimed = claimed
        for key in claims.empty:
            self.patch(key).absorbed = True
            del self.by_key[key]

    def find_replays(self) -> None:
        """What a sub-agent only repeats of its session started nobody."""
        self.replays = _replays(self.by_key)
        for key in self.replays:
            card = self.by_key[key]
            above = set(self.by_key[(card.source, card.session_id or "")].calls)
            told = {call for call in card.calls if len(call) >= LEAST_ID_CHARS and call in above}
            if told:
                self.by_key[key] = without_calls(card, told)

    def find_copies(self) -> None:
        """The calls that a fork copied started no sub-agents of its own."""
        self.copies = find_copies(self.by_key)
        known = len(self.by_key)
        for key in sorted(self.copies):
            if key in self.by_key:
                self._lead_elsewhere(key)
        if len(self.by_key) < known:
            self.copies = find_copies(self.by_key)
        for key, owner in nearer_parents(self.by_key, self.copies).items():
            parent = Link(owner[1], kind="fork")
            self.by_key[key] = msgspec.structs.replace(self.by_key[key], parent=parent)

    def _lead_elsewhere(self, key: Key) -> None:
        spawned = dict(self.by_key[key].spawned)
        for call, child in list(spawned.items()):
            elsewhere = child_elsewhere(key, child, self.by_key, self.copies)
            if elsewhere is None:
                continue
            if (key[0], child) in self.by_key:
                self._absorb((key[0], child), elsewhere)
            self.patch(key).spawned[call] = elsewhere[1]
            del spawned[call]
        self.by_key[key] = msgspec.structs.replace(self.by_key[key], spawned=spawned)

    def tie(self) -> None:
        for (parent_key, child_key), tie in find_ties(self.by_key).items():
            if parent_key == child_key:
                continue
            if child_key in self.by_key:
                self.patch(child_key).parent = _leading_to(parent_key, tie, child_key)
            if parent_key in self.by_key:
                down = _leading_to(child_key, tie, parent_key)
                self.patch(parent_key).children.append(down)

    def tell_copies(self) -> None:
        for key, (owner, copied) in self.copies.items():
            self.patch(key).copied = b"".join(sorted(copied))
            self.patch(key).replayed = _begun(self.by_key[owner], self.by_key[key])
            if self.patch(key).parent is None and self.by_key[key].parent is None:
                self.patch(key).parent = Link(owner[1], kind="fork")
                self.patch(owner).children.append(Link(key[1], kind="fork"))
        for key, replayed in self.replays.items():
            self.patch(key).replayed += replayed
        for key, dropped in _misplaced(self.by_key).items():
            self.patch(key).dropped = dropped

    def put_in_order(self) -> None:
        for key, made in self.patches.items():
            card = self.by_key.get(key)
            known = card.children if card is not None else ()
            told = {tie.conversation_id: at for at, tie in enumerate(known)}
            made.children.sort(key=lambda tie: _age(tie, key[0], self.by_key, told))
            for tie in made.children:  # a call may have started several: the first stands for all
                if tie.tool_call_id:
                    made.spawned.setdefault(tie.tool_call_id, tie.conversation_id)


def _leading_to(key: Key, tie: Link, seen_from: Key) -> Link:
    """The tie as the other side has it; the source is named where it is another one."""
    source = key[0] if key[0] != seen_from[0] else None
    return msgspec.structs.replace(tie, conversation_id=key[1], source=source)


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


def _begun(owner: Card, fork: Card) -> bytes:
    """The answers that a fork took over, also one that was not yet whole at that moment."""
    known = set(pieces(owner.moments))
    answers = zip(pieces(fork.moments), pieces(fork.names), strict=True)
    return b"".join(sorted(name for moment, name in answers if moment in known))


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


def _age(
    tie: Link, source: str, by_key: dict[Key, Card], told: dict[str, int]
) -> tuple[str, int, str]:
    """When it began; of those that are not here, or began at once, the order that they are told in."""
    card = by_key.get((source, tie.conversation_id))
    place = told.get(tie.conversation_id, len(told))
    return (card.started_at if card is not None else "", place, tie.conversation_id)


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


def _given(trajectory: Trajectory, names: set[bytes]) -> set[int]:
    """What a sub-agent was told of its session: all up to the last answer of it. A fork's prompts
    keep their ids, and it may open with lines of its own."""
    if trajectory.parent is None or trajectory.parent.kind != "subagent":
        return set()
    given: set[int] = set()
    met: list[int] = []
    for message in trajectory.messages:
        met.append(id(message))
        if _is_replay(message, names):
            given.update(met)
            met.clear()
    return given


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
        given = _given(trajectory, names)
        leave_out(
            trajectory,
            lambda m: id(m) in given or digest_of(m) in known or _is_replay(m, names),
        )
    give_children(iter_calls(trajectory), patch)


def give_children(calls: Iterable[ToolCall], patch: Patch) -> None:
    """To calls, the conversations that they started."""
    for call in calls if patch.spawned else ():
        call.child_id = patch.spawned.get(call.id, call.child_id)
