"""Copilot Chat's own traces in VS Code: transcripts, its session store, spans, debug logs, memories.

They tell of conversations that `vscode-chat` knows as a whole, so what they say is an echo under that
product's name; where nothing else is left of a chat, it stands alone and is partial.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

import msgspec

from unspool.facts import AnyFact, Noted, Rank
from unspool.io.databases import MAGIC
from unspool.io.door import Flaw, read_json, sample
from unspool.io.origins import Head, Origin, Tally, read_head
from unspool.sources.copilot_cli.companions import note_vscode
from unspool.sources.copilot_cli.events import read_events
from unspool.sources.copilot_cli.hooks import EDITORS
from unspool.sources.copilot_cli.lookup import Lookup
from unspool.sources.copilot_cli.store import is_store, read_store
from unspool.sources.copilot_vscode.debuglog import is_log, read_log
from unspool.sources.copilot_vscode.traces import is_traces, read_traces
from unspool.sources.hook_events import CLAUDE_STATES, Hooks
from unspool.sources.hook_payloads import is_log as is_hook_log
from unspool.sources.hook_payloads import read_payloads
from unspool.sources.scribe import Scribe
from unspool.sources.vscode_chat.documents import lose, read_whole
from unspool.sources.vscode_chat.fields import BESIDE
from unspool.sources.vscode_chat.folders import user_folders, workspace_of

NAME = "copilot-vscode"
PRODUCT = "vscode-chat"
RANGES = True

OUTSIDE = BESIDE + 1
"""What a chat says about itself, and what VS Code keeps beside it, knows better than all of this."""

_EXTENSION = "github.copilot-chat"
_TRANSCRIPTS = "transcripts"
HOOKS = Hooks(CLAUDE_STATES, ("workspaceStorage", "globalStorage"))
_CACHE = "copilotcli.session.metadata.json"
_MEMORIES = ("memory-tool", "memories")
_SHARED = ("repo", "user")
"""Folders of memories that are no chat's."""
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def claims(head: Head) -> bool:
    return bool(shape_of(head))


def shape_of(head: Head) -> str:
    """Which of the extension's files this is; empty for none."""
    inside = any(part.lower() == _EXTENSION for part in head.parts)
    if head.data.startswith(MAGIC):
        if is_traces(head.data, head.name):
            return "traces"
        return "store" if inside and is_store(head.data, head.name) else ""
    if memory_session(head.path):
        return "memory"
    if head.name == _CACHE and inside:
        return "cache"
    if is_log(head):
        return "debug"
    if is_hook_log(head, EDITORS):
        return "hooks"
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
    folders = user_folders(home, env, platform)
    inner = ("workspaceStorage", f"globalStorage/{_EXTENSION}")
    return [folder / name for folder in folders for name in inner]


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    for fact in _read(origin, tally, recover):
        if isinstance(fact, Noted) and fact.on == "conversation" and fact.key[0] == PRODUCT:
            yield msgspec.structs.replace(fact, rank=fact.rank + OUTSIDE)
        else:
            yield fact


def _read(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    shape = shape_of(read_head(origin.path))
    if shape == "debug":
        yield from read_log(origin, tally, PRODUCT, recover)
    elif shape == "hooks":
        yield from read_payloads(origin, tally, recover, EDITORS)
    elif shape == "transcript":
        # What tools gave back is never in a transcript, nor which folder it is about.
        lookup = Lookup(origin.path)
        key = (PRODUCT, lookup.session)
        if not origin.start:
            scribe = Scribe(key, origin.path, 0, entry="transcript")
            scribe.note("partial", "no-tool-results", Rank.ECHO, number=900)
            parents = Path(origin.path).parents
            folder = workspace_of(str(parents[2] / "workspace.json")) if len(parents) > 2 else ""
            if folder:
                scribe.note("workspace.path", folder, Rank.ECHO, number=901)
            yield from scribe.facts
        yield from read_events(origin, tally, key, lookup, Rank.ECHO, recover)
    elif origin.start:
        return  # only lines are read in ranges; all else is read whole, with its beginning
    elif shape == "store":
        yield from read_store(origin, tally, PRODUCT)
    elif shape == "traces":
        yield from read_traces(origin, tally)
    elif shape == "memory":
        # Markdown that the memory tool saved for one chat.
        text = read_whole(origin.path).decode("utf-8", "replace")
        tally.records += 1
        parts = PurePath(origin.path).parts
        name = "/".join(parts[parts.index(_MEMORIES[1]) + 2 :])
        scribe = Scribe((PRODUCT, memory_session(origin.path)), origin.path, 0)
        scribe.note("checkpoints", {"kind": "memory", "title": name, "text": text})
        yield from scribe.facts
    elif shape == "cache":
        yield from _read_cache(origin, tally)


def memory_session(path: str) -> str:
    """The chat that a memory belongs to; empty where it is no chat's.

    The folder is base64 of the chat's id; what does not decode to one is an id by itself.
    """
    parts = PurePath(path).parts
    for at in range(len(parts) - 3):
        if parts[at : at + 2] == _MEMORIES:
            name = parts[at + 2]
            if name in _SHARED:
                return ""
            try:
                coded = name + "=" * (-len(name) % 4)
                text = base64.b64decode(coded, validate=True).decode("ascii")
            except (binascii.Error, ValueError):
                return name
            return text if _UUID.fullmatch(text) else name
    return ""


def _read_cache(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """What the extension keeps beside CLI sessions: one object, by session id."""
    data = read_whole(origin.path)
    salvage = read_json(data)
    value = salvage.values[0] if salvage.values else None
    if not isinstance(value, dict):
        lose(origin, tally, Flaw("invalid-json", 0, sample(data)))
        return
    for number, (session, kept) in enumerate(value.items()):
        tally.records += 1
        scribe = Scribe(("copilot-cli", session), origin.path, number)
        if isinstance(kept, dict):
            note_vscode(scribe, kept, 1)  # the file beside the session itself knows better
        tally.noise += not scribe.facts
        yield from scribe.facts
