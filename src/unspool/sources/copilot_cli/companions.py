"""The files beside an event log: who and where the session is, its checkpoints, its plan."""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from unspool.facts import AnyFact, Problem
from unspool.io.door import read_json
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, dicts_of, field_of
from unspool.sources.copilot_cli.lookup import STATE, folder_session
from unspool.sources.copilot_cli.texts import FIRST_PROMPT_RANK
from unspool.sources.scribe import Scribe, chosen, title_of

_SECTION = re.compile(r"<(\w+)>(.*?)</\1>", re.DOTALL)
_ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*(.*?)\s*\|\s*([^|]*?)\s*\|\s*$", re.MULTILINE)
_FIELD = re.compile(r"^(\w+):[ \t]*[\"']?(.*?)[\"']?\s*$", re.MULTILINE)
_PLAIN = re.compile(r"""(\w+):(?: ([^\s"'|>&*!%@`{\[#?\-](?:(?!:\s|\s#).)*))?""")
_NUMBERED = re.compile(r"^(\d+)-(.+)\.md$")
_LOCK = re.compile(r"^inuse\.(\d+)\.lock$")

_WORKSPACE = {
    "cwd": ("workspace.path", 1),
    "git_root": ("workspace.git_root", 1),
    "repository": ("workspace.repository", 1),
    "branch": ("workspace.branch", 1),
    "name": ("title", 2),
    "summary": ("title", 3),
    "host_type": ("host_type", 1),
    "user_named": ("user_named", 0),
    "summary_count": ("summary_count", 0),
    "fork_count": ("fork_count", 0),
    "mc_task_id": ("mc_task_id", 0),
    "mc_session_id": ("mc_session_id", 0),
    "session_sync_level": ("session_sync_level", 0),
}
"""Field → the note that it is, and how well it knows: the title that a person gave comes first."""


def kind_of(head: Head) -> str:
    """Which companion a file is, by its name and the folder that it is in; empty for none."""
    parent = head.parts[-1] if head.parts else ""
    inside = STATE in head.parts or folder_session(head.path) is not None
    if head.name == "workspace.yaml":
        has_id = re.search(rb"^id:", head.data, re.MULTILINE) is not None
        return "workspace" if has_id and (inside or b"summary_count" in head.data) else ""
    if not inside:
        return ""
    if parent == "checkpoints" and head.name.endswith((".md", ".json")):
        return "index" if head.name == "index.md" else "checkpoint"
    if parent == "rewind-snapshots" and head.name == "index.json":
        return "rewind"
    if STATE not in head.parts or head.parts[-2:-1] != (STATE,):
        return "vscode" if head.name == "vscode.metadata.json" else ""
    if _LOCK.match(head.name):
        return "lock"
    return _NAMES.get(head.name, "")


_NAMES = {
    "plan.md": "plan",
    "index.md": "summary",
    "vscode.metadata.json": "vscode",
    "vscode.requests.metadata.json": "requests",
}


class Companion(Scribe, kw_only=True, eq=False, gc=False):
    """A file as a whole, and the scribe of what it says about the session that it belongs to."""

    name: str
    data: bytes
    text: str

    def json(self) -> dict[str, Any]:
        """The object that the file is."""
        for value in dicts_of(read_json(self.data).values):
            return value
        self.problem("invalid-json", self.data)
        return {}


def read_companion(origin: Origin, tally: Tally, kind: str, product: str) -> Iterator[AnyFact]:
    with open_origin(origin.path) as file:
        data = file.read()
    companion = Companion(
        (product, folder_session(origin.path) or ""),
        origin.path,
        0,
        name=PurePath(origin.path).name,
        data=data,
        text=data.rstrip(b"\0").decode("utf-8", "replace").removeprefix("\ufeff"),
    )
    tally.records += 1
    READERS[kind](companion)
    tally.noise += not companion.facts
    tally.problems += any(isinstance(fact, Problem) for fact in companion.facts)
    yield from companion.facts


def _workspace(file: Companion) -> None:
    fields = _fields(file)
    if not file.key[1]:
        file.key = (file.key[0], str(fields.get("id") or ""))
    if not file.key[1]:
        return
    for native, (name, rank) in _WORKSPACE.items():
        value = fields.get(native)
        if isinstance(value, str) and value.strip("\0 "):
            file.note(name, _scalar(native, value.strip("\0 ")), rank)
    for native, name in (("created_at", "started_at"), ("updated_at", "ended_at")):
        time = format_time(parse_time(fields.get(native)))
        file.notes({name: time, native: time}, 2)


