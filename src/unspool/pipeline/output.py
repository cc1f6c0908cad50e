"""Output: what was written goes to its place, whole or not at all."""

import errno
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from unspool.errors import OutputError
from unspool.io.signals import Later
from unspool.pipeline.finish import Written
from unspool.pipeline.shuffle import Slots
from unspool.sinks import Combine, unique_names


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name only when it is whole; otherwise nothing of it stays.

    A link keeps leading where it led. A device, a pipe or an open descriptor (`/dev/stdout`, which
    may well be a file that is appended to) is written to, never replaced.
    """
    try:
        if is_special(path):
            descriptor = _descriptor(path)
            with open(path if descriptor is None else _doubled(descriptor), "wb") as file:
                yield file
        else:
            with _replacing(Path(os.path.realpath(path))) as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    name: str | None = None
    try:
        with Later():
            handle, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    finally:
        if name is not None:
            with suppress(OSError):
                Path(name).unlink()


def is_special(path: str | Path) -> bool:
    """Whether something is there that is no plain file: a device, a pipe, a folder."""
    if _descriptor(path) is not None:
        return True
    return os.path.exists(path) and not os.path.isfile(path)  # noqa: PTH110, PTH113 - never raise


_DESCRIPTOR = re.compile(r"/dev/(?:(stdout)|(stderr)|fd/(\d+))|/proc/self/fd/(\d+)")


def _descriptor(path: str | Path) -> int | None:
    """The open descriptor that a path means; opening it anew would write over what is there."""
    match = _DESCRIPTOR.fullmatch(str(path))
    if match is None:
        return None
    return 1 if match[1] else 2 if match[2] else int(match[3] or match[4])


def _doubled(descriptor: int) -> int:
    """Only of what the caller opened: what we opened ourselves is not inheritable."""
    if not os.get_inheritable(descriptor):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return os.dup(descriptor)


def write_one(written: Iterable[Written], output: str | None) -> None:
    """All pieces one after the other, to a file or to standard output."""
    with opened(output) as file:
        slots = Slots()
        try:
            slots.copy((slot for item in written for _, slot in item.pieces), file)
        finally:
            slots.close()


@contextmanager
def opened(output: str | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that gets its name only when it is whole."""
    if output is not None and output != "-":
        with whole_file(Path(output)) as file:
            yield file
        return
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write the output: {error.strerror or error}") from None


def write_many(written: Iterable[Written], output: str) -> list[Path]:
    """Every piece a file of its own in the folder; names told apart where they collide.

    Files in sub-folders (images by their hash) are shared, not told apart.
    """
    folder = _folder(output)
    pieces = [(name, slot) for item in written for name, slot in item.pieces]
    top = unique_names(name for name, _ in pieces if "/" not in name)
    reader = Slots()
    made: dict[Path, None] = {}
    try:
        for name, slot in pieces:
            path = folder / (name if "/" in name else next(top))
            if path in made:
                continue
            with whole_file(path) as file:
                reader.copy([slot], file)
            made[path] = None
    finally:
        reader.close()
    return list(made)


def write_combined(
    combine: Combine, names: Iterable[str], pieces: Iterable[bytes], output: str
) -> list[Path]:
    """The files that a sink makes of the pieces of all conversations; all of them or none."""
    paths = {name: _folder(output) / name for name in names}
    with ExitStack() as stack:
        files = {name: stack.enter_context(whole_file(path)) for name, path in paths.items()}
        combine(pieces, files)
    return list(paths.values())


def iter_pieces(written: Iterable[Written]) -> Iterator[bytes]:
    """What was written of the conversations, one piece at a time."""
    slots = Slots()
    try:
        for item in written:
            for _, slot in item.pieces:
                yield slots.read(slot)
    finally:
        slots.close()


def _folder(output: str) -> Path:
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; this format needs a folder")
    return folder
