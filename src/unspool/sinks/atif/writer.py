"""Writer: a family of conversations as ATIF documents and the files beside them."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from unspool.errors import UsageError
from unspool.io.packing import encode_json
from unspool.sinks import Family, Options, Piece, safe_name, unique_names
from unspool.sinks.atif import model
from unspool.sinks.atif.extras import gather, residue_of, restore
from unspool.sinks.atif.media import Files
from unspool.sinks.atif.model import FOREIGN, IDS, NAMELESS, Json, older
from unspool.sinks.atif.steps import StepWriter, has_steps, to_definition, total
from unspool.sinks.atif.versions import to_version
from unspool.sinks.jsonl import drop_bytes
from unspool.trajectory import Trajectory
from unspool.views.families import Node, plant

SUFFIX = ".trajectory.json"


def write(family: Family, options: Options) -> Iterator[Piece]:
    """The documents of a family: the root, its sub-agents where they are files, the media."""
    version = options.get("atif_version")
    writing = Writing(family, version, str(options.get("subagents") or "embedded"))
    for name, document in writing.documents():
        yield Piece(name, msgspec.json.format(encode_json(document), indent=2) + b"\n")
    for name, data in writing.files.items():
        yield Piece(name, data)


def file_name(conversation_id: str) -> str:
    """`<id>.trajectory.json`; an id that no file can be called has a digest behind what is left."""
    safe = safe_name(conversation_id)
    if safe != conversation_id:
        digest = hashlib.sha256(conversation_id.encode("utf-8", "replace")).hexdigest()[:8]
        safe = f"{safe}-{digest}"
    return safe + SUFFIX


class Writing:
    """One family on its way out."""

    def __init__(
        self,
        family: Family,
        version: str | None = None,
        subagents: str = "embedded",
        session: str | None = None,
    ) -> None:
        if version is not None and version not in model.VERSIONS:
            raise UsageError(f"ATIF version {version}: known are {', '.join(model.VERSIONS)}")
        if subagents not in ("embedded", "files"):
            raise UsageError(f"sub-agents {subagents}: either embedded or files")
        self.files: Files = {}
        self.root = plant(family.root, family.descendants)
        for node in self.root.walk():
            order = residue_of(node.trajectory.extra).children
            if order:  # as the document had them that they were read from
                places = {ident: place for place, ident in reversed(list(enumerate(order)))}
                node.children.sort(key=lambda child: places.get(child.id, len(order)))
        self.version = version or _needed(self.root)
        self.in_files = subagents == "files" or older(self.version, IDS)
        self.session = session or session_of(family.root)
        nodes = list(self.root.walk())
        names = unique_names(file_name(node.id) for node in nodes)
        self.names = {node.id: name for node, name in zip(nodes, names, strict=True)}
        self._apart: list[tuple[str, Json]] = []

    def documents(self) -> list[tuple[str, Json]]:
        """(file name, document) of all that has steps; the root first."""
        documents: list[tuple[str, Json]] = []
        for node, _ in _shown([self.root]):
            self._apart = []
            documents.append((self.names[node.id], self.build(node)))
            documents += self._apart
        return documents

    def build(self, node: Node, inside: bool = False) -> Json:
        """The document of a node that has steps; its sub-agents are in it, or set apart."""
        refs: dict[str, model.Ref] = {}
        started: dict[str, list[str]] = defaultdict(list)
        embedded: list[Json] = []
        costs: dict[str, float] = {}
        for child, call in _shown(node.children):
            below = self.build(child, inside=not self.in_files)
            cost = (below.get("final_metrics") or {}).get("total_cost_usd")
            if cost is not None:
                costs[child.id] = cost
            if call is not None:
                started[call].append(child.id)
            ref = refs[child.id] = model.Ref(session_id=below.get("session_id"))
            if not older(self.version, IDS):
                ref.trajectory_id = below.get("trajectory_id") or child.id
            if self.in_files:
                ref.trajectory_path = self.names[child.id]
                self._apart.append((ref.trajectory_path, below))
            else:
                embedded.append(below)
        trajectory = node.trajectory
        writer = StepWriter(trajectory, self.files, refs, started, embedded=not self.in_files)
        writer.build()
        # The cost of the sub-agents that the document holds or refers to: no other adds up.
        counted = [c for child, c in costs.items() if not self.in_files or child in writer.referred]
        below_usd = sum(counted) if counted else None
        plain = self._document(trajectory, writer.steps, below_usd)
        document: Json = msgspec.to_builtins(plain)
        # What the trajectory keeps of the document that it was read from.
        kept = residue_of(trajectory.extra)
        for step, place in zip(document["steps"], writer.places, strict=True):
            if place is not None:
                residue = residue_of(trajectory.messages[place].extra)
                restore(step, residue.set, residue.unset)
        if embedded:
            document["subagent_trajectories"] = embedded
        restore(document, kept.set, kept.unset)
        # An id that the document did without may be needed where it goes now.
        if inside:
            document.setdefault("trajectory_id", node.id)
        if self.version not in (model.NEWEST, kept.version):
            to_version(document, self.version)
        if older(self.version, IDS):
            document.pop("trajectory_id", None)
            document.setdefault("session_id", node.id)
        return document

    def _document(
        self, trajectory: Trajectory, steps: list[model.Step], below_usd: float | None
    ) -> model.Document:
        """At the newest version, without its sub-agents, which cost `below_usd`."""
        placed, more = _PLACED, {}
        if trajectory.source == FOREIGN:
            placed |= _DERIVED
        else:  # what stands in their places is only the nearest that is known
            more = {n: None for n in ("agent", "session_id") if getattr(trajectory, n) is None}
        drop_bytes(msgspec.structs.replace(trajectory, messages=[]))  # those of abandoned branches
        parent = trajectory.parent
        is_fork = parent is not None and parent.kind != "subagent"  # and so a run of its own
        session = session_of(trajectory) if is_fork else self.session
        primary = (trajectory.model_usage or {}).get("primary_model")
        models = (m.model for m in trajectory.messages if m.role == "assistant" and m.model)
        # What a reader of the document must know about its figures.
        notes: list[str] = []
        copied = sum(1 for step in steps if step.is_copied_context)
        if copied:
            notes.append(
                f"{copied} of {len(steps)} steps are copied from an earlier conversation "
                "and not counted in the totals."
            )
        if trajectory.partial:
            notes.append(f"Known to be incomplete: {'; '.join(trajectory.partial)}.")
        return model.Document(
            schema_version=model.PREFIX + self.version,
            session_id=trajectory.session_id or session or NAMELESS,
            trajectory_id=trajectory.conversation_id or NAMELESS,
            agent=model.Agent(
                name=trajectory.agent or trajectory.source or NAMELESS,
                version=trajectory.agent_version or NAMELESS,
                model_name=primary if isinstance(primary, str) and primary else next(models, None),
                tool_definitions=[*map(to_definition, trajectory.tool_definitions or ())] or None,
            ),
            steps=steps,
            notes=" ".join(notes) or None,
            final_metrics=total(steps, trajectory.usage, below_usd),
            extra=gather(trajectory, trajectory.extra, placed, **more),
        )


_PLACED = frozenset(
    {"conversation_id", "messages", "agent", "agent_version", "session_id", "tool_definitions"}
)
_DERIVED = {
    *("source", "file_path", "origins", "usage", "marks", "children", "parent"),
    *("started_at", "ended_at", "model_usage", "context"),
}
"""What somebody else's document tells by its steps, figures and references, or not at all."""


def _shown(nodes: list[Node]) -> Iterator[tuple[Node, str | None]]:
    """(node, the call that started it); those below one that has nothing to show stand in for it."""
    for node in nodes:
        if has_steps(node.trajectory):
            yield node, node.call
        else:
            yield from ((below, node.call) for below, _ in _shown(node.children))


def session_of(trajectory: Trajectory) -> str:
    """The run that a conversation belongs to: a sub-agent's is its parent's."""
    if trajectory.session_id:
        return trajectory.session_id
    parent = trajectory.parent
    if parent is not None and parent.kind == "subagent":
        return parent.conversation_id
    return trajectory.conversation_id


def _needed(root: Node) -> str:
    """The version that can hold all of it: most readers know 1.7, only sound needs 1.8."""
    sounds = (
        attachment.media_type.startswith("audio/")
        for node in root.walk()
        for message in node.trajectory.messages
        for attachment in message.attachments or ()
    )
    return model.AUDIO if any(sounds) else model.DEFAULT
