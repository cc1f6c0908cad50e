"""Link: the only step that sees several conversations: parents, children, forks, copied history.

It works on cards, small extracts of trajectories, so that it can see all conversations of a run at
once; what it finds goes back as a patch per conversation.
"""

from collections.abc import Iterable

import msgspec

from unspool.trajectory import Link, Trajectory


class Card(msgspec.Struct):
    """What linking needs to know about one conversation."""

    source: str
    id: str
    parent: Link | None = None
    children: list[Link] = []
    spawned: dict[str, str] = {}
    """Tool call → the child that it says it started."""
    calls: list[str] = []
    started_at: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return (self.source, self.id)


class Patch(msgspec.Struct):
    """What linking found out about one conversation."""

    parent: Link | None = None
    children: list[Link] = []
    spawned: dict[str, str] = {}


Patches = dict[tuple[str, str], Patch]


def make_card(trajectory: Trajectory) -> Card:
    calls = [call for message in trajectory.messages for call in message.tool_calls or ()]
    return Card(
        source=trajectory.source,
        id=trajectory.conversation_id,
        parent=trajectory.parent,
        children=trajectory.children or [],
        spawned={call.id: call.child_id for call in calls if call.child_id},
        calls=[call.id for call in calls],
        started_at=trajectory.started_at or "",
    )


def link(cards: Iterable[Card]) -> Patches:
    """Every tie that one side knows, told to both."""
    by_key = {card.key: card for card in cards}
    patches: Patches = {}

    def patch(key: tuple[str, str]) -> Patch:
        return patches.setdefault(key, Patch())

    ties: dict[tuple[tuple[str, str], tuple[str, str]], Link] = {}
    for key, card in sorted(by_key.items()):
        for call, child in card.spawned.items():
            ties[(key, (card.source, child))] = Link(child, tool_call_id=call)
        for known in card.children:
            child_key = (known.source or card.source, known.conversation_id)
            ties[(key, child_key)] = _merged(known, ties.get((key, child_key)))
    callers = _callers(by_key)
    for key, card in sorted(by_key.items()):
        if card.parent is not None:
            parent_key = (card.parent.source or card.source, card.parent.conversation_id)
            parent_key = callers.get((parent_key[0], card.parent.tool_call_id or ""), parent_key)
            down = msgspec.structs.replace(card.parent, conversation_id=card.id, source=None)
            ties[(parent_key, key)] = _merged(down, ties.get((parent_key, key)))
    for (parent_key, child_key), tie in ties.items():
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
            if tie.tool_call_id:
                patch(parent_key).spawned[tie.tool_call_id] = child_key[1]
    for key, made in patches.items():
        started = {card.id: card.started_at for card in by_key.values() if card.source == key[0]}
        made.children.sort(key=lambda t: (started.get(t.conversation_id, ""), t.conversation_id))
    return patches


def _callers(by_key: dict[tuple[str, str], Card]) -> dict[tuple[str, str], tuple[str, str]]:
    """(source, call that a child names) → the one conversation that made the call.

    A log may name only the session that a sub-agent ran in, though another sub-agent started it.
    """
    named = {
        (card.parent.source or card.source, card.parent.tool_call_id)
        for card in by_key.values()
        if card.parent is not None and card.parent.tool_call_id
    }
    holders: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for key, card in by_key.items():
        for call in card.calls if named else ():
            if (card.source, call) in named:
                holders.setdefault((card.source, call), set()).add(key)
    return {call: found.pop() for call, found in holders.items() if len(found) == 1}


def _merged(first: Link, second: Link | None) -> Link:
    if second is None:
        return first
    return msgspec.structs.replace(
        first,
        tool_call_id=first.tool_call_id or second.tool_call_id,
        message_id=first.message_id or second.message_id,
        name=first.name or second.name,
    )


def apply_patch(trajectory: Trajectory, patch: Patch | None) -> None:
    if patch is None:
        return
    trajectory.parent = patch.parent or trajectory.parent
    trajectory.children = patch.children or trajectory.children
    for message in trajectory.messages:
        for call in message.tool_calls or ():
            call.child_id = patch.spawned.get(call.id, call.child_id)