def _fields(file: Companion) -> dict[str, Any]:
    """The fields as strings. Files of plain lines, which nearly all are, need no YAML parser: it
    takes longer for one of them than a log of 100 events. Torn files are read line by line, too."""
    lines = [line for line in file.text.split("\n") if line.strip()]
    matches = [_PLAIN.fullmatch(line.rstrip()) for line in lines]
    if all(matches):
        return {match[1]: match[2] or "" for match in matches if match is not None}
    import yaml  # it takes a while, and hardly any file needs it

    try:
        return dict_of(yaml.load(file.text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    except yaml.YAMLError:
        file.problem("invalid-yaml", file.data)
        return dict(_FIELD.findall(file.text))


def _scalar(native: str, value: str) -> Any:
    if native in ("name", "summary"):
        return title_of(value)
    if native.endswith("_count") and value.isdigit():
        return int(value)
    return value == "true" if native == "user_named" else value


def _checkpoint(file: Companion) -> None:
    """One per compaction: `NNN-slug.md` with pseudo-XML sections, or (told of) a JSON object."""
    numbered = _NUMBERED.match(file.name)
    value: dict[str, Any] = {"number": int(numbered[1])} if numbered else {}
    value["file"] = file.name
    if file.name.endswith(".json"):
        checkpoint = file.json()
        value |= {name: text for name, text in checkpoint.items() if text not in (None, "")}
    else:
        sections = {name: text.strip() for name, text in _SECTION.findall(file.text)}
        value |= sections or {"text": file.text.strip()}
        if "checkpoint_title" in value:
            value["title"] = value.pop("checkpoint_title")
    if len(value) > 1:
        file.note("checkpoints", value)


def _index(file: Companion) -> None:
    """The table of checkpoints: only here (and in the store) do they have their whole titles."""
    for number, title, name in _ROW.findall(file.text):
        file.note("checkpoints", {"number": int(number), "title": title, "file": name}, 2)


def _summary(file: Companion) -> None:
    if _ROW.search(file.text):
        _index(file)
    elif file.text.strip():
        file.note("checkpoints", {"kind": "summary", "file": file.name, "text": file.text.strip()})
        file.note("title", title_of(file.text), FIRST_PROMPT_RANK + 1)


def note_vscode(scribe: Scribe, fields: dict[str, Any], more: int = 0) -> None:
    """`more` is added to the ranks where the file beside the session itself knows better."""
    folder = fields.get("workspaceFolder")
    repository = fields.get("repositoryProperties")
    for holder, native, name, rank in (
        (fields, "customTitle", "title", 0),
        (fields, "firstUserMessage", "title", 9),
        (folder, "folderPath", "workspace.path", 2),
        (repository, "repositoryPath", "workspace.git_root", 2),
        (repository, "branchName", "workspace.branch", 2),
        (repository, "branchName", "branch_name", 0),
        (repository, "baseBranchName", "workspace.base_branch", 0),
    ):
        value = field_of(holder, native)
        if isinstance(value, str) and value.strip():
            value = title_of(value) if name == "title" else value.strip()
            scribe.note(name, value, rank + more)
    kept = {"worktreeProperties": "worktree", "additionalWorkspaces": "workspaces"}
    scribe.notes(chosen(fields, kept, kept), more)


def _requests(file: Companion) -> None:
    requests = [value for value in read_json(file.data).values if isinstance(value, list)]
    file.notes({"vscode_requests": requests[0] if requests else None})


_SNAPSHOT = {
    "snapshotId": "snapshot",
    "userMessage": "user_message",
    "gitCommit": "commit",
    "gitBranch": "branch",
    "fileCount": "files",
}


def _rewind(file: Companion) -> None:
    """States to go back to. A rewind cuts the log without a trace: the words may be only here."""
    for snapshot in dicts_of(file.json().get("snapshots")):
        time, event = parse_time(snapshot.get("timestamp")), str(snapshot.get("eventId") or "")
        file.mark("rewind_point", chosen(snapshot, _SNAPSHOT, _SNAPSHOT), event, 1, time=time)


READERS: dict[str, Callable[[Companion], None]] = {
    "workspace": _workspace,
    "checkpoint": _checkpoint,
    "index": _index,
    "plan": lambda file: file.notes({"plan": file.text if file.text.strip() else ""}),
    "summary": _summary,
    # what VS Code keeps about a CLI session that it runs
    "vscode": lambda file: note_vscode(file, file.json()),
    "requests": _requests,
    "rewind": _rewind,
    # a process has the session open, or crashed: the log may still grow
    "lock": lambda file: file.note("in_use", True),
}
