"""Which files a patch touches, and how many lines it adds and removes."""

from typing import Any

_CHANGES = {"add": "create", "update": "edit", "delete": "delete"}


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
