"""What a part of a chat says, in the words that the person saw."""

from collections.abc import Callable, Iterator
from typing import Any

from unspool.sources.vscode_chat.uris import markdown, uri_of

_DEEPEST = 20
SPOKEN = frozenset(("markdownContent", "warning", "info", "progressTask", "progressTaskSerialized"))
"""What the program said: the text of a message may hold it."""


def words_of(kind: str, part: dict[str, Any]) -> str:
    """Empty where the part is of another kind, or of another shape than its kind has."""
    found = _TELLERS.get(kind)
    return found(part).strip() if found is not None else ""


def _notice(part: dict[str, Any]) -> str:
    return markdown(part.get("content"))


def _command(part: dict[str, Any]) -> str:
    return markdown(_object(part.get("command")).get("title"))


def _hook(part: dict[str, Any]) -> str:
    told = (markdown(part.get(name)) for name in ("systemMessage", "stopReason"))
    said = [markdown(part.get("hookType")), *told]
    return ": ".join(text for text in said if text) if any(said[1:]) else ""


def _extensions(part: dict[str, Any]) -> str:
    held = part.get("extensions")
    return ", ".join(t for t in held if isinstance(t, str)) if isinstance(held, list) else ""


def _pull_request(part: dict[str, Any]) -> str:
    owner, repo, number = (part.get(n) for n in ("owner", "repo", "pullRequestNumber"))
    if isinstance(owner, str) and isinstance(repo, str) and type(number) is int:
        return f"{owner}/{repo}#{number}"
    return markdown(part.get("title"))


def _tree(part: dict[str, Any]) -> str:
    return "\n".join(_branches(part.get("treeData"), 0))


def _branches(node: Any, depth: int) -> Iterator[str]:
    label = markdown(_object(node).get("label"))
    if label and depth < _DEEPEST:
        children = node.get("children")
        children = children if isinstance(children, list) else []
        yield "  " * depth + label + ("/" if children else "")
        for child in children:
            yield from _branches(child, depth + 1)


def _diffs(part: dict[str, Any]) -> str:
    data = _object(part.get("multiDiffData"))
    held = data.get("resources")
    lines = [markdown(data.get("title"))]
    for resource in held if isinstance(held, list) else ():
        names = ("goToFileUri", "modifiedUri", "originalUri")
        uris = (uri_of(_object(resource).get(name)) for name in names)
        if uri := next((uri for uri in uris if uri), ""):
            lines.append(uri + _counts(resource))
    return "\n".join(line for line in lines if line) if len(lines) > 1 else ""


def _counts(resource: dict[str, Any]) -> str:
    added, removed = resource.get("added"), resource.get("removed")
    return f"  +{added} −{removed}" if type(added) is int and type(removed) is int else ""


def _edits(part: dict[str, Any]) -> str:
    """What was written, line by line; of what it replaced, the chat holds no more than where it was."""
    lines = [line for edit in _flat(part.get("edits")) for line in _edit(edit)]
    return "\n".join([uri_of(part.get("uri")), *lines]) if lines else ""


def _flat(edits: Any) -> Iterator[dict[str, Any]]:
    """Edits come in batches, as they were streamed; those of a notebook may be bare."""
    for held in edits if isinstance(edits, list) else ():
        for edit in held if isinstance(held, list) else [held]:
            if isinstance(edit, dict):
                yield from (edit, *_flat(edit.get("edits")))


def _edit(edit: dict[str, Any]) -> Iterator[str]:
    place = _object(edit.get("range"))
    first, last = place.get("startLineNumber"), place.get("endLineNumber")
    if type(first) is int and type(last) is int:
        yield f"@@ line {first} @@" if first == last else f"@@ lines {first}-{last} @@"
    cells = edit.get("cells")
    sources = [_object(cell).get("source") for cell in cells] if isinstance(cells, list) else []
    for text in (edit.get("text"), *sources):
        held = text if isinstance(text, list) else [text]
        whole = "".join(t for t in held if isinstance(t, str))
        yield from (f"+{line}" for line in whole.splitlines())


_TELLERS: dict[str, Callable[[dict[str, Any]], str]] = {
    **dict.fromkeys(SPOKEN, _notice),
    "systemNotification": _notice,
    "command": _command,
    "hook": _hook,
    "extensions": _extensions,
    "pullRequest": _pull_request,
    "treeData": _tree,
    "multiDiffData": _diffs,
    "textEditGroup": _edits,
    "notebookEditGroup": _edits,
}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
