"""Command-line and background chats: `chats/<workspace>/<id>/store.db`, and `meta.json` beside it."""

import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from unspool.databases import DAMAGE, MAGIC, Database, open_database
from unspool.facts import NOBODY, ROOT, AnyFact, Key, MessageSeen, Noted, Problem
from unspool.origins import Head, Origin, Tally, open_origin
from unspool.records import clean, sample
from unspool.sources.cursor.blobs import BadWire, fields, message_of, references, walk
from unspool.sources.cursor.bubbles import mode_name
from unspool.sources.cursor.editor import log_start
from unspool.sources.cursor.entries import rank_of
from unspool.sources.cursor.paths import clean_path, is_cursor_folder
from unspool.sources.cursor.rewound import Layout
from unspool.sources.cursor.sent import Sent, is_summary
from unspool.sources.cursor.steps import Steps
from unspool.sources.cursor.turns import Clock, Turned, turns
from unspool.times import format_time, parse_time

RANK = 0


def claims(head: Head) -> bool:
    if head.name == "meta.json":
        return "chats" in head.parts and b'"createdAtMs"' in head.data
    if not head.data.startswith(MAGIC) or head.name != "store.db":
        return False
    schema = head.data if b"blobs" in head.data else log_start(head.path)
    return (b"blobs" in schema and b"meta" in schema) or is_cursor_folder(head.parts)


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    if origin.path.endswith(".json"):
        yield from _read_meta(origin, tally)
        return
    chat = Chat(origin.path, tally)
    try:
        with open_database(origin.path) as database:
            if database.stale:
                tally.records += 1
                yield chat.problem("stale-database", "the log was too long to copy")
            yield from chat.read(database)
    except DAMAGE as error:
        tally.records += 1
        yield chat.problem("unreadable-database", str(error))


