"""The daemon: keeps every conversation current while it happens. One per store.

A thread empties the spool into the queue; the main thread moves queue and grown files into the
store and makes the conversations anew that changed. The store's lock is held only while something
is written, so that `sync` and others get their turn.
"""

import gc
import json
import os
import socket
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from unspool.errors import AlreadyRunning, QueueError, StoreError, UnspoolError
from unspool.facts import Key
from unspool.hooks.files import write_private
from unspool.hooks.spool import Layout
from unspool.io.memory import give_back
from unspool.io.temporary import lock_file, scratch
from unspool.live.forward import run_intake
from unspool.live.intake import read_payload
from unspool.live.monitors import Monitors
from unspool.live.notices import follow
from unspool.live.queue import (
    Arrival,
    Backlog,
    Queue,
    RemoteQueue,
    SqliteQueue,
    queue_path,
)
from unspool.live.reducers import REDUCERS, Pool
from unspool.live.schedule import Due, Schedule
from unspool.live.states import RUNNING, doings
from unspool.live.writer import Taken, Writer, clear
from unspool.store.align import align_again
from unspool.store.changes import changes_after, last_change
from unspool.store.conversations import get_trajectory
from unspool.store.events import position, stamp
from unspool.store.ids import row_id, shown_id
from unspool.store.intake import mark_gone, now
from unspool.store.opening import explain, file_of, opened, transaction, write_lock
from unspool.store.sync import Sync

RETRY_SECONDS = 1.0
STATUS_SECONDS = 2.0
STATUS_AT_LEAST_SECONDS = 30.0
"""Where nothing changes, the daemon says so often that it is there."""
REMOTE_SECONDS = 0.1
"""A queue that others fill is asked so often,"""
QUIET_REMOTE_SECONDS = 1.0
"""and so often where nothing came from it for a while."""
QUIET_SECONDS = 10.0
TIDY_SECONDS = 60.0
BULK_BYTES = 32 * 1024 * 1024
BUSY_SECONDS = 5.0
"""How long the store's lock is awaited before it is said that somebody has it."""
FAULTS_BEFORE_DEATH = 3
FLOOD_EVENTS = 200
"""So many at one look are a backlog;"""
FLOOD_SECONDS = 5.0
"""while it lasts, conversations whose turn has not ended are made anew this often."""
LONG_SECONDS = 1.0
CACHE_KB = 8192
"""Of the store, in memory: a daemon writes a little at a time."""
WORTH_TELLING = 100
"""Events that wait: fewer are gone before somebody has read it."""


class News(msgspec.Struct, omit_defaults=True):
    """One line of `unspool watch`."""

    at: str
    kind: str
    """new, changed, removed; state: only what the agent does changed; backlog; trouble"""
    conversation: str = ""
    title: str | None = None
    messages: int | None = None
    state: str | None = None
    tool: str | None = None
    lag_ms: int | None = None
    """From the arrival of the event to the store; of a backlog, how long the oldest event waits."""
    backlog: int | None = None
    """Events that have arrived and are not in the store yet."""
    text: str | None = None


@contextmanager
def only_daemon(layout: Layout, store: Path) -> Iterator[None]:
    """One per store: a second one is told who runs."""
    layout.make()
    with lock_file(layout.live / "daemon.lock") as (_, is_ours):
        if not is_ours:
            status = read_status(layout)
            who = f"process {status.get('pid', '?')} on {status.get('host', 'this machine')}"
            since = f", since {status['started_at']}" if "started_at" in status else ""
            raise AlreadyRunning(f"unspool already watches for {store}: {who}{since}")
        yield
        with suppress(OSError):
            (layout.live / "daemon.json").unlink(missing_ok=True)


def is_running(layout: Layout) -> bool:
    """Whether a daemon watches for this store."""
    try:
        with lock_file(layout.live / "daemon.lock") as (_, is_ours):
            return not is_ours
    except OSError:
        return False


