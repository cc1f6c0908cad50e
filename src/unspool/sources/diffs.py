"""Diffs: how many lines a change added and removed; patches: which files they change."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

_PATCHED_FILE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")
_OPERATIONS = {"Add": "create", "Update": "edit", "Delete": "delete"}

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


def count_changed(lines: Iterable[str]) -> dict[str, int]:
    """Of the lines of a diff: those with a + and those with a -."""
    marks = Counter(line[:1] for line in lines)
    return {"lines_added": marks["+"], "lines_removed": marks["-"]}


def files_of_patch(patch: str) -> list[dict[str, Any]]:
    """Of the text that the model wrote: `*** Update File: a.py`, then lines with + and -."""
    files: list[dict[str, Any]] = []
    for line in patch.splitlines():
        if files and line[:1] in ("+", "-"):
            files[-1]["lines_added" if line[0] == "+" else "lines_removed"] += 1
        elif named := _PATCHED_FILE.match(line):
            operation = _OPERATIONS[named[1]]
            files.append({"path": named[2].strip(), "operation": operation, "tool": "apply_patch"})
            files[-1] |= {"lines_added": 0, "lines_removed": 0}
        elif line.startswith("*** Move to: ") and files:
            files[-1]["extra"] = {"moved_to": line.removeprefix("*** Move to: ").strip()}
    return files
