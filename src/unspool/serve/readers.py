"""Threads that read the store. Each has a connection of its own and can only read."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from unspool.errors import TookTooLong
from unspool.store.opening import connect_for_reading, explain, file_of

THREADS = 4
CACHE_KB = 8192
SECONDS = 10.0
"""A question that takes longer is given up."""
_STEPS = 20_000
"""Steps of SQLite's machine between two looks at the clock."""

T = TypeVar("T")


class Readers:
    """Runs functions that ask the store something, each within its time."""

    def __init__(self, path: Path, is_ending: Callable[[], bool] = bool) -> None:
        self.path = path
        self._is_ending = is_ending
        self._free = asyncio.Semaphore(THREADS)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="reader")
        self._local = threading.local()

    async def ask(
        self,
        question: Callable[[sqlite3.Connection], T],
        seconds: float = SECONDS,
        is_gone: Callable[[], Awaitable[bool]] | None = None,
    ) -> T:
        """`is_gone`: whether nobody waits for the answer any more, asked when its turn comes. Who drags
        a list past a hundred pages wants the last one."""
        loop = asyncio.get_running_loop()
        async with self._free:
            if self._is_ending() or (is_gone is not None and await is_gone()):
                raise TookTooLong("nobody waits for this any more")
            return await loop.run_in_executor(self._pool, self._answer, question, seconds)

    def _answer(self, question: Callable[[sqlite3.Connection], T], seconds: float) -> T:
        connection = self._connection()
        end = time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() > end or self._is_ending(), _STEPS)
        try:
            # In one transaction: several statements of one question see the same store, whoever writes.
            connection.execute("BEGIN")
            return question(connection)
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                raise TookTooLong(f"this takes longer than {seconds:g} seconds") from None
            raise explain(error, self.path) from None
        finally:
            connection.set_progress_handler(None, 0)
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        file = file_of(self.path)
        if connection is not None and self._local.file != file:
            connection.close()  # another store stands in its place
            connection = None
        if connection is None:
            connection = connect_for_reading(self.path)
            connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")
            connection.execute("PRAGMA query_only = ON")
            self._local.connection, self._local.file = connection, file
        return connection

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