def _read_meta(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """What stands beside the database: the folder that the chat was begun in, and its times."""
    tally.records += 1
    with open_origin(origin.path) as file:
        data = file.read()
    key: Key = ("cursor", Path(origin.path).parent.name)
    try:
        value = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tally.problems += 1
        yield Problem(
            key=key, origin=origin.path, offset=0, code="invalid-json", sample=sample(data)
        )
        return
    cwd = value.get("cwd")
    notes = {
        "session_id": key[1],
        "workspace.path": clean_path(cwd) if isinstance(cwd, str) and cwd else None,
        "started_at": format_time(parse_time(value.get("createdAtMs"))),
        "ended_at": format_time(parse_time(value.get("updatedAtMs"))),
        "title": value.get("title") or value.get("name"),
    }
    for number, (name, told) in enumerate(notes.items()):
        yield Noted(
            key=key, origin=origin.path, offset=0, number=number, entry=f"meta:{key[1]}", name=name,
            value=clean(told), rank=rank_of(key, name, told, RANK + 1),
        )  # fmt: skip


class Chat:
    """One store."""

    def __init__(self, origin: str, tally: Tally) -> None:
        self.origin = origin
        self.tally = tally
        self.key: Key = NOBODY
        self._offsets = count()
        self._steps = Steps()
        self._mode = ""
        self._model = ""

    def problem(self, code: str, data: bytes | str) -> Problem:
        self.tally.problems += 1
        return Problem(
            key=self.key, origin=self.origin, offset=next(self._offsets), number=99, code=code,
            sample=sample(data),
        )  # fmt: skip

    def read(self, database: Database) -> Iterator[AnyFact]:
        connection = database.connection
        meta = _meta(connection)
        ident = meta.get("agentId")
        self.key = ("cursor", str(ident or Path(self.origin).parent.name))
        self.tally.records += 1
        yield from self._notes(meta)
        root = _root(connection, meta)
        top = (_blob(connection, root) if root is not None else None) or b""
        yield from self._workspace(top)

        def fetch(name: str) -> bytes | None:
            return _blob(connection, name)

        clock = Clock(turns(top, fetch))
        sent = Sent(self.key, self.origin, RANK, self._offsets, self._mode, self._model, clock)
        layout = _layout(connection, root)
        if not layout.main:
            for said in turns(top, fetch):
                yield from self._turn(said)
        idents = [sent.ident(name) for name in layout.main]
        is_tree = bool(layout.branches)
        after = ROOT
        for place, (name, ident) in enumerate(zip(layout.main, idents, strict=True)):
            for fork, names in layout.before(place):
                above = after if fork <= place else sent.entry(ident)
                for lost in names:
                    made = self._message(connection, sent, lost, sent.ident(lost, "~"), above)
                    yield from made
                    above = made[0].entry if made and made[0].entry else above
            made = self._message(connection, sent, name, ident, after if is_tree else None)
            yield from made
            after = made[0].entry if made and made[0].entry else after

    def _turn(self, said: Turned) -> Iterator[AnyFact]:
        """What was said, where no message tells it."""
        self.tally.records += 1
        ident = f"{self.key[1]}:{said.name[:20]}"
        if said.role == "user":
            self._steps.close()
            step = ident
        else:
            step = self._steps.part("text" if said.text else "thinking", ident)
        yield MessageSeen(
            key=self.key, origin=self.origin, offset=next(self._offsets), entry=f"turn:{ident}",
            id=step, time=said.time, role=said.role, text=said.text, thinking=said.thinking,
            mode=self._mode if said.role == "user" else "", rank=RANK,
        )  # fmt: skip

    def _message(
        self, connection: sqlite3.Connection, sent: Sent, name: str, ident: str, after: str | None
    ) -> list[AnyFact]:
        self.tally.records += 1
        data = _blob(connection, name) or b""
        value = message_of(data)
        if value is None:
            return [self.problem("invalid-json", data)]
        made = list(sent.read(clean(value), ident, after))
        if not made:
            self.tally.noise += 1
        return made

    def _notes(self, meta: dict[str, Any]) -> Iterator[AnyFact]:
        self._mode = mode_name(meta.get("mode"))
        self._model = str(meta.get("lastUsedModel") or "")
        common: dict[str, Any] = {
            "key": self.key, "origin": self.origin, "offset": next(self._offsets),
            "entry": f"chat:{self.key[1]}",
        }  # fmt: skip
        notes = {
            "session_id": self.key[1],
            "title": meta.get("name"),
            "composer_mode": self._mode or None,
            "started_at": format_time(parse_time(meta.get("createdAt"))),
        }
        for number, (name, value) in enumerate(notes.items()):
            rank = rank_of(self.key, name, value, RANK)
            yield Noted(**common, number=number, name=name, value=clean(value), rank=rank)

    def _workspace(self, root: bytes) -> Iterator[AnyFact]:
        """Field 9 of a root, where there is one, is the folder that the chat works in."""
        try:
            found = [value for number, value in fields(root) if number == 9]
        except BadWire:
            return
        for value in found[:1]:
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
            if text.startswith(("/", "file://")) or text[1:3] == ":\\":
                yield Noted(
                    key=self.key, origin=self.origin, offset=next(self._offsets),
                    name="workspace.path", value=clean_path(text), rank=RANK + 1,
                )  # fmt: skip


def _meta(connection: sqlite3.Connection) -> dict[str, Any]:
    """Row '0' of `meta`: the hexadecimal digits of a JSON object; or a row for each of its fields."""
    rows: dict[str, Any] = {}
    for key, value in connection.execute("SELECT key, value FROM meta ORDER BY key"):
        data = value if isinstance(value, bytes) else str(value or "").encode()
        for candidate in (data, _unhexed(data)):
            try:
                return msgspec.json.decode(candidate, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
        rows[str(key)] = value
    return rows


def _unhexed(data: bytes) -> bytes:
    try:
        return bytes.fromhex(data.decode("ascii"))
    except ValueError:
        return b""


def _blob(connection: sqlite3.Connection, name: str) -> bytes | None:
    row = connection.execute("SELECT data FROM blobs WHERE id = ?", (name,)).fetchone()
    if row is None or row[0] is None:
        return None
    return row[0] if isinstance(row[0], bytes) else str(row[0]).encode()


def _root(connection: sqlite3.Connection, meta: dict[str, Any]) -> str | None:
    """The root that is named, else the node with the most references; None without any."""
    named = meta.get("latestRootBlobId")
    if isinstance(named, str) and _blob(connection, named) is not None:
        return named
    best, most = None, 0
    for name, data in connection.execute("SELECT id, data FROM blobs ORDER BY rowid"):
        if isinstance(data, bytes) and data[:1] != b"{" and len(references(data)) > most:
            best, most = str(name), len(references(data))
    return best


def _layout(connection: sqlite3.Connection, root: str | None) -> Layout:
    """The messages under the root; then what only the roots before it name, the latest first."""
    if root is None:
        return Layout(_by_row(connection), lambda name: False)
    names = (name for name, _ in walk(root, lambda name: _blob(connection, name)))
    layout = Layout(names, lambda name: _is_summary(_blob(connection, name)))
    lost = dict.fromkeys(_by_row(connection))
    known = set(lost)
    for name in layout.main:
        lost.pop(name, None)
    statement = "SELECT id, data FROM blobs ORDER BY rowid DESC"
    for _, data in connection.execute(statement) if lost else ():
        if not isinstance(data, bytes) or data[:1] == b"{":
            continue
        listed = [name for _, found in references(data) if (name := found.hex()) in known]
        if any(name in lost for name in listed):
            layout.add(listed)
            for name in listed:
                lost.pop(name, None)
    if lost:
        layout.branches.append((len(layout.main), list(lost)))
    return layout


def _is_summary(data: bytes | None) -> bool:
    value = message_of(data or b"")
    return value is not None and is_summary(value)


def _by_row(connection: sqlite3.Connection) -> Iterator[str]:
    for name, data in connection.execute("SELECT id, data FROM blobs ORDER BY rowid"):
        if isinstance(data, bytes) and message_of(data) is not None:
            yield str(name)
