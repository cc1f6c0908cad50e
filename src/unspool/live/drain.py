"""Drain: what has arrived, taken into the store by a command, where no daemon does it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from unspool.hooks.spool import Layout
from unspool.io.temporary import scratch
from unspool.live.daemon import is_running
from unspool.live.intake import take_in
from unspool.live.queue import SqliteQueue, queue_path
from unspool.live.writer import Writer, clear


def has_arrived(store: Path) -> bool:
    """Whether anything waits in the spool or in the queue, and nobody watches."""
    layout = Layout.beside(store)
    try:
        if not store.is_file():
            return False
        waits = layout.new.is_dir() and any(layout.new.iterdir())
        return (waits or queue_path(layout).exists()) and not is_running(layout)
    except OSError:
        return False  # whoever opens the store says what is wrong there


def drain(connection: sqlite3.Connection, store: Path, raw: bool = True) -> int:
    """All events into the store, for which the caller holds the lock; how many there were.

    The conversations that they are about are dirty then: whoever syncs writes them.
    """
    if not has_arrived(store):
        return 0
    layout = Layout.beside(store)
    total = 0
    with closing(SqliteQueue(queue_path(layout))) as queue, scratch() as folder:
        for _ in take_in(layout, queue):
            pass
        writer = Writer(connection, layout, folder, raw)
        while events := writer.take_events(queue).events:
            total += events
            clear(folder)
    return total
