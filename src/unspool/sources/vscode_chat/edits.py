"""Edits: which files an answer changed, by how many lines, and what became of that.

    {"kind": "textEditGroup", "uri": {…}, "edits": [[{"range": {…}, "text": "…"}]], "done": true}
    {"kind": "workspaceEdit", "edits": [{"oldResource": {…}, "newResource": {…}}]}

What became of the edits is told by the next request (`editedFileEvents`), or in the end by the state of
the editing session (`states.py`).
"""

from collections.abc import Iterator
from typing import Any

from unspool.io.values import field_of, list_of
from unspool.sources.vscode_chat.fields import OUTCOMES
from unspool.sources.vscode_chat.uris import integer, lines_of, path_of, uri_of

KINDS = frozenset(("textEditGroup", "notebookEditGroup", "workspaceEdit", "externalEdit"))


def touches(part: dict[str, Any]) -> list[dict[str, Any]]:
    """The files that an edit part changed, as fields of a FileTouch."""
    kind = part.get("kind")
    if kind == "workspaceEdit":
        moves = part.get("edits")
        return [t for move in moves if (t := _moved(move))] if isinstance(moves, list) else []
    path = edited_path(part.get("uri"))
    if not path:
        return []
    touch: dict[str, Any] = {"path": path, "operation": "edit"}
    if kind == "externalEdit":
        if part.get("editKind") in ("create", "delete", "rename"):
            touch["operation"] = part["editKind"]
        diff = part.get("diff")
        for ours, theirs in (("lines_added", "added"), ("lines_removed", "removed")):
            if (count := integer(field_of(diff, theirs))) is not None:
                touch[ours] = count
        if old := edited_path(part.get("originalUri")):
            touch["extra"] = {"old_path": old}
        return [touch]
    touch["lines_added"], touch["lines_removed"] = count_lines(part.get("edits"))
    extra = {k: part[k] for k in ("done", "isExternalEdit", "state") if part.get(k) is not None}
    if extra:
        touch["extra"] = extra
    return [touch]


def edited_path(uri: Any) -> str:
    return path_of(uri) or uri_of(uri)


def _moved(move: Any) -> dict[str, Any] | None:
    if not isinstance(move, dict):
        return None
    old, new = edited_path(move.get("oldResource")), edited_path(move.get("newResource"))
    if old and new:
        return {"path": new, "operation": "rename", "extra": {"old_path": old}}
    if new:
        return {"path": new, "operation": "create"}
    return {"path": old, "operation": "delete"} if old else None


def iter_edits(edits: Any) -> Iterator[tuple[Any, list[str]]]:
    """(range, new texts) of text edits and cell edits. They come in batches, as they were streamed;
    those of a notebook may be bare, or stand one in the other."""
    for edit in edits if isinstance(edits, list) else [edits]:
        if isinstance(edit, list):
            yield from iter_edits(edit)
        elif isinstance(edit, dict):
            cells = [field_of(cell, "source") for cell in list_of(edit.get("cells"))]
            yield edit.get("range"), [t for t in (edit.get("text"), *cells) if isinstance(t, str)]
            for inner in ("edit", "edits"):
                if inner in edit:
                    yield from iter_edits(edit[inner])


def count_lines(edits: Any) -> tuple[int, int]:
    """(added, removed)"""
    added = removed = 0
    for place, texts in iter_edits(edits):
        added += sum(text.count("\n") + (text[-1:] not in ("", "\n")) for text in texts)
        removed += _span(place) if texts else 0
    return added, removed


def _span(place: Any) -> int:
    """How many lines a range covers; one that is empty covers none."""
    first, last = lines_of(place)
    column, end = field_of(place, "startColumn"), field_of(place, "endColumn")
    if first is None or last is None or type(column) is not int or type(end) is not int:
        return 0
    return max(0, last - first + (end > 1)) if (first, column) != (last, end) else 0


def outcomes(
    edited: list[set[str]], events: list[list[dict[str, Any]] | None]
) -> dict[tuple[int, str], str]:
    """(number of the request, path) → what became of the edit.

    VS Code tells with a request what was done to files since the one before, so an event is about
    the last edit before its request; where there is none, about the request's own.
    """
    settled: dict[tuple[int, str], str] = {}
    last_edit: dict[str, int] = {}
    for number, paths in enumerate(edited):
        for event in events[number] or ():
            path, kind = edited_path(event.get("uri")), event.get("eventKind")
            outcome = OUTCOMES.get(kind) if isinstance(kind, int) else None
            if path and outcome:
                settled[last_edit.get(path, number), path] = outcome
        for path in paths:
            last_edit[path] = number
    return settled
