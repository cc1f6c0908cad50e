"""Survey: which origins are new, grown or rewritten since the store read them. Reads no contents."""

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from unspool import sinks, sources
from unspool.databases import MAGIC
from unspool.origins import Origin, read_head, walk
from unspool.pipeline.discover import COMPANIONS

TAIL_BYTES = 4096
LOGS = (".jsonl", ".ndjson")
Change = Literal["new", "grown", "rewritten"]


class Known(msgspec.Struct, array_like=True):
    """What the store knows of an origin."""

    id: int
    source: str
    size_bytes: int
    mtime_ns: int
    state: str
    read_bytes: int
    tail_hash: str
    gone: int


class Changed(msgspec.Struct):
    """An origin to be read."""

    path: str
    name: str
    size_bytes: int
    mtime_ns: int
    state: str
    change: Change
    known: Known | None = None


class Survey(msgspec.Struct):
    changed: list[Changed] = []
    unchanged: int = 0
    back: list[int] = []
    """Origins that had been gone and are there again, unchanged."""
    gone: list[int] = []


def survey(connection: sqlite3.Connection, paths: Iterable[str]) -> Survey:
    """Everything under the paths, compared with what the store has read."""
    known = _known(connection)
    made = Survey()
    met: set[str] = set()
    tops = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - compared as text below
    for top in tops:
        for path, name in walk(top):
            if path in met or path.endswith(COMPANIONS):
                continue
            met.add(path)
            _compare(made, path, name, known.get(path))
    for path, row in known.items():
        if path not in met and not row.gone and any(_is_under(path, top) for top in tops):
            made.gone.append(row.id)
    return made


def _known(connection: sqlite3.Connection) -> dict[str, Known]:
    rows = connection.execute(
        "SELECT path, id, source, size_bytes, mtime_ns, state, read_bytes, tail_hash,"
        " gone_since IS NOT NULL FROM origins"
    )
    return {str(path): msgspec.convert(rest, Known) for path, *rest in rows}


def _is_under(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/\\") + os.sep)


def _compare(made: Survey, path: str, name: str, known: Known | None) -> None:
    try:
        status = os.stat(path)  # noqa: PTH116 - thousands of files
    except OSError:
        return  # vanished since the walk, or a dangling link
    if not status.st_size:
        return
    state = _log_state(path)
    if known is not None:
        same = (known.size_bytes, known.mtime_ns, known.state)
        if same == (status.st_size, status.st_mtime_ns, state):
            made.unchanged += 1
            if known.gone:
                made.back.append(known.id)
            return
    change: Change = "new" if known is None else "rewritten"
    if known is not None and status.st_size > known.read_bytes and in_lines(path, known.source):
        change = "grown"
    made.changed.append(
        Changed(path, name, status.st_size, status.st_mtime_ns, state, change, known)
    )


def in_lines(path: str, source: str) -> bool:
    """Whether the file is a log of lines: then what is new stands at its end."""
    if source not in sources.SOURCES or not path.endswith(LOGS):
        return False
    return sources.load(source).RANGES


def _log_state(path: str) -> str:
    """A database grows in the log beside it before it changes itself."""
    try:
        status = os.stat(path + "-wal")  # noqa: PTH116 - thousands of files
    except OSError:
        return ""
    return f"{status.st_size}:{status.st_mtime_ns}"


def is_database(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def tail_hash(path: str, end: int) -> str:
    """Of the bytes before `end`: the same in a file that only grew."""
    with open(path, "rb") as file:
        file.seek(max(0, end - TAIL_BYTES))
        return hashlib.sha256(file.read(end - max(0, end - TAIL_BYTES))).hexdigest()[:32]


def whole_records_end(path: str, size: int) -> int:
    """Where the last record that is surely whole ends: a line that is being written has no end yet."""
    with open(path, "rb") as file:
        end = size
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                end = start + at + 1
                file.seek(end)
                return size if _is_whole(file.read(size - end)) else end
            end = start
        file.seek(0)
        return size if size < 1 << 24 and _is_whole(file.read(size)) else 0


def _is_whole(line: bytes) -> bool:
    if not line.strip():
        return True
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


def recognised(changed: Changed) -> Origin | None:
    """The origin to read, from the beginning or from where the store left off."""
    if changed.known is not None and changed.change == "grown":
        read = changed.known.read_bytes
        if read and tail_hash(changed.path, read) == changed.known.tail_hash:
            return Origin(
                changed.path, changed.name, changed.known.source, changed.size_bytes, start=read
            )
    head = read_head(changed.path)
    name = sinks.recognise(head) or sources.recognise(head)
    if name is None:
        return None
    return Origin(changed.path, changed.name, name, changed.size_bytes)


def iter_batches(changed: list[Changed], size: int) -> Iterator[list[Changed]]:
    """The changed origins in groups of about `size` bytes, folder by folder."""
    batch: list[Changed] = []
    weight = 0
    for item in sorted(changed, key=lambda one: (str(Path(one.path).parent), one.path)):
        batch.append(item)
        fresh = item.known.read_bytes if item.known and item.change == "grown" else 0
        weight += item.size_bytes - fresh
        if weight >= size:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch
