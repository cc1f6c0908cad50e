"""Opening a store: where it lies, who may read it, who is writing it."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import msgspec
import platformdirs
import zstandard

from unspool.errors import StoreBusy, StoreError
from unspool.io.temporary import lock_file
from unspool.store.tables import APPLICATION_ID, VERSION, make_tables

VARIABLE = "UNSPOOL_STORE"
NAME = "conversations.db"
OWNER_ONLY = 0o600
BUSY_SECONDS = 30


def default_path() -> Path:
    """`UNSPOOL_STORE`, else a file in the user's data folder."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(platformdirs.user_data_dir("unspool")) / NAME


_CAUSES = (
    ("no space left for the store {path}, or in the temporary folder",
     ("disk is full", "No space left", "File too large")),
    ("the store {path} cannot be read or written: its disk is full or failing", ("disk I/O error",)),
    ("the store {path} cannot be written: it or its folder is read-only",
     ("readonly", "Read-only", "read-only")),
    ("the store {path} cannot be opened: no permission for it or its folder",
     ("Permission denied", "not permitted", "unable to open")),
)  # fmt: skip
"""What is told where one of these words stands in SQLite's or the system's message."""


def explain(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    """One clear line for what SQLite or the system says."""
    text = str(error)
    for told, words in _CAUSES:
        if any(word in text for word in words):
            return StoreError(told.format(path=path))
    if "locked" in text or "busy" in text:
        return StoreBusy(f"the store {path} is busy: another program holds it open for writing")
    if any(word in text for word in ("not a database", "malformed", "corrupt", "vtable")):
        return damaged(path, text)
    return StoreError(f"the store {path}: {text}")


def damaged(path: Path, text: str) -> StoreError:
    return StoreError(
        f"{path} is not a store, or it is damaged ({text});"
        " moved away, `unspool sync` makes a new one from the files that are there"
    )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """One clear line for what can be read of the store no longer."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path) from None
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise damaged(path, str(error)) from None


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A store that exists, for reading."""
    with closing(connect_for_reading(path)) as connection, explained(path):
        yield connection


def _must_exist(path: Path) -> None:
    if path.is_dir():
        raise StoreError(f"{path} is a folder, not a store")
    if not path.exists():
        raise StoreError(f"there is no store at {path} yet: `unspool sync` makes one")


def connect_for_reading(path: Path) -> sqlite3.Connection:
    try:
        _must_exist(path)
        try:
            return _connect(path)
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error) and "unable to open" not in str(error):
                raise
            return _connect_read_only(path)
    except (sqlite3.Error, OSError) as error:
        raise explain(error, path) from None


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """A store on a disk, or in a folder, that cannot be written can still be read."""
    log = path.with_name(path.name + "-wal")
    # Without the files of its log, which cannot be made here, nothing but `immutable` will do.
    unlogged = not log.exists() or not log.stat().st_size
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if unlogged else ''}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
    try:
        _is_made(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def writing(path: Path, wait_seconds: float = 0, make: bool = True) -> Iterator[sqlite3.Connection]:
    """The store, made if it is not there, for the one process that writes."""
    with ExitStack() as stack:
        try:
            if not make or path.is_dir():
                _must_exist(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(write_lock(path, wait_seconds))
            connection = stack.enter_context(opened(path))
        except OSError as error:
            raise explain(error, path) from None
        try:
            yield connection
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise explain(error, path) from None


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, OWNER_ONLY))
        with closing(_connect(path)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise explain(error, path) from None


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
    try:
        is_made = _is_made(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        # 32 MB: whoever fills a store waits for the disk at every checkpoint.
        connection.execute("PRAGMA wal_autocheckpoint = 8192")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        # 40 MB: the search index is written all over.
        connection.execute("PRAGMA cache_size = -40960")
        if not is_made:
            with transaction(connection):
                if not _is_made(connection, path):  # another program may have been faster
                    make_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_made(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether its tables are there. Nothing is changed in a database that is somebody else's, or of
    another version."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (ident,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and ident != APPLICATION_ID:
        raise StoreError(f"{path} is not a store, but another program's database")
    if version > VERSION:
        raise StoreError(
            f"the store {path} is of version {version}, newer than this unspool knows ({VERSION}):"
            " upgrade unspool"
        )
    if tables and version < VERSION:
        raise StoreError(
            f"the store {path} is of version {version}, from before the first release;"
            " moved away, `unspool sync` makes a new one from the files that are there"
        )
    return bool(tables)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing, also when the process is killed in the middle."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


@contextmanager
def write_lock(path: Path, wait_seconds: float) -> Iterator[None]:
    """One process writes: a lock that goes away with it; the file says whose it is."""
    with lock_file(path.with_name(path.name + ".lock"), wait_seconds) as (handle, is_ours):
        if not is_ours:
            owner = os.pread(handle, 100, 0).decode("ascii", "replace").strip()
            who = f"process {owner}" if owner else "another process"
            raise StoreBusy(f"the store {path} is being written by {who}; try again later")
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield


def store_path(connection: sqlite3.Connection) -> Path:
    return Path(connection.execute("PRAGMA database_list").fetchone()[2])


def file_of(path: Path) -> tuple[int, int] | None:
    """Which file stands under the path just now: a store that was removed and made anew is another."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
