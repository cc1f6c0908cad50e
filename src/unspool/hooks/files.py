"""Writing other programs' files: compare, then swap, so that nobody's change is lost.

Running agents write their settings too. A file is replaced only while it still holds what the new
text was made from, by a rename in its own folder; links are followed, modes and owners stay.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from unspool.errors import HooksRefused

NEW_FILE_MODE = 0o666
"""Less the umask, as any program makes its settings."""


def read(path: Path, name: str) -> bytes | None:
    """What the file holds; None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(path, name, "read", error) from None


def check_writable(path: Path, name: str) -> None:
    """Before anything is said about a change: whether it could be made."""
    target = Path(os.path.realpath(path))
    place = target
    while not place.exists() and place != place.parent:
        place = place.parent
    folder = target.parent if place == target else place
    for one, is_folder in ((folder, True), (target, False)):
        if one.exists() and one.is_dir() != is_folder:
            code = errno.ENOTDIR if is_folder else errno.EISDIR
        elif one.exists() and not os.access(one, os.W_OK, effective_ids=_EFFECTIVE):
            code = errno.EACCES
        else:
            continue
        raise _refused(path, name, "written", OSError(code, os.strerror(code)))


_EFFECTIVE = os.access in os.supports_effective_ids


def swap(path: Path, name: str, before: bytes | None, after: bytes | None) -> bool:
    """Put `after` in the place of `before`; False where the file holds something else by now."""
    target = Path(os.path.realpath(path))
    try:
        if after is not None:
            return _replace(target, after, NEW_FILE_MODE, lambda: read(target, name) == before)
        if read(target, name) != before:
            return False
        target.unlink(missing_ok=True)
        return True
    except OSError as error:
        raise _refused(path, name, "written", error) from None


def write_private(path: Path, data: bytes) -> None:
    """A file of our own, whole or not at all, for its owner only."""
    _replace(path, data, 0o600, lambda: True)


def _replace(target: Path, data: bytes, mode: int, is_due: Callable[[], bool]) -> bool:
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    handle = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(FileNotFoundError):
                now = target.stat()
                os.fchmod(file.fileno(), stat.S_IMODE(now.st_mode))
                with suppress(PermissionError):
                    os.fchown(file.fileno(), now.st_uid, now.st_gid)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not is_due():
            return False
        scratch.replace(target)
        return True
    finally:
        scratch.unlink(missing_ok=True)


def _refused(path: Path, name: str, verb: str, error: OSError) -> HooksRefused:
    return HooksRefused(
        f"{name}: {path} cannot be {verb} ({error.strerror or error});"
        " it stays as it is, mend that and try again"
    )
