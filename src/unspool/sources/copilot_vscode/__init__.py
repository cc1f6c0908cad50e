"""Copilot Chat's own traces in VS Code: transcripts, its session store, spans, debug logs, memories.

They tell of conversations that `vscode-chat` knows as a whole, so what they say is an echo under that
product's name; where nothing else is left of a chat, it stands alone and is partial.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from unspool.facts import ECHO, AnyFact, Noted
from unspool.io.databases import MAGIC
from unspool.io.origins import Head, Origin, Tally, read_head
from unspool.sources.copilot_cli.events import read_events
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.store import is_store, read_store
from unspool.sources.copilot_vscode import cache, debuglog, memories, traces
from unspool.sources.vscode_chat.fields import BESIDE
from unspool.sources.vscode_chat.folders import user_folders, workspace_of

NAME = "copilot-vscode"
PRODUCT = "vscode-chat"
RANGES = True

OUTSIDE = BESIDE + 1
"""What a chat says about itself, and what VS Code keeps beside it, knows better than all of this."""

_EXTENSION = "github.copilot-chat"
_TRANSCRIPTS = "transcripts"


def claims(head: Head) -> bool:
    return bool(shape_of(head))


def shape_of(head: Head) -> str:
    """Which of the extension's files this is; empty for none."""
    inside = any(part.lower() == _EXTENSION for part in head.parts)
    if head.data.startswith(MAGIC):
        if traces.is_traces(head.data, head.name):
            return "traces"
        return "store" if inside and is_store(head.data, head.name) else ""
    if memories.session_of(head.path):
        return "memory"
    if head.name == cache.FILE and inside:
        return "cache"
    if debuglog.is_log(head):
        return "debug"
    return "transcript" if _is_transcript(head, inside) else ""


def _is_transcript(head: Head, inside: bool) -> bool:
    """The CLI's events, written by the extension: it names the editor's version."""
    if inside and _TRANSCRIPTS in head.parts:
        return head.name.endswith(".jsonl")
    for value in head.objects:
        data = value.get("data")
        if value.get("type") == "session.start" and isinstance(data, dict):
            return "vscodeVersion" in data
    return False


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    """Where the extension keeps its files, in the user folder of every product."""
    found = user_folders(home, env, platform)
    inner = ("workspaceStorage", f"globalStorage/{_EXTENSION}")
    return [folder / name for folder in found for name in inner]


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    for fact in _read(origin, tally, recover):
        if isinstance(fact, Noted) and fact.on == "conversation" and fact.key[0] == PRODUCT:
            yield msgspec.structs.replace(fact, rank=fact.rank + OUTSIDE)
        else:
            yield fact


def _read(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    shape = shape_of(read_head(origin.path))
    if shape == "debug":
        yield from debuglog.read_log(origin, tally, PRODUCT, recover)
    elif shape == "transcript":
        yield from _read_transcript(origin, tally, recover)
    elif origin.start:
        return  # only lines are read in ranges; all else is read whole, with its beginning
    elif shape == "store":
        yield from read_store(origin, tally, PRODUCT)
    elif shape == "traces":
        yield from traces.read_traces(origin, tally, PRODUCT)
    elif shape == "memory":
        yield from memories.read_memory(origin, tally, PRODUCT)
    elif shape == "cache":
        yield from cache.read_cache(origin, tally)


def _read_transcript(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    """What tools gave back is never in a transcript, nor which folder it is about."""
    lookup = Lookup(origin.path)
    key = (PRODUCT, lookup.session)
    if not origin.start:
        notes = {"partial": "no-tool-results", "workspace.path": _workspace(origin.path)}
        for number, (name, value) in enumerate(notes.items(), 900):
            if value:
                yield Noted(
                    key=key, origin=origin.path, offset=0, number=number, name=name, value=value,
                    rank=ECHO, entry="transcript",
                )  # fmt: skip
    yield from read_events(origin, tally, key, lookup, ECHO, recover)


def _workspace(path: str) -> str:
    parents = Path(path).parents
    return workspace_of(parents[2] / "workspace.json") if len(parents) > 2 else ""
