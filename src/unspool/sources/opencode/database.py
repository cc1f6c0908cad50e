"""`opencode.db`: `session`, `message` and `part` of 1.x, `session_v2` and `session_message` of 2.x.

A database that 2.x took over keeps the tables of 1.x, with what they held then: of a session that is in
both, those of 2.x hold.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unspool.facts import AnyFact
from unspool.io.databases import DAMAGE, Database, open_database
from unspool.io.door import LONGEST_BYTES, UNREADABLE, StructType, read_json
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.io.values import field_of, str_of
from unspool.sources.opencode.sessions import (
    DATABASE,
    MESSAGE,
    NAME,
    PART,
    SESSION,
    Message,
    Part,
    Session,
    Teller,
    Time,
    is_fork,
    state_session,
)
from unspool.sources.scribe import Scribe


def read_database(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    problem = Scribe((NAME, ""), origin.path, 0)
    try:
        with open_database(origin.path) as database:
            if database.stale:
                problem.problem("stale-database", "the log beside it is too long to copy")
            yield from _Reader(origin, tally, database).read()
    except DAMAGE as error:
        problem.problem("unreadable-database", str(error))
    tally.records += len(problem.facts)
    tally.problems += len(problem.facts)
    yield from problem.facts


class _Reader:
    def __init__(self, origin: Origin, tally: Tally, database: Database) -> None:
        self.origin = origin
        self.tally = tally
        self.database = database
        self.connection = database.connection
        self.agent = "Kilo Code" if Path(origin.path).name.startswith("kilo") else "OpenCode"
        self.offset = 0

    def read(self) -> Iterator[AnyFact]:
        tables = self.database.tables()
        newer: set[str] = set()
        for table in ("session_v2", "session"):
            if table not in tables or "session_message" not in tables:
                continue
            for session in self._sessions(table):
                if session.id not in newer and self._has_entries(session.id):
                    newer.add(session.id)
                    yield from self._read_newer(session)
        if {"session", "message", "part"} <= tables:
            for session in self._sessions("session"):
                if session.id not in newer:
                    yield from self._read_session(session)

    def _sessions(self, table: str) -> Iterator[Session]:
        rows = self.connection.execute(f"SELECT * FROM {table} ORDER BY id")
        names = [column[0] for column in rows.description]
        for row in rows:
            value = dict(zip(names, row, strict=True))
            value |= {"parentID": value.get("parent_id"), "revert": _value(value.get("revert"))}
            yield SESSION.convert({**value, "time": {"created": value.get("time_created")}})

    def _has_entries(self, session: str) -> bool:
        statement = "SELECT 1 FROM session_message WHERE session_id = ? LIMIT 1"
        return self.connection.execute(statement, (session,)).fetchone() is not None

    def _head(self, session: Session) -> Scribe:
        self.tally.records += 1
        self.offset += 1
        scribe = Scribe((NAME, session.id), self.origin.path, self.offset)
        state_session(session, scribe, self.agent)
        return scribe

    # 1.x

    def _read_session(self, session: Session) -> Iterator[AnyFact]:
        scribe = self._head(session)
        if is_fork(session):
            base = self._forked_from(session.id)
            if base:
                scribe.parent(base, "fork")
        yield from scribe.facts
        teller = Teller(session, (NAME, session.id), self.origin.path, DATABASE)
        rows = self.connection.execute(
            "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY id",
            (session.id,),
        )
        for ident, data in rows:
            self.tally.records += 1
            self.offset += 1
            message = _typed(MESSAGE, data)
            message.id = ident
            yield from teller.state(message, self._parts(ident), self.offset).facts

    def _parts(self, message: str) -> list[Part]:
        rows = self.connection.execute(
            "SELECT CAST(id AS BLOB), CAST(data AS BLOB) FROM part WHERE message_id = ? ORDER BY id",
            (message,),
        )
        parts: list[Part] = []
        for ident, data in rows:
            # {"type":"step-start"}, {"reason":"stop","type":"step-finish",…}: the message says it.
            if isinstance(data, bytes) and b'"type":"step-' in data[:200]:
                continue
            part = _typed(PART, data)
            if part.type == "tool" and not part.callID:
                part.id = ident.decode("utf-8", "replace")
            parts.append(part)
        return parts

    def _forked_from(self, session: str) -> str | None:
        """The session that has a message of the same moment: a fork copies them under new ids."""
        statement = (
            "WITH own AS (SELECT id, json_extract(data, '$.time.created') AS moment FROM message"
            " WHERE session_id = ? ORDER BY id LIMIT 3)"
            " SELECT other.session_id FROM message other JOIN own"
            " ON own.moment = json_extract(other.data, '$.time.created')"
            " WHERE other.session_id != ? ORDER BY own.id, other.session_id DESC LIMIT 1"
        )
        try:
            row = self.connection.execute(statement, (session, session)).fetchone()
        except sqlite3.OperationalError:  # one of the rows is no JSON
            return None
        return str(row[0]) if row is not None else None

    # 2.x

    def _read_newer(self, session: Session) -> Iterator[AnyFact]:
        yield from self._head(session).facts
        teller = Teller(session, (NAME, session.id), self.origin.path, DATABASE)
        rows = self.connection.execute(
            "SELECT id, type, time_created, data FROM session_message WHERE session_id = ?"
            " ORDER BY seq",
            (session.id,),
        )
        for ident, kind, created, data in rows:
            self.tally.records += 1
            self.offset += 1
            entry = _typed(MESSAGE, data)
            entry.id, entry.role = str(ident), str(kind)
            entry.time = entry.time or Time()
            entry.time.created = entry.time.created or created
            yield from self._state_entry(entry, teller).facts

    def _state_entry(self, entry: Message, teller: Teller) -> Scribe:
        ident, kind = entry.id, entry.role
        if kind in ("user", "synthetic"):
            entry.role = "user"
            parts = [Part(type="text", text=entry.text, synthetic=kind == "synthetic")]
            return teller.state(entry, parts, self.offset)
        model = str_of(field_of(entry.model, "id"))
        if kind == "assistant":
            entry.modelID = model
            return teller.state(entry, entry.content or [], self.offset)
        time = parse_time(entry.time.created) if entry.time is not None else None
        scribe = Scribe(teller.key, self.origin.path, self.offset, time=time, entry=ident)
        if kind == "compaction":
            scribe.mark("compaction", {"trigger": entry.reason} if entry.reason else None)
            scribe.message(id=ident, role="user", text=str_of(entry.summary), kind="summary")
        elif kind == "shell":
            scribe.shell(ident, entry.command or "", entry.output or "")
        elif kind == "system":
            scribe.message(id=ident, role="system", text=entry.text or "")
        elif kind == "model-switched" and model:
            scribe.note("model", model, on="following")
        else:
            scribe.mark(kind or "entry")
        return scribe


def _value(text: Any) -> Any:
    """A JSON column, mended where it is odd; nothing where it cannot be read."""
    if not isinstance(text, str | bytes) or not text:
        return None
    salvage = read_json(text.encode() if isinstance(text, str) else text, recover=True)
    return salvage.values[0] if salvage.values else None


def _typed(shape: Shape[StructType], text: Any) -> StructType:
    """A JSON column in its struct: straight, or field by field where it is odd."""
    if isinstance(text, str | bytes) and len(text) < LONGEST_BYTES // 4:
        try:
            return shape.decode(text)
        except UNREADABLE:
            pass
    return shape.convert(_value(text))
