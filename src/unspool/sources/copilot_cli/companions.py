"""The files beside an event log: who and where the session is, its checkpoints, its plan."""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import yaml

from unspool.facts import NOBODY, AnyFact, Key, Marked, Noted, Problem
from unspool.io.dirty_json import salvage, sample
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.times import format_time, parse_time
from unspool.sources.copilot_cli.lookup import STATE, folder_session
from unspool.sources.copilot_cli.texts import title_of

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

Companion = Callable[["File"], Iterator[AnyFact]]


class File:
    """A companion file as a whole, and the facts about the session that it belongs to."""

    def __init__(self, origin: Origin, data: bytes, key: Key) -> None:
        self.origin = origin
        self.name = PurePath(origin.path).name
        self.data = data
        self.text = data.rstrip(b"\0").decode("utf-8", "replace").removeprefix("\ufeff")
        self.key = key
        self.number = 0

    def note(self, name: str, value: Any, rank: int = 0) -> Noted:
        self.number += 1
        return Noted(
            key=self.key, origin=self.origin.path, offset=0, number=self.number, name=name,
            value=value, rank=rank,
        )  # fmt: skip

    def mark(self, kind: str, **fields: Any) -> Marked:
        self.number += 1
        return Marked(
            key=self.key, origin=self.origin.path, offset=0, number=self.number, kind=kind, **fields
        )

    def problem(self, code: str) -> Problem:
        return Problem(
            key=NOBODY, origin=self.origin.path, offset=0, number=99, code=code,
            sample=sample(self.data),
        )  # fmt: skip

    def json(self) -> Any:
        found = salvage(self.data)
        return found.values[0] if found.values else None


def kind_of(head: Head) -> str:
    """Which companion a file is, by its name and the folder that it is in; empty for none."""
    parent = head.parts[-1] if head.parts else ""
    inside = STATE in head.parts or folder_session(head.path) is not None
    if head.name == "workspace.yaml":
        told = re.search(rb"^id:", head.data, re.MULTILINE) is not None
        return "workspace" if told and (inside or b"summary_count" in head.data) else ""
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


def read_companion(origin: Origin, tally: Tally, kind: str, product: str) -> Iterator[AnyFact]:
    with open_origin(origin.path) as file:
        data = file.read()
    tally.records += 1
    made = File(origin, data, (product, folder_session(origin.path) or ""))
    number = 0
    for fact in READERS[kind](made):
        number += 1
        tally.problems += isinstance(fact, Problem)
        yield fact
    if not number:
        tally.noise += 1


def _workspace(file: File) -> Iterator[AnyFact]:
    """Torn files are read line by line: every field is a line of its own."""
    try:
        found = _fields(file.text)
    except yaml.YAMLError:
        found = dict(_FIELD.findall(file.text))
        yield file.problem("invalid-yaml")
    fields = found if isinstance(found, dict) else {}
    ident = fields.get("id")
    if isinstance(ident, str) and ident and not file.key[1]:
        file.key = (file.key[0], ident)
    if not file.key[1]:
        return
    for native, (name, rank) in _WORKSPACE.items():
        value = fields.get(native)
        if isinstance(value, str) and value.strip("\0 "):
            yield file.note(name, _scalar(native, value.strip("\0 ")), rank)
    for native, name in (("created_at", "started_at"), ("updated_at", "ended_at")):
        time = format_time(parse_time(fields.get(native)))
        if time:
            yield file.note(name, time, 2)


def _fields(text: str) -> Any:
    """The fields as strings. Files of plain lines, which nearly all are, need no YAML parser: it
    takes longer for one of them than a log of 100 events."""
    lines = [line for line in text.split("\n") if line.strip()]
    found = [_PLAIN.fullmatch(line.rstrip()) for line in lines]
    if all(found):
        return {match[1]: match[2] or "" for match in found if match is not None}
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


def _scalar(native: str, value: str) -> Any:
    if native in ("name", "summary"):
        return title_of(value)
    if native.endswith("_count") and value.isdigit():
        return int(value)
    return value == "true" if native == "user_named" else value


