"""The files of other threads: where a thread goes on from, and who asked for a review."""

import re
from functools import lru_cache
from pathlib import Path

from unspool.io.door import UNREADABLE
from unspool.io.origins import open_origin
from unspool.io.times import parse_time
from unspool.sources.codex.records import LINE

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FILE = re.compile(rf"rollout-[\dT-]+?-({_UUID})(?:_{_UUID})?\.jsonl")
_AT_ONCE_MICROS = 2_000_000
"""A review begins when its thread has entered review mode, in real files in the same millisecond."""


def thread_of(path: str) -> str | None:
    named = _FILE.search(path)
    return named[1] if named else None


def find_rollout(path: str, thread: str) -> str | None:
    """The file of another thread in the same tree of sessions, whatever day it is of."""
    for folder in _trees(path):
        for pattern in (f"rollout-*{thread}.jsonl", f"rollout-*{thread}.jsonl.zst"):
            found = sorted(folder.rglob(pattern))
            if found:
                return str(found[0])
    return None


def find_asker(path: str, thread: str, folder: str, start: int) -> str | None:
    """The thread that a review is for, where its file does not name it (as in 0.77):

        {"timestamp":"…36.776Z","payload":{"type":"entered_review_mode",…}}          the thread's
        {"payload":{"id":"019b…","timestamp":"…36.776Z","source":{"subagent":"review"},…}}  the review's

    The only one that entered review mode at that moment, in the same folder."""
    askers: set[str] = set()
    for tree in _trees(path):
        for other in tree.rglob("rollout-*.jsonl*"):
            asker = thread_of(other.name)
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
