"""Timeline: the conversation as its events in time, the way a telemetry dashboard wants it.

One JSON object per line. A Cursor conversation is told as prompts, responses and file edits; every
other one as user turns with the tools that each of them used. `docs/timeline.md`.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.sinks import Family, Options, Piece
from unspool.sinks.timeline_entries import Entries, lines, stamp
from unspool.trajectory import Trajectory

NAME = "timeline"
MANY_FILES = False
FAMILIES = False

PLATFORMS = {"claude-code": "claude"}
"""Sources that go by another name here; all others by their own."""

_encoder = msgspec.json.Encoder()


def write(family: Family, options: Options) -> Iterator[Piece]:
    yield Piece("", _encoder.encode(to_timeline(family.root)) + b"\n")


def to_timeline(trajectory: Trajectory) -> dict[str, Any]:
    """The reconstructed conversation; what is unknown is absent."""
    entries = Entries(trajectory)
    timeline = entries.prompts() if trajectory.source == "cursor" else entries.turns()
    made = {
        "session_id": trajectory.session_id or trajectory.conversation_id,
        "conversation_id": trajectory.conversation_id,
        "platform": PLATFORMS.get(trajectory.source, trajectory.source),
        **_workspace(trajectory),
        "started_at": stamp(trajectory.started_at),
        "ended_at": stamp(trajectory.ended_at),
        "title": trajectory.title,
        **_composer(trajectory),
        **_counts(trajectory, entries),
        "model_usage": _model_usage(trajectory),
        **_changes(trajectory),
        **_tokens(trajectory),
        "parent_id": trajectory.parent.conversation_id if trajectory.parent else None,
        "timeline": timeline,
    }
    return {name: value for name, value in made.items() if value is not None}


def _workspace(trajectory: Trajectory) -> dict[str, Any]:
    workspace = trajectory.workspace
    if workspace is None:
        return {}
    return {
        "workspace_path": workspace.path,
        "workspace_name": workspace.name,
        "workspace_hash": workspace.hash,
    }


def _composer(trajectory: Trajectory) -> dict[str, Any]:
    """What Cursor calls a composer; a conversation of another agent has none."""
    if trajectory.source != "cursor":
        return {}
    metadata = trajectory.metadata
    return {
        "composer_name": trajectory.title,
        "composer_mode": metadata.get("composer_mode", metadata.get("mode")),
        "context_usage": metadata.get("context_usage"),
        "title": None,
    }


def _counts(trajectory: Trajectory, entries: Entries) -> dict[str, Any]:
    calls = sum(len(message.tool_calls or ()) for message in trajectory.messages)
    marks = trajectory.marks or []
    spoken = [m for m in trajectory.messages if m.role in ("user", "assistant")]
    return {
        "event_count": entries.turn_count + calls + len(marks),
        "transcript_messages": len(spoken),
        "user_turns": entries.turn_count,
        "tools_executed": calls,
        "compactions": sum(1 for mark in marks if mark.kind == "compaction"),
    }


def _model_usage(trajectory: Trajectory) -> dict[str, Any] | None:
    known = trajectory.model_usage
    if known is None:
        return None
    made = {name: known[name] for name in known if name != "by_model"}
    if "by_model" in known:
        made["by_model"] = known["by_model"]
    return made


def _changes(trajectory: Trajectory) -> dict[str, Any]:
    """Lines and files changed: as the agent counted them, else as its edits add up."""
    metadata = trajectory.metadata
    edits = [touch for touch in trajectory.files or () if touch.operation != "read"]
    return {
        "total_lines_added": metadata.get("total_lines_added", lines(edits, "lines_added")),
        "total_lines_removed": metadata.get("total_lines_removed", lines(edits, "lines_removed")),
        "files_changed": metadata.get("files_changed", len({touch.path for touch in edits})),
    }


def _tokens(trajectory: Trajectory) -> dict[str, Any]:
    """Totals, cache reads and writes apart."""
    usage = trajectory.usage
    if usage is None:
        return {}
    known = msgspec.to_builtins(usage)
    return {"usage": {name: value for name, value in known.items() if name != "extra"} or None}
