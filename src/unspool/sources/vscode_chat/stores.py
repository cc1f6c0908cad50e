"""state.vscdb: the index of stored chats, and the whole chats that VS Code kept there at first."""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact
from unspool.io.databases import DAMAGE, open_database
from unspool.io.digests import digest
from unspool.io.door import Flaw, read_json, sample
from unspool.io.origins import Origin, Tally, Touched, TouchedRow
from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, field_of, str_of
from unspool.sources.scribe import Scribe
from unspool.sources.vscode_chat.attachments import without_long_images
from unspool.sources.vscode_chat.documents import lose, reading_of
from unspool.sources.vscode_chat.fields import BESIDE, NAME
from unspool.sources.vscode_chat.folders import folder_of
from unspool.sources.vscode_chat.uris import path_of

_INDEX = "chat.ChatSessionStore.index"
_CHATS = "interactive.sessions"
_RESOURCE = "vscode-chat-session://local/"
_OFFSET = 1 << 32
"""Old chats and index entries of one store must not share a place."""


def touched(path: str, position: str) -> Touched | None:
    """Which chats were written since a position, by digests of their entries in the index and of the
    chats that stand in the store itself:

    {"chat.ChatSessionStore.index c1": "9f86d081…", "interactive.sessions c0": "60303ae2…"}

    Only these two keys are read, however large the rest of the store is.
    """
    rows, problem = _read_rows(path)
    if problem is not None:
        return None
    values = {
        (key, ident): msgspec.json.encode(told)
        for key, ident, told in _told(rows)
        if not isinstance(told, Flaw)
    }
    digests = {
        f"{key} {ident}": digest(value.decode()).hex() for (key, ident), value in values.items()
    }
    here = msgspec.json.encode(digests).decode()
    if not position:
        return Touched(here)
    before = msgspec.json.decode(position, type=dict[str, str])
    new = [
        TouchedRow("ItemTable", key, ident, value)
        for (key, ident), value in values.items()
        if before.get(f"{key} {ident}") != digests[f"{key} {ident}"]
    ]
    idents = {name.partition(" ")[2] for name in before.keys() - digests.keys()}
    idents |= {row.conversation for row in new}
    if "" in idents:  # nothing names it from outside
        return Touched(here)
    return Touched(here, tuple(sorted(idents)), new)


def _told(rows: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    """(key, chat, what is said of it) of each chat that the store tells of; a flaw, where it cannot
    be read."""
    for key, value in rows:
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
        salvage = read_json(without_long_images(data))
        told = salvage.values[0] if salvage.values and not salvage.lost else None
        if told is None:
            yield (
                key,
                "",
                salvage.flaws[0] if salvage.flaws else Flaw("invalid-json", 0, sample(data)),
            )
        elif key == _INDEX:
            for name, entry in dict_of(field_of(told, "entries")).items():
                session = field_of(entry, "sessionId")
                yield key, session_id(session if isinstance(session, str) else name), entry
        else:
            # An array of chats; by their ids in the oldest stores.
            by_id = isinstance(told, dict) and not isinstance(told.get("requests"), list)
            chats = list(told.values()) if by_id else told if isinstance(told, list) else [told]
            for chat in chats:
                yield key, str_of(field_of(chat, "sessionId")), chat


def _read_rows(path: str) -> tuple[list[tuple[str, Any]], Flaw | None]:
    """(key and value of the chats and the index, what was wrong with the store)."""
    rows: list[tuple[str, Any]] = []
    try:
        with open_database(path) as database:
            if "ItemTable" in database.tables():
                statement = "SELECT key, value FROM ItemTable WHERE key IN (?, ?) ORDER BY key"
                rows = database.connection.execute(statement, (_INDEX, _CHATS)).fetchall()
            stale = Flaw("stale-database", 0, "the write-ahead log was not read")
            return rows, stale if database.stale else None
    except DAMAGE as error:
        return [], Flaw("unreadable-database", 0, str(error))


def read_store(origin: Origin, tally: Tally, guest: bool = False) -> Iterator[AnyFact]:
    """The chats of a store. To a `guest` in it its host tells what is wrong with it."""
    rows, problem = _read_rows(origin.path)
    if problem is not None and not guest:
        lose(origin, tally, problem)
    folder = folder_of(origin.path)
    for number, (key, ident, told) in enumerate(_told(rows), 1):
        if isinstance(told, Flaw):
            lose(origin, tally, told, number)
            continue
        # Chats of other agents (copilotcli:/…, claude-code:/…) are kept by those.
        others = key == _INDEX and (not isinstance(told, dict) or told.get("isExternal"))
        if others or (origin.only and ident not in origin.only):
            tally.records += 1
            tally.noise += 1
        elif key == _INDEX:
            scribe = Scribe((NAME, ident), origin.path, _OFFSET + number)
            created = parse_time(field_of(told.get("timing"), "created"))
            about = {
                "title": str_of(told.get("title")),
                "started_at": format_time(created),
                "edit_stats": dict_of(told.get("stats")),
                "workspace.path": path_of(told.get("workingDirectory")) or folder,
            }
            scribe.notes(about, BESIDE)
            tally.records += 1
            tally.noise += not scribe.facts
            yield from scribe.facts
        elif isinstance(told, dict):
            yield from reading_of(told, origin, tally).facts()
        else:
            lose(origin, tally, Flaw("not-a-chat", number, str(told)))


def session_id(name: str) -> str:
    """The session of an index key: the id itself, or a resource that holds it."""
    if not name.startswith(_RESOURCE):
        return name
    coded = name[len(_RESOURCE) :]
    try:
        return base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
    except (binascii.Error, ValueError):
        return name
