"""Writer: the queue, and files that grew, into the store.

Events go in with their facts, their payloads and the place in the queue in one transaction. They
mark conversations as dirty; `bring_up_to_date` makes these anew, by the same path as `sync`. The
caller holds the store's lock meanwhile: there is one writer.
"""

import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from unspool import sources
from unspool.facts import NOBODY, Key, Problem
from unspool.hooks.spool import Layout
from unspool.io.databases import DAMAGE
from unspool.io.door import read_json
from unspool.io.origins import HEAD_BYTES, Origin, read_head
from unspool.io.times import parse_time
from unspool.live.failpoints import reach
from unspool.live.logs import log_line, log_path, put_database_traces
from unspool.live.mirror import FILE_BYTES, apply
from unspool.live.queue import Queue, Queued
from unspool.live.reducers import Here, Pool
from unspool.live.states import ends_turn, put_ending, put_states
from unspool.store.batches import Batch, Began, Item
from unspool.store.blocks import decode_block, expand, iter_raw
from unspool.store.conversations import WORDS, catch_up
from unspool.store.events import Event, position, put_events, put_position, stamp
from unspool.store.ids import row_id
from unspool.store.intake import Intake, Report, mark_dirty, put_problems
from unspool.store.opening import transaction
from unspool.store.survey import (
    Changed,
    Known,
    database_state,
    in_lines,
    known_origin,
    tail_hash,
)
from unspool.store.update import Update


class Taken(NamedTuple):
    """What one step brought into the store."""

    events: int = 0
    touched: frozenset[Key] = frozenset()
    waited_ns: int = 0
    """When the oldest of them had arrived."""
    ended: frozenset[Key] = frozenset()
    """Conversations of which they say that a turn or the session is over."""


