"""Diffs: how many lines a change added and removed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

_EXACT_LIMIT = 4_000_000
"""Lines times lines up to which the exact diff is made; it takes about a second there."""


def count_lines(old: str, new: str) -> tuple[int, int]:
    """(added, removed) between two texts."""
    before, after = _lines(old), _lines(new)
    first, last = _common(before, after)
    before, after = before[first : len(before) - last], after[first : len(after) - last]
    if not before or not after:
        return len(after), len(before)
    if len(before) * len(after) > _EXACT_LIMIT:
        kept = sum((Counter(before) & Counter(after)).values())
        return len(after) - kept, len(before) - kept
    kept = sum(m.size for m in SequenceMatcher(None, before, after, False).get_matching_blocks())
    return len(after) - kept, len(before) - kept


def count_edits(edits: Iterable[tuple[str, str]]) -> tuple[int, int]:
    """(added, removed) of several replacements together."""
    counts = [count_lines(old, new) for old, new in edits]
    return sum(added for added, _ in counts), sum(removed for _, removed in counts)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _common(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines at the beginning and at the end are the same."""
    most = min(len(before), len(after))
    first = 0
    while first < most and before[first] == after[first]:
        first += 1
    last = 0
    while last < most - first and before[-1 - last] == after[-1 - last]:
        last += 1
    return first, last
