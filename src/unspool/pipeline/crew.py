"""Crew: the workers of a run, in this process or in several.

Every step is asked of all workers at once; each answers when it is done. Workers ignore Ctrl-C: the
driver hears it and ends them.
"""

import gc
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from unspool.errors import UnspoolError, unwritable
from unspool.facts import Key
from unspool.io.origins import Origin
from unspool.io.signals import STOPS, Later
from unspool.pipeline.families import FamilyWorker
from unspool.pipeline.job import Job
from unspool.pipeline.worker import Outcome, Report, Worker
from unspool.pipeline.writing import Pieces, Task

Progress = Callable[[int], None]


class Crew(Protocol):
    """What the driver asks of its workers."""

    def read(self, spans: list[Origin]) -> list[Report]: ...
    def hand_over(self, owners: list[dict[Key, int]]) -> None: ...
    def reduce(self) -> list[Outcome]: ...
    def write(self, tasks: list[Task]) -> list[Pieces]: ...
    def close(self) -> None: ...


class Alone:
    """One worker, in this process."""

    def __init__(
        self, folder: Path, job: Job, names: dict[str, str], progress: Progress | None
    ) -> None:
        self.worker = FamilyWorker(0, folder, job, names, progress)
        self._gc_was_on = gc.isenabled()
        gc.disable()  # facts hold no cycles; scanning them again and again costs a fifth of the time

    def read(self, spans: list[Origin]) -> list[Report]:
        return [self.worker.read(spans)]

    def hand_over(self, owners: list[dict[Key, int]]) -> None:
        self.worker.hand_over(owners[0])

    def reduce(self) -> list[Outcome]:
        return [self.worker.reduce()]

    def write(self, tasks: list[Task]) -> list[Pieces]:
        return [self.worker.write(tasks)]

    def close(self) -> None:
        if self._gc_was_on:
            gc.enable()


class Team:
    """Several workers, each a process."""

    def __init__(
        self, folder: Path, job: Job, names: dict[str, str], progress: Progress | None
    ) -> None:
        method = "fork" if sys.platform == "linux" else "spawn"
        context: Any = multiprocessing.get_context(method)
        self.progress = progress
        self.next_span = context.Value("q", 0)
        self.next_task = context.Value("q", 0)
        self.bytes_read = context.Array("q", job.workers)
        self.pipes: list[Connection] = []
        self.processes: list[Any] = []
        for number in range(job.workers):
            ours, theirs = context.Pipe()
            shared = (self.next_span, self.next_task, self.bytes_read)
            # A forked worker has our ends of the pipes too; open there, it would never see us go.
            inherited = [*self.pipes, ours] if method == "fork" else []
            process = context.Process(
                target=_serve,
                args=(number, folder, job, names, theirs, shared, inherited),
                daemon=True,
            )
            with Later():  # until the worker has answers of its own
                process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def read(self, spans: list[Origin]) -> list[Report]:
        return self._ask("read", [spans] * len(self.pipes), watch=True)

    def hand_over(self, owners: list[dict[Key, int]]) -> None:
        self._ask("hand_over", owners)

    def reduce(self) -> list[Outcome]:
        return self._ask("reduce", [None] * len(self.pipes))

    def write(self, tasks: list[Task]) -> list[Pieces]:
        return self._ask("write", [tasks] * len(self.pipes))

    def _ask(self, what: str, arguments: list[Any], watch: bool = False) -> list[Any]:
        for pipe, argument in zip(self.pipes, arguments, strict=True):
            pipe.send((what, argument))
        answers: list[Any] = []
        told = 0
        for number, pipe in enumerate(self.pipes):
            while not pipe.poll(0.1):
                if not self.processes[number].is_alive() and not pipe.poll(0):
                    raise UnspoolError("a worker process ended unexpectedly (out of memory?)")
                if watch and self.progress is not None:
                    done = sum(self.bytes_read[:])
                    self.progress(done - told)
                    told = done
            try:
                answer = pipe.recv()
            except EOFError:
                raise UnspoolError("a worker process ended unexpectedly (out of memory?)") from None
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
        if watch and self.progress is not None:
            self.progress(sum(self.bytes_read[:]) - told)
        return answers

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join()


def _serve(
    number: int,
    folder: Path,
    job: Job,
    names: dict[str, str],
    pipe: Connection,
    shared: tuple[Any, Any, Any],
    inherited: list[Connection],
) -> None:
    """A worker process: answers until the driver hangs up, or is no more."""
    for stop in STOPS:
        signal.signal(stop, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for end in inherited:
        end.close()
    tempfile.tempdir = str(folder)  # what a worker leaves when it is ended, the driver removes
    gc.disable()
    next_span, next_task, bytes_read = shared
    driver = os.getppid()

    def progress(count: int) -> None:
        if os.getppid() != driver:
            os._exit(1)
        bytes_read[number] += count

    worker = Worker(number, folder, job, names, progress)
    while True:
        try:
            what, argument = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            if what == "read":
                answer: Any = worker.read(_shared(argument, next_span))
            elif what == "hand_over":
                worker.hand_over(argument)
                answer = None
            elif what == "reduce":
                answer = worker.reduce()
            else:
                answer = worker.write(_shared(argument, next_task))
        except UnspoolError as error:
            answer = error
        except OSError as error:
            answer = unwritable(error)
        except Exception as error:
            answer = UnspoolError(f"internal error in a worker: {type(error).__name__}: {error}")
            if os.environ.get("UNSPOOL_DEBUG"):
                raise
        try:
            pipe.send(answer)
        except OSError:
            os._exit(1)


def _shared(items: list[Any], counter: Any) -> Iterator[Any]:
    """The items that no other worker took: each takes the next when it has time."""
    while True:
        with counter.get_lock():
            number = counter.value
            counter.value += 1
        if number >= len(items):
            return
        yield items[number]
