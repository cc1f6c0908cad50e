"""Tool calls in a line: the one argument that says what the call does."""

import re
from typing import Any
from urllib.parse import unquote

import msgspec

from unspool.io.values import field_of, parse_object, str_of
from unspool.trajectory import ToolCall
from unspool.views.characters import one_line
from unspool.views.edits import read_patch

INTENTS = frozenset(("report_intent",))
"""Calls by which a model only says what it is about to do: read as a heading, not as a call."""

QUESTIONS = frozenset(("ask_user", "AskUserQuestion", "askQuestions", "vscode_askQuestions"))
"""Calls by which the model asks the person: what comes back is what a person said."""

_TELLING = (
    "command",
    "cmd",
    "script",
    "file_path",
    "filePath",
    "target_file",
    "relative_workspace_path",
    "notebook_path",
    "url",
    "urls",
    "pattern",
    "query",
    "regex",
    "glob_pattern",
    "path",
    "filename",
    "file",
    "intent",
    "title",
    "description",
    "question",
    "prompt",
    "task",
    "skill",
    "name",
    "symbol",
    "target_directory",
    "directory",
    "message",
    "explanation",
    "text",
)
"""Arguments that tell what a call is about, the most telling first."""
_COMPANIONS = {"pattern": "path", "query": "path", "regex": "path", "glob_pattern": "path"}
_TODOS = ("todos", "todoList", "plan", "tasks")
_LINK = re.compile(r"\[([^\[\]]*)\]\(<?([^()<>\s]+)>?\)")
LIMIT = 160


def headline(call: ToolCall, root: str = "") -> str:
    """What the call does, on one line; paths below `root` are shown relative to it."""
    arguments = parse_object(call.arguments)
    if not arguments:
        # How the program itself put the call into words: `Read [](file:///a/b.py), lines 1 to 5`. It
        # leaves the text of a link empty and shows the file's name.
        extra = call.extra or {}
        told = _LINK.sub(_file_name, str_of(extra.get("past_tense") or extra.get("invocation")))
        given = call.arguments if arguments is None else ""
        return one_line(_patched(given) or given or told, LIMIT)
    for name in _TELLING:
        words = _said(arguments.get(name))
        if not words:
            continue
        if name == "command" and words.isidentifier() and (path := _said(arguments.get("path"))):
            words = f"{words} {_below(path, root)}"  # `str_replace_editor` has a verb for a command
        companion = _said(arguments.get(_COMPANIONS.get(name, "")))
        if companion:
            words = f"{words}  in {_below(companion, root)}"
        return one_line(_below(words, root), LIMIT)
    return one_line(_leftover(arguments), LIMIT)


def _file_name(match: re.Match[str]) -> str:
    return match[1] or unquote(match[2].partition("#")[0].rstrip("/").rpartition("/")[2])


def _said(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return ""


def _below(path: str, root: str) -> str:
    for separator in ("/", "\\"):
        prefix = root.rstrip("/\\") + separator
        if len(prefix) > 2 and path.startswith(prefix):
            return path[len(prefix) :]
    return path


def _leftover(arguments: dict[str, Any]) -> str:
    for name in _TODOS:
        items = arguments.get(name)
        if isinstance(items, list):
            states = [str(field_of(item, "status")).lower() for item in items]
            done = sum(state in ("completed", "done") for state in states)
            return f"{done} of {len(items)} done"
    for value in arguments.values():
        if isinstance(value, str) and "*** " in value:
            return _patched(value)
    return ", ".join(f"{name}={_brief(value)}" for name, value in arguments.items())


def _brief(value: object) -> str:
    if isinstance(value, str):
        return value[:80]
    if isinstance(value, list):
        return f"[{len(value)}]"
    if isinstance(value, dict):
        return "{…}"
    return msgspec.json.encode(value).decode()


def _patched(text: str) -> str:
    """The files that a patch names."""
    return ", ".join(edit.path for edit in read_patch(text))
