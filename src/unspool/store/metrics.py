"""The figures of one conversation. `docs/store.md` has the formulas, and what they cannot know."""

from typing import Any

from unspool.reduce.totals import is_turn
from unspool.trajectory import FileTouch, Trajectory

CHANGES = frozenset(("create", "edit", "delete", "rename"))
KEPT = frozenset(("accepted", "modified"))
REFUSED = frozenset(("rejected", "denied", "undone"))
NOT_MADE = frozenset(("failed", *REFUSED))


def interaction_count(trajectory: Trajectory) -> int:
    """Turns that the person took; copied history is not counted."""
    return sum(1 for message in trajectory.messages if is_turn(message))


def changes(trajectory: Trajectory) -> list[FileTouch]:
    return [touch for touch in trajectory.files or () if touch.operation in CHANGES]


def total_changes(trajectory: Trajectory) -> int:
    """File changes that were made and, as far as is known, not taken back."""
    return sum(1 for touch in changes(trajectory) if touch.outcome not in NOT_MADE)


def acceptance_decisions(trajectory: Trajectory) -> list[dict[str, Any]]:
    """What became of each change, where something tells."""
    decisions = []
    for touch in changes(trajectory):
        if touch.outcome in KEPT or touch.outcome in REFUSED:
            decision = {"path": touch.path, "outcome": touch.outcome}
            for name in ("tool_call_id", "turn", "timestamp"):
                value = getattr(touch, name)
                if value is not None:
                    decision[name] = value
            decisions.append(decision)
    return decisions


def acceptance_rate(trajectory: Trajectory) -> float | None:
    """Kept changes over decided changes; None where nothing tells what became of any."""
    decisions = acceptance_decisions(trajectory)
    if not decisions:
        return None
    return sum(1 for decision in decisions if decision["outcome"] in KEPT) / len(decisions)


def total_tokens(trajectory: Trajectory) -> int | None:
    """Prompt (cache reads and writes included) and completion; None where neither is known."""
    usage = trajectory.usage
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return None
    return (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)


def tool_sequence(trajectory: Trajectory) -> list[str]:
    return [
        call.name
        for message in trajectory.messages
        if not message.copied
        for call in message.tool_calls or ()
    ]


def lines(trajectory: Trajectory, field: str) -> int | None:
    kept = [touch for touch in changes(trajectory) if touch.outcome not in NOT_MADE]
    counts = [value for touch in kept if (value := getattr(touch, field)) is not None]
    return sum(counts) if counts else None