class Writer:
    """The one that writes. `folder` is for what lies on disk only while it is read."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        layout: Layout,
        folder: Path,
        raw: bool = True,
        pool: Pool | None = None,
    ) -> None:
        self.connection = connection
        self.layout = layout
        self.folder = folder
        self.raw = raw
        self.report = Report()
        self.reducers = pool or Here(connection)
        self.update = Update(
            connection,
            self.report,
            self.reducers,
            told=lambda ending: put_ending(connection, ending),
            related_path=layout.live / "related.db",
        )
        self.intake = Intake(connection, self.report, self.update.keep_whole)
        self._version = self._data_version()

    def _data_version(self) -> int:
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def begin(self) -> bool:
        """The lock is ours again: what is remembered holds only if nobody wrote meanwhile. Whether
        somebody did."""
        version = self._data_version()
        if version == self._version:
            return False
        self._version = version
        self.update.forget()
        return True

    # in

    def take_events(self, queue: Queue) -> Taken:
        """The next events of the queue; none where it is empty."""
        events = queue.read(position(self.connection, queue.name))
        if not events:
            return Taken()
        reach("writer-read")
        logs: dict[str, list[Queued]] = {}
        for event in events:
            if event.arrival.event_type == FILE_BYTES and not event.arrival.platform:
                apply(self.layout, event.arrival)  # again after a kill: the same bytes, same place
            else:
                logs.setdefault(log_path(self.layout, event.arrival), []).append(event)
        with transaction(self.connection):
            self.intake.begin()
            for path, group in logs.items():
                self._take_or_bury(path, group, queue)
            mark_dirty(self.connection, self.intake.touched)
            put_states(self.connection, [event.arrival for event in events])
            put_position(self.connection, queue.name, events[-1].position)
            reach("writer-uncommitted")
        reach("writer-committed")
        queue.acknowledge(events[-1].position, events)
        reach("writer-acknowledged")
        oldest = min(event.arrival.received_ns for event in events)
        ended = frozenset(
            (one.arrival.platform, one.arrival.session) for one in events if ends_turn(one.arrival)
        )
        return Taken(len(events), frozenset(self.intake.touched), oldest, ended)

    def _take_or_bury(self, path: str, group: list[Queued], queue: Queue) -> None:
        """What cannot be read for a fault of ours stops nobody else."""
        self.connection.execute("SAVEPOINT log")
        try:
            self._take_log(path, group)
        except (sqlite3.Error, OSError):
            raise  # the store's trouble, not the events'
        except Exception as error:
            self.connection.execute("ROLLBACK TO log")
            if len(group) > 1:
                for event in group:
                    self._take_or_bury(path, [event], queue)
            else:
                queue.fail(group, f"{type(error).__name__}: {error}")
        self.connection.execute("RELEASE log")

    def _take_log(self, path: str, group: list[Queued]) -> None:
        """New lines of a session's log: their facts, and the events themselves."""
        known = known_origin(self.connection, path)
        seen = "SELECT 1 FROM raw_traces WHERE event_id = ?"
        events = [
            Event(
                one.event_id, (one.platform, one.session), one.event_type, queued.sequence,
                one.received_ns, 0, log_line(one),
            )
            for queued in group
            if self.connection.execute(seen, ((one := queued.arrival).event_id,)).fetchone() is None
        ]  # fmt: skip
        if not events:
            return
        events.sort(key=_moment)
        offset = known.read_bytes if known is not None else 0
        if known is not None and known.source and self._comes_late(known.id, events[0]):
            offset, events = 0, sorted([*self._taken_out(known.id), *events], key=_moment)
        for number, event in enumerate(events):
            events[number] = event._replace(offset=offset)
            offset += len(event.line)
        began = self._lay_out(path, known, group[0].arrival.platform, events, offset)
        items: Iterator[Item] = iter(())
        if began.origin is not None:
            items = Batch(raw=False).read_origin(began.origin, offset, path)
        self._take(began, items)
        origin_id = known_origin(self.connection, path).id  # type: ignore[union-attr]  # just put
        put_events(self.connection, origin_id, events)
        if began.origin is None:
            payloads = {one.arrival.event_id: one.arrival.data for one in group}
            put_problems(self.connection, origin_id, _problems(path, events, payloads))

    def _comes_late(self, origin_id: int, first: Event) -> bool:
        """Whether an event is older than one that the log has: a dead worker had it, say."""
        last = self.connection.execute(
            "SELECT received_at, event_id FROM raw_traces WHERE origin_id = ?"
            " ORDER BY first_offset DESC LIMIT 1",
            (origin_id,),
        ).fetchone()
        return last is not None and _moment(first) < last

    def _taken_out(self, origin_id: int) -> Iterator[Event]:
        """The events that the log has: it is made anew in the order of arrival, so that it does not
        matter when events get here."""
        rows = self.connection.execute(
            "DELETE FROM raw_traces WHERE origin_id = ? RETURNING"
            " event_id, platform, external_id, event_type, sequence, received_at, data",
            (origin_id,),
        ).fetchall()
        for event_id, platform, ident, kind, sequence, at, data in rows:
            ((_, line),) = decode_block(expand(data))
            received_ns = (parse_time(at) or 0) * 1000
            yield Event(event_id, (platform, ident), kind, sequence, received_ns, 0, line)

    def _lay_out(
        self, path: str, known: Known | None, platform: str, events: list[Event], size: int
    ) -> Began:
        """The log as a file: all of it, or where only the new lines are read its head and these."""
        start = events[0].offset
        file = self.folder.joinpath(*Path(path).parts[1:])
        file.parent.mkdir(parents=True, exist_ok=True)
        name = known.source if known is not None else ""
        only_tail = bool(start and name and in_lines(path, name))
        with open(file, "wb") as target:
            if known is not None:
                for _, data in iter_raw(self.connection, known.id):
                    target.write(data)
                    if only_tail and target.tell() >= min(HEAD_BYTES, start):
                        break
            target.truncate(min(target.tell(), start))
            target.seek(max(start - 1, 0))
            target.write((b"\n" if start else b"") + b"".join(event.line for event in events))
        if not name and platform in sources.SOURCES:
            name = sources.recognise(read_head(str(file)), platform) or ""
        changed = Changed(
            path, f"{platform}/{Path(path).name}", size, max(e.received_ns for e in events), "",
            known,
        )  # fmt: skip
        if not name:
            return Began(changed)
        origin = Origin(str(file), changed.name, name, size, start if only_tail else 0)
        return Began(changed, origin, size, tail_hash(str(file), size), is_live=True)

    def take_files(self, changed: list[Changed]) -> Taken:
        """What is new in files and databases."""
        with transaction(self.connection):
            self.intake.begin()
            to_read = [one for one in changed if self._narrow(one)]
            items = Batch(self.raw).read(to_read)
            for item in items:
                if isinstance(item, Began):
                    self._take(item, items)
            mark_dirty(self.connection, self.intake.touched)
            reach("files-uncommitted")
        reach("files-committed")
        return Taken(0, frozenset(self.intake.touched))

    def _take(self, began: Began, items: Iterator[Item]) -> None:
        touched = self.intake.take(began, items)
        if began.origin is not None and not began.origin.start:
            self.reducers.forget(touched)  # facts of these were taken away

    def _narrow(self, changed: Changed) -> bool:
        """Of a database only what was written since; whether there is anything to read."""
        known = changed.known
        if not changed.state or known is None or not known.source:
            return True
        name = f"database:{changed.path}"
        try:
            before = position(self.connection, name)
            touched = sources.touched_since(known.source, changed.path, before)
        except DAMAGE:
            return True
        if touched is None:
            return True
        put_position(self.connection, name, touched.position)
        if touched.conversations is None:
            return True
        changed.only = self._families(known.source, touched.conversations)
        if self.raw:
            put_database_traces(self.connection, self.layout, known.source, changed.path, touched)
        if not changed.only:  # the editor noted something for itself
            self.connection.execute(
                "UPDATE origins SET state = ?1, size_bytes = ?2, read_bytes = ?2, mtime_ns = ?3,"
                " tail_hash = ?4 WHERE id = ?5",
                (
                    changed.state, changed.size_bytes, changed.mtime_ns,
                    tail_hash(changed.path, changed.size_bytes), known.id,
                ),
            )  # fmt: skip
        return bool(changed.only)

    def note_positions(self) -> None:
        """Where databases stand that were read and are as they were: of the first change, too, only
        what is new is read."""
        rows = self.connection.execute(
            "SELECT path, source, state FROM origins WHERE state != '' AND source != '' AND"
            " gone_since IS NULL AND 'database:' || path NOT IN (SELECT name FROM cursors)"
        ).fetchall()
        for path, source, state in rows:
            try:
                touched = sources.touched_since(source, path, "")
                if touched is not None and database_state(path, os.stat(path)) == state:  # noqa: PTH116
                    put_position(self.connection, f"database:{path}", touched.position)
            except DAMAGE:
                continue

    def _families(self, source: str, idents: Iterable[str]) -> tuple[str, ...]:
        """With parents and children: what one says of another must be said again."""
        found = set(idents)
        for ident in idents:
            row = row_id(source, ident)
            rows = self.connection.execute(
                "SELECT parent_id FROM links WHERE child_id = ?1"
                " UNION SELECT child_id FROM links WHERE parent_id = ?1",
                (row,),
            )
            found.update(other.partition(":")[2] for (other,) in rows)
        return tuple(sorted(found))

    # out

    def dirty(self) -> list[Key]:
        return list(self.connection.execute("SELECT platform, external_id FROM dirty"))

    def bring_up_to_date(self, keys: Collection[Key]) -> tuple[set[Key], list[tuple[Key, str]]]:
        """These conversations made anew; what was written, and what could not be, for a fault of
        ours."""
        self.update.written.clear()
        self.update.relate()
        failed = self.update.reduce(keys)
        reach("update-reduced")
        failed += self.update.link()
        catch_up(self.connection, [WORDS])
        reach("update-written")
        self._version = self._data_version()
        return set(self.update.written), failed


def _problems(path: str, events: list[Event], payloads: dict[str, bytes]) -> list[Problem]:
    """What is wrong with events that no source reads: the same codes as in a file."""
    found: list[Problem] = []
    for event in events:
        data = payloads[event.event_id]
        salvage = read_json(data)
        is_object = bool(salvage.values) and all(isinstance(one, dict) for one in salvage.values)
        code = salvage.code or ("" if is_object else "not-json")
        if code:
            sample = data[:200].decode("utf-8", "replace")
            found.append(
                Problem(key=NOBODY, origin=path, offset=event.offset, code=code, sample=sample)
            )
    return found


def _moment(event: Event) -> tuple[str, str]:
    return stamp(event.received_ns), event.event_id


def clear(folder: Path) -> None:
    """Remove the files that were laid out."""
    for top, _, files in os.walk(folder):
        for name in files:
            if not name.startswith("."):
                Path(top, name).unlink(missing_ok=True)
