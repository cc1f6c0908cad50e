"""Opening a store: where it lies, who may read it, who is writing it."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from unspool.errors import StoreBusy, StoreError
from unspool.store.schema import migrate

VARIABLE = "UNSPOOL_STORE"
NAME = "conversations.db"
OWNER_ONLY = 0o600
_WAIT_STEP = 0.1


def default_path() -> Path:
    """`UNSPOOL_STORE`, else a file in the user's data folder."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(platformdirs.user_data_dir("unspool")) / NAME


def explain(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    """One clear line for what SQLite or the system says."""
    text = str(error)
    if "disk is full" in text or "No space left" in text:
        return StoreError(f"no space left on the disk of the store {path}")
    if "readonly" in text or "read-only" in text or "Permission denied" in text:
        return StoreError(f"the store {path} cannot be written: it or its folder is read-only")
    if "locked" in text or "busy" in text:
        return StoreBusy(f"the store {path} is busy: another program holds it open for writing")
    if "not a database" in text or "malformed" in text:
        return StoreError(f"{path} is not a store, or it is damaged ({text})")
    if "unable to open" in text:
        return StoreError(f"the store {path} cannot be opened")
    return StoreError(f"the store {path}: {text}")


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A store that exists, for reading; it is migrated first if it is of an older version."""
    if not path.exists():
        raise StoreError(f"there is no store at {path} yet: `unspool sync` makes one")
    with opened(path) as connection:
        yield connection


@contextmanager
def writing(path: Path, wait_seconds: float = 0) -> Iterator[sqlite3.Connection]:
    """The store, made if it is not there, for the one process that writes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _lock(path, wait_seconds), opened(path) as connection:
            yield connection
    except OSError as error:
        raise explain(error, path) from None


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    connection: sqlite3.Connection | None = None
    try:
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, OWNER_ONLY))
        connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(
            "PRAGMA cache_size = -65536"
        )  # 64 MB: the search index is written all over
        migrate(connection)
        yield connection
    except sqlite3.Error as error:
        raise explain(error, path) from None
    finally:
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing, also when the process is killed in the middle."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def _lock(path: Path, wait_seconds: float) -> Iterator[None]:
    """A lock that goes away with its process; the file says whose it is."""
    lock = path.with_name(path.name + ".lock")
    handle = os.open(lock, os.O_CREAT | os.O_RDWR, OWNER_ONLY)
    try:
        deadline = time.monotonic() + wait_seconds
        while not _take(handle):
            if time.monotonic() >= deadline:
                owner = os.pread(handle, 100, 0).decode("ascii", "replace").strip()
                who = f"process {owner}" if owner else "another process"
                raise StoreBusy(f"the store {path} is being written by {who}; try again later")
            time.sleep(_WAIT_STEP)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: SQLite's own lock must do
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
