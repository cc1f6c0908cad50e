"""Survey: which origins are new, grown or rewritten since the store read them.

Reads no contents: size and time tell, and for databases the counters in their headers.
"""

import hashlib
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from unspool import sources
from unspool.io.databases import BACKUP, MAGIC
from unspool.io.folders import walk
from unspool.pipeline.discover import COMPANIONS
from unspool.store.opening import file_of, store_path

TAIL_BYTES = 4096
LOGS = (".jsonl", ".ndjson")
GONE = (FileNotFoundError, NotADirectoryError)


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
    attempt: str
    """The version of a half-written document that was not taken."""


class Changed(msgspec.Struct):
    """An origin to be read."""

    path: str
    name: str
    size_bytes: int
    mtime_ns: int
    state: str
    known: Known | None = None
    begin: int = 0
    """Where the new records of a log begin, if it only grew."""
    only: tuple[str, ...] = ()
    """Of a database: the conversations that were written; empty: that is not known."""


class Survey(msgspec.Struct):
    changed: list[Changed] = []
    unchanged: int = 0
    back: list[int] = []
    """Origins that had been gone and are there again, unchanged."""
    gone: list[int] = []
    unreadable: list[OSError] = []
    """Folders and files that may not be looked at: they are not gone."""
    own: frozenset[tuple[int, int]] = frozenset()
    """Device and inode of the store's own files, which may lie among what it reads. They are not opened
    beside SQLite: to close any handle of a file drops the locks that this process has on it."""
    live: str = "\0"
    """The folder of what live capture keeps beside the store: its logs are no files, and its files no
    origins."""
    looked: set[str] = set()

    def look(self, path: str, name: str, known: Known | None) -> None:
        """A file, once, compared with what the store has read of it."""
        if path in self.looked or path.endswith(COMPANIONS) or path.startswith(self.live):
            return
        self.looked.add(path)
        try:
            status = os.stat(path)  # noqa: PTH116 - thousands of files
            if not status.st_size:
                return  # nothing yet, or about to be written anew
            if (status.st_dev, status.st_ino) in self.own:
                return
            if known is not None and _is_same(path, status, known):
                self.unchanged += 1
                if known.gone:
                    self.back.append(known.id)
                return
            state = database_state(path, status)
        except GONE:
            if known is not None and not known.gone:
                self.gone.append(known.id)
            return  # vanished since the walk, or a dangling link
        except OSError as error:
            self.unreadable.append(error)
            return
        begin = 0
        if known is not None and status.st_size > known.read_bytes and in_lines(path, known.source):
            begin = known.read_bytes
        self.changed.append(
            Changed(path, name, status.st_size, status.st_mtime_ns, state, known, begin)
        )


def live_folder(connection: sqlite3.Connection) -> str:
    return str(store_path(connection).parent / "live") + os.sep


def survey(connection: sqlite3.Connection, paths: Iterable[str]) -> Survey:
    """Everything under the paths, compared with what the store has read."""
    origins = known_origins(connection)
    findings = Survey(own=own_files(connection), live=live_folder(connection))
    tops = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - compared as text below
    for top in tops:
        for path, name in walk(top, findings.unreadable.append):
            findings.look(path, name, origins.get(path))
    for path, row in origins.items():
        known = path in findings.looked or row.gone or path.startswith(findings.live)
        if not known and any(_is_under(path, top) for top in tops) and is_gone(path):
            findings.gone.append(row.id)
    return findings


