"""The files beside an event log: who and where the session is, its checkpoints, its plan."""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from unspool.facts import AnyFact, Problem
from unspool.io.door import read_json
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, field_of
from unspool.sources.copilot_cli.lookup import STATE, folder_session
from unspool.sources.copilot_cli.texts import FIRST_PROMPT_RANK
from unspool.sources.scribe import Scribe, title_of

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

    def json(self) -> Any:
        values = read_json(self.data).values
        return values[0] if values else None


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
    """Torn files are read line by line: every field is a line of its own."""
    try:
        found = _fields(file.text)
    except ValueError:
        found = dict(_FIELD.findall(file.text))
        file.problem("invalid-yaml", file.data)
    fields = dict_of(found)
    key = file.key
    if not key[1]:
        key = (key[0], str(fields.get("id") or ""))
    if not key[1]:
        return
    for native, (name, rank) in _WORKSPACE.items():
        value = fields.get(native)
        if isinstance(value, str) and value.strip("\0 "):
            file.note(name, _scalar(native, value.strip("\0 ")), rank, key=key)
    for native, name in (("created_at", "started_at"), ("updated_at", "ended_at")):
        time = format_time(parse_time(fields.get(native)))
        if time:
            file.note(name, time, 2, key=key)
            file.note(native, time, 2, key=key)


def _fields(text: str) -> Any:
    """The fields as strings. Files of plain lines, which nearly all are, need no YAML parser: it
    takes longer for one of them than a log of 100 events."""
    lines = [line for line in text.split("\n") if line.strip()]
    matches = [_PLAIN.fullmatch(line.rstrip()) for line in lines]
    if all(matches):
        return {match[1]: match[2] or "" for match in matches if match is not None}
    import yaml  # it takes a while, and hardly any file needs it

    try:
        return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _scalar(native: str, value: str) -> Any:
    if native in ("name", "summary"):
        return title_of(value)
    if native.endswith("_count") and value.isdigit():
        return int(value)
    return value == "true" if native == "user_named" else value


def _checkpoint(file: Companion) -> None:
    """One per compaction: `NNN-slug.md` with pseudo-XML sections, or (told of) a JSON object."""
    value: dict[str, Any] = {}
    numbered = _NUMBERED.match(file.name)
    if numbered:
        value["number"] = int(numbered[1])
    value["file"] = file.name
    if file.name.endswith(".json"):
        checkpoint = file.json()
        if not isinstance(checkpoint, dict):
            file.problem("invalid-json", file.data)
            return
        value.update({name: text for name, text in checkpoint.items() if text not in (None, "")})
    else:
        sections = {name: text.strip() for name, text in _SECTION.findall(file.text)}
        value.update(sections or {"text": file.text.strip()})
        if "checkpoint_title" in value:
            value["title"] = value.pop("checkpoint_title")
    file.note("checkpoints", value)


def _index(file: Companion) -> None:
    """The table of checkpoints: only here (and in the store) do they have their whole titles."""
    for number, title, name in _ROW.findall(file.text):
        file.note("checkpoints", {"number": int(number), "title": title, "file": name}, 2)


def _plan(file: Companion) -> None:
    if file.text.strip():
        file.note("plan", file.text)


def _summary(file: Companion) -> None:
    if _ROW.search(file.text):
        _index(file)
    elif file.text.strip():
        file.note("checkpoints", {"kind": "summary", "file": file.name, "text": file.text.strip()})
        file.note("title", title_of(file.text), FIRST_PROMPT_RANK + 1)


def _vscode(file: Companion) -> None:
    """What VS Code keeps about a CLI session that it runs."""
    fields = file.json()
    if isinstance(fields, dict):
        note_vscode(file, fields)
    else:
        file.problem("invalid-json", file.data)


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
    for native, name in (
        ("worktreeProperties", "worktree"),
        ("additionalWorkspaces", "workspaces"),
    ):
        if fields.get(native):
            scribe.note(name, fields[native], more)


def _requests(file: Companion) -> None:
    requests = file.json()
    if isinstance(requests, list) and requests:
        file.note("vscode_requests", requests)


def _rewind(file: Companion) -> None:
    """States to go back to. A rewind cuts the log without a trace: the words may be only here."""
    snapshots = field_of(file.json(), "snapshots")
    if not isinstance(snapshots, list):
        file.problem("invalid-json", file.data)
        return
    names = (("snapshotId", "snapshot"), ("userMessage", "user_message"), ("gitCommit", "commit"),
             ("gitBranch", "branch"), ("fileCount", "files"))  # fmt: skip
    for snapshot in snapshots:
        if isinstance(snapshot, dict):
            data = {ours: snapshot[n] for n, ours in names if snapshot.get(n) not in (None, "")}
            file.mark(
                "rewind_point", data, str(snapshot.get("eventId") or ""), 1,
                time=parse_time(snapshot.get("timestamp")),
            )  # fmt: skip


def _lock(file: Companion) -> None:
    """A process has the session open, or crashed: the log may still grow."""
    file.note("in_use", True)


READERS: dict[str, Callable[[Companion], None]] = {
    "workspace": _workspace,
    "checkpoint": _checkpoint,
    "index": _index,
    "plan": _plan,
    "summary": _summary,
    "vscode": _vscode,
    "requests": _requests,
    "rewind": _rewind,
    "lock": _lock,
}
