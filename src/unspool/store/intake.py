"""Intake: what was read of origins into the store.

An origin is taken in whole or not at all: what the store knew of it stays where the new version
cannot be read, or is a document that somebody is in the middle of writing.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from unspool.facts import Key, Problem
from unspool.io.origins import Origin
from unspool.sources import rewrites
from unspool.store.batches import Began, Ended, Item, Whole
from unspool.store.blocks import (
    Before,
    FactBlock,
    RawBlock,
    keys_of,
    last_fact,
    put_facts,
    put_raw,
)
from unspool.store.reading import is_half_written
from unspool.store.survey import Changed, attempt, is_gone
from unspool.trajectory import Trajectory, unpack_trajectory

UNREAD = frozenset(("unreadable", "unreadable-database", "internal-error"))
"""Codes of an origin that could not be read to its end."""
MOST_SAMPLES = 1000
AGAIN = "-"
"""Begins the `attempt` of a version that could not be read to its end: it is tried again."""


class Report(msgspec.Struct):
    """What a sync did."""

    origins: int = 0
    read: int = 0
    bytes: int = 0
    unchanged: int = 0
    unknown: int = 0
    gone: int = 0
    written: int = 0
    removed: int = 0
    problems: dict[str, int] = {}

    def count(self, code: str, number: int = 1) -> None:
        self.problems[code] = self.problems.get(code, 0) + number


class Taking(msgspec.Struct):
    """One origin being taken in."""

    ident: int
    records: int = 0
    touched: set[Key] = set()
    codes: Counter[str] = msgspec.field(default_factory=Counter)
    samples: list[Problem] = []
    gave_facts: bool = False
    gave_whole: bool = False


class Intake:
    """Takes origins in, batch by batch."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        report: Report,
        keep_whole: Callable[[Trajectory, int], None],
    ) -> None:
        self.connection = connection
        self.report = report
        self.keep_whole = keep_whole
        """Takes what came as a trajectory, and from which origin: there are no facts of it."""
        self.begin()

    def begin(self) -> None:
        """A new batch."""
        self.touched: set[Key] = set()
        self.unlike: set[Key] = set()
        """Conversations of which the store has other facts than the batch: it did not take some, or it
        kept what a file has lost."""

    def take(self, began: Began, items: Iterator[Item]) -> set[Key]:
        """A changed origin, of which the items tell, into the store; the conversations it touches."""
        changed, origin = began.changed, began.origin
        if began.trouble is not None:
            self._miss(changed, [began.trouble])
        elif origin is None:
            self.report.unknown += 1
            self._put_origin(changed, "", changed.size_bytes, "")
        elif began.is_spare:
            self._put_origin(changed, origin.source, began.end, began.tail)
            self.report.unchanged += 1
        else:
            return self._take_origin(began, origin, items)
        return set()

    def _take_origin(self, began: Began, origin: Origin, items: Iterator[Item]) -> set[Key]:
        changed, is_database = began.changed, bool(began.changed.state)
        self.connection.execute("SAVEPOINT origin")
        ident = self._put_origin(changed, origin.source, began.end, began.tail)
        taking = Taking(ident)
        last = last_fact(self.connection)
        only = {(origin.source, part) for part in origin.only}
        told = [key for key in keys_of(self.connection, ident) if not only or key in only]
        self._forget_records(ident, began, origin)
        self.put(taking, items)
        # Behind the reading: only now it is known what the origin no longer tells, and the store keeps.
        for key in told if not origin.start else ():
            before = Before(self.connection, ident, key, last)
            if is_database and before.keep_untold(now()):
                continue
            is_rewritten = not is_database and not began.is_live and rewrites(origin.source)
            if is_rewritten and before.keep_lost(now()):
                self.unlike.add(key)
            before.forget(is_database)
            taking.touched.add(key)
        if not self._is_better(changed, origin, taking):
            self.connection.execute("ROLLBACK TO origin")
            self.connection.execute("RELEASE origin")
            self.unlike |= taking.touched
            self._miss(changed, taking.samples)
            return set()
        self.connection.execute(
            "UPDATE origins SET records = ? + (CASE ? WHEN 0 THEN 0 ELSE records END) WHERE id = ?",
            (taking.records, origin.start, ident),
        )
        self.connection.execute("RELEASE origin")
        self.report.read += 1
        self.report.bytes += changed.size_bytes - origin.start
        self.touched |= taking.touched
        for code, number in taking.codes.items():
            self.report.count(code, number)
        return taking.touched

    def _put_origin(self, changed: Changed, source: str, end: int, tail: str) -> int:
        row = self.connection.execute(
            "INSERT INTO origins (path, name, source, size_bytes, mtime_ns, state, read_bytes,"
            " tail_hash, first_seen, last_read) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT(path) DO UPDATE SET source = excluded.source,"
            " size_bytes = excluded.size_bytes, mtime_ns = excluded.mtime_ns,"
            " state = excluded.state, read_bytes = excluded.read_bytes,"
            " tail_hash = excluded.tail_hash, last_read = excluded.last_read,"
            " gone_since = NULL, attempt = '' RETURNING id",
            (
                changed.path, changed.name, source, changed.size_bytes, changed.mtime_ns,
                changed.state, end, tail, now(), now(),
            ),
        ).fetchone()  # fmt: skip
        return int(row[0])

    def _forget_records(self, ident: int, began: Began, origin: Origin) -> None:
        """Problems, and raw copies, of an earlier reading of the same records."""
        execute = self.connection.execute
        if origin.start or began.is_live:
            statement = "DELETE FROM problems WHERE origin_id = ? AND offset >= ?"
            execute(statement, (ident, origin.start))
            return
        # Of a database of which a part is read the copy is no longer true, either.
        execute("DELETE FROM raw_traces WHERE origin_id = ?", (ident,))
        of_part = " AND external_id IN (SELECT value FROM json_each(?))" if origin.only else ""
        parts = [json.dumps(origin.only)] if origin.only else []
        execute(f"DELETE FROM problems WHERE origin_id = ?{of_part}", (ident, *parts))

    def put(self, taking: Taking, items: Iterator[Item]) -> None:
        """What the items tell of an origin, up to its end."""
        for item in items:
            match item:
                case FactBlock():
                    put_facts(self.connection, taking.ident, item)
                    taking.touched.add(item.key)
                    taking.gave_facts = True
                case RawBlock():
                    put_raw(self.connection, taking.ident, [item])
                case Problem():
                    taking.codes[item.code] += 1
                    if len(taking.samples) < MOST_SAMPLES:
                        taking.samples.append(item)
                    put_problems(self.connection, taking.ident, [item])
                case Whole(packed):
                    taking.gave_whole = True
                    self.keep_whole(unpack_trajectory(packed), taking.ident)
                case Ended(records):
                    taking.records = records
                    return
                case _:
                    raise TypeError(type(item))

    def _is_better(self, changed: Changed, origin: Origin, taking: Taking) -> bool:
        """Whether what was read may stand in place of what the store knew. A document that is half
        written may not. Nor may one that cannot be read to its end; but where its next version cannot,
        either, it is damaged, and what can be read of it counts."""
        if changed.known is None or taking.gave_whole:
            return True
        unread = bool(UNREAD & taking.codes.keys())
        if origin.start:
            return not unread
        if not taking.gave_facts and taking.codes:
            return False
        if not unread:
            return not is_half_written(changed.path, taking.codes)
        before = changed.known.attempt.removeprefix(AGAIN)
        return bool(before) and before != version_of(changed)

    def _miss(self, changed: Changed, problems: list[Problem]) -> None:
        """The store keeps what it knew: the origin is gone, cannot be read, or is half written."""
        ident = changed.known.id if changed.known is not None else None
        if is_gone(changed.path):
            if ident is not None:
                self.report.gone += 1
                mark_gone(self.connection, [ident])
            return
        for problem in problems:
            self.report.count(problem.code)
        if ident is not None:
            self.connection.execute("DELETE FROM problems WHERE origin_id = ?", (ident,))
            put_problems(self.connection, ident, problems)
            again = AGAIN if {problem.code for problem in problems} & UNREAD else ""
            statement = "UPDATE origins SET attempt = ? WHERE id = ?"
            self.connection.execute(statement, (again + version_of(changed), ident))


def version_of(changed: Changed) -> str:
    return changed.state or attempt(changed.size_bytes, changed.mtime_ns)


def mark_dirty(connection: sqlite3.Connection, keys: Iterable[Key]) -> None:
    """What was touched is to be written, also if this process does not live to do it."""
    connection.executemany("INSERT OR IGNORE INTO dirty VALUES (?, ?)", sorted(keys))


def mark_gone(
    connection: sqlite3.Connection, gone: Iterable[int], back: Iterable[int] = ()
) -> None:
    """Origins that are no longer there, and those that are there again."""
    statement = "UPDATE origins SET gone_since = ? WHERE id = ?"
    rows = [*((now(), ident) for ident in gone), *((None, ident) for ident in back)]
    connection.executemany(statement, rows)


def put_problems(
    connection: sqlite3.Connection, ident: int | None, problems: Iterable[Problem]
) -> None:
    connection.executemany(
        "INSERT INTO problems (origin_id, offset, code, external_id, sample) VALUES (?, ?, ?, ?, ?)",
        [(ident, one.offset, one.code, one.key[1], one.sample) for one in problems],
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
