"""Findings: what is wrong with a document, and where."""

from typing import Any, Literal

import msgspec

from unspool.io.door import clean_text

Level = Literal["error", "warning"]


class Finding(msgspec.Struct, frozen=True):
    level: Level
    rule: str
    path: str
    """As in `$.steps[3].tool_calls[0].arguments`."""
    message: str

    def under(self, place: str) -> "Finding":
        """The same finding, in a document that is itself part of a file."""
        return msgspec.structs.replace(self, path=f"${place}{self.path[1:]}")


class Findings:
    """Everything found so far, each thing once."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def error(self, rule: str, path: str, message: str) -> None:
        self._add("error", rule, path, message)

    def warning(self, rule: str, path: str, message: str) -> None:
        self._add("warning", rule, path, message)

    def _add(self, level: Level, rule: str, path: str, message: str) -> None:
        # A document's own keys stand in paths, and may be what no output can hold.
        self._found[Finding(level, rule, clean_text(path), clean_text(message))] = None

    def in_order(self) -> list[Finding]:
        """Errors first, each kind in the order of the document as it was gone through."""
        return sorted(self._found, key=lambda finding: finding.level)


def items(value: Any) -> list[Any]:
    """The elements of an array; none of what is no array, which another rule tells."""
    return value if isinstance(value, list) else []


def field(value: Any, name: str) -> Any:
    """A field of an object; None of what is no object."""
    return value.get(name) if isinstance(value, dict) else None
