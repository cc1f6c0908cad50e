"""SQLite stores of running editors, read without ever writing beside them.

Not in WAL mode, or the shared-memory file is already there: opened read-only in place. In WAL mode
without it: the database and its log are copied together to a temporary folder and read there. Above
a size limit the log is left out, and that is a problem to count.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from unspool.io.origins import Origin, Tally
from unspool.io.temporary import scratch

MAGIC = b"SQLite format 3\0"
COPY_LIMIT_BYTES = 4 * 1024**3
_WAL_VERSION = 2
CHECK_LIMIT_BYTES = 64 * 1024**2
"""Only the head of a longer database is looked at to see whether it is sound."""
BACKUP = ".backup"
BUSY_MS = 2000
DAMAGE = (sqlite3.Error, OSError, UnicodeDecodeError)
"""What reading a store may raise: the last where a damaged schema is part of SQLite's message."""


class Database:
    """An open store. `stale` says that the newest rows, in the log, could not be read."""

    def __init__(self, connection: sqlite3.Connection, stale: bool) -> None:
        self.connection = connection
        self.stale = stale

    def tables(self) -> set[str]:
        rows = self.connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table','view')"
        )
        return {str(name) for (name,) in rows}

    def columns(self, table: str) -> list[str]:
        quoted = table.replace('"', '""')
        return [str(row[1]) for row in self.connection.execute(f'PRAGMA table_info("{quoted}")')]


@contextmanager
def reading(origin: Origin, tally: Tally) -> Iterator[Database]:
    """A store of which all is read that can be, as it stands at one moment though it is being written;
    what cannot be read is a problem, and never raised."""
    try:
        with open_database(origin.path) as database:
            if database.stale:
                tally.records += 1
                why = "the log beside it is too long to copy"
                tally.lose("stale-database", origin.path, 0, why)
            database.connection.execute("BEGIN")
            yield database
    except DAMAGE as error:
        tally.records += 1
        tally.lose("unreadable-database", origin.path, 0, str(error))


@contextmanager
def open_database(path: str | Path, copy_limit: int = COPY_LIMIT_BYTES) -> Iterator[Database]:
    """Open read-only; raises sqlite3.Error or OSError where that cannot be done."""
    path = Path(path).absolute()
    log = path.with_name(path.name + "-wal")
    if not _is_wal(path) or path.with_name(path.name + "-shm").exists():
        yield from _opened(f"{path.as_uri()}?mode=ro")
        return
    log_bytes = log.stat().st_size if log.exists() else 0
    if not log_bytes or path.stat().st_size + log_bytes > copy_limit:
        # Nothing in the log, or too much to copy. Without `immutable` even a read-only connection
        # would make the two files beside the database.
        yield from _opened(f"{path.as_uri()}?mode=ro&immutable=1", stale=bool(log_bytes))
        return
    with scratch() as folder:
        copy = Path(folder, path.name)
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name(log.name))
        yield from _opened(copy.as_uri())


def is_spare(path: str) -> bool:
    """Whether this is the backup that VS Code keeps beside a store which is still good.

    The editor itself goes back to `state.vscdb.backup` only where the store is missing or broken.
    """
    return path.endswith(BACKUP) and _is_sound(path.removesuffix(BACKUP))


def _is_sound(path: str) -> bool:
    try:
        with open_database(path) as database:
            if Path(path).stat().st_size <= CHECK_LIMIT_BYTES:
                (verdict,) = database.connection.execute("PRAGMA quick_check(1)").fetchone()
                return bool(verdict == "ok")
            return bool(database.tables())
    except DAMAGE:
        return False


def _opened(uri: str, stale: bool = False) -> Iterator[Database]:
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_MS / 1000)) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        yield Database(connection, stale)


def _is_wal(path: Path) -> bool:
    with open(path, "rb") as file:
        header = file.read(20)
    return len(header) == 20 and header[18] == _WAL_VERSION