def read_status(layout: Layout) -> dict[str, Any]:
    try:
        status = json.loads((layout.live / "daemon.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


def live_status(connection: sqlite3.Connection, store: Path) -> dict[str, Any]:
    """Who watches for the store, what waits, and how long the last events took."""
    layout = Layout.beside(store)
    running = is_running(layout)
    status: dict[str, Any] = {"running": running, "spooled": 0, "queued": 0, "dead": 0}
    if running:
        status |= read_status(layout)
    with suppress(OSError):
        status["spooled"] = sum(1 for _ in layout.new.iterdir())
    if queue_path(layout).exists():
        with suppress(QueueError):
            queue = SqliteQueue(queue_path(layout))
            status["queued"] = queue.backlog(position(connection, queue.name)).events
            status["dead"] = len(queue.dead())
            queue.close()
    return status


class Daemon:
    """`tell` gets every change; `run` returns when `stop` is set, or with `once` when all is done."""

    def __init__(
        self,
        store: Path,
        tops: list[str],
        tell: Callable[[News], None],
        raw: bool = True,
        remote: Callable[[], RemoteQueue] | None = None,
        sends: bool = True,
        reducers: int = REDUCERS,
    ) -> None:
        self.store = store
        self.layout = Layout.beside(store)
        self.tops = tops
        self.tell = tell
        self.raw = raw
        self.remote = remote
        """The queue that many machines fill; without it, the one beside the store is read."""
        self.sends = sends
        """Not a worker: what arrives at its machine is another's to send."""
        self.stop = threading.Event()
        self.bell = threading.Event()
        self.transcripts: deque[str] = deque(maxlen=10_000)
        """Files that events name as being written."""
        self.noticed: deque[str] = deque(maxlen=10_000)
        """Files of which the system says that they changed."""
        self.lags: deque[float] = deque(maxlen=1000)
        self.started_at = now()
        self.faults: dict[Key, int] = {}
        self._troubles: dict[str, str] = {}
        self._telling = threading.Lock()
        self._states: dict[Key, tuple[str, str | None]] = {}
        self._status_at = self._status_written = 0.0
        self._told_backlog = False
        self._status: dict[str, Any] = {}
        self.reducers = reducers if os.name == "posix" else 0

    # intake

    def open_queue(self) -> Queue:
        return self.remote() if self.remote else SqliteQueue(queue_path(self.layout))

    def _take_in(self, once: bool) -> None:
        """Empties the spool, in a thread of its own."""

        def came(batch: list[Arrival]) -> None:
            payloads = (read_payload(arrival.data)[0] for arrival in batch)
            paths = {payload.transcript_path or payload.transcriptPath for payload in payloads}
            self.transcripts.extend(path for path in paths if isinstance(path, str) and path)
            self.bell.set()

        def tell(trouble: str) -> None:
            if trouble:
                self._trouble("intake", trouble)
            else:
                self._well("intake")

        run_intake(self.layout, self.stop, tell, self.remote, came=came, once=once)

    def _trouble(self, what: str, text: str) -> None:
        """Said once, not on every try, and not by both threads."""
        with self._telling:
            is_said = text in self._troubles.values()
            self._troubles[what] = text
            if not is_said:
                self.tell(News(_now(), "trouble", text=text))

    def _well(self, what: str) -> None:
        if what in self._troubles:
            with self._telling:
                text = self._troubles.pop(what)
                if text not in self._troubles.values():
                    self.tell(News(_now(), "trouble", text="it works again"))

    # the main thread

    def run(self, once: bool = False) -> None:
        with only_daemon(self.layout, self.store), scratch() as folder:
            intake = threading.Thread(target=self._take_in, args=(False,), daemon=True)
            if once and self.sends:
                self._take_in(once=True)
            elif not once:
                if self.sends:
                    intake.start()

                def notice(path: str) -> None:
                    self.noticed.append(path)
                    self.bell.set()

                follow(self.tops, notice, self.stop)
            gc.disable()  # facts hold no cycles; once a minute is enough,
            gc.freeze()  # and the program itself need not be looked through
            try:
                self._run(folder, once)
            finally:
                gc.unfreeze()
                gc.enable()
                self.stop.set()
                if intake.ident is not None:
                    intake.join()

    def _run(self, folder: Path, once: bool) -> None:
        while not self.stop.is_set():
            try:
                with write_lock(self.store, BUSY_SECONDS), opened(self.store) as connection:
                    pass  # made, if it was not there
                with opened(self.store) as connection:
                    connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")
                    work = _Work(self, connection, folder)
                    try:
                        if self._loop(work, once):
                            return
                    finally:
                        work.writer.reducers.close()
            except (StoreError, QueueError, OSError, sqlite3.Error) as error:
                known = explain(error, self.store) if not isinstance(error, UnspoolError) else error
                if once:
                    raise known from None
                self._trouble("store", str(known))
                self.stop.wait(RETRY_SECONDS)

    def _loop(self, work: "_Work", once: bool) -> bool:
        """Whether all is done; not if the store was removed: then there is another one to open."""
        tidied = time.monotonic()
        file = file_of(self.store)
        if not once:
            work.prepare()
        while not self.stop.is_set():
            if file_of(self.store) != file:
                return False
            is_rung = self.bell.is_set()
            if is_rung:  # what comes from here on rings again
                self.bell.clear()
            is_busy = work.step(is_rung)
            self._well("store")
            self._write_status(work)
            if once and not is_busy and not work.schedule.waiting:
                work.align()
                return True
            if time.monotonic() - tidied > TIDY_SECONDS:
                tidied = time.monotonic()
                gc.collect()
                if not is_busy:
                    work.align()
            if not is_busy:
                if work.writer.reducers.rest():
                    gc.collect()
                    give_back()  # what the busy time took
                most = min(work.monitors.wait_seconds(), STATUS_SECONDS, work.ask_seconds())
                wait = work.schedule.wait_seconds(most)
                if wait > 0:
                    self.bell.wait(wait)
        return True

    def _tell_backlog(self, backlog: Backlog) -> None:
        """That many events wait, and when none does any more."""
        if backlog.events >= WORTH_TELLING or (self._told_backlog and not backlog.events):
            waits = (time.time_ns() - backlog.oldest_ns) // 1_000_000 if backlog.oldest_ns else None
            self.tell(News(_now(), "backlog", lag_ms=waits, backlog=backlog.events))
            self._told_backlog = backlog.events > 0

    def _write_status(self, work: "_Work") -> None:
        now = time.monotonic()
        if now - self._status_at < STATUS_SECONDS:
            return
        self._status_at = now
        backlog = work.queue.backlog(position(work.connection, work.queue.name))
        self._tell_backlog(backlog)
        lags = sorted(self.lags)
        status = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "store": str(self.store),
            "started_at": self.started_at,
            "backlog": backlog.events,
            "oldest": stamp(backlog.oldest_ns) if backlog.oldest_ns else None,
            "waiting": len(work.schedule.waiting),
            "lag_ms_p50": round(lags[len(lags) // 2] * 1000) if lags else None,
            "lag_ms_p95": round(lags[len(lags) * 95 // 100] * 1000) if lags else None,
            "trouble": list(self._troubles.values()),
        }
        if status == self._status and now - self._status_written < STATUS_AT_LEAST_SECONDS:
            return
        self._status, self._status_written = dict(status), now
        status["at"] = _now()
        with suppress(OSError):
            write_private(self.layout.live / "daemon.json", json.dumps(status).encode())


class _Work:
    """What the main thread holds while the store is open."""

    def __init__(self, daemon: Daemon, connection: sqlite3.Connection, folder: Path) -> None:
        self.daemon = daemon
        self.connection = connection
        self.folder = folder
        self.queue = daemon.open_queue()
        pool = Pool(daemon.store, daemon.reducers) if daemon.reducers else None
        self.writer = Writer(connection, daemon.layout, folder, daemon.raw, pool)
        self.monitors = Monitors(connection, daemon.tops)
        self.schedule = Schedule()
        self.schedule.touch(self.writer.dirty())  # what another did not live to write
        self.seq = last_change(connection)
        self.lags: dict[str, int] = {}
        self.unaligned: set[str] = set()
        """Conversations that changed since alignments were looked at."""
        self._states_at = self._looked_at = self._came_at = 0.0
        self._more = True
        self._made_at = self._all_made_at = time.monotonic()
        """When conversations were last made anew, and when last others than those that ended a turn."""
        self._made_seconds = 0.0

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The store is ours to write."""
        with write_lock(self.daemon.store, BUSY_SECONDS):
            if self.writer.begin():
                self.monitors.ask_again()
            yield

    def prepare(self) -> None:
        """What takes a while and is better done before the first event."""
        self.writer.update.relate()
        with self._turn():
            self.writer.note_positions()

    def step(self, is_rung: bool) -> bool:
        """Everything that is due now; whether there may be more."""
        for path in _emptied(self.daemon.transcripts):
            self.monitors.ring(path)
        for path in _emptied(self.daemon.noticed):
            self.monitors.notice(path)
        taken = self._take_events(is_rung or self._more)
        self._take_files(taken.ended)
        due = self._due(taken.events)
        if due:
            self._bring_up_to_date(due)
        if taken.events or due or time.monotonic() - self._states_at > STATUS_SECONDS:
            self._tell_states()
        return taken.events > 0 or bool(due)

    def _due(self, taken_events: int) -> dict[Key, Due]:
        """What is made anew now. A long backlog goes in first, or its conversations would be made anew
        again and again: meanwhile it is ends of turns, which take at most half of the time."""
        if taken_events < FLOOD_EVENTS:
            return self.schedule.take()
        now = time.monotonic()
        if now - self._made_at < self._made_seconds:
            return {}
        is_time = now - self._all_made_at >= FLOOD_SECONDS
        if is_time:
            self._all_made_at = now
        return self.schedule.take(only_urgent=not is_time)

    def ask_seconds(self) -> float:
        """How often the queue is asked where nobody rings."""
        if not self.queue.remote:
            return STATUS_SECONDS
        is_quiet = time.monotonic() - self._came_at > QUIET_SECONDS
        return QUIET_REMOTE_SECONDS if is_quiet else REMOTE_SECONDS

    def _take_events(self, is_rung: bool) -> Taken:
        if not is_rung and time.monotonic() - self._looked_at < self.ask_seconds():
            return Taken()
        self._looked_at = time.monotonic()
        self._more = bool(self.queue.backlog(position(self.connection, self.queue.name)).events)
        if not self._more:
            return Taken()
        self._came_at = time.monotonic()
        with self._turn():
            taken = self.writer.take_events(self.queue)
        clear(self.folder)
        if taken.touched:
            self.writer.reducers.awake()
        for key in taken.touched:
            self.schedule.touch([key], key in taken.ended, taken.waited_ns)
        self._more = taken.events > 0
        return taken

    def _take_files(self, urgent: Collection[Key]) -> None:
        found = self.monitors.poll()
        if found.gone or found.back:
            with self._turn(), transaction(self.connection):
                mark_gone(self.connection, found.gone, found.back)
            self.monitors.ask_again()
        if not found.changed:
            return
        # Of a database that is known only what is new is read.
        unread = (
            one.size_bytes - one.begin
            for one in found.changed
            if one.known is None or not one.state
        )
        if sum(unread) > BULK_BYTES:
            # Much at once, as on the first day: that is faster read by several, and linked once.
            with self._turn():
                Sync(self.connection, self.daemon.raw).run([], found)
                self.writer.update.forget()
                self.writer.note_positions()
            self.monitors.ask_again()
            self.seq = last_change(self.connection)  # thousands of lines tell nobody anything
            return
        started = time.process_time()
        with self._turn():
            taken = self.writer.take_files(found.changed)
            if any(one.state and one.known is None for one in found.changed):
                self.writer.note_positions()
        self.monitors.took(found.changed, time.process_time() - started)
        if taken.touched:
            self.writer.reducers.awake()
        oldest = min(changed.mtime_ns for changed in found.changed)
        for key in taken.touched:
            self.schedule.touch([key], key in urgent, oldest)

    def _bring_up_to_date(self, due: dict[Key, Due]) -> None:
        self.writer.reducers.ready()
        started = time.monotonic()
        with self._turn():
            written, faults = self.writer.bring_up_to_date(due)
        now_ns = time.time_ns()
        self._made_at = time.monotonic()
        self._made_seconds = self._made_at - started
        if self._made_seconds > LONG_SECONDS:
            give_back()  # cards and rows of long conversations; the reducers need it next
        self.unaligned.update(row_id(*key) for key in written)
        if self.queue.remote:
            for key in written:
                trajectory = get_trajectory(self.connection, row_id(*key))
                if trajectory is not None:
                    self.queue.put_recent(trajectory)
        self.schedule.done(due, self._made_seconds / len(due))
        for key, waited in due.items():
            if waited.arrived_ns:
                lag = now_ns - waited.arrived_ns
                self.daemon.lags.append(lag / 1e9)
                self.lags[row_id(*key)] = lag // 1_000_000
        self._tell_changes()
        for key, error in faults:
            # It stays dirty; after three tries only the next start, or a sync, tries again.
            tries = self.daemon.faults[key] = self.daemon.faults.get(key, 0) + 1
            text = f"{'/'.join(key)} cannot be made anew: {error}"
            self.daemon.tell(News(_now(), "trouble", text=text))
            if tries < FAULTS_BEFORE_DEATH:
                self.schedule.touch([key])

    def _tell_changes(self) -> None:
        states = {row_id(*doing.key): doing for doing in doings(self.connection)}
        while (news := changes_after(self.connection, self.seq)).changes:
            self.seq = news.seq
            last = {change.conversation: change for change in news.changes}
            for change in last.values():
                title, messages = self.connection.execute(
                    "SELECT title, messages FROM conversations WHERE id = ?", (change.conversation,)
                ).fetchone() or (None, None)
                doing = states.get(change.conversation)
                self.daemon.tell(
                    News(
                        change.at, change.kind, shown_id(change.conversation), title, messages,
                        doing.state if doing else None, doing.tool if doing else None,
                        self.lags.pop(change.conversation, None),
                    )
                )  # fmt: skip
                if doing is not None:
                    self.daemon._states[doing.key] = (doing.state, doing.tool)

    def _tell_states(self) -> None:
        """What an agent does may change without a word in its conversation. First of all, who runs."""
        is_first = not self._states_at
        self._states_at = time.monotonic()
        for doing in doings(self.connection):
            now = (doing.state, doing.tool)
            runs = is_first and doing.state in RUNNING
            if self.daemon._states.get(doing.key, None if runs else now) != now:
                self.daemon.tell(
                    News(_now(), "state", "/".join(doing.key), state=now[0], tool=now[1])
                )
            self.daemon._states[doing.key] = now

    def align(self) -> None:
        """Last of all, when nothing else is to be done: kept alignments of what changed. (The index
        of pieces is left to the search, which rarely asks for it.)"""
        if self.unaligned:
            with self._turn():
                align_again(self.connection, self.unaligned)
            self.unaligned.clear()


def _emptied(paths: deque[str]) -> set[str]:
    """What another thread has put there so far, each once."""
    return {paths.popleft() for _ in range(len(paths))}


def _now() -> str:
    return stamp(time.time_ns())
