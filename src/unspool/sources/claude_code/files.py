"""Files: whose a file is, judged by its path, and how its objects lie in it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.io.dirty_json import clean
from unspool.io.origins import Head, open_origin, read_head

UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", re.IGNORECASE)
_AGENT_FILE = re.compile(r"^agent-(.+?)(?:\.meta)?\.jsonl?$")
_SESSION = re.compile(rb'"(?:sessionId|session_id)"\s*:\s*"([^"]+)"')
_BRACES = frozenset(b"{}[]")
_decoder = json.JSONDecoder(strict=False)


class File:
    """What the path says: the session, whether that is certain, and the sub-agent."""

    __slots__ = ("agent", "certain", "path", "run", "session")

    def __init__(self, path: str) -> None:
        self.path = path
        pure = Path(path)
        name = Head(path, b"", True).name
        found = _AGENT_FILE.match(name)
        self.agent = found[1] if found else ""
        self.session = ""
        self.run = ""
        """The workflow that the sub-agent was a part of."""
        parts = pure.parts
        if found and "subagents" in parts[:-1]:
            at = len(parts) - 1 - parts[::-1].index("subagents")
            self.session = parts[at - 1] if at else ""
            below = parts[at + 1 : -1]
            self.run = below[1] if len(below) == 2 and below[0] == "workflows" else ""
        elif not found:
            stem = name.rpartition(".")[0]
            self.session = stem if UUID.match(stem) else ""
        self.certain = bool(self.session)

    def or_head(self) -> str:
        """The session, where a line does not name it: by the path, else the first one named."""
        if not self.session:
            found = _SESSION.search(read_head(self.path).data)
            self.session = found[1].decode("utf-8", "replace") if found else Path(self.path).stem
        return self.session


def prefixed(line: bytes) -> tuple[bytes, bytes]:
    """The text before the object of a log line, and the object."""
    at = line.find(b"{")
    if at <= 0:
        return b"", line
    return line[:at].strip(b" \t-|:,["), line[at:]


def is_lines(head: Head) -> bool:
    """Whether every line holds an object of its own (with or without a prefix)."""
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head.whole and b"\n" not in data:
        return data[:1] == b"{"
    lines = data.split(b"\n")
    if not head.whole:
        lines.pop()
    for line in lines[:50]:
        rest = prefixed(line.strip())[1].rstrip(b"\r, ")
        if rest[:2] == b"{}" or not rest.startswith(b"{"):
            continue
        try:
            msgspec.json.decode(rest)
        except (ValueError, RecursionError):
            continue
        return True
    return False


def has_text(head: Head) -> bool:
    """Whether lines of text, say dates, stand between the objects."""
    lines = head.data.split(b"\n")[:20]
    return any(line.strip() and _BRACES.isdisjoint(line) for line in lines)


def scan(text: str) -> Iterator[tuple[int, str, Any]]:
    """(position, text before it, object) of every object in a file that is not cut into lines.

    What cannot be read comes as a string.
    """
    position = 0
    while (at := text.find("{", position)) >= 0:
        before = text[position:at]
        try:
            value, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            yield at, before, text[at:end]
            position = end
            continue
        yield at, before, clean(value)
        position = end


def read_text(path: str) -> str:
    with open_origin(path) as file:
        return file.read().decode("utf-8-sig", "replace")


def search(path: str, *words: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a file that may hold one of the words, however they lie in it."""
    if not is_lines(read_head(path)):
        # Decoded once more as a whole: other files than those cut into lines are small.
        for _, _, value in scan(read_text(path)):
            if isinstance(value, dict):
                yield value
        return
    with open_origin(path) as file:
        for line in file:
            if not any(word in line for word in words):
                continue
            try:
                value = msgspec.json.decode(prefixed(line)[1].rstrip(b"\r\n\0\t, ]"))
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value


def head_objects(head: Head) -> list[dict[str, Any]]:
    """The first objects of a file, however they lie in it."""
    if head.objects:
        return list(head.objects)
    text = head.data.decode("utf-8", "replace").removeprefix("\ufeff")
    found: list[dict[str, Any]] = []
    for _, _, value in scan(text):
        if isinstance(value, dict):
            found.append(value)
        if len(found) >= 20:
            break
    return found
