"""Writer: a family of conversations as ATIF documents and the files beside them."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from unspool.errors import UsageError
from unspool.io.packing import encode_json
from unspool.reduce.totals import count_modes, number_segments, number_turns
from unspool.reduce.usage import Runs, add_model_usage
from unspool.sinks import Family, Options, Piece, safe_name, unique_names
from unspool.sinks.atif.extras import leftover, merged, residue_of, restore, without_steps
from unspool.sinks.atif.lenient import Tidied
from unspool.sinks.atif.media import Files
from unspool.sinks.atif.model import Agent, Document, Ref
from unspool.sinks.atif.steps import (
    Refs,
    StepWriter,
    flat_schema_key,
    has_steps,
    to_definitions,
    total,
)
from unspool.sinks.atif.versions import AUDIO, DEFAULT, NEWEST, PREFIX, VERSIONS, older, to_version
from unspool.trajectory import Link, Message, Trajectory

SUFFIX = ".trajectory.json"

Json = dict[str, Any]


def write(family: Family, options: Options) -> Iterator[Piece]:
    """The documents of a family: the root, its sub-agents where they are files, the media."""
    version = options.get("atif_version")
    writing = Writing(family, version, str(options.get("subagents") or "embedded"))
    for name, document in writing.documents():
        yield Piece(name, msgspec.json.format(encode_json(document), indent=2) + b"\n")
    for name, data in writing.files.by_name.items():
        yield Piece(name, data)


def file_name(conversation_id: str) -> str:
    """`<id>.trajectory.json`; an id that no file can be called has a digest behind what is left."""
    safe = safe_name(conversation_id)
    if safe != conversation_id:
        digest = hashlib.sha256(conversation_id.encode("utf-8", "replace")).hexdigest()[:8]
        safe = f"{safe}-{digest}"
    return safe + SUFFIX


class Node(msgspec.Struct, eq=False):
    """A conversation and its sub-agents, each with the call that started it."""

    trajectory: Trajectory
    call: str | None = None
    children: list["Node"] = []

    @property
    def id(self) -> str:
        return self.trajectory.conversation_id

    def walk(self) -> Iterator["Node"]:
        yield self
        for child in self.children:
            yield from child.walk()


class Draft(NamedTuple):
    """A document at the newest version, as the trajectory tells it."""

    node: Node
    document: Json
    places: list[int | None]
    """For every step the message that stands for it."""
    embedded: list[Json]
    inside: bool
    """Whether it goes into its parent's document."""


