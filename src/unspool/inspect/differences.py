"""Differences between two conversations as plain data: which fields, which messages, which texts."""

import difflib
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import msgspec

ABSENT = msgspec.UNSET
"""Stands for a value that one side does not have."""

_DIFF_LINES = 4000
"""Longer texts are shown from the first line that differs, not aligned."""


class Difference(msgspec.Struct):
    """One place where the two sides differ; a side that lacks the value leaves it out."""

    path: str
    a: Any = ABSENT
    b: Any = ABSENT


def differing_fields(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """The fields whose values differ, or that one side lacks, in order."""
    names = dict.fromkeys([*a, *b])
    return [name for name in names if a.get(name, ABSENT) != b.get(name, ABSENT)]


def first_message(a: dict[str, Any], b: dict[str, Any]) -> int | None:
    """The number of the first message that differs."""
    pairs = zip_longest(messages_of(a), messages_of(b), fillvalue=ABSENT)
    return next((number for number, (one, two) in enumerate(pairs) if one != two), None)


def messages_of(value: dict[str, Any]) -> list[Any]:
    messages = value.get("messages")
    return messages if isinstance(messages, list) else []


def iter_differences(a: Any, b: Any, path: str = "") -> Iterator[Difference]:
    """Field by field, down to values that hold no others; lists item by item."""
    waiting: list[tuple[str, Any, Any]] = [(path, a, b)]
    while waiting:
        place, one, two = waiting.pop()
        if one == two:
            continue
        if isinstance(one, dict) and isinstance(two, dict):
            names = dict.fromkeys([*one, *two])
            below = [
                (f"{place}.{name}" if place else name, one.get(name, ABSENT), two.get(name, ABSENT))
                for name in names
            ]
        elif isinstance(one, list) and isinstance(two, list):
            pairs = zip_longest(one, two, fillvalue=ABSENT)
            below = [(f"{place}[{number}]", x, y) for number, (x, y) in enumerate(pairs)]
        else:
            yield Difference(place or "(all)", one, two)
            continue
        waiting += reversed(below)


def message_differences(
    a: dict[str, Any], b: dict[str, Any], index: int | None = None
) -> list[Difference]:
    """How the messages differ, all of them or one."""
    made: list[Difference] = []
    pairs = zip_longest(messages_of(a), messages_of(b), fillvalue=ABSENT)
    for number, (one, two) in enumerate(pairs):
        if (index is None or number == index) and one != two:
            made += iter_differences(one, two, f"messages[{number}]")
    return made


def text_diff(a: str, b: str) -> list[str]:
    """Two texts as the lines of a unified diff, without its header."""
    before, after = a.split("\n"), b.split("\n")
    if len(before) + len(after) > _DIFF_LINES:
        first = next(
            (n for n, (x, y) in enumerate(zip(before, after, strict=False)) if x != y),
            min(len(before), len(after)),
        )
        before, after = before[first : first + 10], after[first : first + 10]
        header = [f"@@ from line {first + 1}, ten lines of each @@"]
        return [*header, *(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    return list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
