"""Writer: a family of conversations as ATIF documents and the files beside them."""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.errors import UsageError
from unspool.records import clean
from unspool.sinks import Family, Options, Piece, safe_name
from unspool.sinks.atif.extras import leftover, merged, residue_of
from unspool.sinks.atif.media import Files
from unspool.sinks.atif.metrics import total
from unspool.sinks.atif.model import Agent, Document, Ref, Step
from unspool.sinks.atif.residue import restore
from unspool.sinks.atif.steps import StepWriter
from unspool.sinks.atif.tools import to_definitions
from unspool.sinks.atif.tree import Node, plant
from unspool.sinks.atif.versions import DEFAULT, VERSIONS, to_version
from unspool.trajectory import Trajectory

SUFFIX = ".trajectory.json"

_PLACED = {
    *("conversation_id", "messages", "agent", "agent_version", "session_id"),
    *("usage", "tool_definitions", "extra"),
}


def write(family: Family, options: Options) -> Iterator[Piece]:
    """The documents of a family: the root, its sub-agents where they are files, the media."""
    version = str(options.get("atif_version") or DEFAULT)
    if version not in VERSIONS:
        raise UsageError(f"ATIF version {version}: known are {', '.join(VERSIONS)}")
    made = Writing(family, version, str(options.get("subagents") or "embedded"))
    for name, document in made.documents():
        yield Piece(name, encode(document))
    for name, data in made.files.found.items():
        yield Piece(name, data)


def encode(document: dict[str, Any]) -> bytes:
    """The document as indented JSON."""
    try:
        data = msgspec.json.encode(document)
    except UnicodeEncodeError:  # lone surrogates, which no UTF-8 can hold
        data = msgspec.json.encode(clean(document))
    return msgspec.json.format(data, indent=2) + b"\n"


def file_name(conversation_id: str) -> str:
    """`<id>.trajectory.json`; an id that no file can be called has a digest behind what is left."""
    safe = safe_name(conversation_id)
    if safe != conversation_id:
        digest = hashlib.sha256(conversation_id.encode("utf-8", "replace")).hexdigest()[:8]
        safe = f"{safe}-{digest}"
    return safe + SUFFIX


class Writing:
    """One family on its way out."""

    def __init__(self, family: Family, version: str, subagents: str) -> None:
        if subagents not in ("embedded", "files"):
            raise UsageError(f"sub-agents {subagents}: either embedded or files")
        self.version = version
        self.in_files = subagents == "files" or VERSIONS.index(version) < VERSIONS.index("1.7")
        self.files = Files()
        self.root = plant(family)
        self.session = family.root.session_id or family.root.conversation_id
        self._apart: list[tuple[str, dict[str, Any]]] = []

    def documents(self) -> list[tuple[str, dict[str, Any]]]:
        """(file name, document) of all that has steps; the root first."""
        found = self._document(self.root)
        self._apart.reverse()
        if found is None:
            return self._apart
        return [(file_name(self.root.id), found), *self._apart]

    def _document(self, node: Node) -> dict[str, Any] | None:
        """The document of a node, its sub-agents within or set apart; None where it has no steps."""
        embedded: list[dict[str, Any]] = []
        refs: dict[str, list[Ref]] = {}
        costs: list[float] = []
        for child in self._children(node):
            made = self._document(child)
            if made is None:
                continue
            cost = (made.get("final_metrics") or {}).get("total_cost_usd")
            costs += [cost] if cost is not None else []
            ref = self._ref(child, made)
            if child.call is not None:
                refs.setdefault(child.call, []).append(ref)
            if self.in_files:
                self._apart.append((file_name(child.id), made))
            else:
                embedded.append(made)
        return self._assemble(node, refs, embedded, sum(costs) if costs else None)

    def _children(self, node: Node) -> Iterator[Node]:
        """The sub-agents; those of one that has nothing to show stand in for it."""
        for child in node.children:
            if child.trajectory.messages or child.trajectory.marks:
                yield child
            else:
                yield from self._children(child)

    def _ref(self, child: Node, made: dict[str, Any]) -> Ref:
        path = file_name(child.id) if self.in_files else None
        return Ref(made.get("trajectory_id") or child.id, made.get("session_id"), path)

    def _assemble(
        self,
        node: Node,
        refs: dict[str, list[Ref]],
        embedded: list[dict[str, Any]],
        below: float | None,
    ) -> dict[str, Any] | None:
        trajectory = node.trajectory
        writer = StepWriter(trajectory, refs, self.files)
        steps = writer.build()
        if not steps:
            return None
        document = Document(
            schema_version="ATIF-v1.8",
            session_id=trajectory.session_id or self.session,
            trajectory_id=trajectory.conversation_id,
            agent=build_agent(trajectory),
            steps=steps,
            notes=build_notes(trajectory, steps),
            final_metrics=total(steps, trajectory.usage, below),
            extra=merged(trajectory.extra, {}, _rest(trajectory)),
        )
        made: dict[str, Any] = msgspec.to_builtins(document)
        if embedded:
            made["subagent_trajectories"] = embedded
        for step, place in zip(made["steps"], writer.places, strict=True):
            if place is not None:
                restore(step, residue_of(trajectory.messages[place].extra))
        made = to_version(made, self.version)
        restore(made, residue_of(trajectory.extra))
        return made


def _rest(trajectory: Trajectory) -> dict[str, Any]:
    """The fields that ATIF has no place for; abandoned branches without the bytes in them."""
    rest = leftover(trajectory, _PLACED)
    for branch in rest.get("branches", ()):
        for message in branch["messages"]:
            for attachment in message.get("attachments", ()):
                attachment.pop("data", None)
    return rest


def build_agent(trajectory: Trajectory) -> Agent:
    models = (trajectory.model_usage or {}).get("primary_model")
    first = next((m.model for m in trajectory.messages if m.role == "assistant" and m.model), None)
    return Agent(
        name=trajectory.agent or trajectory.source or "unknown",
        version=trajectory.agent_version or "unknown",
        model_name=models if isinstance(models, str) and models else first,
        tool_definitions=to_definitions(trajectory.tool_definitions) or None,
    )


def build_notes(trajectory: Trajectory, steps: list[Step]) -> str | None:
    """What a reader of the document must know about its figures."""
    said: list[str] = []
    copied = sum(1 for step in steps if step.is_copied_context)
    if copied:
        said.append(
            f"{copied} of {len(steps)} steps are copied from an earlier conversation "
            "and not counted in the totals."
        )
    if trajectory.partial:
        said.append(f"Known to be incomplete: {'; '.join(trajectory.partial)}.")
    return " ".join(said) or None
