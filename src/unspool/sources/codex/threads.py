"""Threads: whose a rollout is, and the files of others that it goes on from or that asked for it.

{"type":"session_meta","payload":{"id":"01a1…","cwd":"/w","cli_version":"0.166.0","source":
{"subagent":{"thread_spawn":{"parent_thread_id":"01a0…","agent_path":"/root/scout"}}},…}}
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from unspool.io.door import UNREADABLE, iter_json_lines
from unspool.io.origins import Origin, Tally, open_origin
from unspool.io.times import parse_time
from unspool.io.values import dict_of, str_of
from unspool.sources.codex.records import LINE, Line, Payload
from unspool.sources.scribe import Scribe

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FILE = re.compile(rf"rollout-[\dT-]+?-({_UUID})(?:_{_UUID})?\.jsonl")
_AT_ONCE_MICROS = 2_000_000
"""A review begins when its thread has entered review mode, in real files in the same millisecond."""


def session_of(path: str) -> str | None:
    named = _FILE.search(path)
    return named[1] if named else None


def state_header(payload: Payload, scribe: Scribe) -> None:
    git = dict_of(payload.git)
    scribe.notes(
        {
            "agent": "Codex",
            "agent_version": payload.cli_version,
            "originator": payload.originator,
            "agent_name": payload.agent_nickname,
            "workspace.branch": str_of(git.get("branch")),
            "workspace.commit": str_of(git.get("commit_hash")),
            "workspace.repository": str_of(git.get("repository_url")),
        }
    )
    source, spawn = _started_by(payload)
    thread = scribe.key[1]
    parent = payload.parent_thread_id or spawn.get("parent_thread_id")
    if source == "review" and not parent and scribe.time is not None:
        parent = find_asker(scribe.origin, thread, payload.cwd or "", scribe.time)
    if isinstance(parent, str) and parent:
        scribe.parent(parent)
    elif payload.forked_from_id:
        scribe.parent(payload.forked_from_id, "fork")
    if source:
        kind = source if isinstance(source, str) else "subagent"
        scribe.note("agent_type", str(spawn.get("agent_role") or kind))
    instructions = instructions_of(payload)
    if instructions:
        scribe.message(id=f"{thread}:instructions", role="system", text=instructions)


def instructions_of(payload: Payload) -> str:
    told = payload.base_instructions or payload.instructions
    return str_of(told.get("text") if isinstance(told, dict) else told)


def path_of_agent(payload: Payload) -> str:
    """What the agents of a thread call this one: `/root`, `/root/scout`."""
    return payload.agent_path or str(_started_by(payload)[1].get("agent_path") or "") or "/root"


def _started_by(payload: Payload) -> tuple[Any, dict[str, Any]]:
    """The kind of sub-agent, if it is one ("review", or an object), and what is told of its start."""
    source = dict_of(payload.source).get("subagent")
    return source, dict_of(dict_of(source).get("thread_spawn"))


def lines_before(path: str, header: Payload) -> list[tuple[bytes, Line]] | None:
    """The lines that a thread goes on from, which stand only in other files of the same tree of
    sessions, whatever day they are of; None where that file is gone."""
    base = header.history_base
    if base is None:
        return []
    found = [
        file
        for tree in _trees(path)
        for name in (f"rollout-*{base.thread_id}.jsonl", f"rollout-*{base.thread_id}.jsonl.zst")
        for file in sorted(tree.rglob(name))
    ]
    if not found:
        return None
    other, end = str(found[0]), base.end_ordinal_exclusive
    lines: list[tuple[bytes, Line]] = []
    origin = Origin(path=other, name=other, source="codex")
    for _, data, line in iter_json_lines(origin, LINE, Tally()):
        if end is not None and line.ordinal is not None and line.ordinal >= end:
            break
        if line.type != "session_meta":
            lines.append((data, line))
        elif not lines and line.payload is not None:
            lines = lines_before(other, line.payload) or []
    return lines


def find_asker(path: str, thread: str, folder: str, start: int) -> str | None:
    """The thread that a review is for, where its file does not name it (as in 0.77):

        {"timestamp":"…36.776Z","payload":{"type":"entered_review_mode",…}}          the thread's
        {"payload":{"id":"019b…","timestamp":"…36.776Z","source":{"subagent":"review"},…}}  the review's

    The only one that entered review mode at that moment, in the same folder."""
    askers: set[str] = set()
    for tree in _trees(path):
        for other in tree.rglob("rollout-*.jsonl*"):
            asker = session_of(other.name)
            # Ids begin with the time: the thread is older than its review, and is written to after it.
            if asker is None or asker >= thread:
                continue
            try:
                status = other.stat()
                if status.st_mtime * 1e6 + _AT_ONCE_MICROS < start:
                    continue
                entered = _reviews(str(other), status.st_mtime_ns, status.st_size)
            except (OSError, EOFError):
                continue
            if any(where == folder and abs(at - start) <= _AT_ONCE_MICROS for where, at in entered):
                askers.add(asker)
    return askers.pop() if len(askers) == 1 else None


@lru_cache(maxsize=4096)
def _reviews(path: str, changed: int, size: int) -> tuple[tuple[str, int], ...]:
    """Where and when a thread entered review mode; `changed` and `size` tell the file's state."""
    found: list[tuple[str, int]] = []
    folder = ""
    with open_origin(path) as file:
        for number, data in enumerate(file):
            if number and b"entered_review_mode" not in data:
                continue
            try:
                line = LINE.decode(data)
            except UNREADABLE:
                continue
            at = parse_time(line.timestamp)
            if line.type == "session_meta" and line.payload is not None:
                folder = line.payload.cwd or ""
            elif line.payload is not None and line.payload.type == "entered_review_mode" and at:
                found.append((folder, at))
    return tuple(found)


def _trees(path: str) -> list[Path]:
    """The folders that hold the threads of the same person."""
    here = Path(path)
    names = ("sessions", "archived_sessions")
    root = next((p.parent for p in here.parents if p.name in names), here.parent)
    return [root / name for name in names if (root / name).is_dir()] or [root]
