"""Command-line and background chats: `chats/<workspace>/<id>/store.db`, and `meta.json` beside it.

The root names the messages of the chat as it stands. What it does not name any more is history that a
summary stands for, or what the person took back: the order of writing tells where it stood.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import NOBODY, ROOT, AnyFact, Key, MessageSeen, Rank
from unspool.io.databases import DAMAGE, MAGIC, Database, open_database
from unspool.io.door import UNREADABLE
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.times import format_time, parse_time
from unspool.io.values import field_of, str_of
from unspool.sources.cursor.blobs import (
    Node,
    is_summary,
    message_of,
    messages_under,
    references,
    subagents,
)
from unspool.sources.cursor.bubbles import mode_name
from unspool.sources.cursor.editor import log_start
from unspool.sources.cursor.entries import Book, note_all
from unspool.sources.cursor.paths import clean_path, is_absolute, is_cursor_folder
from unspool.sources.cursor.sent import Sent
from unspool.sources.cursor.tables import Broken, parse_object
from unspool.sources.scribe import Scribe

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
    if origin.path.endswith(".json"):
        yield from _read_beside(origin, tally)
        return
    store = Store(origin.path, tally)
    try:
        with open_database(origin.path) as database:
            if database.stale:
                tally.records += 1
                yield store.problem(store.key, "stale-database", "the log was too long to copy")
            yield from store.read(database)
    except DAMAGE as error:
        tally.records += 1
        yield store.problem(store.key, "unreadable-database", str(error))


def _read_beside(origin: Origin, tally: Tally) -> list[AnyFact]:
    """`meta.json`: the folder that the chat was begun in, and its times."""
    tally.records += 1
    with open_origin(origin.path) as file:
        data = file.read()
    key: Key = ("cursor", Path(origin.path).parent.name)
    scribe = Scribe(key, origin.path, 0, entry=f"meta:{key[1]}")
    try:
        value = parse_object(data)
    except Broken as broken:
        tally.problems += 1
        scribe.problem(broken.code, data)
        return scribe.facts
    notes = {
        "session_id": key[1],
        "workspace.path": clean_path(str_of(value.get("cwd"))),
        "started_at": format_time(parse_time(value.get("createdAtMs"))),
        "ended_at": format_time(parse_time(value.get("updatedAtMs"))),
        "title": value.get("title") or value.get("name"),
    }
    note_all(scribe, notes, RANK + 1)
    return scribe.facts


class Store(Book):
    """One database: a chat, and those of the sub-agents that its root holds."""

    key: Key = NOBODY

    def read(self, database: Database) -> Iterator[AnyFact]:
        self._connection = database.connection
        self._connection.execute("BEGIN")  # one moment of it, though it is being written
        meta = read_meta(self._connection)
        self.key = ("cursor", str(meta.get("agentId") or Path(self.origin).parent.name))
        mode, model = mode_name(meta.get("mode")), str(meta.get("lastUsedModel") or "")
        parent = str_of(field_of(meta.get("subagentInfo"), "parentAgentId"))
        session = parent or self.key[1]
        notes = {
            "session_id": session,
            "title": meta.get("name") if meta.get("name") != _UNNAMED else None,
            "composer_mode": mode,
            "started_at": format_time(parse_time(meta.get("createdAt"))),
            "parent": {"conversation_id": parent} if parent else None,
        }
        scribe = self.scribe(self.key, f"chat:{self.key[1]}")
        note_all(scribe, notes, RANK)
        yield from scribe.facts
        root = self._root(meta.get("latestRootBlobId"))
        children = list(subagents(self.key[1], root))
        others = {name for *_, state in children for name in messages_under(state, self._blob)}
        messages = (name for name, data in self._rows() if message_of(data) is not None)
        written = [name for name in messages if name not in others]
        yield from self._chat(self.key, root, written, mode, model)
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
        names the most blobs; empty without any."""
        root = self._blob(named) if isinstance(named, str) else None
        if root:
            return root
        names = {str(name) for (name,) in self._connection.execute("SELECT id FROM blobs")}
        nodes = (data for _, data in self._rows() if data[:1] != b"{")
        return max(
            nodes, key=lambda node: sum(n in names for _, n in references(node)), default=b""
        )

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
        sent = Sent(key, self.origin, RANK, self.offsets, mode, model)
        # Without messages under the root, all that there are, as they were written.
        current = messages_under(root, self._blob) or written
        names, branches = lay_out(current, written, lambda n: is_summary(self._blob(n)))
        after = ROOT
        for place, name in enumerate(names):
            ident = sent.ident(name)
            for fork, lost in branches:
                if fork == place:
                    yield from self._branch(sent, lost, after)
                elif fork == len(names) == place + 1:
                    # Nothing was said since: it is told before the last message, though it follows
                    # it, because the last message that is told is the end of the thread.
                    yield from self._branch(sent, lost, sent.entry(ident))
            facts = self._message(sent, name, ident, after if branches else None)
            yield from facts
            after = facts[0].entry if facts and facts[0].entry else after

    def _branch(self, sent: Sent, lost: list[str], above: str) -> Iterator[AnyFact]:
        """What was taken back. Context that another stands for now was replaced, not taken back."""
        messages: list[list[AnyFact]] = []
        for name in lost:
            facts = self._message(sent, name, sent.ident(name, "~"), above)
            above = facts[0].entry if facts and facts[0].entry else above
            messages.append(facts)
        if all(_is_context(facts) for facts in messages):
            self.tally.noise += sum(1 for facts in messages if facts)
        else:
            yield from (fact for facts in messages for fact in facts)

    def _message(self, sent: Sent, name: str, ident: str, after: str | None) -> list[AnyFact]:
        self.tally.records += 1
        data = self._blob(name) or b""
        value = message_of(data)
        if value is None:
            return [self.problem(self.key, "invalid-json", data)]
        facts = sent.read(value, ident, after)
        self.tally.noise += not facts
        return facts


def lay_out(
    current: Iterable[str], written: Iterable[str], is_summary: Callable[[str], bool]
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """(the messages of a chat, its branches: how many messages stand before the fork, and what was
    abandoned there). What was written before a summary is history, the rest was taken back."""
    named = list(current)
    places: dict[str, int] = {}
    for place, name in enumerate(named):
        places.setdefault(name, place)
    lost: dict[int, list[str]] = {}
    fork = 0
    for name in written:
        if name in places:
            fork = max(fork, places[name] + 1)
        else:
            lost.setdefault(fork, []).append(name)
    names: list[str] = []
    branches: list[tuple[int, list[str]]] = []
    for place in range(len(named) + 1):
        if place < len(named) and place in lost and is_summary(named[place]):
            names += lost[place]
        elif place in lost:
            branches.append((len(names), lost[place]))
        names += named[place : place + 1]
    return names, branches


def _is_context(facts: list[AnyFact]) -> bool:
    return all(
        isinstance(fact, MessageSeen) and (fact.role == "system" or fact.kind == "injected")
        for fact in facts
    )


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
        data = value if isinstance(value, bytes) else str(value or "").encode()
        for candidate in (data, _unhexed(data)):
            try:
                return msgspec.json.decode(candidate, type=dict[str, Any])
            except UNREADABLE:
                continue
        rows[str(key)] = value
    return rows


def _unhexed(data: bytes) -> bytes:
    try:
        return bytes.fromhex(data.decode("ascii"))
    except ValueError:
        return b""
