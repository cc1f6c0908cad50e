"""Edits: which files an answer changed, by how many lines, and what became of that."""

from typing import Any

from unspool.sources.vscode_chat.fields import OUTCOMES
from unspool.sources.vscode_chat.uris import path_of, uri_of

_MANY = 2**60
"""Numbers beyond this count nothing."""
KINDS = frozenset(("textEditGroup", "notebookEditGroup", "workspaceEdit", "externalEdit"))


def touches(part: dict[str, Any]) -> list[dict[str, Any]]:
    """The files that an edit part changed, as fields of a FileTouch."""
    kind = part.get("kind")
    if kind == "workspaceEdit":
        edits = part.get("edits")
        return [t for e in edits if (t := _moved(e))] if isinstance(edits, list) else []
    path = _path(part.get("uri"))
    if not path:
        return []
    if kind == "externalEdit":
        return [_external(part, path)]
    added, removed = count_lines(part.get("edits"))
    touch = {"path": path, "operation": "edit", "lines_added": added, "lines_removed": removed}
    extra = {k: part[k] for k in ("done", "isExternalEdit", "state") if part.get(k) is not None}
    if extra:
        touch["extra"] = extra
    return [touch]


def _path(uri: Any) -> str:
    return path_of(uri) or uri_of(uri)


def _moved(edit: Any) -> dict[str, Any] | None:
    if not isinstance(edit, dict):
        return None
    old, new = _path(edit.get("oldResource")), _path(edit.get("newResource"))
    if old and new:
        return {"path": new, "operation": "rename", "extra": {"old_path": old}}
    if new:
        return {"path": new, "operation": "create"}
    return {"path": old, "operation": "delete"} if old else None


def _external(part: dict[str, Any], path: str) -> dict[str, Any]:
    operation = part.get("editKind")
    known = operation in ("create", "delete", "rename", "edit")
    touch: dict[str, Any] = {"path": path, "operation": operation if known else "edit"}
    diff = part.get("diff")
    for ours, theirs in (("lines_added", "added"), ("lines_removed", "removed")):
        found = diff.get(theirs) if isinstance(diff, dict) else None
        if type(found) is int and abs(found) < _MANY:
            touch[ours] = found
    if old := _path(part.get("originalUri")):
        touch["extra"] = {"old_path": old}
    return touch


def count_lines(edits: Any) -> tuple[int, int]:
    """(added, removed) lines of text edits, of cell edits, and of lists of them."""
    if isinstance(edits, list):
        pairs = [count_lines(edit) for edit in edits]
        return sum(a for a, _ in pairs), sum(r for _, r in pairs)
    if not isinstance(edits, dict):
        return 0, 0
    if isinstance(edits.get("text"), str):
        return _count(edits["text"]), _span(edits.get("range"))
    if "edit" in edits:
        return count_lines(edits["edit"])
    cells = edits.get("cells")
    if isinstance(cells, list):
        sources = [c["source"] for c in cells if isinstance(c, dict) and "source" in c]
        return sum(_count(s) for s in sources if isinstance(s, str)), 0
    return 0, 0


def _count(text: str) -> int:
    return text.count("\n") + (0 if not text or text.endswith("\n") else 1)


def _span(held: Any) -> int:
    """How many lines a range covers; one that is empty covers none."""
    if not isinstance(held, dict):
        return 0
    names = ("startLineNumber", "startColumn", "endLineNumber", "endColumn")
    values = [held.get(name) for name in names]
    if not all(type(value) is int and abs(value) < _MANY for value in values):
        return 0
    first, column, last, end = (int(value or 0) for value in values)
    if (first, column) == (last, end):
        return 0
    return max(0, last - first + (1 if end > 1 else 0))


def outcomes(
    edited: list[set[str]], events: list[list[tuple[str, str]]]
) -> dict[tuple[int, str], str]:
    """(number of the request, path) → what became of the edit.

    VS Code tells with a request what was done to files since the one before, so an event is about
    the last edit before its request; where there is none, about the request's own.
    """
    made: dict[tuple[int, str], str] = {}
    last: dict[str, int] = {}
    for number, paths in enumerate(edited):
        for path, outcome in events[number]:
            made[(last.get(path, number), path)] = outcome
        for path in paths:
            last[path] = number
    return made


def file_events(values: list[dict[str, Any]] | None) -> list[tuple[str, str]]:
    found = [(_path(v.get("uri")), OUTCOMES.get(_kind(v.get("eventKind")))) for v in values or ()]
    return [(path, outcome) for path, outcome in found if path and outcome]


def _kind(value: Any) -> int:
    return value if isinstance(value, int) else 0
