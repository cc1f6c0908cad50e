"""References from results to the sub-agents that they came from."""

from unspool.sinks.atif.model import Ref
from unspool.sinks.atif.residue import keep_residue, residue_of
from unspool.trajectory import Link, Message, Trajectory


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
            for told in (message, *lone_results(message))
            for child, _ in residue_of(told.extra).refs
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

    def of_message(self, message: Message, made: list[Ref]) -> tuple[list[Ref], list[Ref]]:
        """With the references that the result had; and those that ATIF does not take as they are."""
        odd: list[Ref] = []
        for child, given in residue_of(message.extra).refs:
            self.placed.append(Link(child, tool_call_id=message.tool_call_id))
            if child in self.own:
                if self.own[child] not in made:
                    made.append(self.own[child])
            elif given and self._may_stand(given):
                made.append(given)
            elif given:
                odd.append(given)
        return made, odd

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
