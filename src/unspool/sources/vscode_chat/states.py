"""States of editing sessions: which files a chat edited, and what became of them in the end.

`chatEditingSessions/<session>/state.json` (VS Code's storage versions 1 and 2):

    {"recentSnapshot": {"entries": [{"resource": "file:///a.py", "state": 1, "telemetryInfo": {…}}]}}

The contents before and after lie beside that file, by their hashes; they are named, not copied.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unspool.facts import AnyFact
from unspool.io.door import Flaw, read_json, sample
from unspool.io.origins import Head, Origin, Tally
from unspool.io.values import field_of, str_of
from unspool.sources.scribe import Scribe
from unspool.sources.vscode_chat.documents import lose, read_whole
from unspool.sources.vscode_chat.edits import edited_path
from unspool.sources.vscode_chat.fields import BESIDE, NAME

_FOLDER = "chatEditingSessions"
_OUTCOMES = {0: "undecided", 1: "accepted", 2: "rejected"}
_FIELDS = {
    "language": "languageId",
    "original_hash": "originalHash",
    "current_hash": "currentHash",
    "deleted": "isDeleted",
}


def is_state(head: Head) -> bool:
    return head.name == "state.json" and head.parts[-2:-1] == (_FOLDER,)


def read_state(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    data = read_whole(origin.path)
    salvage = read_json(data)
    value = salvage.values[0] if salvage.values else None
    entries = field_of(field_of(value, "recentSnapshot"), "entries")
    if not isinstance(entries, list):
        flaw = Flaw("not-an-editing-session", 0, sample(data))
        lose(origin, tally, salvage.flaws[0] if salvage.flaws else flaw)
        return
    tally.records += 1
    files = [file for entry in entries if (file := _file(entry))]
    tally.noise += not files
    scribe = Scribe((NAME, Path(origin.path).parent.name), origin.path, 0)
    scribe.notes({"edited_files": files}, BESIDE)
    for file in files:
        if file["state"] in ("accepted", "rejected"):
            outcome = {"path": file["path"], "outcome": file["state"]}
            scribe.mark("file_outcome", outcome, file.get("request_id", ""))
    yield from scribe.facts


def _file(entry: Any) -> dict[str, Any] | None:
    """One file as it was left: kept, undone, or not decided on; and the request that edited it."""
    path = edited_path(field_of(entry, "resource"))
    if not path:
        return None
    state = entry.get("state")
    told = {ours: entry.get(theirs) for ours, theirs in _FIELDS.items()}
    told = {"request_id": str_of(field_of(entry.get("telemetryInfo"), "requestId")), **told}
    known = {name: value for name, value in told.items() if value}
    state = _OUTCOMES.get(state, state) if isinstance(state, int) else "unknown"
    return {"path": path, "state": state, **known}
