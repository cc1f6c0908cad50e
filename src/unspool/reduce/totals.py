"""Totals: what follows from the messages once they stand: turns, segments, files, references.

user "fix it"                    turn 0
user "<system-reminder>…"        injected: still turn 0
mark compaction                  what is behind it is segment 1 (cases/claude_code/compaction)
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import msgspec

from unspool.facts import DENIED_BY, ENCRYPTED, Noted
from unspool.io.structs import Shape
from unspool.reduce.lists import identity
from unspool.reduce.notes import apply_to_messages, apply_to_trajectory, follow
from unspool.reduce.records import NOT_TYPED
from unspool.reduce.usage import Runs, add_usage, give_to_requests, total
from unspool.trajectory import FileTouch, Mark, Message, ToolCall, Trajectory, Workspace


def complete(trajectory: Trajectory, notes: list[Noted], runs: Runs | None = None) -> None:
    """Everything that is derived from the messages, the notes and the marks."""
    runs = runs if runs is not None else Runs()
    number_turns(trajectory.messages)
    number_segments(trajectory)
    give_to_requests(trajectory.messages, runs.requests)
    apply_to_messages(notes, trajectory.messages)
    follow(runs.following, trajectory.messages, runs.places)
    apply_to_trajectory(notes, trajectory)
    spread_copied(trajectory.messages)
    close_calls(trajectory)
    take_files(trajectory)
    take_references(trajectory)
    count_modes(trajectory)
    count_encrypted(trajectory)
    add_usage(trajectory, runs)
    complete_workspace(trajectory)


def spread_copied(messages: list[Message]) -> None:
    """What a copied message's calls returned was copied with it; turns count from behind that."""
    if True not in [message.copied for message in messages]:
        return
    calls = {c.id for m in messages if m.copied for c in m.tool_calls or ()}
    own = {c.id for m in messages if not m.copied for c in m.tool_calls or ()}
    """Calls that stand here themselves: their first result is the thing itself, no copy of it."""
    for message in messages:
        call = message.tool_call_id
        if call in own and not message.copied:
            own.discard(call)
        else:
            message.copied = message.copied or call in calls
        message.turn = None
    number_turns(messages)


def drop_calls(trajectory: Trajectory, dropped: set[str]) -> None:
    """Take out calls that turned out to be another conversation's, and what came of them."""

    def is_gone(message: Message) -> bool:
        if not message.tool_calls:
            return message.tool_call_id in dropped
        message.tool_calls = [c for c in message.tool_calls if c.id not in dropped] or None
        return message.tool_calls is None and not message.content

    files = [touch for touch in trajectory.files or () if touch.tool_call_id not in dropped]
    trajectory.files = files or None
    _take_out(trajectory, is_gone)


def drop_messages(trajectory: Trajectory, is_gone: Callable[[Message], bool]) -> None:
    """Take out words that turned out to be another conversation's; turns are counted anew."""
    _take_out(trajectory, is_gone)
    for message in trajectory.messages:
        message.turn = None
    number_turns(trajectory.messages)
    for touch in trajectory.files or ():
        at = touch.index
        touch.turn = trajectory.messages[at].turn if at is not None else None


def _take_out(trajectory: Trajectory, is_gone: Callable[[Message], bool]) -> None:
    kept: list[Message] = []
    before = [0]
    """Index → the number of messages kept before it."""
    for message in trajectory.messages:
        if not is_gone(message):
            kept.append(message)
        before.append(len(kept))
    trajectory.messages = kept
    for touch in trajectory.files or ():
        touch.index = before[touch.index] if touch.index is not None else None
    for place in (*(trajectory.marks or ()), *(trajectory.branches or ())):
        place.index = before[min(place.index, len(before) - 1)]


