"""Readers: batches of changed origins, read by worker processes beside the one that writes.

The workers take turns. Each puts what comes of a batch into a file and says so, and is at most a few
batches ahead. Batches are written in their order, so the store is the same however many workers there
are.
"""

import os
import pickle
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO

from unspool.io.processes import WorkerProcess, attempt, end_with_driver
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
    is_much = sum(one.size_bytes for one in changed) >= WORTH_WORKERS_BYTES
    if len(batches) < 2 or not is_much or (os.cpu_count() or 1) < 2:
        for batch in batches:
            yield _read(batch, raw)
        return
    workers = [
        WorkerProcess(folder, _read_some, batches[first::WORKERS], raw, folder / str(first))
        for first in range(WORKERS)
    ]
    try:
        for number in range(len(batches)):
            worker = workers[number % WORKERS]
            path = worker.receive()
            with open(path, "rb") as file:
                yield _unpickled(file)
            path.unlink()
            with suppress(OSError):  # it has read all of its batches
                worker.pipe.send(None)
    finally:
        for worker in workers:
            worker.close()


def _read(batch: list[Changed], raw: bool) -> Iterator[Item]:
    reading = Batch(raw)
    yield from reading.read(batch)
    yield from reading.reduce()


def _unpickled(file: BinaryIO) -> Iterator[Item]:
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return


def _read_some(pipe: Connection, batches: list[list[Changed]], raw: bool, folder: Path) -> None:
    folder.mkdir()

    def read(number: int, batch: list[Changed]) -> Path:
        path = folder / str(number)
        with open(path, "wb") as file:
            for item in _read(batch, raw):
                pickle.dump(item, file, pickle.HIGHEST_PROTOCOL)
                end_with_driver()
        return path

    for number, batch in enumerate(batches):
        if number >= AHEAD:
            pipe.recv()
        pipe.send(attempt(read, number, batch))
    while True:  # until the writer hangs up
        pipe.recv()