class Writing:
    """One family on its way out."""

    def __init__(
        self,
        family: Family,
        version: str | None = None,
        subagents: str = "embedded",
        session: str | None = None,
    ) -> None:
        if version is not None and version not in VERSIONS:
            raise UsageError(f"ATIF version {version}: known are {', '.join(VERSIONS)}")
        if subagents not in ("embedded", "files"):
            raise UsageError(f"sub-agents {subagents}: either embedded or files")
        self.files = Files()
        self.root = plant(family)
        self.version = version or _needed(self.root)
        self.in_files = subagents == "files" or older(self.version, "1.7")
        self.session = session or session_of(family.root)
        nodes = list(self.root.walk())
        names = unique_names(file_name(node.id) for node in nodes)
        self.names = {node.id: name for node, name in zip(nodes, names, strict=True)}
        self._apart: list[tuple[str, Json]] = []

    def documents(self) -> list[tuple[str, Json]]:
        """(file name, document) of all that has steps; the root first."""
        documents: list[tuple[str, Json]] = []
        for node in self._tops(self.root):
            self._apart = []
            documents.append((self.names[node.id], self.finish(self.draft(node))))
            documents += self._apart
        return documents

    def _tops(self, node: Node) -> Iterator[Node]:
        """The root; its sub-agents where it has no steps itself."""
        if has_steps(node.trajectory):
            yield node
        else:
            for child in node.children:
                yield from self._tops(child)

    def draft(self, node: Node, inside: bool = False) -> Draft:
        """The document of a node that has steps, its sub-agents within or set apart."""
        refs = Refs(node.trajectory, not self.in_files)
        embedded: list[Json] = []
        costs: dict[str, float] = {}
        for child, call in self._children(node):
            document_below = self.finish(self.draft(child, inside=not self.in_files))
            cost = (document_below.get("final_metrics") or {}).get("total_cost_usd")
            if cost is not None:
                costs[child.id] = cost
            path = self.names[child.id] if self.in_files else None
            ident = document_below.get("trajectory_id") or child.id
            refs.add(child.id, call, Ref(ident, document_below.get("session_id"), path))
            if path is not None:
                self._apart.append((path, document_below))
            else:
                embedded.append(document_below)
        parent = node.trajectory.parent
        is_fork = parent is not None and parent.kind != "subagent"  # and so a run of its own
        session = session_of(node.trajectory) if is_fork else self.session
        document, places = build_document(node, refs, self.files, session, costs, inside)
        return Draft(node, document, places, embedded, inside)

    def finish(self, draft: Draft) -> Json:
        """The draft with what its trajectory keeps of a document, at the wanted version."""
        trajectory, document, odd = draft.node.trajectory, draft.document, False
        for step, place in zip(document["steps"], draft.places, strict=True):
            if place is not None:
                residue = residue_of(trajectory.messages[place].extra)
                restore(step, residue.set, residue.unset)
                odd = odd or bool(residue.set or residue.unset)
        if draft.embedded:
            document["subagent_trajectories"] = draft.embedded
        document = to_version(document, self.version)
        kept = residue_of(trajectory.extra)
        if kept.version not in (None, self.version):
            kept = without_steps(kept)
        restore(document, kept.set, kept.unset)
        if odd or kept.set or kept.unset:  # it may be for another document than this one is now
            document = Tidied(document).document
        # An id that the document did without may be needed where it goes now.
        if draft.inside:
            document.setdefault("trajectory_id", draft.node.id)
        if older(self.version, "1.7"):
            document.setdefault("session_id", draft.node.id)
        return document

    def _children(self, node: Node) -> Iterator[tuple[Node, str | None]]:
        """The sub-agents; those of one that has nothing to show stand in for it."""
        for child in node.children:
            if has_steps(child.trajectory):
                yield child, child.call
            else:
                for below, _ in self._children(child):
                    yield below, child.call


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
    return AUDIO if any(sounds) else DEFAULT


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


NAMELESS = "unknown"

_ROOT_PLACED = {
    *("conversation_id", "messages", "agent", "agent_version", "session_id"),
    *("tool_definitions", "extra", "marks", "children", "parent"),
}


