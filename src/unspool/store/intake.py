"""Intake: origins on their way into the store, their facts and records in blocks of bounded size.

An origin is taken in whole or not at all: what the store knew of it stays where the new version
cannot be read, or is a document that somebody is in the middle of writing.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

from unspool.facts import AnyFact, Key, Problem
from unspool.io.databases import is_spare
from unspool.io.origins import Origin, Tally
from unspool.pipeline.collect import Collection, Gathered
from unspool.store.keeping import (
    Press,
    forget_facts,
    forget_old_facts,
    forget_records,
    keys_of,
    last_fact,
    moved,
    put_facts,
    put_raw,
)
from unspool.store.reading import (
    BROKEN,
    Owners,
    is_half_written,
    iter_records,
    parts_of,
    read_items,
    trouble,
)
from unspool.store.survey import (
    Changed,
    attempt,
    is_database,
    is_gone,
    is_log,
    recognised,
    tail_hash,
    whole_records_end,
)
from unspool.trajectory import Trajectory

FACTS_BYTES = 16 * 1024 * 1024
"""Facts beyond this are written and let go of."""
FRESH_BYTES = 48 * 1024 * 1024
"""Facts of a batch that are still at hand when its conversations are reduced."""
MOST_PROBLEMS = 1000
UNREAD = frozenset(("unreadable", "unreadable-database"))
"""Codes of an origin that could not be read to its end."""
AGAIN = "-"
"""Begins the `attempt` of a version that is tried again in any case."""


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


class Taking:
    """One origin being taken in."""

    def __init__(self, ident: int, origin: Origin, path: str = "") -> None:
        self.ident = ident
        self.origin = origin
        self.path = path or origin.path
        """Under which its facts are kept: a rebuild reads it elsewhere."""
        self.collection = Collection()
        self.owners = Owners(is_log(origin))
        self.tally = Tally()
        self.touched: set[Key] = set()
        self.codes: Counter[str] = Counter()
        self.samples: list[Problem] = []
        self.gave_facts = False
        self.gave_whole = False
        self.told: list[Key] = []
        """Of a database: the conversations that it told of before,"""
        self.last = 0
        """and the last fact of that time."""


class Intake:
    """Takes origins in, batch by batch."""

    def __init__(
        self,
        press: Press,
        report: Report,
        keep_whole: Callable[[Trajectory, Taking], None],
        raw: bool = True,
    ) -> None:
        self.press = press
        self.connection = press.connection
        self.report = report
        self.keep_whole = keep_whole
        """Takes what came as a trajectory: there are no facts of it."""
        self.raw = raw
        self.begin()

    def begin(self) -> None:
        """A new batch."""
        self.fresh: dict[Key, Gathered] = {}
        """Conversations all of whose facts are at hand."""
        self._fresh_bytes = 0
        self.touched: set[Key] = set()

    def take(self, changed: Changed) -> None:
        """A changed origin into the store."""
        try:
            origin = recognised(changed)
            end = changed.size_bytes
            if origin is not None and is_log(origin):
                end = whole_records_end(origin.path, changed.size_bytes)
            tail = tail_hash(changed.path, end) if origin is not None else ""
        except OSError as error:
            self._miss(changed, [trouble(changed.path, "unreadable", error)])
            return
        if origin is None:
            self.report.unknown += 1
            self._put_origin(changed, "", changed.size_bytes, "")
            return
        if changed.known is not None and is_spare(changed.path):
            # The database that it is the backup of is good again: what was read while it was not stays.
            self._put_origin(changed, origin.source, end, tail)
            self.report.unchanged += 1
            return
        was_whole = self._was_whole(changed)
        with savepoint(self.connection) as point:
            taking = Taking(self._put_origin(changed, origin.source, end, tail), origin)
            self._forget(taking)
            self.read(taking, end)
            self._forget_old(taking)
            point.keep = self._is_better(changed, taking, was_whole)
        if point.keep:
            self._finish(changed, taking)
        else:
            for key in taking.touched:
                self.fresh.pop(key, None)  # taken back: what is at hand of it never was
            self._miss(changed, taking.samples)

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

    def _forget(self, taking: Taking) -> None:
        """What an earlier reading of the same records said."""
        start = taking.origin.start
        if start:
            statement = "DELETE FROM problems WHERE origin_id = ? AND offset >= ?"
            self.connection.execute(statement, (taking.ident, start))
            return
        forget_records(self.connection, taking.ident)
        if is_database(taking.origin.path):
            taking.told = keys_of(self.connection, taking.ident)
            taking.last = last_fact(self.connection) if taking.told else 0
        else:
            taking.touched.update(forget_facts(self.connection, taking.ident))

    def _forget_old(self, taking: Taking) -> None:
        """Behind the reading: what a database no longer tells of, the store keeps."""
        for key in taking.told:
            if forget_old_facts(self.connection, taking.ident, key, taking.last, now()):
                taking.touched.add(key)

    def read(self, taking: Taking, end: int) -> None:
        """Its facts and records, a block at a time."""
        problems = taking.collection.problems
        for part in parts_of(taking.origin, taking.owners.in_lines, problems):
            for item in read_items(part, taking.tally):
                self._add(taking, item)
            if self.raw:
                records = iter_records(part, end, taking.owners, problems)
                put_raw(self.press, taking.ident, records)
            taking.owners.of.clear()
        self._put_facts(taking, last=True)
        self._put_problems(taking)

    def _add(self, taking: Taking, item: AnyFact | Trajectory) -> None:
        if isinstance(item, Trajectory):
            taking.gave_whole = True
            self.keep_whole(item, taking)
            return
        taking.owners.add(item)
        fact = moved(item, taking.path) if taking.path != taking.origin.path else item
        taking.collection.add(taking.origin.source, fact)
        if taking.collection.weight > FACTS_BYTES:
            self._put_facts(taking)
        if len(taking.collection.problems) >= MOST_PROBLEMS:
            self._put_problems(taking)

    def _put_facts(self, taking: Taking, last: bool = False) -> None:
        """Write the facts that are at hand; the last ones stay for reducing, if they are all."""
        conversations, weight = taking.collection.conversations, taking.collection.weight
        stay = last and self._fresh_bytes + weight <= FRESH_BYTES
        self._fresh_bytes += weight if stay else 0
        keys = list(conversations)
        for key in keys:
            gathered = conversations[key] if stay else conversations.pop(key)
            put_facts(self.press, taking.ident, key, gathered.source, gathered.all_facts())
            self.fresh.pop(key, None)
        self.press.flush()
        taking.touched.update(keys)
        taking.gave_facts = taking.gave_facts or bool(keys)
        taking.collection.weight = 0
        self.fresh |= {
            key: known
            for key, known in conversations.items()
            if not self._has_other_facts(key, taking)
        }
        conversations.clear()

    def _has_other_facts(self, key: Key, taking: Taking) -> bool:
        """Beside the ones that were just put, and those that they replace."""
        rows = self.connection.execute(
            "SELECT id FROM facts WHERE platform = ? AND external_id = ?"
            " AND NOT (origin_id = ? AND id <= ?) LIMIT 2",
            (*key, taking.ident, taking.last),
        )
        return len(rows.fetchall()) > 1

    def _put_problems(self, taking: Taking) -> None:
        problems = taking.collection.problems
        taking.codes.update(problem.code for problem in problems)
        taking.samples = taking.samples or problems[:]
        put_problems(self.connection, taking.ident, problems)
        problems.clear()

    def _is_better(self, changed: Changed, taking: Taking, was_whole: bool) -> bool:
        """Whether what was read may stand in place of what the store knew."""
        unread = bool(UNREAD & taking.codes.keys())
        if taking.gave_whole:
            return True
        if changed.known is None:
            return taking.gave_facts or not unread or not is_gone(changed.path)
        if taking.origin.start:
            return not unread
        if not taking.gave_facts and taking.codes:
            return False
        if unread and changed.known.attempt.startswith(AGAIN):
            # Damaged, and it goes on being written: what can still be read of it counts.
            return changed.known.attempt != again(changed)
        spoiled = unread or is_half_written(changed.path, taking.codes)
        return not (spoiled and was_whole)

    def _was_whole(self, changed: Changed) -> bool:
        """Whether the store's version had been read to its end."""
        if changed.known is None or changed.known.attempt:
            return True
        rows = self.connection.execute(
            "SELECT DISTINCT code FROM problems WHERE origin_id = ?", (changed.known.id,)
        )
        return not {code for (code,) in rows} & (UNREAD | BROKEN)

    def _finish(self, changed: Changed, taking: Taking) -> None:
        start = taking.origin.start
        self.report.read += 1
        self.report.bytes += changed.size_bytes - start
        self.touched |= taking.touched
        for code, number in taking.codes.items():
            self.report.count(code, number)
        self.connection.execute(
            "UPDATE origins SET records = ? + (CASE ? WHEN 0 THEN 0 ELSE records END) WHERE id = ?",
            (taking.tally.records, start, taking.ident),
        )

    def _miss(self, changed: Changed, problems: list[Problem]) -> None:
        """The store keeps what it knew: the origin is gone, cannot be read, or is half written."""
        ident = changed.known.id if changed.known is not None else None
        if is_gone(changed.path):
            if ident is not None:
                self.report.gone += 1
                mark_gone(self.connection, ident)
            return
        for problem in problems:
            self.report.count(problem.code)
        if ident is not None:
            self.connection.execute("DELETE FROM problems WHERE origin_id = ?", (ident,))
            put_problems(self.connection, ident, problems)
            spoiled = not {problem.code for problem in problems} & UNREAD
            version = (changed.size_bytes, changed.mtime_ns)
            seen = attempt(*version) if spoiled else again(changed)
            statement = "UPDATE origins SET attempt = ? WHERE id = ?"
            self.connection.execute(statement, (seen, ident))


def again(changed: Changed) -> str:
    """How a version is remembered that could not be read to its end."""
    return AGAIN + (changed.state or attempt(changed.size_bytes, changed.mtime_ns))


class Savepoint:
    keep = True


@contextmanager
def savepoint(connection: sqlite3.Connection) -> Iterator[Savepoint]:
    """A part of a transaction that can be taken back."""
    point = Savepoint()
    connection.execute("SAVEPOINT origin")
    yield point
    if not point.keep:
        connection.execute("ROLLBACK TO origin")
    connection.execute("RELEASE origin")


def mark_gone(connection: sqlite3.Connection, ident: int) -> None:
    connection.execute("UPDATE origins SET gone_since = ? WHERE id = ?", (now(), ident))


def put_problems(
    connection: sqlite3.Connection, ident: int | None, problems: Iterable[Problem]
) -> None:
    connection.executemany(
        "INSERT INTO problems (origin_id, offset, code, external_id, sample) VALUES (?, ?, ?, ?, ?)",
        [(ident, one.offset, one.code, one.key[1], one.sample) for one in problems],
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
