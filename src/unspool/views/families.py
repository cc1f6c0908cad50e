"""Families: a conversation and its sub-agents as a tree, each at the call that started it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from unspool.trajectory import Link, Trajectory

DEEPEST = 20
"""Sub-agents of sub-agents beyond this stand with the root, not inside one another."""


class Node(msgspec.Struct, eq=False):
    trajectory: Trajectory
    call: str | None = None
    """The call that started it."""
    name: str | None = None
    depth: int = 0
    children: list["Node"] = []

    @property
    def id(self) -> str:
        return self.trajectory.conversation_id

    def walk(self) -> Iterator["Node"]:
        yield self
        for child in self.children:
            yield from child.walk()

    def by_call(self) -> dict[str, list["Node"]]:
        """Its children by the calls that started them; under no id those that no call did."""
        nodes: dict[str, list[Node]] = defaultdict(list)
        for child in self.children:
            nodes[child.call or ""].append(child)
        return nodes


def plant(root: Trajectory, descendants: Iterable[Trajectory]) -> Node:
    """The family as a tree. Ties that would close a circle, or give a child twice, are left out."""
    waiting = {child.conversation_id: child for child in descendants}
    waiting.pop(root.conversation_id, None)
    ties: dict[str, dict[str, Link]] = defaultdict(dict)
    for parent, link in _ties([root, *waiting.values()]):
        tie = ties[parent].setdefault(link.conversation_id, Link(link.conversation_id))
        tie.tool_call_id = tie.tool_call_id or link.tool_call_id
        tie.name = tie.name or link.name
    tree = Node(root)
    nodes = [tree]
    for node in nodes:  # which grows: breadth first, so that the nearest parent gets the child
        for ident, tie in ties[node.id].items():
            if ident in waiting:
                home = node if node.depth < DEEPEST else tree
                call = tie.tool_call_id if home is node else None
                child = Node(waiting.pop(ident), call, tie.name, home.depth + 1)
                home.children.append(child)
                nodes.append(child)
    # Those that are said to be of the family, but are tied to nothing in it.
    tree.children += [Node(trajectory, depth=1) for trajectory in waiting.values()]
    return tree


def _ties(trajectories: list[Trajectory]) -> Iterator[tuple[str, Link]]:
    """(parent, its child and the call that started it), as any of the two sides tells it."""
    for trajectory in trajectories:
        for link in trajectory.children or ():
            yield trajectory.conversation_id, link
        for message in trajectory.messages:
            for call in message.tool_calls or ():
                if call.child_id:
                    yield trajectory.conversation_id, Link(call.child_id, tool_call_id=call.id)
    for trajectory in trajectories:
        if (parent := trajectory.parent) is not None:
            child = Link(trajectory.conversation_id, tool_call_id=parent.tool_call_id)
            yield parent.conversation_id, child
