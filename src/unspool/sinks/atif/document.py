"""The document of one conversation: its steps, its agent, its totals, and the rest of it."""

from typing import Any

import msgspec

from unspool.reduce.totals import count_modes, number_segments, number_turns
from unspool.reduce.usage import Runs, add_model_usage
from unspool.sinks.atif.calls import flat_schema_key, to_definitions
from unspool.sinks.atif.extras import leftover, merged
from unspool.sinks.atif.family import Node, Refs
from unspool.sinks.atif.media import Files
from unspool.sinks.atif.metrics import total
from unspool.sinks.atif.model import Agent, Document, Step
from unspool.sinks.atif.steps import StepWriter
from unspool.sinks.atif.versions import NEWEST, PREFIX
from unspool.trajectory import Link, Mark, Message, Trajectory

NAMELESS = "unknown"

_PLACED = {
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
    rest = leftover(trajectory, _placed(trajectory))
    # Abandoned branches go without the bytes in them.
    for branch in rest.get("branches", ()):
        for message in branch["messages"]:
            for attachment in message.get("attachments", ()):
                attachment.pop("data", None)
    marks = untold(trajectory.marks or [], writer.told)
    if marks:
        rest["marks"] = msgspec.to_builtins(marks)
    children = [tie for tie in trajectory.children or () if not _is_told(tie, refs)]
    if children:
        rest["children"] = msgspec.to_builtins(children)
    parent = trajectory.parent
    unset = [name for name in ("agent", "session_id") if getattr(trajectory, name) is None]
    if unset and trajectory.source != FOREIGN:
        rest["unset"] = unset  # what stands in their places is only the nearest that is known
    if key := flat_schema_key(trajectory.tool_definitions):
        rest["flat_tools"] = key
    if parent is not None and not (inside and _is_plain(parent, node.call)):
        rest["parent"] = msgspec.to_builtins(parent)
    # The cost of the sub-agents that the document holds or refers to: no other adds up.
    referred = {tie.conversation_id for tie in refs.placed}
    counted = [cost for child, cost in costs.items() if refs.embedded or child in referred]
    document = Document(
        schema_version=PREFIX + NEWEST,
        session_id=trajectory.session_id or session or NAMELESS,
        trajectory_id=trajectory.conversation_id or NAMELESS,
        agent=build_agent(node.trajectory),
        steps=steps,
        notes=build_notes(trajectory, steps),
        final_metrics=total(steps, trajectory.usage, (sum(counted) if counted else None)),
        extra=merged(trajectory.extra, {}, rest),
    )
    plain: dict[str, Any] = msgspec.to_builtins(document)
    return plain, writer.places


def _placed(trajectory: Trajectory) -> set[str]:
    if trajectory.source != FOREIGN:
        return _PLACED
    return _PLACED | {"source", "file_path", "origins", "usage"}


def _is_plain(parent: Link, call: str | None) -> bool:
    """Whether a tie says no more than the place of the document within its parent's."""
    ident = parent.conversation_id
    return parent in (Link(ident), Link(ident, tool_call_id=call))


def _is_told(tie: Link, refs: Refs) -> bool:
    """Whether the document's own structure tells of the tie."""
    if tie in refs.placed:
        return True
    return refs.embedded and tie == Link(tie.conversation_id) and tie.conversation_id in refs.own


def build_agent(trajectory: Trajectory) -> Agent:
    primary = (trajectory.model_usage or {}).get("primary_model")
    first = next((m.model for m in trajectory.messages if m.role == "assistant" and m.model), None)
    return Agent(
        name=trajectory.agent or trajectory.source or "unknown",
        version=trajectory.agent_version or "unknown",
        model_name=primary if isinstance(primary, str) and primary else first,
        tool_definitions=to_definitions(trajectory.tool_definitions) or None,
    )


def build_notes(trajectory: Trajectory, steps: list[Step]) -> str | None:
    """What a reader of the document must know about its figures."""
    notes: list[str] = []
    copied = sum(1 for step in steps if step.is_copied_context)
    if copied:
        notes.append(
            f"{copied} of {len(steps)} steps are copied from an earlier conversation "
            "and not counted in the totals."
        )
    if trajectory.partial:
        notes.append(f"Known to be incomplete: {'; '.join(trajectory.partial)}.")
    return " ".join(notes) or None


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
        _drop_enrichment(bare)
    again = msgspec.structs.replace(bare, messages=[_bare(m) for m in bare.messages])
    derive(again)
    for name in ("started_at", "ended_at", "model_usage"):
        value = getattr(trajectory, name)
        if value is not None and value != getattr(again, name):
            setattr(bare, name, value)
    pairs = list(zip(bare.messages, trajectory.messages, again.messages, strict=True))
    if any(message.turn != derived.turn for _, message, derived in pairs):
        for copy, message, _ in pairs:
            copy.turn = message.turn
    if any(message.segment != derived.segment for _, message, derived in pairs):
        for copy, message, _ in pairs:
            copy.segment = message.segment
    return bare


def _drop_enrichment(bare: Trajectory) -> None:
    """No foreign document says what was typed, what is injected, what the context was: we do."""
    bare.context = {k: v for k, v in bare.context.items() if not k.startswith("message_context")}
    for message in bare.messages:
        message.typed = None
        if message.kind != "summary":
            message.kind = None


def _bare(message: Message) -> Message:
    return msgspec.structs.replace(message, turn=None, segment=0)


def untold(marks: list[Mark], told: list[Mark]) -> list[Mark]:
    """The marks that no step tells of, as they are."""
    return [mark for mark in marks if mark not in told]
