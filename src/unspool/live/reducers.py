"""Reducers: conversations made anew beside the daemon, in a pool of processes.

A conversation is always the same process's (its key tells whose), so that its facts are read once and
stay there while it goes on. What comes back are the rows that the store does not have yet; the one
process that writes puts them in. When nothing happens for a while the processes end, and with them goes
the memory that large conversations took.
"""

import gc
import socket
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from unspool.facts import Key
from unspool.io.memory import give_back
from unspool.live.failpoints import reach
from unspool.live.states import ending_of
from unspool.store.batches import Conversation
from unspool.store.opening import connect_for_reading
from unspool.store.update import Reducer, Wanted

HOT_BYTES = 64 * 1024 * 1024
"""Facts of conversations that are going on, kept between two updates, of all processes together."""
REDUCERS = 2
IDLE_SECONDS = 15.0
"""So long after the last conversation the processes end."""
MOST_DEATHS = 3
"""A conversation at which a process dies as often is given up until something new is known of it."""

Answer = tuple[Key, Conversation | str]


class Here(Reducer):
    """No pool: this process reduces."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, HOT_BYTES, ending_of)

    def awake(self) -> None: ...

    def ready(self) -> None: ...

    def rest(self) -> bool:
        """Whether something was let go of."""
        return False

    def close(self) -> None: ...


class Pool:
    """Processes that reduce, started when there is something to do."""

    def __init__(self, store: Path, size: int) -> None:
        self.store = store
        self.workers: list[_Worker | None] = [None] * size
        self._forgotten: list[set[Key] | None] = [set() for _ in range(size)]
        """What the processes must read anew, told with the next request; None: everything."""
        self._used = time.monotonic()

    def _share(self, key: Key) -> int:
        return zlib.crc32("\n".join(key).encode("utf-8", "replace")) % len(self.workers)

    def forget(self, keys: Collection[Key] | None) -> None:
        for number, forgotten in enumerate(self._forgotten):
            if keys is None:
                self._forgotten[number] = None
            elif forgotten is not None:
                forgotten.update(key for key in keys if self._share(key) == number)

    def reduce(self, wanted: Wanted) -> Iterator[Answer]:
        self._used = time.monotonic()
        waiting: dict[int, list[Key]] = {}
        for key in wanted:
            waiting.setdefault(self._share(key), []).append(key)
        deaths: dict[Key, int] = {}
        try:
            for number, keys in waiting.items():
                self._ask(number, keys, wanted)
            while waiting:
                pipes = {worker.pipe: n for n in waiting if (worker := self.workers[n]) is not None}
                for pipe in wait(list(pipes)):
                    number = pipes[pipe]  # type: ignore[index]  # they are all connections
                    keys = waiting[number]
                    answer: Answer | Exception | None = None
                    try:
                        worker = self.workers[number]
                        answer = worker.receive() if worker is not None else None
                    except (EOFError, OSError):
                        self._lose(number)
                    if isinstance(answer, Exception):
                        raise answer
                    if answer is not None:
                        keys.remove(answer[0])
                        yield answer
                    else:  # it was killed, at the first of these
                        deaths[keys[0]] = deaths.get(keys[0], 0) + 1
                        if deaths[keys[0]] >= MOST_DEATHS:
                            yield keys.pop(0), "the process that reduces it dies (out of memory?)"
                        if keys:
                            self._ask(number, keys, wanted)
                    if not keys:
                        del waiting[number]
        finally:
            self._used = time.monotonic()
            for number in waiting:  # whoever asked has gone: nobody wants these answers
                self._lose(number)

    def _ask(self, number: int, keys: Iterable[Key], wanted: Wanted) -> None:
        request = [(key, dict(wanted[key])) for key in keys]
        while True:
            worker = self.workers[number]
            if worker is None:
                worker = self._start(number)
            try:
                worker.pipe.send((self._forgotten[number], request))
            except OSError:
                self._lose(number)  # it was killed while nobody asked
            else:
                self._forgotten[number] = set()
                return

    def _start(self, number: int) -> "_Worker":
        worker = self.workers[number] = _Worker(self.store, HOT_BYTES // len(self.workers))
        return worker

    def awake(self) -> None:
        """Something will be asked soon: the processes start meanwhile."""
        for number, worker in enumerate(self.workers):
            if worker is None:
                self._start(number)

    def ready(self) -> None:
        """Waits until those that start can be asked: that is no cost of what is asked first."""
        for number, worker in enumerate(self.workers):
            try:
                if worker is not None:
                    worker.await_start()
            except (EOFError, OSError):
                self._lose(number)

    def _lose(self, number: int) -> None:
        worker = self.workers[number]
        if worker is not None:
            worker.close()
        self.workers[number] = None

    def rest(self) -> bool:
        """Ends the processes if nothing was asked of them for a while; whether there were any."""
        is_over = any(self.workers) and time.monotonic() - self._used > IDLE_SECONDS
        if is_over:
            self.close()
        return is_over

    def close(self) -> None:
        for number in range(len(self.workers)):
            self._lose(number)


class _Worker:
    """A process started afresh: one that was forked would share what SQLite knows of open files."""

    def __init__(self, store: Path, hot_bytes: int) -> None:
        ours, theirs = socket.socketpair()
        words = [sys.executable, "-m", __name__, str(theirs.fileno()), str(store), str(hot_bytes)]
        with theirs:
            self.process = subprocess.Popen(
                words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, process_group=0
            )
        self.pipe = Connection(ours.detach())
        self._has_started = False

    def await_start(self) -> None:
        if not self._has_started:
            self.pipe.recv()
            self._has_started = True

    def receive(self) -> Any:
        self.await_start()
        return self.pipe.recv()

    def close(self) -> None:
        self.pipe.close()
        self.process.kill()  # it only reads
        self.process.wait()


def _serve(pipe: Connection, store: Path, hot_bytes: int) -> None:
    gc.disable()  # facts hold no cycles
    pipe.send(None)  # it is there
    reducer: Reducer | None = None
    while True:
        forgotten, request = pipe.recv()
        try:
            if reducer is None:
                connection = connect_for_reading(store)
                connection.execute("PRAGMA cache_size = -2000")  # every block is read once
                reducer = Reducer(connection, hot_bytes, ending_of)
            reducer.forget(forgotten)
            for key, patches in request:
                reach("reduce-asked")
                made = reducer.make(key, patches)
                reach("reduce-made")
                pipe.send((key, made))
                del made  # or it would be in memory until the next one is made
                if reducer.was_large:
                    gc.collect()  # empties Python's lists of free objects, which hold whole arenas
                    give_back()
        except Exception as error:
            pipe.send(error)


if __name__ == "__main__":
    with suppress(EOFError, OSError, KeyboardInterrupt):  # the daemon is no more
        _serve(Connection(int(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3]))