def _is_under(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/\\") + os.sep)


def own_files(connection: sqlite3.Connection) -> frozenset[tuple[int, int]]:
    """By whatever names they are met."""
    paths = [path for _, _, path in connection.execute("PRAGMA database_list")]
    files = (file_of(Path(path + end)) for path in paths for end in ("", ".lock"))
    return frozenset(file for file in files if file is not None)


def is_gone(path: str) -> bool:
    """Surely no longer there: what may not be looked at is not gone."""
    try:
        os.stat(path)  # noqa: PTH116 - its errors tell more than Path.exists
    except GONE:
        return True
    except OSError:
        return False
    return False


_KNOWN = (
    "SELECT path, id, source, size_bytes, mtime_ns, state, read_bytes, tail_hash,"
    " gone_since IS NOT NULL, attempt FROM origins"
)


def known_origins(connection: sqlite3.Connection) -> dict[str, Known]:
    rows = connection.execute(_KNOWN)
    return {str(path): msgspec.convert(rest, Known) for path, *rest in rows}


def known_origin(connection: sqlite3.Connection, path: str) -> Known | None:
    row = connection.execute(f"{_KNOWN} WHERE path = ?", (path,)).fetchone()
    return msgspec.convert(row[1:], Known) if row else None


def _is_same(path: str, status: os.stat_result, known: Known) -> bool:
    """Databases by their counters, other files by size and time."""
    if known.state:
        return database_state(path, status) == known.state
    now = (status.st_size, status.st_mtime_ns)
    return now == (known.size_bytes, known.mtime_ns) or attempt(*now) == known.attempt


def attempt(size_bytes: int, mtime_ns: int) -> str:
    """How a version of a file is remembered that was looked at and not taken."""
    return f"{size_bytes}:{mtime_ns}"


def in_lines(path: str, source: str) -> bool:
    """Whether the file is a log of lines: then what is new stands at its end."""
    if source not in sources.SOURCES or not path.endswith(LOGS):
        return False
    return sources.load(source).RANGES


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
                return size if is_whole(file.read(size - end)) else end
            end = start
        file.seek(0)
        return size if size < 1 << 24 and is_whole(file.read(size)) else 0


def is_whole(line: bytes) -> bool:
    if not line.strip():
        return True
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


# A database with a rollback journal counts its transactions in its header: equal counters, equal
# contents, whatever size and time say. In WAL mode that counter stands still. There it is the log that
# tells (its salts change whenever it is begun anew), and where the database is in use the index of the
# log, which says how far it is valid; and as a checkpoint leaves no trace in any of them, the time.
# The backup that an editor keeps beside a database is read only where that one is missing or broken: it
# counts as changed whenever the database does.

HEADER_BYTES = 100
LOG_HEADER_BYTES = 32
INDEX_HEADER_BYTES = 48
INDEX_CONTENTS = slice(16, 40)
"""How far the log is valid, its pages, checksum and salts. The count of changes before them begins anew
when the first one opens the database after its program was killed, though nothing was written."""
_WRITE_VERSION = 18
_WAL = 2


def database_state(path: str, status: os.stat_result) -> str:
    """A text that changes when the database does; empty where the file is no database."""
    header = _start(path, HEADER_BYTES)
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        return ""
    # Change counter and pages; schema cookie; the counter for which the header is valid.
    state = f"sqlite {header[24:32].hex()} {header[40:44].hex()} {header[92:96].hex()}"
    state += f" {status.st_size}"  # a file that was cut off has the counters of the whole one
    if header[_WRITE_VERSION] == _WAL:
        state += f" {status.st_mtime_ns} {_log_state(path)}"
    if not path.endswith(BACKUP):
        return state
    above = path.removesuffix(BACKUP)
    try:
        status = os.stat(above)  # noqa: PTH116 - asked of every backup
        own = database_state(above, status) or f"{status.st_size} {status.st_mtime_ns}"
    except OSError:
        own = "missing"
    return f"{state} of {own}"


def _log_state(path: str) -> str:
    try:
        status = os.stat(path + "-wal")  # noqa: PTH116 - asked of every database
        log = _start(path + "-wal", LOG_HEADER_BYTES)
    except OSError:
        return ""
    try:
        index = _start(path + "-shm", INDEX_HEADER_BYTES)[INDEX_CONTENTS].hex()
    except OSError:
        index = str(status.st_mtime_ns)  # a log that is begun anew keeps its length
    return f"{status.st_size} {log.hex()} {index}"


def _start(path: str, size: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(size)
