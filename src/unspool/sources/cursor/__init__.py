"""Cursor: hooks, editor databases, command-line chats, agent transcripts and stream-json."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from unspool.facts import AnyFact
from unspool.io.origins import Head, Origin, Tally, Touched, read_head
from unspool.sources.cursor import (
    chats,
    editor,
    hooks,
    stream,
    tracking,
    transcripts,
    workspace,
)
from unspool.sources.cursor.paths import user_folder
from unspool.sources.hook_events import Hooks

NAME = "cursor"
RANGES = False
TIMELINE = "prompts"
"""Its timeline is one of prompts, responses and edits, not of turns."""

_SHAPES = (editor, chats, tracking, workspace, stream, hooks, transcripts)
"""Each knows one kind of origin; asked in this order."""


def claims(head: Head) -> bool:
    """What tools and terminals returned may be a log or a transcript, but is none of Cursor's."""
    if "projects" in head.parts and head.parts[-1] in ("agent-tools", "terminals"):
        return False
    return any(shape.claims(head) for shape in _SHAPES)


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    user, own = user_folder(home, env, platform), home / ".cursor"
    database = user / "globalStorage" / "state.vscdb"
    stores = [database, user / "workspaceStorage"]
    return [*stores, *(own / name for name in ("chats", "projects", "ai-tracking"))]


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    head = read_head(origin.path)
    shape = next((shape for shape in _SHAPES if shape.claims(head)), hooks)
    yield from shape.read(origin, tally, recover)


HOOKS = Hooks(
    {
        **dict.fromkeys(
            (
                "beforesubmitprompt", "afteragentthought", "afteragentresponse", "posttooluse",
                "posttoolusefailure", "aftershellexecution", "aftermcpexecution", "afterfileedit",
                "subagentstop", "precompact",
            ),
            "working",
        ),
        "sessionstart": "idle",
        "stop": "idle",
        "sessionend": "ended",
    },
    (".cursor",),
    # It runs Claude Code's hooks too.
    is_own=lambda fields: fields.cursor_version is not None
    or (fields.conversation_id is not None and fields.generation_id is not None),
    sessions=("conversation_id", "session_id", "sessionId"),
    settle=lambda event, told, state: (
        "failed" if event == "stop" and told.status == "error" else state
    ),
)  # fmt: skip


def touched(path: str, position: str) -> Touched | None:
    """Which conversations of an editor's database were written since; None where it is another file."""
    return editor.touched(path, position) if ".vscdb" in Path(path).name else None
