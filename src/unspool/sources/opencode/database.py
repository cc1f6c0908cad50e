"""`opencode.db`: `session`, `message` and `part` of 1.x, `session_v2` and `session_message` of 2.x.

A database that 2.x took over keeps the tables of 1.x, with what they held then: of a session that is in
both, those of 2.x hold.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from unspool.facts import AnyFact
from unspool.io.databases import Database, reading
from unspool.io.origins import Origin, Tally
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
    fork_number,
    state_session,
    typed,
    value_of,
)
from unspool.sources.scribe import Scribe


def read_database(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    with reading(origin, tally) as database:
        yield from _Reader(origin, tally, database).read()


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
            for session in self._sessions(table) if {table, "session_message"} <= tables else ():
                if session.id not in newer and (entries := self._entries(session.id)):
                    newer.add(session.id)
                    yield from self._read_session(session, entries)
        if {"session", "message", "part"} <= tables:
            for session in self._sessions("session"):
                if session.id not in newer:
                    yield from self._read_session(session, self._messages(session.id))

    def _sessions(self, table: str) -> Iterator[Session]:
        rows = self.connection.execute(f"SELECT * FROM {table} ORDER BY id")
        names = [column[0] for column in rows.description]
        for row in rows:
            value = dict(zip(names, row, strict=True))
            value |= {"parentID": value.get("parent_id"), "revert": value_of(value.get("revert"))}
            yield SESSION.convert({**value, "time": {"created": value.get("time_created")}})

    def _read_session(
        self, session: Session, messages: Iterable[tuple[Message, list[Part]]]
    ) -> Iterator[AnyFact]:
        self.tally.records += 1
        self.offset += 1
        scribe = Scribe((NAME, session.id), self.origin.path, self.offset)
        state_session(session, scribe, self.agent)
        if fork_number(session.title):
            base = self._forked_from(session)
            if base:
                scribe.parent(base, "fork")
        yield from scribe.facts
        teller = Teller(session, (NAME, session.id), self.origin.path, DATABASE)
        for message, parts in messages:
            self.tally.records += 1
            self.offset += 1
            yield from teller.state(message, parts, self.offset).facts

    # 1.x

    def _messages(self, session: str) -> Iterator[tuple[Message, list[Part]]]:
        rows = self.connection.execute(
            "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY id",
            (session,),
        )
        for ident, data in rows:
            message = typed(MESSAGE, data)
            message.id = ident
            yield message, self._parts(ident)

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
            part = typed(PART, data)
            if part.type == "tool" and not part.callID:
                part.id = ident.decode("utf-8", "replace")
            parts.append(part)
        return parts

    def _forked_from(self, session: Session) -> str | None:
        """The session that has a message of the same moment as the last one that was copied (a fork
        copies them under new ids): of several the one whose title the fork's counts on from, else the
        one that said it first (cases/opencode/fork_of_fork).

            ses_c  "Paint the shelf (fork #1)"
            ses_b  "Paint the shelf (fork #2)"      of ses_c, though ses_d has its first messages too
            ses_d  "Paint the shelf"
        """
        statement = (
            "WITH copied AS (SELECT json_extract(data, '$.time.created') AS moment FROM message"
            " WHERE session_id = ? AND moment < ? ORDER BY id DESC LIMIT 1)"
            " SELECT base.id, base.title FROM message other, copied JOIN session base"
            " ON base.id = other.session_id"
            " WHERE moment = json_extract(other.data, '$.time.created') AND base.id != ?"
            " AND base.time_created < ? ORDER BY base.time_created"
        )
        began = session.time.created if session.time is not None else None
        try:
            rows = self.connection.execute(
                statement, (session.id, began, session.id, began)
            ).fetchall()
        except sqlite3.OperationalError:  # one of the rows is no JSON, or 2.x has no such table
            return None
        number = fork_number(session.title)
        rows.sort(key=lambda row: fork_number(str_of(row[1])) != number - 1)
        return str(rows[0][0]) if rows else None

    # 2.x

    def _entries(self, session: str) -> list[tuple[Message, list[Part]]]:
        rows = self.connection.execute(
            "SELECT id, type, time_created, data FROM session_message WHERE session_id = ?"
            " ORDER BY seq",
            (session,),
        )
        entries: list[tuple[Message, list[Part]]] = []
        for ident, kind, created, data in rows:
            entry = typed(MESSAGE, data)
            entry.id, entry.role = str(ident), str(kind)
            entry.time = entry.time or Time()
            entry.time.created = entry.time.created or created
            entry.modelID = str_of(field_of(entry.model, "id"))
            parts = entry.content or []
            if kind in ("user", "synthetic"):
                entry.role = "user"
                parts = [Part(type="text", text=entry.text, synthetic=kind == "synthetic")]
            entries.append((entry, parts))
        return entries
