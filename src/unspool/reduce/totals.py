"""Totals: what follows from the messages once they stand: turns, segments, usage, models."""

import hashlib
from collections import Counter
from itertools import pairwise
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import msgspec

from unspool.facts import Noted, UsageReported
from unspool.reduce.messages import to_usage
from unspool.reduce.notes import apply_to_messages, apply_to_trajectory
from unspool.trajectory import FileTouch, Message, Trajectory, Usage, Workspace

NOT_TYPED = frozenset(("injected", "summary", "output", "notification", "interruption", "error"))
"""Kinds of user message that are no turn of the person's."""

_TOKENS = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_usd",
    "requests",
)


def complete(trajectory: Trajectory, notes: list[Noted], reports: list[UsageReported]) -> None:
    """Everything that is derived from the messages, the notes and the marks."""
    number_turns(trajectory.messages)
    number_segments(trajectory)
    give_to_requests(trajectory.messages, reports)
    apply_to_messages(notes, trajectory.messages)
    apply_to_trajectory(notes, trajectory)
    take_files(trajectory)
    count_modes(trajectory)
    add_usage(trajectory, reports)
    complete_workspace(trajectory)


def is_turn(message: Message) -> bool:
    """Whether a person said this."""
    return message.role == "user" and message.kind not in NOT_TYPED and not message.copied


def number_turns(messages: list[Message]) -> None:
    turn = -1
    for message in messages:
        if is_turn(message):
            turn += 1
        if turn >= 0 and message.role != "system":
            message.turn = turn


def number_segments(trajectory: Trajectory) -> None:
    cuts = [mark.index for mark in trajectory.marks or () if mark.kind == "compaction"]
    if cuts:
        for index, message in enumerate(trajectory.messages):
            message.segment = sum(1 for cut in cuts if cut <= index)


def take_files(trajectory: Trajectory) -> None:
    """Marks that are about files become the list of files."""
    if not trajectory.marks:
        return
    at_call = {
        call.id: index
        for index, message in enumerate(trajectory.messages)
        for call in message.tool_calls or ()
    }
    files: list[FileTouch] = []
    marks = []
    for mark in trajectory.marks:
        if mark.kind != "file":
            marks.append(mark)
            continue
        touch = msgspec.convert(mark.data or {"path": ""}, FileTouch)
        touch.tool_call_id = touch.tool_call_id or mark.subject
        touch.timestamp = touch.timestamp or mark.timestamp
        index = at_call.get(touch.tool_call_id or "", max(mark.index - 1, 0))
        if index < len(trajectory.messages):
            touch.index = index
            touch.turn = trajectory.messages[index].turn
        files.append(touch)
    trajectory.marks = marks or None
    trajectory.files = [*(trajectory.files or []), *files] or None


def count_modes(trajectory: Trajectory) -> None:
    modes = [m.mode for m in trajectory.messages if m.role == "user" and m.mode]
    if modes:
        trajectory.mode_distribution = dict(Counter(modes))
        trajectory.metadata = {"mode": modes[0], **trajectory.metadata}


def total(usages: list[Usage]) -> Usage | None:
    """The sum; a figure that nobody knows stays unknown."""
    made = Usage()
    for name in _TOKENS:
        values = [value for usage in usages if (value := getattr(usage, name)) is not None]
        if values:
            setattr(made, name, sum(values))
    return made if made != Usage() else None


def add_usage(trajectory: Trajectory, reports: list[UsageReported]) -> None:
    """Totals: what was reported for the conversation, else for its segments, else the sum."""
    own = [m.usage for m in trajectory.messages if m.usage is not None and not m.copied]
    if trajectory.usage is None:
        given = {m.request_id for m in trajectory.messages if m.usage is not None}
        silent = [r for r in reports if r.on == "request" and r.subject not in given]
        trajectory.usage = total_of(
            [to_usage(r) for r in reports if r.on == "conversation"],
            [to_usage(r) for r in reports if r.on == "segment"],
            [*own, *map(to_usage, silent)],
        )
    add_model_usage(trajectory, [r for r in reports if r.on != "request"])


def total_of(*levels: list[Usage]) -> Usage | None:
    """Figure by figure, what the highest level that knows it says."""
    made = Usage()
    for known in map(total, levels):
        for name in _TOKENS:
            if known is not None and getattr(made, name) is None:
                setattr(made, name, getattr(known, name))
    return made if made != Usage() else None


def give_to_requests(messages: list[Message], reports: list[UsageReported]) -> None:
    """What is known of a whole request goes to its last answer, if its messages know nothing."""
    by_request = {r.subject: r for r in reports if r.on == "request"}
    for message in reversed(messages) if by_request else ():
        if message.role != "assistant" or message.request_id is None:
            continue
        report = by_request.pop(message.request_id, None)
        same = [m for m in messages if m.request_id == message.request_id]
        if report is not None and not any(m.usage is not None for m in same):
            message.usage = to_usage(report)


def add_model_usage(trajectory: Trajectory, reports: list[UsageReported]) -> None:
    """Models used, the primary one, switches, and tokens by model."""
    models: list[str] = []
    by_model: dict[str, list[Usage]] = {}
    for message in trajectory.messages:
        if message.role != "assistant" or not message.model or message.copied:
            continue
        models.append(message.model)
        if message.usage is not None:
            by_model.setdefault(message.model, []).append(message.usage)
    reported: dict[str, list[Usage]] = {}
    for report in reports:
        if report.model:
            reported.setdefault(report.model, []).append(to_usage(report))
    if not models and not reported:
        return
    counts = Counter(models)
    used = list(dict.fromkeys([*models, *reported]))
    made: dict[str, Any] = {
        "models_used": used,
        "primary_model": max(used, key=lambda model: counts[model]),
        "model_switches": sum(1 for a, b in pairwise(models) if a != b),
    }
    if trajectory.usage is not None:
        known = (trajectory.usage.prompt_tokens, trajectory.usage.completion_tokens)
        if any(value is not None for value in known):
            made["total_tokens"] = sum(value or 0 for value in known)
    sums = {model: total(usages) for model, usages in (reported or by_model).items()}
    tokens = {model: msgspec.to_builtins(usage) for model, usage in sums.items() if usage}
    if tokens:
        made["by_model"] = tokens
    trajectory.model_usage = {**made, **(trajectory.model_usage or {})}


def complete_workspace(trajectory: Trajectory) -> None:
    workspace = trajectory.workspace
    if workspace is None:
        return
    if workspace == Workspace():
        trajectory.workspace = None
        return
    if workspace.path:
        workspace.name = workspace.name or _last_part(workspace.path)
        digest = hashlib.sha256(workspace.path.encode("utf-8", "replace")).hexdigest()
        workspace.hash = workspace.hash or digest[:16]


def _last_part(path: str) -> str | None:
    pure = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
    return pure.name or None
