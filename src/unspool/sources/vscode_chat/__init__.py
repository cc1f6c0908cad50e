"""VS Code chat: exports, stored chats, and what lies beside them.

chat.json exports; chatSessions/*.json (versions 1 to 3) and *.jsonl (a log of changes); chats of
empty windows and handed-over ones; chats exported as a zip; old chats and the index in state.vscdb;
the state of editing sessions; .chatreplay.json.
"""

import os
import re
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

from unspool.facts import AnyFact
from unspool.io.databases import BACKUP, MAGIC, is_spare
from unspool.io.origins import Head, Origin, Tally, Touched, plain_name, read_head
from unspool.sources.vscode_chat.documents import (
    is_archive,
    is_log,
    read_archive,
    read_document,
    read_log,
)
from unspool.sources.vscode_chat.fields import NAME
from unspool.sources.vscode_chat.folders import CHAT_FOLDERS, DESCRIPTION, places
from unspool.sources.vscode_chat.shown import shown_parts
from unspool.sources.vscode_chat.states import is_state, read_state

__all__ = [
    "NAME",
    "RANGES",
    "claims",
    "places",
    "read",
    "session_of",
    "shown_parts",
    "visit",
    "visits",
]

RANGES = False

_REQUESTS = re.compile(rb'"requests"\s*:\s*\[')
_CHAT_MARKS = (b'"responderUsername"', b'"requestId"', b'"requesterUsername"')
_STORES = ("state.vscdb", f"state.vscdb{BACKUP}")
_OWN_FIELDS = {"requests", "prompts", "logs"}
_CURSOR_KEYS = (b"cursorDiskKV", b"composer.composerData", b"aiService.")


def claims(head: Head) -> bool:
    return bool(_shape(head))


def _shape(head: Head) -> str:
    """Which of VS Code's files this is; empty for none."""
    if head.data.startswith(MAGIC):
        return "store" if head.name in _STORES and not _is_cursors(head) else ""
    if head.name == DESCRIPTION:
        own = "workspaceStorage" in head.parts[-2:] and not _is_cursors(head)
        return "description" if own else ""
    if is_archive(head):
        return "archive"
    if is_state(head):
        return "state"
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n\0")
    stored = _stored_shape(head.path)
    if stored or is_log(data):
        return (stored or "log") if b"{" in data else ""
    if not data.startswith(b"{") or _has_other_lines(data):
        return ""
    # A list of requests: the reports in Copilot CLI's logs count theirs under the same name.
    if _REQUESTS.search(data) and any(mark in data for mark in _CHAT_MARKS):
        return "chat"
    start = data[:4096]
    replay = (b'"totalLogEntries"' in start and b'"prompts"' in start) or (
        b'"logCount"' in data and b'"logs"' in data and b'"prompt"' in data
    )
    return "replay" if replay or head.name.endswith(".chatreplay.json") else ""


def _stored_shape(path: str) -> str:
    """By its place alone: a damaged chat may begin with anything."""
    folder, name = os.path.split(path)
    if os.path.basename(folder) not in CHAT_FOLDERS or ".json" not in name:  # noqa: PTH119 - for every file
        return ""
    return "log" if plain_name(name).endswith(".jsonl") else "chat"


def _is_cursors(head: Head) -> bool:
    """Cursor keeps chats of its own under the same file names."""
    folders = ("Cursor", ".cursor")  # a project may be called cursor
    return any(f in head.parts for f in folders) or any(k in head.data for k in _CURSOR_KEYS)


def _has_other_lines(data: bytes) -> bool:
    """Whether the first line is an object by itself, and no chat: whatever words the lines hold."""
    try:
        first = msgspec.json.decode(data.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False  # over many lines, or too long for one look
    return isinstance(first, dict) and not first.keys() & _OWN_FIELDS


def session_of(path: str) -> str | None:
    """The session that a stored chat or the state of its edits is named after; exports and stores do
    not tell by their names."""
    file = PurePath(path)
    if file.parent.name in CHAT_FOLDERS:
        return file.name.partition(".json")[0] or None
    return file.parent.name if is_state(Head(path, b"", True)) else None


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    shape = _stored_shape(origin.path) or _shape(read_head(origin.path))
    spare = shape == "store" and not origin.named and is_spare(origin.path)
    if spare or shape == "description":
        # Every chat beside a description looks its folder up by itself, also when it is read alone.
        tally.records += 1
        tally.noise += 1
    elif shape == "store":
        from unspool.sources.vscode_chat.stores import read_store

        yield from read_store(origin, tally)
    elif shape == "archive":
        yield from read_archive(origin, tally)
    elif shape == "state":
        yield from read_state(origin, tally)
    elif shape == "log":
        yield from read_log(origin, tally, recover)
    elif shape == "replay":
        from unspool.sources.vscode_chat.replay import read_replay

        yield from read_replay(origin, tally)
    else:
        yield from read_document(origin, tally, recover)


def touched(path: str, position: str) -> Touched | None:
    """Which chats of a store were written since; None where it is another file."""
    from unspool.sources.vscode_chat import stores

    return stores.touched(path, position) if PurePath(path).name in _STORES else None


def visits(head: Head) -> bool:
    """Cursor's stores hold the chats of VS Code's own chat view too."""
    return head.name in _STORES and head.data.startswith(MAGIC)


def visit(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    from unspool.sources.vscode_chat.stores import read_store

    if origin.named or not is_spare(origin.path):
        yield from read_store(origin, tally, guest=True)
