"""The queue: events between their arrival and the store.

An SQLite file of its own, so that a long write to the store never holds up arrivals. An event is
known by its id: put twice, it is there once. Whoever empties the queue keeps its place in the
store, written in the transaction that writes the events, and acknowledges afterwards: a kill at any
point loses nothing, and what is delivered twice the store knows by its id.
"""

import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import zstandard

from unspool.errors import QueueError
from unspool.hooks.spool import FILE_MODE, Layout
from unspool.store.opening import transaction

if TYPE_CHECKING:
    from unspool.live.redis_queue import RedisQueue

MOST_TRIES = 3
"""What fails as often for a fault of ours is dead: the others go on."""
READ_EVENTS = 1000
READ_BYTES = 8 * 1024 * 1024
_BUSY_SECONDS = 10


class Arrival(NamedTuple):
    """One event as it came in."""

    event_id: str
    received_ns: int
    platform: str
    """The source that the agent is of; empty where nothing tells."""
    event_type: str
    session: str
    data: bytes
    """The payload, as the agent handed it over."""


class Queued(NamedTuple):
    """One event in the queue."""

    position: str
    """Its place: positions of one queue grow."""
    sequence: int
    arrival: Arrival


class Dead(NamedTuple):
    position: str
    arrival: Arrival
    error: str
    at: str


class Backlog(NamedTuple):
    events: int
    oldest_ns: int | None
    """When the oldest of them arrived."""


_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL UNIQUE,
    received_ns INTEGER NOT NULL,
    platform TEXT NOT NULL,
    event_type TEXT NOT NULL,
    session TEXT NOT NULL,
    data BLOB NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    generation TEXT NOT NULL DEFAULT '', -- where it was sent on (`forward.py`): of that queue,
    milliseconds INTEGER,           -- and the id that it got there
    count INTEGER
);
CREATE TABLE IF NOT EXISTS dead (
    seq INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL UNIQUE,
    received_ns INTEGER NOT NULL,
    platform TEXT NOT NULL,
    event_type TEXT NOT NULL,
    session TEXT NOT NULL,
    data BLOB NOT NULL,
    error TEXT NOT NULL,
    at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);
