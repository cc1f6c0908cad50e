"""Link: the only step that sees several conversations: parents, children, forks, copied history.

It works on cards, small extracts of trajectories, so that it can see all conversations of a run at
once; what it finds goes back as a patch per conversation. This is the third of the driver's seams:
cards → patches. A card is never changed, so that a family can be linked by itself first.

cards.py    what linking needs to know of a conversation
copies.py   the same messages in several conversations, and whose they are
parents.py  which conversation started which, and by which call
claims.py   what one conversation's files know of another: times, titles
apply.py    what was found out goes into the trajectory
"""

from collections.abc import Iterable

import msgspec

from unspool.facts import Key
from unspool.link.apply import Patch, Patches, apply_patch
from unspool.link.cards import LEAST_ID_CHARS, Card, make_card, without_calls
from unspool.link.claims import find_titles, settle_claims
from unspool.link.copies import (
    Copies,
    child_elsewhere,
    find_begun,
    find_copies,
    find_pieces,
    find_replays,
    find_seen_again,
)
from unspool.link.parents import find_misplaced, find_ties, find_twins
from unspool.trajectory import Link

__all__ = ["Card", "Patch", "Patches", "apply_patch", "link", "make_card"]


def link(cards: Iterable[Card]) -> Patches:
    """Every tie that one side knows, told to both."""
    cards = list(cards)
    if len(cards) == 1 and cards[0].is_alone:
        return {}
    board = _Board(cards)
    board.give_titles()
    board.take_away()
    settle_claims(board.by_key, board.patches)
    board.set_replays_apart()
    board.set_copies_apart()
    board.tie()
    board.tell_copies()
    # A sub-agent works in the session and the workspace of its parent, unless it says another.
    for key, patch in board.patches.items():
        if patch.absorbed:
            continue
        card = board.by_key[key]
        above = patch.parent
        seen = {key}
        while above is not None and above.kind == "subagent":
            parent_key = (above.source or key[0], above.conversation_id)
            parent = board.by_key.get(parent_key)
            if parent is None or parent_key in seen:
                break
            seen.add(parent_key)
            if card.workspace is None:
                patch.workspace = patch.workspace or parent.workspace
            if card.session_id is None:
                patch.session_id = patch.session_id or parent.session_id
            above = board.patches[parent_key].parent if parent_key in board.patches else None
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

    def give_titles(self) -> None:
        for key, title in find_titles(self.by_key).items():
            self.patch(key).title = title

    def take_away(self) -> None:
        """Conversations that say nothing, and those that are another one seen again."""
        for key, card in self.by_key.items():
            if card.hollow:
                self.patch(key).absorbed = True
        for key, whole in find_seen_again(self.by_key).items():
            self.patch(whole).opinions |= self.by_key[key].opinions
            self._absorb(key, whole)
        for key, whole in find_pieces(self.by_key).items():
            self.patch(whole).gained += self.by_key[key].unheard(self.by_key[whole])
            self._absorb(key, whole)
        for key, twin in find_twins(self.by_key).items():
            self._absorb(key, twin)

    def _absorb(self, key: Key, whole: Key) -> None:
        self.patch(key).absorbed = True
        self.patch(whole).origins += self.by_key.pop(key).origins

    def set_replays_apart(self) -> None:
        """What a sub-agent only repeats of its session started nobody."""
        self.replays = find_replays(self.by_key)
        for key in self.replays:
            card = self.by_key[key]
            above = set(self.by_key[(card.source, card.session_id or "")].calls)
            replayed = {
                call for call in card.calls if len(call) >= LEAST_ID_CHARS and call in above
            }
            if replayed:
                self.by_key[key] = without_calls(card, replayed)

    def set_copies_apart(self) -> None:
        """The calls that a fork copied started no sub-agents of its own."""
        self.copies = find_copies(self.by_key)
        before = len(self.by_key)
        for key in sorted(self.copies):
            if key in self.by_key:
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
        if len(self.by_key) < before:
            self.copies = find_copies(self.by_key)
        # Lines that are copied again still say where they were copied from first: a fork of a fork
        # went on from the one that it has its last copied message from.
        for key, (owner, _) in self.copies.items():
            named = self.by_key[key].parent
            if named is None or named.kind != "fork":
                continue
            if self._goes_on_from(owner, (key[0], named.conversation_id)):
                parent = Link(owner[1], kind="fork")
                self.by_key[key] = msgspec.structs.replace(self.by_key[key], parent=parent)

    def _goes_on_from(self, key: Key, ancestor: Key) -> bool:
        """Whether the conversation is a fork of the other, or of one of its forks."""
        seen: set[Key] = set()
        while key in self.copies and key not in seen:
            seen.add(key)
            named = self.by_key[key].parent
            key = (key[0], named.conversation_id) if named is not None else self.copies[key][0]
        return ancestor in (seen | {key})

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
            self.patch(key).replayed = find_begun(self.by_key[owner], self.by_key[key])
            if self.patch(key).parent is None and self.by_key[key].parent is None:
                self.patch(key).parent = Link(owner[1], kind="fork")
                self.patch(owner).children.append(Link(key[1], kind="fork"))
        for key, replayed in self.replays.items():
            self.patch(key).replayed += replayed
        for key, dropped in find_misplaced(self.by_key).items():
            self.patch(key).dropped = dropped

    def put_in_order(self) -> None:
        for key, patch in self.patches.items():
            card = self.by_key.get(key)
            children = card.children if card is not None else ()
            places = {tie.conversation_id: at for at, tie in enumerate(children)}
            patch.children.sort(key=lambda tie: _age(tie, key[0], self.by_key, places))
            for tie in patch.children:  # a call may have started several: the first stands for all
                if tie.tool_call_id:
                    patch.spawned.setdefault(tie.tool_call_id, tie.conversation_id)


def _leading_to(key: Key, tie: Link, seen_from: Key) -> Link:
    """The tie as the other side has it; the source is named where it is another one."""
    source = key[0] if key[0] != seen_from[0] else None
    return msgspec.structs.replace(tie, conversation_id=key[1], source=source)


def _age(
    tie: Link, source: str, by_key: dict[Key, Card], places: dict[str, int]
) -> tuple[str, int, str]:
    """When it began; of those that are not here, or began at once, the order that they are told in."""
    card = by_key.get((source, tie.conversation_id))
    place = places.get(tie.conversation_id, len(places))
    return (card.started_at if card is not None else "", place, tie.conversation_id)