def _checkpoint(file: File) -> Iterator[AnyFact]:
    """One per compaction: `NNN-slug.md` with pseudo-XML sections, or (told of) a JSON object."""
    value: dict[str, Any] = {}
    numbered = _NUMBERED.match(file.name)
    if numbered:
        value["number"] = int(numbered[1])
    value["file"] = file.name
    if file.name.endswith(".json"):
        found = file.json()
        if not isinstance(found, dict):
            yield file.problem("invalid-json")
            return
        value.update({name: text for name, text in found.items() if text not in (None, "")})
    else:
        sections = {name: text.strip() for name, text in _SECTION.findall(file.text)}
        value.update(sections or {"text": file.text.strip()})
        if "checkpoint_title" in value:
            value["title"] = value.pop("checkpoint_title")
    yield file.note("checkpoints", value)


def _index(file: File) -> Iterator[AnyFact]:
    """The table of checkpoints: only here (and in the store) do they have their whole titles."""
    for number, title, name in _ROW.findall(file.text):
        value = {"number": int(number), "title": title, "file": name}
        yield file.note("checkpoints", value, 2)


def _plan(file: File) -> Iterator[AnyFact]:
    if file.text.strip():
        yield file.note("plan", file.text)


def _summary(file: File) -> Iterator[AnyFact]:
    if _ROW.search(file.text):
        yield from _index(file)
    elif file.text.strip():
        yield file.note("summary", file.text)


def _vscode(file: File) -> Iterator[AnyFact]:
    """What VS Code keeps about a CLI session that it runs."""
    found = file.json()
    if not isinstance(found, dict):
        yield file.problem("invalid-json")
        return
    yield from vscode_notes(file, found)


def vscode_notes(file: File, found: dict[str, Any]) -> Iterator[Noted]:
    folder = found.get("workspaceFolder")
    repository = found.get("repositoryProperties")
    for holder, native, name, rank in (
        (found, "customTitle", "title", 0),
        (found, "firstUserMessage", "title", 9),
        (folder, "folderPath", "workspace.path", 2),
        (repository, "repositoryPath", "workspace.git_root", 2),
        (repository, "branchName", "workspace.branch", 2),
        (repository, "baseBranchName", "workspace.base_branch", 0),
    ):
        value = holder.get(native) if isinstance(holder, dict) else None
        if isinstance(value, str) and value.strip():
            yield file.note(name, title_of(value) if name == "title" else value.strip(), rank)
    for native, name in (
        ("worktreeProperties", "worktree"),
        ("additionalWorkspaces", "workspaces"),
    ):
        if found.get(native):
            yield file.note(name, found[native])


def _requests(file: File) -> Iterator[AnyFact]:
    found = file.json()
    if isinstance(found, list) and found:
        yield file.note("vscode_requests", found)


def _rewind(file: File) -> Iterator[AnyFact]:
    """States to go back to. A rewind cuts the log without a trace: the words may be only here."""
    found = file.json()
    snapshots = found.get("snapshots") if isinstance(found, dict) else None
    if not isinstance(snapshots, list):
        yield file.problem("invalid-json")
        return
    names = (("snapshotId", "snapshot"), ("userMessage", "user_message"), ("gitCommit", "commit"),
             ("gitBranch", "branch"), ("fileCount", "files"))  # fmt: skip
    for snapshot in snapshots:
        if isinstance(snapshot, dict):
            data = {ours: snapshot[n] for n, ours in names if snapshot.get(n) not in (None, "")}
            yield file.mark(
                "rewind_point", subject=str(snapshot.get("eventId") or ""), data=data or None,
                time=parse_time(snapshot.get("timestamp")), rank=1,
            )  # fmt: skip


def _lock(file: File) -> Iterator[AnyFact]:
    """A process has the session open, or crashed: the log may still grow."""
    found = _LOCK.match(file.name)
    if found:
        yield file.note("in_use", True)


READERS: dict[str, Companion] = {
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
