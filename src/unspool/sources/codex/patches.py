"""Which files a patch touches, and how many lines it adds and removes."""

import re
from typing import Any

_FILE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")
_OPERATIONS = {"Add": "create", "Update": "edit", "Delete": "delete"}
_CHANGES = {"add": "create", "update": "edit", "delete": "delete"}


def files_of_patch(patch: str) -> list[dict[str, Any]]:
    """Of the text that the model wrote: `*** Update File: a.py`, then lines with + and -."""
    files: list[dict[str, Any]] = []
    for line in patch.splitlines():
        if files and line[:1] in ("+", "-"):
            files[-1]["lines_added" if line[0] == "+" else "lines_removed"] += 1
        elif named := _FILE.match(line):
            operation = _OPERATIONS[named[1]]
            files.append({"path": named[2].strip(), "operation": operation, "tool": "apply_patch"})
            files[-1] |= {"lines_added": 0, "lines_removed": 0}
        elif line.startswith("*** Move to: ") and files:
            files[-1]["extra"] = {"moved_to": line.removeprefix("*** Move to: ").strip()}
    return files


def files_of_changes(changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Of what was really done: `{"/w/a.py": {"type": "update", "unified_diff": "…"}}`."""
    files: list[dict[str, Any]] = []
    for path, change in changes.items():
        if not isinstance(change, dict):
            continue
        operation = _CHANGES.get(str(change.get("type")), "edit")
        touched: dict[str, Any] = {"path": path, "operation": operation, "tool": "apply_patch"}
        text = change.get("unified_diff")
        if isinstance(text, str):
            lines = [line for line in text.splitlines() if not line.startswith(("+++", "---"))]
            touched["lines_added"] = sum(line.startswith("+") for line in lines)
            touched["lines_removed"] = sum(line.startswith("-") for line in lines)
        elif isinstance(change.get("content"), str):
            counted = "lines_removed" if operation == "delete" else "lines_added"
            touched[counted] = len(change["content"].splitlines())
        if change.get("move_path"):
            touched["extra"] = {"moved_to": str(change["move_path"])}
        files.append(touched)
    return files
