"""Intake: the spool into the queue, as fast as events come.

A payload is read once and looked at no more than it takes to say whose it is. Its file is removed
when the queue has it on disk: killed in between, the intake finds the file again, and the queue
knows the event by its id.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from unspool import sources
from unspool.hooks.spool import HALF_WRITTEN_SECONDS, Layout, agent_hint
from unspool.live.failpoints import reach
from unspool.live.queue import Arrival, Queue
from unspool.sources.hook_events import Fields, Hooks

BATCH_EVENTS = 100
BATCH_BYTES = 4 * 1024 * 1024
MOST_FILES = 10_000
"""Of a long backlog so many are looked at before the folder is listed again."""
SWEEP_SECONDS = 600.0
UNKNOWN = Hooks({})
"""Of an agent that no source reads."""


_decode = msgspec.json.Decoder(Fields).decode
_NAMED = re.compile(
    rb'"(session_id|sessionId|conversation_id|hook_event_name)"\s*:\s*"([^"\\]{1,200})"'
)


def read_payload(data: bytes) -> tuple[Fields, bool]:
    """The payload, and whether it is one JSON object; of a broken one what its beginning says."""
    try:
        return _decode(data), True
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        names = {name.decode(): value.decode("utf-8", "replace") for name, value in _NAMED.findall(
            data[:65536]
        )}  # fmt: skip
        return Fields(**names), False


def _text(*values: Any) -> str:
    return next((value for value in values if isinstance(value, str) and value), "")


def make_arrival(data: bytes, name: str, received_ns: int) -> Arrival:
    """What a file of the spool holds."""
    payload, is_whole = read_payload(data)
    platform = _platform(payload, agent_hint(name))
    hooks = sources.hooks_of(platform) or UNKNOWN
    session = _text(*(getattr(payload, field) for field in hooks.sessions))
    return Arrival(
        _event_id(payload, data, f"{name} {received_ns}") if is_whole else _hash(data, name),
        received_ns,
        platform,
        _text(payload.hook_event_name, payload.hookEventName)[:100],
        session,
        data,
    )


def _platform(payload: Fields, hint: str | None) -> str:
    """Whose command it was, else whose fields or whose transcript."""
    if hint is not None:
        return hint
    parts = set(re.split(r"[/\\]", _text(payload.transcript_path, payload.transcriptPath)))
    for name in sources.HOOKED:
        hooks = sources.hooks_of(name)
        if hooks and (hooks.is_own(payload) or not parts.isdisjoint(hooks.folders)):
            return name
    return ""


def _event_id(payload: Fields, data: bytes, file: str) -> str:
    """The same event may come from two hook files, some milliseconds apart: what it is about tells
    that. Without any such id two equal payloads are two events."""
    if payload.tool_use_id is None and payload.prompt_id is None and payload.generation_id is None:
        return _hash(data, file)
    if payload.timestamp is None:
        return hashlib.sha256(data.strip()).hexdigest()
    value = msgspec.json.decode(data)
    value.pop("timestamp")
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _hash(data: bytes, file: str) -> str:
    return hashlib.sha256(b"%s\0%s" % (file.encode(), data)).hexdigest()


def take_in(layout: Layout, queue: Queue) -> Iterator[list[Arrival]]:
    """Everything that lies in the spool, oldest first; each batch is safe when it is given."""
    while files := _waiting(layout.new):
        batch: list[Arrival] = []
        done: list[str] = []
        size = 0
        for received_ns, path in files:
            try:
                data = Path(path).read_bytes()
            except FileNotFoundError:
                continue  # another intake was faster
            batch.append(make_arrival(data, Path(path).name, received_ns))
            done.append(path)
            size += len(data)
            if len(batch) >= BATCH_EVENTS or size >= BATCH_BYTES:
                yield _put(queue, batch, done)
                batch, done, size = [], [], 0
        if batch:
            yield _put(queue, batch, done)


def _put(queue: Queue, batch: list[Arrival], files: list[str]) -> list[Arrival]:
    reach("intake-read")
    queue.put(batch)
    reach("intake-queued")
    for path in files:
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - thousands of files
    reach("intake-removed")
    return batch


def _waiting(folder: Path) -> list[tuple[int, str]]:
    """When each file came, and its path."""
    files: list[tuple[int, str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        files.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
    except (FileNotFoundError, NotADirectoryError):
        return []  # no hooks are installed
    return sorted(files)[:MOST_FILES]


def sweep(layout: Layout) -> int:
    """Remove what hooks left that were killed while they wrote; how many files."""
    removed = 0
    with suppress(OSError), os.scandir(layout.tmp) as entries:
        for entry in entries:
            with suppress(OSError):
                if time.time() - entry.stat(follow_symlinks=False).st_mtime > HALF_WRITTEN_SECONDS:
                    os.unlink(entry.path)  # noqa: PTH108 - beside scandir
                    removed += 1
    return removed