def put_in(trajectory: Trajectory, before: str, message: Message) -> None:
    """Put an answer behind the message before it, and behind what the calls of that returned, unless
    somebody else told it there."""
    messages = trajectory.messages
    at = next((n for n, other in enumerate(messages, 1) if other.id == before), 0)
    while at and at < len(messages) and messages[at].role in ("tool", "assistant"):
        if messages[at].content and messages[at].content.strip() == message.content.strip():
            return
        at += 1
    above = messages[at - 1] if at else Message("user", "")
    message = msgspec.structs.replace(message, turn=above.turn, segment=above.segment)
    messages.insert(at, message)
    for touch in trajectory.files or ():
        touch.index = touch.index + (touch.index >= at) if touch.index is not None else None
    for mark in trajectory.marks or ():
        is_later = (mark.timestamp or "") > (message.timestamp or "")
        mark.index += mark.index > at or (mark.index == at and is_later)
    for branch in trajectory.branches or ():
        branch.index += branch.index > at


def leave_out(trajectory: Trajectory, copied: Callable[[Message], bool]) -> None:
    """Mark what was copied from another conversation and take it out of the totals.

    Totals that were reported, not summed up, stay: nobody knows how much of them was copied.
    """
    summed = total([m.usage for m in trajectory.messages if m.usage and not m.copied])
    derived = trajectory.usage == summed
    for message in trajectory.messages:
        message.copied = message.copied or copied(message)
    spread_copied(trajectory.messages)
    for touch in trajectory.files or ():
        touch.turn = trajectory.messages[touch.index].turn if touch.index is not None else None
    if derived:
        trajectory.usage = None
        trajectory.model_usage = {
            name: value
            for name, value in (trajectory.model_usage or {}).items()
            if name not in _DERIVED
        } or None
        add_usage(trajectory, Runs())


_DERIVED = ("models_used", "primary_model", "model_switches", "total_tokens", "by_model")


def is_turn(message: Message) -> bool:
    """Whether a person said this."""
    return message.role == "user" and message.kind not in NOT_TYPED and not message.copied


def number_turns(messages: list[Message]) -> None:
    """Every message gets the number of its turn.

    segment 0: user "fix it" (turn 0), user "thanks" (turn 1);  segment 1 repeats "fix it": turn 0
    """
    turn = -1
    first_turns: dict[tuple[Any, ...], int] = {}
    repeats = True in [message.copied for message in messages]
    for message in messages:
        role = message.role
        if role == "user" and is_turn(message):
            turn += 1
        elif role == "system":
            continue
        if turn < 0:
            continue
        message.turn = turn
        if repeats:
            first = first_turns.setdefault(identity(message), turn)
            message.turn = first if message.copied else turn


def number_segments(trajectory: Trajectory) -> None:
    """Every message gets the number of its segment. One that came while the compaction ran (between
    the marks compaction_start and compaction) belongs to the new segment."""
    cuts: list[int] = []
    begun: int | None = None
    for mark in trajectory.marks or ():
        if mark.kind == "compaction_start":
            begun = mark.index
        elif mark.kind == "compaction":
            cuts.append(mark.index if begun is None else begun)
            begun = None
    if cuts:
        cuts.sort()
        for index, message in enumerate(trajectory.messages):
            message.segment = bisect_right(cuts, index)
    for mark in trajectory.marks or ():
        if mark.kind == "compaction":
            mark.data = {"messages_before": mark.index, **(mark.data or {})}


CLOSERS = frozenset(("interruption", "resume", "end"))
"""Marks behind which a call that has not come back never will. With `continues` in its data a
resumption goes on with what was under way."""


def close_calls(trajectory: Trajectory) -> None:
    """A call without a result that the end of its run, or a stop, stands behind was interrupted."""
    closed = [
        mark.index
        for mark in trajectory.marks or ()
        if mark.kind in CLOSERS and not (mark.data or {}).get("continues")
    ]
    stopped = [i for i, m in enumerate(trajectory.messages) if m.kind == "interruption"]
    last = max([*closed, *stopped], default=0)
    if not last:
        return
    answered = {m.tool_call_id for m in trajectory.messages if m.role == "tool"}
    for message in trajectory.messages[:last]:
        for call in message.tool_calls or ():
            if call.status is None and call.id not in answered:
                call.status = "interrupted"


_UNDONE = ("failed", "denied", "interrupted", "cancelled")
"""How a call ended that did nothing to its file."""


_TOUCH = Shape(FileTouch)