"""
_COLUMNS = "event_id, received_ns, platform, event_type, session, data"


def queue_path(layout: Layout) -> Path:
    return layout.live / "queue.db"


class SqliteQueue:
    """The queue in a file. One connection, so of one thread; others open it again.

    What intake and writer ask of it, `RedisQueue` can do as well.
    """

    remote: Literal[False] = False
    """Whether others fill it: nothing here tells when something came."""
    name: str
    """Under which the store keeps how far it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pack = zstandard.ZstdCompressor(level=1).compress
        self._unpack = zstandard.ZstdDecompressor().decompress
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(FILE_MODE)
            self.connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = FULL")
            self.connection.executescript(_TABLES)
            self.connection.execute(
                "INSERT OR IGNORE INTO meta VALUES ('id', ?)", (uuid.uuid4().hex,)
            )
            (ident,) = self.connection.execute("SELECT value FROM meta").fetchone()
        # A queue that was deleted and made anew counts from 1 again: it must have another name.
        self.name = f"sqlite:{ident}"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            text = str(getattr(error, "strerror", None) or error)
            raise QueueError(f"the queue {self.path}: {text}") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explained(), transaction(self.connection):
            yield

    def put(self, arrivals: Sequence[Arrival]) -> int:
        """All of them, safe when this returns; how many were not there yet."""
        rows = [(*one[:5], self._pack(one.data)) for one in arrivals]
        with self._transaction():
            made = self.connection.executemany(
                f"INSERT INTO events ({_COLUMNS}) SELECT ?1, ?2, ?3, ?4, ?5, ?6"
                " WHERE NOT EXISTS (SELECT 1 FROM dead WHERE event_id = ?1)"
                " ON CONFLICT (event_id) DO NOTHING",
                rows,
            )
        return made.rowcount

    def read(self, after: str, limit: int = READ_EVENTS) -> list[Queued]:
        """The next events behind a position ("" is the beginning)."""
        return self._read("seq > ?", int(after or 0), limit)

    def unsent(self, generation: str, limit: int) -> list[Queued]:
        """The next events that were not sent to the queue of this generation."""
        return self._read("generation != ?", generation, limit)

    def note_sent(self, generation: str, events: Sequence[Queued], idents: Sequence[str]) -> None:
        """They were sent there, and got these ids."""
        with self._transaction():
            self.connection.executemany(
                "UPDATE events SET generation = ?, milliseconds = ?, count = ? WHERE seq = ?",
                [
                    (generation, *map(int, ident.split("-")), event.sequence)
                    for event, ident in zip(events, idents, strict=True)
                ],
            )

    def forget_sent(self, generation: str, ident: str) -> None:
        """The store has all that was sent up to this id: it need not be kept."""
        has = "DELETE FROM events WHERE generation = ? AND (milliseconds, count) <= (?, ?)"
        with self._transaction():
            self.connection.execute(has, (generation, *map(int, ident.split("-"))))

    def _read(self, condition: str, value: int | str, limit: int) -> list[Queued]:
        found: list[Queued] = []
        size = 0
        with self._explained():
            for seq, *rest, data in self.connection.execute(
                f"SELECT seq, {_COLUMNS} FROM events WHERE {condition} ORDER BY seq LIMIT ?",
                (value, limit),
            ):
                payload = self._unpack(data)
                size += len(payload)
                found.append(Queued(str(seq), seq, Arrival._make((*rest, payload))))
                if size >= READ_BYTES:
                    break
        return found

    def acknowledge(self, position: str, events: Sequence[Queued] = ()) -> None:
        """The store has everything up to here: it need not be kept."""
        with self._transaction():
            self.connection.execute("DELETE FROM events WHERE seq <= ?", (int(position or 0),))

    def fail(self, events: Sequence[Queued], error: str) -> list[Queued]:
        """They could not be taken in; those that failed too often, which are dead now."""
        buried: list[Queued] = []
        with self._transaction():
            for event in events:
                (*row, tries) = self.connection.execute(
                    f"DELETE FROM events WHERE seq = ? RETURNING {_COLUMNS}, tries + 1",
                    (event.sequence,),
                ).fetchone() or (0,)
                if tries >= MOST_TRIES:
                    self.connection.execute(
                        f"INSERT OR REPLACE INTO dead ({_COLUMNS}, error)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?)",
                        (*row, error),
                    )
                    buried.append(event)
                elif row:  # behind the others, who do not wait for it
                    self.connection.execute(
                        f"INSERT INTO events ({_COLUMNS}, tries) VALUES (?, ?, ?, ?, ?, ?, ?)",
                        (*row, tries),
                    )
        return buried

    def dead(self) -> list[Dead]:
        with self._explained():
            rows = self.connection.execute(
                f"SELECT seq, {_COLUMNS}, error, at FROM dead"
            ).fetchall()
        return [
            Dead(str(seq), Arrival._make((*rest, self._unpack(data))), error, at)
            for seq, *rest, data, error, at in rows
        ]

    def retry(self) -> int:
        """Dead events come back at the end of the queue; how many."""
        with self._transaction():
            made = self.connection.execute(
                f"INSERT OR IGNORE INTO events ({_COLUMNS}) SELECT {_COLUMNS} FROM dead ORDER BY seq"
            )
            self.connection.execute("DELETE FROM dead")
        return made.rowcount

    def backlog(self, after: str) -> Backlog:
        with self._explained():
            row = self.connection.execute(
                "SELECT count(*), min(received_ns) FROM events WHERE seq > ?", (int(after or 0),)
            ).fetchone()
        return Backlog(*row)

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self.connection.close()


Queue: TypeAlias = "SqliteQueue | RedisQueue"
RemoteQueue: TypeAlias = "RedisQueue"
"""A queue that other machines fill and empty."""
