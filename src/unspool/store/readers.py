"""Readers: batches of changed origins, read by worker processes and by the one that writes.

Whoever is free takes the next batch. A worker puts what comes of it into a file and says so; it is at
most a few batches ahead. The process that writes reads a batch itself whenever the next one to write is
not there yet. Batches are written in their order, so the store is the same however many workers there
are.
"""

import os
import pickle
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, BinaryIO

from unspool.io.processes import WorkerProcess, attempt, context, end_with_driver
from unspool.store.batches import Batch, Item
from unspool.store.survey import Changed, iter_batches

BATCH_BYTES = 6 * 1024 * 1024
WORTH_WORKERS_BYTES = 24 * 1024 * 1024
"""Less is read before a process has started."""
WORKERS = 2
"""One process writes what they read, and more would wait for it."""
AHEAD = 2
"""Batches that a worker has read and nobody has taken yet."""


def is_much(changed: list[Changed]) -> bool:
    return sum(one.size_bytes for one in changed) >= WORTH_WORKERS_BYTES


def iter_read(
    changed: list[Changed], raw: bool, searchable: bool, folder: Path
) -> Iterator[Iterator[Item]]:
    """What there is to know of the origins, batch by batch."""
    batches = list(iter_batches(changed, BATCH_BYTES))

    def read(number: int) -> Iterator[Item]:
        return Batch(raw, searchable=searchable).read(batches[number])

    count = min(WORKERS, _processors() - 1)
    if len(batches) < 2 or not is_much(changed) or not count:
        yield from map(read, range(len(batches)))
        return
    taken = context().Value("q", 0)
    arguments = (taken, batches, raw, searchable, folder)
    workers = [WorkerProcess(folder, _read_some, *arguments) for _ in range(count)]
    pipes = {worker.pipe: worker for worker in workers}
    ready: dict[int, tuple[Path, WorkerProcess]] = {}
    own: dict[int, list[Item]] = {}
    try:
        for number in range(len(batches)):
            while number not in ready and number not in own:
                mine = _take(taken, len(batches)) if not own and not _heard(pipes) else None
                if mine is not None:
                    own[mine] = list(read(mine))
                else:
                    for pipe in wait(list(pipes)):
                        read_number, path = pipes[pipe].receive()
                        ready[read_number] = path, pipes[pipe]
            if number in own:
                yield iter(own.pop(number))
                continue
            path, worker = ready.pop(number)
            with open(path, "rb") as file:
                yield _unpickled(file)
            path.unlink()
            with suppress(OSError):  # it has read all of its batches
                worker.pipe.send(None)
    finally:
        for worker in workers:
            worker.close()


def _heard(pipes: dict[Connection, WorkerProcess]) -> bool:
    return bool(wait(list(pipes), 0))


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _take(taken: Any, end: int) -> int | None:
    """The number of the next batch that nobody reads."""
    with taken.get_lock():
        number = int(taken.value)
        taken.value += 1
    return number if number < end else None


def _unpickled(file: BinaryIO) -> Iterator[Item]:
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return


def _read_some(
    pipe: Connection,
    taken: Any,
    batches: list[list[Changed]],
    raw: bool,
    searchable: bool,
    folder: Path,
) -> None:
    def read(number: int) -> tuple[int, Path]:
        path = folder / f"batch-{number}"
        with open(path, "wb") as file:
            for item in Batch(raw, searchable=searchable).read(batches[number]):
                pickle.dump(item, file, pickle.HIGHEST_PROTOCOL)
                end_with_driver()
        return number, path

    waiting = 0
    while (number := _take(taken, len(batches))) is not None:
        pipe.send(attempt(read, number))
        waiting += 1
        if waiting >= AHEAD:
            pipe.recv()
            waiting -= 1
    while True:  # until the writer hangs up
        pipe.recv()
