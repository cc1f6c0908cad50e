"""The family of a document: every conversation once, below the one that started it, and references."""

from collections import defaultdict
from collections.abc import Iterator

from unspool.sinks import Family
from unspool.sinks.atif.extras import keep_residue, residue_of
from unspool.sinks.atif.model import Ref
from unspool.trajectory import Link, Message, Trajectory


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
    descendants = {t.conversation_id: t for t in family.descendants if t is not family.root}
    descendants.pop(family.root.conversation_id, None)
    ties = _ties([family.root, *descendants.values()])
    root = Node(family.root)
    placed = {root.id}
    waiting = [root]
    while waiting:  # breadth first: the nearest parent gets the child
        node = waiting.pop(0)
        for child, call in ties[node.id].items():
            if child in descendants and child not in placed:
                placed.add(child)
                node.children.append(Node(descendants[child], call))
        waiting += node.children
    # Those that are said to be of the family, but are tied to nothing in it.
    for ident, trajectory in descendants.items():
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
    ties: dict[str, dict[str, str | None]] = defaultdict(dict)

    def tie(parent: str, child: str, call: str | None) -> None:
        ties[parent][child] = ties[parent].get(child) or call

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
    return ties


class Refs:
    """The references of one document: to its own sub-agents, and to what lies elsewhere."""

    def __init__(self, trajectory: Trajectory, embedded: bool) -> None:
        self.embedded = embedded
        self.own: dict[str, Ref] = {}
        """Sub-agents that go out with the document."""
        self.calls: dict[str, list[str]] = {}
        """Tool call → the sub-agents that it started, until their result is written."""
        self.told = {
            child
            for message in trajectory.messages
            for result in (message, *lone_results(message))
            for child, _ in residue_of(result.extra).refs
        }
        """Children that results refer to by what a document said."""
        self.placed: list[Link] = []
        """The ties that the written references tell."""

    def add(self, child: str, call: str | None, ref: Ref) -> None:
        self.own[child] = ref
        if call is not None:
            self.calls.setdefault(call, []).append(child)

    def tells(self, call: str, child: str) -> bool:
        """Whether some reference will tell that this call started that child."""
        return child in self.told or child in self.calls.get(call, ())

    def of_call(self, call: str) -> list[Ref]:
        """The references of a call, once."""
        children = self.calls.pop(call, [])
        self.placed += [Link(child, tool_call_id=call) for child in children]
        return [self.own[child] for child in children]

    def of_message(self, message: Message, own: list[Ref]) -> tuple[list[Ref], list[Ref]]:
        """With the references that the result had; and those that ATIF does not take as they are."""
        odd: list[Ref] = []
        for child, given in residue_of(message.extra).refs:
            self.placed.append(Link(child, tool_call_id=message.tool_call_id))
            if child in self.own:
                if self.own[child] not in own:
                    own.append(self.own[child])
            elif given and self._may_stand(given):
                own.append(given)
            elif given:
                odd.append(given)
        return own, odd

    def _may_stand(self, given: Ref) -> bool:
        """A path may lead anywhere; by an id alone only embedded trajectories are found."""
        by_id = self.embedded and given.trajectory_id is not None
        return by_id or given.trajectory_path is not None


def lone_results(message: Message) -> list[Message]:
    """Results that did nothing but refer to the sub-agents of calls which have no result."""
    return [
        Message("tool", "", tool_call_id=call, extra=keep_residue(None, refs=refs))
        for call, refs in residue_of(message.extra).lone.items()
    ]
