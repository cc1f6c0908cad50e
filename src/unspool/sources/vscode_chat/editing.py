"""Editing sessions (`chatEditingSessions/<session>/state.json`): what became of the edited files.

The shape is VS Code's own, storage versions 1 and 2. The contents before and after lie beside it,
by their hashes; they are named, not copied.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unspool.facts import AnyFact, Marked, Noted
from unspool.io.origins import Head, Origin, Tally
from unspool.sources.vscode_chat.chats import NAME, WORST
from unspool.sources.vscode_chat.documents import lost, parse, read_whole
from unspool.sources.vscode_chat.scribe import Scribe
from unspool.sources.vscode_chat.uris import path_of, uri_of

FOLDER = "chatEditingSessions"
_STATES = {0: "undecided", 1: "accepted", 2: "rejected"}
_OUTCOMES = ("accepted", "rejected")
_FIELDS = {
    "language": "languageId",
    "original_hash": "originalHash",
    "current_hash": "currentHash",
    "deleted": "isDeleted",
}


def is_state(head: Head) -> bool:
    return head.name == "state.json" and head.parts[-2:-1] == (FOLDER,)


def read_state(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    data, _ = read_whole(origin.path)
    value, code = parse(data)
    snapshot = value.get("recentSnapshot") if isinstance(value, dict) else None
    entries = snapshot.get("entries") if isinstance(snapshot, dict) else None
    if code or not isinstance(entries, list):
        yield lost(origin, tally, 0, code or "not-an-editing-session", data)
        return
    tally.records += 1
    files = [file for entry in entries if (file := _file(entry))]
    if not files:
        tally.noise += 1
        return
    scribe = Scribe((NAME, Path(origin.path).parent.name), origin.path, 0)
    yield scribe.write(Noted, name="edited_files", value=files, rank=WORST)
    for file in files:
        if file["state"] in _OUTCOMES:
            outcome = {"path": file["path"], "outcome": file["state"]}
            subject = file.get("request_id", "")
            yield scribe.write(Marked, kind="file_outcome", subject=subject, data=outcome)


def _file(entry: Any) -> dict[str, Any] | None:
    """One file as it was left: kept, undone, or not decided on; and the request that edited it."""
    if not isinstance(entry, dict) or not uri_of(entry.get("resource")):
        return None
    made: dict[str, Any] = {"path": path_of(entry["resource"]) or uri_of(entry["resource"])}
    state = entry.get("state")
    made["state"] = _STATES.get(state, state) if isinstance(state, int) else "unknown"
    told = entry.get("telemetryInfo")
    if isinstance(told, dict) and isinstance(told.get("requestId"), str):
        made["request_id"] = told["requestId"]
    return made | {ours: entry[theirs] for ours, theirs in _FIELDS.items() if entry.get(theirs)}