def build_document(
    node: Node, refs: Refs, files: Files, session: str, costs: dict[str, float], inside: bool
) -> tuple[dict[str, Any], list[int | None]]:
    """At the newest version; and for every step the message that stands for it.

    `costs` are those of the sub-agents; `inside` says that the document goes into its parent's, which
    tells whose it is.
    """
    trajectory = without_derived(node.trajectory)
    writer = StepWriter(trajectory, refs, files)
    steps = writer.build()
    derived = {"source", "file_path", "origins", "usage"} if trajectory.source == FOREIGN else set()
    rest = leftover(trajectory, _ROOT_PLACED | derived)
    # Abandoned branches go without the bytes in them.
    for branch in rest.get("branches", ()):
        for message in branch["messages"]:
            for attachment in message.get("attachments", ()):
                attachment.pop("data", None)
    marks = [mark for mark in trajectory.marks or () if mark not in writer.marks_told]
    if marks:
        rest["marks"] = msgspec.to_builtins(marks)
    # Ties that neither a reference nor an embedded document tells of.
    shown = [*refs.placed, *(Link(child) for child in refs.own if refs.embedded)]
    children = [tie for tie in trajectory.children or () if tie not in shown]
    if children:
        rest["children"] = msgspec.to_builtins(children)
    parent = trajectory.parent
    unset = [name for name in ("agent", "session_id") if getattr(trajectory, name) is None]
    if unset and trajectory.source != FOREIGN:
        rest["unset"] = unset  # what stands in their places is only the nearest that is known
    if key := flat_schema_key(trajectory.tool_definitions):
        rest["flat_tools"] = key
    if parent is not None:
        # A tie that says no more than the document's place in its parent's need not be told.
        plain_ties = [Link(parent.conversation_id, tool_call_id=c) for c in (None, node.call)]
        if not inside or parent not in plain_ties:
            rest["parent"] = msgspec.to_builtins(parent)
    # The cost of the sub-agents that the document holds or refers to: no other adds up.
    referred = {tie.conversation_id for tie in refs.placed}
    counted = [cost for child, cost in costs.items() if refs.embedded or child in referred]
    primary = (node.trajectory.model_usage or {}).get("primary_model")
    first = next((m.model for m in trajectory.messages if m.role == "assistant" and m.model), None)
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
    document = Document(
        schema_version=PREFIX + NEWEST,
        session_id=trajectory.session_id or session or NAMELESS,
        trajectory_id=trajectory.conversation_id or NAMELESS,
        agent=Agent(
            name=trajectory.agent or trajectory.source or NAMELESS,
            version=trajectory.agent_version or NAMELESS,
            model_name=primary if isinstance(primary, str) and primary else first,
            tool_definitions=to_definitions(trajectory.tool_definitions) or None,
        ),
        steps=steps,
        notes=" ".join(notes) or None,
        final_metrics=total(steps, trajectory.usage, sum(counted) if counted else None),
        extra=merged(trajectory.extra, {}, rest),
    )
    plain: dict[str, Any] = msgspec.to_builtins(document)
    return plain, writer.places


FOREIGN = "atif"
"""The source of a trajectory that was read from a document which is not ours."""


def derive(trajectory: Trajectory) -> None:
    """Fill in what follows from the messages, where it is not known already."""
    messages = trajectory.messages
    if all(message.turn is None for message in messages):
        number_turns(messages)
    if not any(message.segment for message in messages):
        number_segments(trajectory)
    if not trajectory.mode_distribution and not trajectory.metadata:
        count_modes(trajectory)
    times = [message.timestamp for message in messages if message.timestamp]
    trajectory.started_at = trajectory.started_at or min(times, default=None)
    trajectory.ended_at = trajectory.ended_at or max(times, default=None)
    if trajectory.model_usage is None:
        add_model_usage(trajectory, Runs())


def without_derived(trajectory: Trajectory) -> Trajectory:
    """A copy in which what `derive` would find is absent; its messages are copies too."""
    bare = msgspec.structs.replace(
        trajectory,
        messages=[_bare(message) for message in trajectory.messages],
        started_at=None,
        ended_at=None,
        model_usage=None,
    )
    if trajectory.source == FOREIGN:
        # No foreign document says what was typed, what is injected, what the context was: we do.
        bare.context = {
            k: v for k, v in bare.context.items() if not k.startswith("message_context")
        }
        for message in bare.messages:
            message.typed = None
            if message.kind != "summary":
                message.kind = None
    again = msgspec.structs.replace(bare, messages=[_bare(m) for m in bare.messages])
    derive(again)
    for name in ("started_at", "ended_at", "model_usage"):
        value = getattr(trajectory, name)
        if value is not None and value != getattr(again, name):
            setattr(bare, name, value)
    for name in ("turn", "segment"):
        numbers = [getattr(message, name) for message in trajectory.messages]
        if numbers != [getattr(message, name) for message in again.messages]:
            for copy, number in zip(bare.messages, numbers, strict=True):
                setattr(copy, name, number)
    return bare


def _bare(message: Message) -> Message:
    return msgspec.structs.replace(message, turn=None, segment=0)
