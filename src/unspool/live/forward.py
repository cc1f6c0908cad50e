"""Forward: the intake, and how it sends what it has to a queue on another machine.

The local queue is its journal: an event stays there until the store has acknowledged it. Where
Redis has lost everything (its generation is another one), all of the journal is sent again.
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from unspool.errors import UnspoolError
from unspool.hooks.spool import Layout
from unspool.live.failpoints import reach
from unspool.live.intake import SWEEP_SECONDS, sweep, take_in
from unspool.live.mirror import Sender
from unspool.live.queue import READ_EVENTS, Arrival, RemoteQueue, SqliteQueue, queue_path

SPOOL_SECONDS = 0.01
"""The spool is listed so often, and what comes within this time goes into the queue together;"""
QUIET_SPOOL_SECONDS = 0.2
"""so often where nothing came for a while: a tenth of a percent of a core."""
QUIET_SECONDS = 10.0
LOOK_SECONDS = 1.0
"""An intake that sends looks at its files so often, and asks the queue what the store has."""


def send_on(journal: SqliteQueue, queue: RemoteQueue) -> int:
    """Send what was not sent, forget what the store has; how many events were sent."""
    queue.prepare()
    generation = queue.generation()
    if acknowledged := queue.acknowledged():
        journal.forget_sent(generation, acknowledged)
    total = 0
    while events := journal.unsent(generation, READ_EVENTS // 5):
        idents = queue.send([event.arrival for event in events])
        reach("forward-sent")
        journal.note_sent(generation, events, idents)
        total += len(events)
    return total


def run_intake(
    layout: Layout,
    stop: threading.Event,
    tell: Callable[[str], None],
    open_queue: Callable[[], RemoteQueue] | None = None,
    tops: Iterable[str] = (),
    came: Callable[[list[Arrival]], None] = lambda batch: None,
    once: bool = False,
) -> None:
    """The spool into the queue beside the store, until `stop` is set or, with `once`, as it is now.

    `open_queue`: where that is only a journal of what is sent on, with the bytes of the files below
    `tops`. `came` gets what arrives, `tell` what is wrong: nothing (an empty text) most of the time.
    """
    layout.make()
    journal: SqliteQueue | None = None
    sender: Sender | None = None
    remote: RemoteQueue | None = None
    looked = swept = moved = float("-inf")
    while not stop.is_set():
        try:
            if journal is None:
                journal = SqliteQueue(queue_path(layout))
                sender = Sender(journal, tops, layout.live) if tops else None
            if time.monotonic() - swept > SWEEP_SECONDS:
                swept = time.monotonic()
                sweep(layout)
            for batch in take_in(layout, journal):
                moved = time.monotonic()
                came(batch)
                if stop.is_set():
                    break
            if open_queue is not None and (
                moved > looked or time.monotonic() - looked >= LOOK_SECONDS
            ):
                looked = time.monotonic()
                if sender is not None:
                    sender.step()
                remote = remote or open_queue()
                send_on(journal, remote)
            tell("")
        except (UnspoolError, OSError) as error:
            # What is in the spool stays there, and what is in the journal.
            if once:
                raise
            tell(str(error))
            stop.wait(LOOK_SECONDS)
        if once:
            break
        is_quiet = time.monotonic() - moved > QUIET_SECONDS
        stop.wait(QUIET_SPOOL_SECONDS if is_quiet else SPOOL_SECONDS)
    if remote is not None and journal is not None:
        with suppress(UnspoolError):
            send_on(journal, remote)
        remote.close()
    if journal is not None:
        journal.close()
