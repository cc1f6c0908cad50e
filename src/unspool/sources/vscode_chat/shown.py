"""Shown: parts of an answer that are neither words nor calls, in the words that the person saw."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from unspool.io.values import dict_of, list_of
from unspool.sources import Shown
from unspool.sources.vscode_chat.edits import KINDS, iter_edits
from unspool.sources.vscode_chat.fields import DISPLAY
from unspool.sources.vscode_chat.parts import ASKED
from unspool.sources.vscode_chat.uris import lines_of, markdown, name_of, uri_of

_SHOWN_ELSEWHERE = KINDS | ASKED | {"autoModeResolution"}
"""Kinds that the list of files, the heading or the answers tell already."""
_EDITS = frozenset(("textEditGroup", "notebookEditGroup"))
"""Shown where no call did it: a call's arguments tell the edit already."""
_LINKS = frozenset(("inlineReference", "reference", "pullRequest"))
_SPOKEN = frozenset(
    ("markdownContent", "warning", "info", "progressTask", "progressTaskSerialized")
)
"""What the program said: the text of a message may hold it."""
_LABELS = {
    "command": "Button",
    "extensions": "Extensions",
    "hook": "Hook",
    "info": "Note",
    "inlineReference": "Link",
    "markdownContent": "Shown",
    "multiDiffData": "Changes",
    "notebookEditGroup": "Edit",
    "progressTask": "Task",
    "progressTaskSerialized": "Task",
    "pullRequest": "Pull request",
    "reference": "Link",
    "systemNotification": "Notice",
    "textEditGroup": "Edit",
    "toolInvocation": "Tool",
    "toolInvocationSerialized": "Tool",
    "treeData": "Files",
    "warning": "Warning",
}
_DEEPEST = 20


def shown_parts(parts: Any, message_text: str, has_calls: bool) -> Iterator[Shown]:
    """The parts of an answer with those words, as far as neither these nor its calls tell them."""
    elsewhere = _SHOWN_ELSEWHERE if has_calls else _SHOWN_ELSEWHERE - _EDITS
    for part in list_of(parts):
        kind = part.get("kind", part.get("type", "part")) if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind in DISPLAY or kind in elsewhere:
            continue
        label = _LABELS.get(kind, kind)
        target = part.get("inlineReference", part.get("reference", part.get("uri")))
        if kind in _LINKS and (uri := uri_of(target)):
            name = part.get("name") or part.get("title")
            name = name if isinstance(name, str) else ""
            named = any(word in message_text for word in (name or name_of(uri), uri))
            if kind == "inlineReference" and named:
                continue  # by the words
            yield Shown(kind, label, name or uri, uri)
        elif words := _WORDS[kind](part).strip() if kind in _WORDS else "":
            if kind not in _SPOKEN or words not in message_text:
                yield Shown(kind, label, words, words=True, edit=kind in _EDITS)
        elif kind not in _EDITS and kind not in _SPOKEN:
            yield Shown(kind, label, json.dumps(part, indent=1, ensure_ascii=False))


def _hook(part: dict[str, Any]) -> str:
    texts = [markdown(part.get(name)) for name in ("hookType", "systemMessage", "stopReason")]
    return ": ".join(text for text in texts if text) if any(texts[1:]) else ""


def _pull_request(part: dict[str, Any]) -> str:
    owner, repo, number = (part.get(n) for n in ("owner", "repo", "pullRequestNumber"))
    return f"{owner}/{repo}#{number}" if owner and repo and number else markdown(part.get("title"))


def _branches(node: Any, depth: int = 0) -> Iterator[str]:
    """A tree of files, a line for each."""
    label = markdown(dict_of(node).get("label"))
    if label and depth < _DEEPEST:
        children = list_of(node.get("children"))
        yield "  " * depth + label + ("/" if children else "")
        for child in children:
            yield from _branches(child, depth + 1)


def _diffs(part: dict[str, Any]) -> str:
    data = dict_of(part.get("multiDiffData"))
    lines = [markdown(data.get("title"))]
    for resource in map(dict_of, list_of(data.get("resources"))):
        uris = (uri_of(resource.get(n)) for n in ("goToFileUri", "modifiedUri", "originalUri"))
        if uri := next((uri for uri in uris if uri), ""):
            added, removed = resource.get("added"), resource.get("removed")
            counted = type(added) is int and type(removed) is int
            lines.append(uri + (f"  +{added} −{removed}" if counted else ""))
    return "\n".join(line for line in lines if line) if len(lines) > 1 else ""


def _edits(part: dict[str, Any]) -> str:
    """What was written, line by line; of what it replaced, the chat holds only where it stood."""
    lines: list[str] = []
    for place, texts in iter_edits(part.get("edits")):
        first, last = lines_of(place)
        if first is not None:
            lines.append(f"@@ line {first} @@" if first == last else f"@@ lines {first}-{last} @@")
        lines += [f"+{line}" for text in texts for line in text.splitlines()]
    return "\n".join([uri_of(part.get("uri")), *lines]) if lines else ""


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    **dict.fromkeys((*_SPOKEN, "systemNotification"), lambda part: markdown(part.get("content"))),
    "command": lambda part: markdown(dict_of(part.get("command")).get("title")),
    "hook": _hook,
    "extensions": lambda part: ", ".join(
        name for name in list_of(part.get("extensions")) if isinstance(name, str)
    ),
    # A tool that another tool called: what the person saw of it.
    **dict.fromkeys(
        ("toolInvocation", "toolInvocationSerialized"),
        lambda part: markdown(part.get("pastTenseMessage") or part.get("invocationMessage")),
    ),
    "pullRequest": _pull_request,
    "treeData": lambda part: "\n".join(_branches(part.get("treeData"))),
    "multiDiffData": _diffs,
    "textEditGroup": _edits,
    "notebookEditGroup": _edits,
}
"""Kind → what a part of it says; empty where it is of another shape than its kind has."""
