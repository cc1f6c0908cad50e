"""Command-line and background chats: `chats/<workspace>/<id>/store.db`, and `meta.json` beside it.

The root names the messages of the chat as it stands. What it does not name any more is history that a
summary stands for, or what the person took back: the order of writing tells where it stood.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from unspool.facts import ROOT, AnyFact, Key, MessageSeen, Rank
from unspool.io.databases import MAGIC, Database, reading
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.times import format_time, parse_time
from unspool.io.values import field_of, parse_object, str_of
from unspool.sources.cursor.blobs import (
    Node,
    is_summary,
    message_of,
    messages_under,
    subagents,
)
from unspool.sources.cursor.bubbles import mode_name
from unspool.sources.cursor.editor import log_start
from unspool.sources.cursor.entries import Book, note_all
from unspool.sources.cursor.paths import clean_path, is_absolute, is_cursor_folder
from unspool.sources.cursor.sent import Sent

RANK = Rank.ITSELF
_UNNAMED = "New Agent"
"""What every chat is called until it has a name."""
_TOKENS, _FOLDERS = 5, 9
"""Fields of a root: tokens used and allowed, folders that it worked in."""


def claims(head: Head) -> bool:
    if head.name == "meta.json":
        return "chats" in head.parts and b'"createdAtMs"' in head.data
    if not head.data.startswith(MAGIC) or head.name != "store.db":
        return False
    schema = head.data if b"blobs" in head.data else log_start(head.path)
    return (b"blobs" in schema and b"meta" in schema) or is_cursor_folder(head.parts)


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    store = Store(origin.path, tally)
    if origin.path.endswith(".json"):
        yield from _read_beside(store)
    else:
        with reading(origin, tally) as database:
            yield from store.read(database)


def _read_beside(book: Book) -> list[AnyFact]:
    """`meta.json`: the folder that the chat was begun in, and its times."""
    with open_origin(book.origin) as file:
        value = book.parse_object(file.read())
    if value is None:
        return []
    book.tally.records += 1
    ident = Path(book.origin).parent.name
    scribe = book.scribe(("cursor", ident), f"meta:{ident}")
    notes = {
        "session_id": ident,
        "workspace.path": clean_path(str_of(value.get("cwd"))),
        "started_at": format_time(parse_time(value.get("createdAtMs"))),
        "ended_at": format_time(parse_time(value.get("updatedAtMs"))),
        "title": value.get("title") or value.get("name"),
    }
    note_all(scribe, notes, RANK + 1)
    return scribe.facts


class Store(Book):
    """One database: a chat, and those of the sub-agents that its root holds."""

    def read(self, database: Database) -> Iterator[AnyFact]:
        self._connection = database.connection
        meta = read_meta(self._connection)
        key = ("cursor", str(meta.get("agentId") or Path(self.origin).parent.name))
        mode, model = mode_name(meta.get("mode")), str(meta.get("lastUsedModel") or "")
        parent = str_of(field_of(meta.get("subagentInfo"), "parentAgentId"))
        session = parent or key[1]
        notes = {
            "session_id": session,
            "title": meta.get("name") if meta.get("name") != _UNNAMED else None,
            "composer_mode": mode,
            "started_at": format_time(parse_time(meta.get("createdAt"))),
            "parent": {"conversation_id": parent} if parent else None,
        }
        scribe = self.scribe(key, f"chat:{key[1]}")
        note_all(scribe, notes, RANK)
        yield from scribe.facts
        root = self._root(meta.get("latestRootBlobId"))
        children = list(subagents(key[1], root))
        others = {name for *_, state in children for name in messages_under(state, self._blob)}
        messages = (name for name, data in self._rows() if message_of(data) is not None)
        written = [name for name in messages if name not in others]
        yield from self._chat(key, root, written, mode, model)
        for ident, above, state in children:
            scribe = self.scribe(("cursor", ident))
            scribe.note("parent", {"conversation_id": above}, RANK)
            scribe.note("session_id", session, RANK)
            yield from scribe.facts
            yield from self._chat(scribe.key, state)

    def _blob(self, name: str) -> bytes | None:
        row = self._connection.execute("SELECT data FROM blobs WHERE id = ?", (name,)).fetchone()
        if row is None or row[0] is None:
            return None
        return row[0] if isinstance(row[0], bytes) else str(row[0]).encode()

    def _root(self, named: Any) -> bytes:
        """The root that is named; where it is missing or empty (4 of 648 real stores), the node that
        names the most messages; empty without any."""
        root = self._blob(named) if isinstance(named, str) else None
        if root:
            return root
        nodes = (data for _, data in self._rows() if data[:1] != b"{")
        return max(nodes, key=lambda node: len(messages_under(node, self._blob)), default=b"")

    def _rows(self) -> Iterator[tuple[str, bytes]]:
        for name, data in self._connection.execute("SELECT id, data FROM blobs ORDER BY rowid"):
            if isinstance(data, bytes):
                yield str(name), data

    def _chat(
        self, key: Key, root: bytes, written: Iterable[str] = (), mode: str = "", model: str = ""
    ) -> Iterator[AnyFact]:
        """What the root of a chat tells, and what else was written for it."""
        self.tally.records += 1
        scribe = self.scribe(key)
        note_all(scribe, _notes(Node(root)), RANK + 1)
        yield from scribe.facts
        sent = Sent(self, key, RANK, mode, model)
        # Without messages under the root, all that there are, as they were written.
        current = messages_under(root, self._blob) or list(written)
        unnamed = _unnamed(current, written)
        after = ROOT
        for place, name in enumerate(current):
            history = self._messages(sent, unnamed.get(place, ()), after)
            if history and is_summary(self._blob(name)):
                after = history[-1].entry
            elif all(
                isinstance(fact, MessageSeen) and (fact.role == "system" or fact.kind == "injected")
                for fact in history
            ):
                # Another stands for it now: it was replaced, not taken back.
                self.tally.noise += len(history)
                history = []
            yield from history
            if place + 1 == len(current):
                # Behind it nothing was said since. The last message that is told is the end of the
                # thread, so what followed it once is told before it.
                yield from self._messages(sent, unnamed.get(place + 1, ()), sent.entry(name))
            facts = self._messages(sent, [name], after if unnamed else None)
            yield from facts
            after = facts[-1].entry if facts else after

    def _messages(self, sent: Sent, names: Iterable[str], after: str | None) -> list[AnyFact]:
        """What messages say, each behind the one before it where their place in a tree is known."""
        told: list[AnyFact] = []
        for name in names:
            data = self._blob(name) or b""
            value = message_of(data)
            if value is None:
                self.problem("invalid-json", data, sent.key)
                continue
            self.tally.records += 1
            facts = sent.read(value, name, after)
            self.tally.noise += not facts
            told += facts
            after = facts[0].entry if facts and after is not None else after
        return told


def _unnamed(current: list[str], written: Iterable[str]) -> dict[int, list[str]]:
    """What was written for a chat and is not in it any more: before which of its messages it stood.
    Before a summary it is history, the rest was taken back."""
    places: dict[str, int] = {}
    for place, name in enumerate(current):
        places.setdefault(name, place)
    unnamed: dict[int, list[str]] = {}
    behind = 0
    for name in written:
        if name in places:
            behind = max(behind, places[name] + 1)
        else:
            unnamed.setdefault(behind, []).append(name)
    return unnamed


def _notes(root: Node) -> dict[str, Any]:
    """What a root knows of the chat as a whole: how full its context is, where it works."""
    tokens, folder = root.node(_TOKENS), clean_path(root.text(_FOLDERS))
    used, most = tokens.number(1), tokens.number(2)
    notes: dict[str, Any] = {"workspace.path": folder if is_absolute(folder) else None}
    if used and most:
        usage = round(100 * used / most, 1)
        notes |= {"context_tokens": used, "context_limit": most, "context_usage": usage}
    return notes


def read_meta(connection: sqlite3.Connection) -> dict[str, Any]:
    """Row '0' of `meta`: the hexadecimal digits of a JSON object; or a row for each of its fields."""
    rows: dict[str, Any] = {}
    for key, value in connection.execute("SELECT key, value FROM meta ORDER BY key"):
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
        with suppress(ValueError):
            text = bytes.fromhex(text).decode("utf-8", "replace")
        if (meta := parse_object(text)) is not None:
            return meta
        rows[str(key)] = value
    return rows
