"""Memories: Markdown that the memory tool saved for one chat."""

import base64
import binascii
import re
from collections.abc import Iterator
from pathlib import PurePath

from unspool.facts import AnyFact, Noted
from unspool.io.origins import Origin, Tally, open_origin

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_FOLDER = ("memory-tool", "memories")
_SHARED = ("repo", "user")


def session_of(path: str) -> str:
    """The chat that a memory belongs to; empty where it is no chat's."""
    parts = PurePath(path).parts
    for at in range(len(parts) - 3):
        if parts[at : at + 2] == _FOLDER:
            name = parts[at + 2]
            return "" if name in _SHARED else decoded(name)
    return ""


def decoded(name: str) -> str:
    """The folder is base64 of the chat's id; what does not decode to one is an id by itself."""
    try:
        text = base64.b64decode(name + "=" * (-len(name) % 4), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return name
    return text if _UUID.fullmatch(text) else name


def read_memory(origin: Origin, tally: Tally, product: str) -> Iterator[AnyFact]:
    with open_origin(origin.path) as file:
        text = file.read().decode("utf-8", "replace")
    tally.records += 1
    parts = PurePath(origin.path).parts
    name = "/".join(parts[parts.index(_FOLDER[1]) + 2 :])
    yield Noted(
        key=(product, session_of(origin.path)), origin=origin.path, offset=0,
        name="checkpoints", value={"kind": "memory", "title": name, "text": text},
    )  # fmt: skip
