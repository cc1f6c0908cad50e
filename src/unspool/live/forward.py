"""Forward: an intake sends what it has to a queue on another machine.

The local queue is its journal: an event stays there until the store has acknowledged it. Where
Redis has lost everything (its generation is another one), all of the journal is sent again.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from unspool.errors import UnspoolError
from unspool.hooks.spool import Layout
from unspool.live.failpoints import reach
from unspool.live.intake import SWEEP_SECONDS, sweep, take_in
from unspool.live.mirror import Sender
from unspool.live.queue import READ_EVENTS, Arrival, Queue, SqliteQueue
from unspool.live.spool import LOOK_SECONDS, Spool
from unspool.trajectory import Trajectory


@runtime_checkable
class RemoteQueue(Queue, Protocol):
    """A queue that other machines fill and empty (`redis_queue.py`)."""

    def prepare(self) -> None: ...

    def generation(self) -> str:
        """Another one when the queue has lost everything."""

    def acknowledged(self) -> str:
        """The id up to which the store has everything: `milliseconds-count`."""

    def send(self, arrivals: Sequence[Arrival]) -> list[str]:
        """As `put`; the ids that they got."""

    def put_recent(self, trajectory: Trajectory) -> None: ...


_SENT = """
CREATE TABLE IF NOT EXISTS sent (
    seq INTEGER PRIMARY KEY,        -- events.seq
    generation TEXT NOT NULL,
    milliseconds INTEGER NOT NULL,  -- the id that it got
    count INTEGER NOT NULL
);
"""


class Forward:
    def __init__(self, journal: SqliteQueue, queue: RemoteQueue) -> None:
        self.journal = journal
        self.queue = queue
        self._db: sqlite3.Connection = journal.connection
        self._db.executescript(_SENT)

    def step(self) -> int:
        """Send what was not sent, forget what the store has; how many events were sent."""
        self.queue.prepare()
        generation = self.queue.generation()
        self._db.execute("DELETE FROM sent WHERE generation != ?", (generation,))
        self._forget(self.queue.acknowledged())
        total = 0
        while True:
            rows = self._db.execute(
                "SELECT seq FROM events WHERE seq NOT IN (SELECT seq FROM sent) ORDER BY seq LIMIT ?",
                (READ_EVENTS // 5,),
            ).fetchall()
            if not rows:
                return total
            wanted = {seq for (seq,) in rows}
            events = [
                event
                for event in self.journal.read(str(min(wanted) - 1), len(wanted) * 2)
                if event.sequence in wanted
            ]
            idents = self.queue.send([event.arrival for event in events])
            reach("forward-sent")
            self._db.executemany(
                "INSERT OR REPLACE INTO sent VALUES (?, ?, ?, ?)",
                [
                    (event.sequence, generation, *map(int, ident.split("-")))
                    for event, ident in zip(events, idents, strict=True)
                ],
            )
            total += len(events)

    def _forget(self, acknowledged: str) -> None:
        if not acknowledged:
            return
        milliseconds, count = map(int, acknowledged.split("-"))
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(
            "DELETE FROM events WHERE seq IN"
            " (SELECT seq FROM sent WHERE (milliseconds, count) <= (?, ?))",
            (milliseconds, count),
        )
        self._db.execute(
            "DELETE FROM sent WHERE (milliseconds, count) <= (?, ?)", (milliseconds, count)
        )
        self._db.execute("COMMIT")

    def waiting(self) -> int:
        """Events that the store has not acknowledged."""
        return int(self._db.execute("SELECT count(*) FROM events").fetchone()[0])


def run_intake(
    layout: Layout,
    journal_path: Path,
    tops: list[str],
    open_queue: Callable[[], RemoteQueue],
    tell: Callable[[str], None],
    stop: threading.Event,
) -> None:
    """An intake without a store: the spool and the bytes of files, sent until `stop` is set."""
    layout.make()
    journal = SqliteQueue(journal_path)
    sender = Sender(journal, tops, layout.live)
    forward: Forward | None = None
    trouble = ""
    looked = swept = float("-inf")
    spool = Spool(layout, stop)
    try:
        while not stop.is_set():
            came = False
            try:
                if time.monotonic() - swept > SWEEP_SECONDS:
                    swept = time.monotonic()
                    sweep(layout)
                for _ in take_in(layout, journal):
                    came = True
                if time.monotonic() - looked >= LOOK_SECONDS:
                    looked = time.monotonic()
                    sender.step()
                forward = forward or Forward(journal, open_queue())
                forward.step()
                if trouble:
                    tell("it works again")
                trouble = ""
            except (UnspoolError, OSError) as error:
                # What is in the spool stays there, and what is in the journal.
                if str(error) != trouble:
                    trouble = str(error)
                    tell(trouble)
                stop.wait(LOOK_SECONDS)
            else:
                spool.wait(came)
    finally:
        spool.close()
        if forward is not None:
            with suppress(UnspoolError):
                forward.step()
            forward.queue.close()
        journal.close()
