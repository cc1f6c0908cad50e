"""Generations: what a workspace's database lists of the prompts that were sent in it.

    aiService.prompts      [{"text": "fix it", "commandType": 4}, …]         no id, no time
    aiService.generations  [{"unixMs": …, "generationUUID": …, "type": "composer",
                             "textDescription": "fix it"}, …]                the last 100

Only those of type `composer` hold the words of a prompt: `apply` names the file that was edited,
`chat` and `cmdk` say nothing. The id of a generation is the request of the conversation that it was
made in, which stands in the global database.
"""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unspool.io.databases import DAMAGE, open_database
from unspool.io.door import UNREADABLE, read_json
from unspool.io.times import parse_time
from unspool.io.values import dicts_of, str_of
from unspool.sources.cursor.bubbles import Asked
from unspool.sources.cursor.entries import digest, request_id
from unspool.sources.cursor.paths import workspace_folder
from unspool.sources.cursor.tables import Keys

GENERATIONS = "aiService.generations"


class Generation(NamedTuple):
    ident: str
    time: int | None
    words: str
    folder: str | None


_UNKNOWN = Generation("", None, "", None)


def generations_in(value: Any, folder: str | None) -> list[Generation]:
    """Those that a prompt was sent with."""
    return [
        Generation(
            request_id(item.get("generationUUID")), parse_time(item.get("unixMs")),
            str_of(item.get("textDescription")), folder,
        )
        for item in dicts_of(value)
        if item.get("type", "composer") == "composer"
    ]  # fmt: skip


class Generations:
    """The generations of all workspaces beside a global database, read when one is asked for."""

    def __init__(self, workspaces: Path | None = None) -> None:
        self._workspaces = workspaces
        self._by_id: dict[str, Generation] | None = None

    def add(self, more: Iterable[Generation]) -> None:
        self._by_id = {**(self._by_id or {}), **{g.ident: g for g in more if g.ident}}

    def find(self, request: str) -> Generation:
        """That of a request; one that tells nothing where no workspace knows it."""
        if self._by_id is None and request:
            self._by_id = {}
            for path in sorted(self._workspaces.glob("*/state.vscdb")) if self._workspaces else ():
                try:
                    with open_database(path) as database:
                        data = Keys(database.connection, "ItemTable").get(GENERATIONS)
                except DAMAGE:
                    continue  # its own reader tells
                for value in read_json(data).values if data else ():
                    self.add(generations_in(value, workspace_folder(str(path))))
        return (self._by_id or {}).get(request, _UNKNOWN)


class _Row(Asked):
    """A bubble, or a composer with bubbles."""

    conversation: list[Asked] | None = None


_decode_row = msgspec.json.Decoder(_Row).decode


def said_beside(workspace: str) -> set[bytes]:
    """What is said in the global database of the installation that a workspace's belongs to: digests
    of the words of all prompts, and of the ids of all requests."""
    path = Path(workspace).parent.parent.parent / "globalStorage" / "state.vscdb"
    stamps: list[int] = []
    for part in (path, path.with_name(path.name + "-wal")):
        try:
            state = part.stat()
            stamps += [state.st_mtime_ns, state.st_size]
        except OSError:
            stamps += [0, 0]
    return _said(str(path), tuple(stamps)) if stamps[1] else set()


@lru_cache(maxsize=1)
def _said(path: str, stamps: tuple[int, ...]) -> set[bytes]:
    """One walk over the global database serves all the workspaces beside it."""
    said: set[bytes] = set()
    try:
        with open_database(path) as database:
            rows = Keys(database.connection, "cursorDiskKV")
            prefixes = ("bubbleId:", "composerData:") if "cursorDiskKV" in database.tables() else ()
            for data in (data for prefix in prefixes for _, data in rows.range(prefix) if data):
                try:
                    row = _decode_row(data)
                except UNREADABLE:
                    continue
                for item in (row, *(row.conversation or ())):
                    idents = filter(None, (item.requestId, item.usageUuid))
                    said.update(digest(request_id(ident)) for ident in idents)
                    if item.is_prompt:
                        said.add(digest(item.words))
    except DAMAGE:
        pass  # its own reader tells
    return said
