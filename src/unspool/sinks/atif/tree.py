"""The tree of a family: every conversation once, under the one that started it."""

from collections import defaultdict
from collections.abc import Iterator

from unspool.sinks import Family
from unspool.sinks.atif.residue import residue_of
from unspool.trajectory import Trajectory


class Node:
    """A conversation and its sub-agents, each with the call that started it."""

    __slots__ = ("call", "children", "trajectory")

    def __init__(self, trajectory: Trajectory, call: str | None = None) -> None:
        self.trajectory = trajectory
        self.call = call
        self.children: list[Node] = []

    @property
    def id(self) -> str:
        return self.trajectory.conversation_id

    def walk(self) -> Iterator["Node"]:
        yield self
        for child in self.children:
            yield from child.walk()


def plant(family: Family) -> Node:
    """The family as a tree. Ties that would close a circle, or give a child twice, are left out."""
    known = {t.conversation_id: t for t in family.descendants if t is not family.root}
    known.pop(family.root.conversation_id, None)
    ties = _ties([family.root, *known.values()])
    root = Node(family.root)
    placed = {root.id}
    waiting = [root]
    while waiting:  # breadth first: the nearest parent gets the child
        node = waiting.pop(0)
        for child, call in ties[node.id].items():
            if child in known and child not in placed:
                placed.add(child)
                node.children.append(Node(known[child], call))
        waiting += node.children
    for ident, trajectory in known.items():  # said to be of the family, but tied to nothing in it
        if ident not in placed:
            root.children.append(Node(trajectory))
    root.children.sort(key=lambda node: node.id not in ties[root.id])
    for node in root.walk():
        order = residue_of(node.trajectory.extra).children
        if order:  # as the document had them that they were read from
            places = {ident: place for place, ident in reversed(list(enumerate(order)))}
            node.children.sort(key=lambda child: places.get(child.id, len(order)))
    return root


def _ties(trajectories: list[Trajectory]) -> dict[str, dict[str, str | None]]:
    """Parent → child → the call that started it, as any of the two sides tells it."""
    found: dict[str, dict[str, str | None]] = defaultdict(dict)

    def tie(parent: str, child: str, call: str | None) -> None:
        found[parent][child] = found[parent].get(child) or call

    for trajectory in trajectories:
        for link in trajectory.children or ():
            tie(trajectory.conversation_id, link.conversation_id, link.tool_call_id)
        for message in trajectory.messages:
            for call in message.tool_calls or ():
                if call.child_id:
                    tie(trajectory.conversation_id, call.child_id, call.id)
    for trajectory in trajectories:
        if trajectory.parent is not None:
            parent = trajectory.parent
            tie(parent.conversation_id, trajectory.conversation_id, parent.tool_call_id)
    return found
