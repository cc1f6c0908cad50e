"""Readers: batches of changed origins read by worker processes, ahead of the process that writes.

Each worker has every second batch, puts what comes of it into a file and says so; it is at most a few
batches ahead. The files are taken in the order of the batches, so the store is the same however
many workers there are.
"""

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

from unspool.errors import UnspoolError
from unspool.io.signals import STOPS, Later
from unspool.store.batches import Batch, Item
from unspool.store.survey import Changed, iter_batches

BATCH_BYTES = 6 * 1024 * 1024
WORTH_WORKERS_BYTES = 24 * 1024 * 1024
"""Less is read before a process has started."""
WORKERS = 2
"""One process writes what they read, and more would wait for it."""
AHEAD = 2
"""Batches that a worker has read and nobody has taken yet."""


def iter_read(changed: list[Changed], raw: bool, folder: Path) -> Iterator[Iterator[Item]]:
    """What there is to know of the origins, batch by batch."""
    batches = list(iter_batches(changed, BATCH_BYTES))
    size = sum(one.size_bytes for one in changed)
    if len(batches) < 2 or size < WORTH_WORKERS_BYTES or _processors() < 2:
        for batch in batches:
            yield Batch(raw).read(batch)
        return
    workers = [_Worker(batches[n::WORKERS], n, raw, folder) for n in range(WORKERS)]
    try:
        for number in range(len(batches)):
            worker = workers[number % WORKERS]
            path = worker.wait()
            with open(path, "rb") as file:
                yield _unpickled(file)
            path.unlink()
            worker.go_on()
    finally:
        for worker in workers:
            worker.close()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _unpickled(file: BinaryIO) -> Iterator[Item]:
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return


class _Worker:
    """A process that reads some of the batches."""

    def __init__(self, batches: list[list[Changed]], number: int, raw: bool, folder: Path) -> None:
        method = "fork" if sys.platform == "linux" else "spawn"
        context: Any = multiprocessing.get_context(method)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(batches, number, raw, folder, theirs, method), daemon=True
        )
        with Later():  # until the worker has answers of its own
            self.process.start()
        theirs.close()

    def wait(self) -> Path:
        """The file with its next batch."""
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError):
            text = "a worker process ended unexpectedly (out of memory?)"
            raise UnspoolError(text) from None
        if isinstance(answer, BaseException):
            raise answer
        return Path(answer)

    def go_on(self) -> None:
        with suppress(OSError):  # it has read all of its batches
            self.pipe.send(None)

    def close(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join()


def _serve(
    batches: list[list[Changed]],
    number: int,
    raw: bool,
    folder: Path,
    pipe: Connection,
    method: str,
) -> None:
    for stop in STOPS:
        signal.signal(stop, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if method == "fork":
        _close_inherited(pipe.fileno())
    tempfile.tempdir = str(folder)  # what a worker leaves when it is ended, the writer removes
    gc.disable()
    writer = os.getppid()
    try:
        for turn, batch in enumerate(batches):
            if turn >= AHEAD:
                pipe.recv()
            path = folder / f"batch-{number}-{turn}"
            with open(path, "wb") as file:
                for item in Batch(raw).read(batch):
                    pickle.dump(item, file, pickle.HIGHEST_PROTOCOL)
                    if os.getppid() != writer:
                        os._exit(1)
            pipe.send(str(path))
        pipe.recv()  # until the writer hangs up
    except EOFError:
        pass
    except (UnspoolError, OSError) as error:
        _tell(pipe, error)
    except Exception as error:
        _tell(pipe, UnspoolError(f"internal error in a worker: {type(error).__name__}: {error}"))
        if os.environ.get("UNSPOOL_DEBUG"):
            raise
    os._exit(0)


def _tell(pipe: Connection, error: Exception) -> None:
    with suppress(OSError):
        pipe.send(error)


def _close_inherited(own: int) -> None:
    """The store and its lock are the writer's: a lock that a worker held would outlive a kill."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - closed while it is read
        if int(name) > 2 and int(name) != own:
            with suppress(OSError):
                os.close(int(name))
