"""Writer: a family of conversations as ATIF documents and the files beside them."""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.errors import UsageError
from unspool.io.door import clean
from unspool.sinks import Family, Options, Piece, safe_name, unique_names
from unspool.sinks.atif.document import build_document
from unspool.sinks.atif.extras import residue_of, restore, without_steps
from unspool.sinks.atif.family import Node, Refs, plant
from unspool.sinks.atif.lenient import Tidied
from unspool.sinks.atif.media import Files
from unspool.sinks.atif.model import Ref
from unspool.sinks.atif.steps import has_steps
from unspool.sinks.atif.versions import AUDIO, DEFAULT, VERSIONS, older, to_version
from unspool.trajectory import Trajectory

SUFFIX = ".trajectory.json"

Json = dict[str, Any]


def write(family: Family, options: Options) -> Iterator[Piece]:
    """The documents of a family: the root, its sub-agents where they are files, the media."""
    version = options.get("atif_version")
    writing = Writing(family, version, str(options.get("subagents") or "embedded"))
    for name, document in writing.documents():
        yield Piece(name, encode(document))
    for name, data in writing.files.found.items():
        yield Piece(name, data)


def encode(document: Json) -> bytes:
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


class Draft:
    """A document at the newest version, as the trajectory tells it."""

    __slots__ = ("embedded", "inside", "made", "node", "places")

    def __init__(
        self,
        node: Node,
        made: Json,
        places: list[int | None],
        embedded: list[Json],
        inside: bool,
    ) -> None:
        self.node = node
        self.inside = inside
        """Whether it goes into its parent's document."""
        self.made = made
        self.places = places
        """For every step the message that stands for it."""
        self.embedded = embedded


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
        self.session = session or _session(family.root)
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
            refs.add(child.id, call, self._ref(child, document_below))
            if self.in_files:
                self._apart.append((self.names[child.id], document_below))
            else:
                embedded.append(document_below)
        parent = node.trajectory.parent
        is_fork = parent is not None and parent.kind != "subagent"  # and so a run of its own
        session = _session(node.trajectory) if is_fork else self.session
        document, places = build_document(node, refs, self.files, session, costs, inside)
        return Draft(node, document, places, embedded, inside)

    def finish(self, draft: Draft) -> Json:
        """The draft with what its trajectory keeps of a document, at the wanted version."""
        trajectory, made, odd = draft.node.trajectory, draft.made, False
        for step, place in zip(made["steps"], draft.places, strict=True):
            if place is not None:
                residue = residue_of(trajectory.messages[place].extra)
                restore(step, residue.set, residue.unset)
                odd = odd or bool(residue.set or residue.unset)
        if draft.embedded:
            made["subagent_trajectories"] = draft.embedded
        made = to_version(made, self.version)
        kept = residue_of(trajectory.extra)
        if kept.version not in (None, self.version):
            kept = without_steps(kept)
        restore(made, kept.set, kept.unset)
        if odd or kept.set or kept.unset:  # it may be for another document than this one is now
            made = Tidied(made).document
        # An id that the document did without may be needed where it goes now.
        if draft.inside:
            made.setdefault("trajectory_id", draft.node.id)
        if older(self.version, "1.7"):
            made.setdefault("session_id", draft.node.id)
        return made

    def _children(self, node: Node) -> Iterator[tuple[Node, str | None]]:
        """The sub-agents; those of one that has nothing to show stand in for it."""
        for child in node.children:
            if has_steps(child.trajectory):
                yield child, child.call
            else:
                for below, _ in self._children(child):
                    yield below, child.call

    def _ref(self, child: Node, document: Json) -> Ref:
        path = self.names[child.id] if self.in_files else None
        return Ref(document.get("trajectory_id") or child.id, document.get("session_id"), path)


def _session(trajectory: Trajectory) -> str:
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
