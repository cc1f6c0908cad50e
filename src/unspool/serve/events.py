"""Events: the store's changes for readers that listen, over one poll for all of them."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from unspool.errors import UnspoolError
from unspool.hooks.spool import Layout
from unspool.live.daemon import is_running
from unspool.store.changes import POLL_SECONDS, News, changes_after, last_change
from unspool.store.ids import shown_id
from unspool.store.opening import connect_for_reading, file_of

HEARTBEAT_SECONDS = 15.0
MOST_WAITING = 256
"""A reader with more messages before it than this is too slow: it is told so and sent away."""
MOST_READERS = 200
_LOOKS_BETWEEN = 10
"""Looks at the store between two looks whether a daemon runs."""


class Changed(msgspec.Struct):
    """The data of one event."""

    seq: int
    id: str
    kind: str
    at: str


class Bell:
    """Looks at the store ten times a second as long as somebody listens."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers: set[asyncio.Queue[bytes | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._file: tuple[int, int] | None = None
        self._layout = Layout.beside(path)
        self._live: bool | None = None
        self.closed = False
        """The server ends."""

    async def listen(self, after: int | None) -> AsyncIterator[bytes]:
        """Server-sent events behind `after`, or from now on."""
        if len(self._readers) >= MOST_READERS:
            yield _event("full", {"error": "too many readers"})
            return
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        try:
            with contextlib.closing(connect_for_reading(self._path)) as connection:
                # Listening first, then what was missed: nothing falls between; what comes twice has
                # the same number.
                self._readers.add(queue)
                if self._task is None or self._task.done():
                    self._task = asyncio.create_task(self._watch())
                seq = last_change(connection)
                greeting = {"seq": seq, "live": is_running(self._layout)}
                hello = _event("hello", greeting, seq if after is None else None)
                yield b"retry: 1000\n\n" + hello
                while after is not None and after < seq:
                    news = changes_after(connection, after)
                    if news.reset:
                        yield _event("reset", {"seq": news.seq}, news.seq)
                        break
                    for missed in _told(news):
                        yield missed
                    after = news.seq
                if after is not None and after > seq:
                    yield _event("reset", {"seq": seq}, seq)
            while True:
                message: bytes | None = b": still here\n\n"
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        message = await queue.get()
                if message is None:
                    yield _event("bye", {"error": "too slow, or the server ends: connect again"})
                    return
                yield message
        finally:
            self._readers.discard(queue)

    def close(self) -> None:
        """Everybody is sent away: the server ends."""
        self.closed = True
        for queue in list(self._readers):
            self._dismiss(queue)

    def _dismiss(self, queue: asyncio.Queue[bytes | None]) -> None:
        self._readers.discard(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)

    async def _watch(self) -> None:
        while self._readers:
            with contextlib.suppress(UnspoolError, sqlite3.Error):
                await self._watch_one()
            await asyncio.sleep(POLL_SECONDS)

    async def _watch_one(self) -> None:
        """As long as the same store stands under the path."""
        file = file_of(self._path)
        with contextlib.closing(connect_for_reading(self._path)) as connection:
            connection.execute("PRAGMA cache_size = -1024")
            seq = last_change(connection)
            if self._file not in (None, file):
                self._tell(_event("reset", {"seq": seq}, seq))
            self._file = file
            version = -1
            looks = 0
            while self._readers and file_of(self._path) == file:
                try:
                    (now,) = connection.execute("PRAGMA data_version").fetchone()
                    while now != version:
                        news = changes_after(connection, seq)
                        if news.reset:
                            self._tell(_event("reset", {"seq": news.seq}, news.seq))
                        for text in _told(news):
                            self._tell(text)
                        seq = news.seq
                        if not news.changes:
                            version = now
                except sqlite3.OperationalError:
                    pass  # locked for a moment: asked again
                looks = (looks + 1) % _LOOKS_BETWEEN
                if not looks and (live := is_running(self._layout)) is not self._live:
                    self._live = live
                    self._tell(_event("daemon", {"live": live}))
                await asyncio.sleep(POLL_SECONDS)

    def _tell(self, text: bytes) -> None:
        for queue in list(self._readers):
            if queue.full():
                self._dismiss(queue)
            else:
                queue.put_nowait(text)


def _told(news: News) -> list[bytes]:
    return [
        _event("change", Changed(change.seq, shown_id(change.conversation), change.kind, change.at),
               change.seq)
        for change in news.changes
    ]  # fmt: skip


def _event(kind: str, data: object, seq: int | None = None) -> bytes:
    number = f"id: {seq}\n" if seq is not None else ""
    return f"event: {kind}\n{number}data: {msgspec.json.encode(data).decode()}\n\n".encode()
