"""Chats exported as a zip: the chat, and the state of the repository when it began and ended."""

import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from unspool.facts import AnyFact
from unspool.io.origins import Head, Origin, Tally
from unspool.sources.vscode_chat.documents import lost, parse, value_facts

MAGIC = b"PK\x03\x04"
LARGEST_BYTES = 1024**3
"""A longer chat is not unpacked: a small archive may claim to hold anything."""
_CHAT, _BEGIN, _END = "chat.json", "chat.repo.begin.json", "chat.repo.end.json"
_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError)
"""What a broken, a packed in an unknown way, or an encrypted archive may raise."""


def is_archive(head: Head) -> bool:
    if not head.data.startswith(MAGIC) or not head.name.endswith(".zip"):
        return False
    try:
        with zipfile.ZipFile(head.path) as archive:
            return _CHAT in archive.namelist()
    except _DAMAGE:
        return _CHAT.encode() in head.data or _BEGIN.encode() in head.data


def read_archive(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    try:
        with zipfile.ZipFile(origin.path) as archive:
            chat, code = _member(archive, _CHAT)
            begin, _ = _member(archive, _BEGIN)
            end, _ = _member(archive, _END)
    except _DAMAGE as error:
        yield lost(origin, tally, 0, "unreadable", str(error))
        return
    if not isinstance(chat, dict):
        yield lost(origin, tally, 0, code or "not-a-chat", _CHAT)
        return
    repository = {k: v for k, v in (("repoData", begin), ("repoDataEnd", end)) if v is not None}
    yield from value_facts({**repository, **chat}, origin, tally, code)


def _member(archive: zipfile.ZipFile, name: str) -> tuple[Any, str]:
    """(value, problem) of a file in the archive; None where there is none."""
    if name not in archive.namelist():
        return None, ""
    if archive.getinfo(name).file_size > LARGEST_BYTES:
        return None, "too-large"
    return parse(archive.read(name))
