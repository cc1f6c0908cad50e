"""Scratch: temporary folders that are gone afterwards, even if the process that made one was killed.

Each holds a locked file while somebody works in it. The lock ends with the last process that has it
open, however that ends, so the next run can tell what nobody needs any more and remove it.
"""

import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from unspool.io.signals import Later

PREFIX = "unspool-"
LOCK = ".lock"
_WAIT_STEP = 0.05


@contextmanager
def scratch(parent: str | None = None) -> Iterator[Path]:
    """A temporary folder; raises OSError where none can be made."""
    with Later():
        parent = parent or tempfile.gettempdir()
        with suppress(OSError):
            sweep(parent)
        folder = tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent)
    try:
        with _locked(Path(folder.name)):
            yield Path(folder.name)
    finally:
        with Later():
            folder.cleanup()


@cache
def sweep(parent: str) -> None:
    """Remove what killed processes of this user left behind; once per process."""
    with os.scandir(parent) as entries:
        folders = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for folder in folders:
        status = os.lstat(folder)
        if stat.S_ISDIR(status.st_mode) and status.st_uid == _user() and _is_left(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _user() -> int:
    return os.geteuid() if sys.platform != "win32" else 0


def _is_left(folder: str) -> bool:
    """Whether the folder has a lock that nobody holds."""
    try:
        with open(os.path.join(folder, LOCK), "rb") as file:  # noqa: PTH118 - scandir speaks strings
            return bool(take_lock(file.fileno()))
    except OSError:
        return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The lock gets its name when it is held: one that is not yet would look left behind."""
    with open(folder / f"{LOCK}-wanted", "wb") as file:
        if take_lock(file.fileno()):
            Path(file.name).replace(folder / LOCK)
        yield


@contextmanager
def lock_file(path: Path, wait_seconds: float = 0) -> Iterator[tuple[int, bool]]:
    """The file, made if it is not there, for its owner only; and whether this process has its lock,
    which goes away with the process, or another one has it."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        deadline = time.monotonic() + wait_seconds
        while (is_taken := take_lock(handle) is False) and time.monotonic() < deadline:
            time.sleep(_WAIT_STEP)
        yield handle, not is_taken  # Windows has no such locks: everybody may
    finally:
        os.close(handle)


def take_lock(handle: int) -> bool | None:
    """Whether this process has the lock now; None where there are none (Windows)."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
