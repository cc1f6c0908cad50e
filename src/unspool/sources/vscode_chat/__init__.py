"""VS Code chat: exports, stored chats, and what lies beside them.

chat.json exports; chatSessions/*.json (versions 1 to 3) and *.jsonl (a log of changes); chats of
empty windows and handed-over ones; chats exported as a zip; old chats and the index in state.vscdb;
the state of editing sessions; .chatreplay.json.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

from unspool.facts import AnyFact
from unspool.io.databases import BACKUP, MAGIC, is_spare
from unspool.io.origins import Head, Origin, Tally, Touched, read_head
from unspool.sources.vscode_chat.documents import (
    MUTATION,
    is_archive,
    read_archive,
    read_document,
    read_log,
    read_state,
)
from unspool.sources.vscode_chat.edits import is_state
from unspool.sources.vscode_chat.fields import NAME
from unspool.sources.vscode_chat.folders import CHAT_FOLDERS, places
from unspool.sources.vscode_chat.shown import shown_parts

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
_STORES = ("state.vscdb", f"state.vscdb{BACKUP}")
_DESCRIPTION = "workspace.json"
_REPLAY = b'"totalLogEntries"'
_OWN_FIELDS = {"requests", "prompts", "logs"}
_CURSOR_KEYS = (b"cursorDiskKV", b"composer.composerData", b"aiService.")


def claims(head: Head) -> bool:
    name = head.name
    if head.data.startswith(MAGIC):
        return name in _STORES and not _is_cursors(head)
    if name == _DESCRIPTION:
        return "workspaceStorage" in head.parts[-2:] and not _is_cursors(head)
    if is_archive(head) or is_state(head):
        return True
    data = _start(head)
    if _is_stored(head):
        return b"{" in data
    if not data.startswith(b"{"):
        return False
    if _is_log(head, data):
        return True
    return not _has_other_lines(data) and (_is_chat(data) or _is_replay(head, data))


def _start(head: Head) -> bytes:
    return head.data.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n\0")


def _is_stored(head: Head) -> bool:
    """By its place alone: a damaged chat may begin with anything."""
    return head.parts[-1:] != () and head.parts[-1] in CHAT_FOLDERS and ".json" in head.name


def _is_cursors(head: Head) -> bool:
    """Cursor keeps chats of its own under the same file names."""
    folders = ("Cursor", ".cursor")  # a project may be called cursor
    return any(f in head.parts for f in folders) or any(k in head.data for k in _CURSOR_KEYS)


def _is_log(head: Head, data: bytes) -> bool:
    return MUTATION.match(data) is not None or (_is_stored(head) and head.name.endswith(".jsonl"))


def _is_chat(data: bytes) -> bool:
    """A list of requests: the reports in Copilot CLI's logs count theirs under the same name."""
    if _REQUESTS.search(data) is None:
        return False
    return any(
        mark in data for mark in (b'"responderUsername"', b'"requestId"', b'"requesterUsername"')
    )


def _is_replay(head: Head, data: bytes) -> bool:
    if head.name.endswith(".chatreplay.json"):
        return True
    return (_REPLAY in data[:4096] and b'"prompts"' in data[:4096]) or (
        b'"logCount"' in data and b'"logs"' in data and b'"prompt"' in data
    )


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
    path = PurePath(origin.path)
    name = path.name
    for suffix in (".gz", ".zst"):
        name = name.removesuffix(suffix)
    spare = name in _STORES and not origin.named and is_spare(origin.path)
    if spare or name == _DESCRIPTION:
        # Every chat beside a description looks its folder up by itself, also when it is read alone.
        tally.records += 1
        tally.noise += 1
        return iter(())
    if name in _STORES:
        from unspool.sources.vscode_chat.stores import read_store

        return read_store(origin, tally)
    if path.parent.name in CHAT_FOLDERS:
        if name.endswith(".jsonl"):
            return read_log(origin, tally, recover)
        if name.endswith(".json"):
            return read_document(origin, tally, recover)
    head = read_head(origin.path)
    data = _start(head)
    if is_archive(head):
        return read_archive(origin, tally)
    if is_state(head):
        return read_state(origin, tally)
    if _is_log(head, data):
        return read_log(origin, tally, recover)
    if not _is_chat(data) and _is_replay(head, data):
        from unspool.sources.vscode_chat.replay import read_replay

        return read_replay(origin, tally)
    return read_document(origin, tally, recover)


def touched(path: str, position: str) -> Touched | None:
    """Which chats of a store were written since; None where it is another file."""
    from unspool.sources.vscode_chat import stores

    return stores.touched(path, position) if PurePath(path).name in _STORES else None


def visits(head: Head) -> bool:
    """Cursor's stores hold the chats of VS Code's own chat view too."""
    return head.name in _STORES and head.data.startswith(MAGIC)


def visit(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    from unspool.sources.vscode_chat.stores import read_rows, rows_facts

    if origin.named or not is_spare(origin.path):
        rows, _ = read_rows(origin.path)
        yield from rows_facts(rows, origin, tally)
