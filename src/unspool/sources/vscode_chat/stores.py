"""state.vscdb: the index of stored chats, and the whole chats that VS Code kept there at first."""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact
from unspool.io.databases import DAMAGE, open_database
from unspool.io.digests import digest
from unspool.io.door import Flaw, Salvage, read_json, sample
from unspool.io.origins import Origin, Tally, Touched, TouchedRow
from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, field_of
from unspool.sources.scribe import Scribe
from unspool.sources.vscode_chat.attachments import without_long_images
from unspool.sources.vscode_chat.documents import lost, reading_of
from unspool.sources.vscode_chat.fields import BESIDE, NAME
from unspool.sources.vscode_chat.folders import folder_of
from unspool.sources.vscode_chat.uris import path_of

_INDEX = "chat.ChatSessionStore.index"
_CHATS = "interactive.sessions"
_RESOURCE = "vscode-chat-session://local/"
_OFFSET = 1 << 32
"""Old chats and index entries of one store must not share a place."""


def read_store(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    rows, problem = read_rows(origin.path)
    if problem is not None:
        yield lost(origin, tally, Flaw(problem[0], 0, problem[1]))
    yield from rows_facts(rows, origin, tally)


def touched(path: str, position: str) -> Touched | None:
    """Which chats were written since a position, by digests of their entries in the index and of the
    chats that stand in the store itself:

    {"chat.ChatSessionStore.index c1": "9f86d081…", "interactive.sessions c0": "60303ae2…"}

    Only these two keys are read, however large the rest of the store is.
    """
    rows, problem = read_rows(path)
    if problem is not None:
        return None
    values = {(key, ident): msgspec.json.encode(value) for key, ident, value in _told(rows)}
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
    """(key, chat, what is said of it) of each chat that the store tells of."""
    for key, _, salvage in _decoded(rows):
        for told in salvage.values:
            if key == _INDEX:
                for name, entry in dict_of(field_of(told, "entries")).items():
                    yield key, _entry_session(name, entry), entry
            else:
                for chat in _chats(told):
                    yield key, str(field_of(chat, "sessionId") or ""), chat


def _entry_session(name: str, entry: Any) -> str:
    session = field_of(entry, "sessionId")
    return session_id(session if isinstance(session, str) else name)


def read_rows(path: str) -> tuple[list[tuple[str, Any]], tuple[str, str] | None]:
    """(key and value of the chats and the index, what was wrong with the store)."""
    try:
        with open_database(path) as database:
            stale = ("stale-database", "the write-ahead log was not read")
            if "ItemTable" not in database.tables():
                return [], stale if database.stale else None
            statement = "SELECT key, value FROM ItemTable WHERE key IN (?, ?) ORDER BY key"
            rows = database.connection.execute(statement, (_INDEX, _CHATS)).fetchall()
            return rows, stale if database.stale else None
    except DAMAGE as error:
        return [], ("unreadable-database", str(error))


def _decoded(rows: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, bytes, Salvage]]:
    for key, value in rows:
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
        yield key, data, read_json(without_long_images(data))


def rows_facts(rows: Iterable[tuple[str, Any]], origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    for key, data, salvage in _decoded(rows):
        if salvage.lost or not salvage.values or salvage.values[0] is None:
            flaws = salvage.flaws or [Flaw("invalid-json", 0, sample(data))]
            yield lost(origin, tally, flaws[0], 1)
        elif key == _INDEX:
            entries = field_of(salvage.values[0], "entries")
            folder = folder_of(origin.path)
            for number, (name, entry) in enumerate(dict_of(entries).items()):
                tally.records += 1
                if not isinstance(entry, dict) or entry.get("isExternal"):
                    # Chats of other agents (copilotcli:/…, claude-code:/…) are kept by those.
                    tally.noise += 1
                    continue
                ident = _entry_session(name, entry)
                if origin.only and ident not in origin.only:
                    tally.noise += 1
                    continue
                scribe = Scribe((NAME, ident), origin.path, _OFFSET + number)
                title, timing, stats = (entry.get(name) for name in ("title", "timing", "stats"))
                if isinstance(title, str) and title:
                    scribe.note("title", title, BESIDE)
                created = parse_time(timing.get("created")) if isinstance(timing, dict) else None
                if created is not None:
                    scribe.note("started_at", format_time(created), BESIDE)
                if isinstance(stats, dict) and stats:
                    scribe.note("edit_stats", stats, BESIDE)
                if path := path_of(entry.get("workingDirectory")) or folder:
                    scribe.note("workspace.path", path, BESIDE)
                tally.noise += not scribe.facts
                yield from scribe.facts
        else:
            for number, chat in enumerate(_chats(salvage.values[0])):
                if origin.only and field_of(chat, "sessionId") not in origin.only:
                    continue
                if isinstance(chat, dict):
                    yield from reading_of(chat, origin, tally).facts()
                else:
                    yield lost(origin, tally, Flaw("not-a-chat", 2 + number, sample(str(chat))))


def _chats(value: Any) -> list[Any]:
    """An array of chats; by their ids in the oldest stores."""
    if isinstance(value, dict):
        return [value] if isinstance(value.get("requests"), list) else list(value.values())
    return value if isinstance(value, list) else [value]


def session_id(name: str) -> str:
    """The session of an index key: the id itself, or a resource that holds it."""
    if not name.startswith(_RESOURCE):
        return name
    coded = name[len(_RESOURCE) :]
    try:
        return base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
    except (binascii.Error, ValueError):
        return name
