"""Folders: the files that lie under an argument."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def is_folder(path: str) -> bool:
    """Not where it may not be looked at: opening it says why (`Path.is_dir` would raise)."""
    return os.path.isdir(path)  # noqa: PTH112


def walk(
    argument: str, unreadable: Callable[[OSError], None] | None = None
) -> Iterator[tuple[str, str]]:
    """(path, name) of every file under an argument, in sorted order of names.

    `unreadable` is told of folders that cannot be looked into, and of names that are no text.
    """
    tell = unreadable if unreadable is not None else (lambda error: None)
    top = Path(argument)
    if not _is_text(argument):
        tell(_nameless(argument))
        return
    if not is_folder(argument):
        yield argument, top.name or argument
        return
    files_below: list[tuple[str, str]] = []
    below = len(os.path.join(argument, ""))  # noqa: PTH118 - as os.walk joins
    for folder, files in _folders(argument, unreadable):
        for file in files:
            path = os.path.join(folder, file)  # noqa: PTH118 - os.walk speaks strings
            if _is_text(path):
                files_below.append((path[below:].replace(os.sep, "/"), path))
            else:
                tell(_nameless(path))
    for name, path in sorted(files_below):
        yield path, name


def _folders(
    top: str, unreadable: Callable[[OSError], None] | None
) -> Iterator[tuple[str, list[str]]]:
    """Every folder once, with the names of its files.

    Links are followed behind all else, so that what lies here itself goes by its own path; none
    that leads to where it is, or above: that would be a circle, or the whole disk.
    """
    met: set[str] = set()
    waiting = [top]
    while waiting:
        links: list[str] = []
        for root in waiting:
            real = os.path.realpath(root)
            below = len(os.path.join(root, ""))  # noqa: PTH118 - as os.walk joins
            for folder, folders, files in os.walk(root, onerror=unreadable):
                inner = folder[below:]
                here = os.path.join(real, inner) if inner else real  # noqa: PTH118 - as above
                folders.sort()
                if here in met:
                    folders.clear()
                    continue
                met.add(here)
                links += _links(folder, folders, here)
                yield folder, files
        waiting = links


def _links(folder: str, folders: list[str], here: str) -> Iterator[str]:
    for name in folders:
        path = os.path.join(folder, name)  # noqa: PTH118 - os.walk speaks strings
        if os.path.islink(path) and not Path(here).is_relative_to(os.path.realpath(path)):  # noqa: PTH114 - thousands of folders
            yield path


def _is_text(path: str) -> bool:
    """Bytes of a name that are not UTF-8 are lone surrogates in Python: no output can hold them."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _nameless(path: str) -> OSError:
    shown = os.fsencode(path).decode("utf-8", "replace")
    return OSError(errno.EILSEQ, "its name is not UTF-8: rename it, or pipe it in", shown)
