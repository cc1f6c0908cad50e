"""Files that a tool call touches, read out of its arguments."""

import re
from typing import Any

import msgspec

_OPERATIONS = {
    "create": "create",
    "edit": "edit",
    "view": "read",
    "str_replace": "edit",
    "insert": "edit",
    "str_replace_editor": "edit",
    "delete": "delete",
    # the editor's own tools, in its transcripts
    "create_file": "create",
    "replace_string_in_file": "edit",
    "insert_edit_into_file": "edit",
    "read_file": "read",
}
_PATCH = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)
_PATCHED = {"Add": "create", "Update": "edit", "Delete": "delete"}


def touched(name: str, arguments: Any) -> tuple[dict[str, Any], ...]:
    """The fields of `unspool.trajectory.FileTouch` for every file in the arguments."""
    if name == "apply_patch":
        patch = arguments
        if isinstance(arguments, dict):
            patch = next((v for v in arguments.values() if isinstance(v, str)), "")
        return tuple(
            {"path": path, "operation": _PATCHED[kind], "tool": name}
            for kind, path in _PATCH.findall(patch if isinstance(patch, str) else "")
        )
    if not isinstance(arguments, dict):
        return ()
    path = arguments.get("path", arguments.get("filePath"))
    command = arguments.get("command") if name == "str_replace_editor" else name
    operation = _OPERATIONS.get(command if isinstance(command, str) else name)
    if not operation or not isinstance(path, str) or not path:
        return ()
    return ({"path": path, "operation": operation, "tool": name},)


def measured(telemetry: Any) -> tuple[dict[str, Any], ...]:
    """How many lines a call changed, where it tells that and touched one file."""
    if not isinstance(telemetry, dict):
        return ()
    metrics = telemetry.get("metrics")
    counts = {
        ours: metrics.get(native)
        for ours, native in (("lines_added", "linesAdded"), ("lines_removed", "linesRemoved"))
        if isinstance(metrics, dict) and type(metrics.get(native)) is int  # which a truth is not
    }
    for group in ("restrictedProperties", "properties"):
        properties = telemetry.get(group)
        found = properties.get("filePaths") if isinstance(properties, dict) else None
        paths = _paths(found)
        if counts and len(paths) == 1:
            return ({"path": paths[0], **counts},)
    return ()


def _paths(value: Any) -> list[str]:
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return []
    return [path for path in value if isinstance(path, str)] if isinstance(value, list) else []