def take_files(trajectory: Trajectory) -> None:
    """Marks that are about files become the list of files."""
    if not trajectory.marks:
        return
    calls: dict[str, tuple[int, ToolCall]] = {}
    at_id: dict[str, int] = {}
    for index, message in enumerate(trajectory.messages):
        if message.id:
            at_id[message.id] = index
        for call in message.tool_calls or ():
            calls[call.id] = (index, call)
    files: list[FileTouch] = []
    marks = []
    outcomes: list[Mark] = []
    for mark in trajectory.marks:
        if mark.kind == "file_outcome":
            outcomes.append(mark)
            continue
        if mark.kind != "file":
            marks.append(mark)
            continue
        # What a source tells of a file; a field of a wrong type (a truth for a count) is left out.
        touch = _TOUCH.convert(mark.data or {})
        at_message = at_id.get(mark.subject or "")
        if at_message is None:
            touch.tool_call_id = touch.tool_call_id or mark.subject
        touch.timestamp = touch.timestamp or mark.timestamp
        index, called = calls.get(touch.tool_call_id or "", (max(mark.index - 1, 0), None))
        index = at_message if at_message is not None else index
        if index < len(trajectory.messages):
            touch.index = index
            touch.turn = trajectory.messages[index].turn
        if called is not None and touch.outcome is None and called.status in _UNDONE:
            touch.outcome = "denied" if called.status == "denied" else "failed"
            if (called.extra or {}).get(DENIED_BY) == "user":  # as against a rule
                touch.outcome = "rejected"
        files.append(touch)
    for mark in outcomes:
        # {"path": "a.py", "outcome": "undone"} of request r2: the touches of a.py in r2 were undone,
        # or, where the mark names no request, those in the last one that touched it
        # (`tests/test_vscode_stores.py`). An outcome that the call itself told stays.
        data = mark.data or {}
        touched = [
            (trajectory.messages[touch.index].request_id, touch)
            for touch in files
            if touch.path == data.get("path") and touch.index is not None
        ]
        wanted = mark.subject or (touched[-1][0] if touched else None)
        for request, touch in touched:
            if request == wanted and touch.outcome is None:
                touch.outcome = str(data["outcome"])
    trajectory.marks = marks or None
    trajectory.files = [*(trajectory.files or []), *files] or None


def take_references(trajectory: Trajectory) -> None:
    """Marks that are about commits, pull requests and issues become the list of references."""
    reference_marks = [mark for mark in trajectory.marks or () if mark.kind == "reference"]
    if not reference_marks:
        return
    references = trajectory.references or []
    for mark in reference_marks:
        reference = dict(mark.data or {})
        index = max(mark.index - 1, 0)
        if index < len(trajectory.messages):
            reference["turn"] = trajectory.messages[index].turn
        references.append({name: value for name, value in reference.items() if value is not None})
    trajectory.references = references
    trajectory.marks = [m for m in trajectory.marks or () if m.kind != "reference"] or None


def count_encrypted(trajectory: Trajectory) -> None:
    """Reasoning that is there but cannot be read is left out; how often is said."""
    counted = sum([m.extra.get(ENCRYPTED, 0) for m in trajectory.messages if m.extra])
    if counted:
        trajectory.metadata[ENCRYPTED] = counted


def count_modes(trajectory: Trajectory) -> None:
    modes = [m.mode for m in trajectory.messages if m.role == "user" and m.mode and not m.copied]
    if modes:
        trajectory.mode_distribution = {mode: modes.count(mode) for mode in dict.fromkeys(modes)}
        trajectory.metadata = {"mode": modes[0], **trajectory.metadata}


def complete_workspace(trajectory: Trajectory) -> None:
    workspace = trajectory.workspace
    if workspace is None:
        return
    if workspace == Workspace():
        trajectory.workspace = None
        return
    if workspace.path:
        name, workspace.hash = _name_and_hash(workspace.path)
        workspace.name = workspace.name or name


@lru_cache(maxsize=256)
def _name_and_hash(path: str) -> tuple[str | None, str]:
    pure = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
    digest = hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()
    return pure.name or None, digest[:16]
