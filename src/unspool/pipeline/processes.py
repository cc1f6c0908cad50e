"""Processes: the workers of a run, in this process or in several.

Every step is asked of all workers at once; each answers when it is done. Workers ignore Ctrl-C: the
driver hears it and ends them.
"""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from unspool.errors import UnspoolError, unwritable
from unspool.io.signals import STOPS, Later
from unspool.pipeline.discover import Plan
from unspool.pipeline.job import Job, Progress
from unspool.pipeline.worker import Worker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


class Crew(Protocol):
    """What the driver asks of its workers; the steps are methods of `Worker`."""

    def ask(self, step: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """A step of every worker, each with arguments of its own; what they answer."""

    def share(self, step: str, items: list[Any]) -> list[Any]:
        """A step of every worker; of the items, each takes the next when it has time."""

    def close(self) -> None: ...


class Alone:
    """One worker, in this process."""

    def __init__(
        self, folder: Path, job: Job, plan: Plan, names: dict[str, str], progress: Progress | None
    ) -> None:
        self.worker = Worker(0, folder, job, plan, names, progress)
        self._gc_was_on = gc.isenabled()
        gc.disable()  # facts hold no cycles; scanning them again and again costs a fifth of the time

    def ask(self, step: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [getattr(self.worker, step)(*arguments[0])]

    def share(self, step: str, items: list[Any]) -> list[Any]:
        return [getattr(self.worker, step)(items)]

    def close(self) -> None:
        if self._gc_was_on:
            gc.enable()


class Team:
    """Several workers, each a process."""

    def __init__(
        self, folder: Path, job: Job, plan: Plan, names: dict[str, str], progress: Progress | None
    ) -> None:
        import multiprocessing  # it takes a while, and one worker needs none of it

        method = "fork" if sys.platform == "linux" else "spawn"
        context: Any = multiprocessing.get_context(method)
        self.progress = progress
        self.taken = context.Value("q", 0)
        self.bytes_read = context.Array("q", job.workers)
        self.bytes_told = 0
        self.pipes: list[Connection] = []
        self.processes: list[Any] = []
        for number in range(job.workers):
            ours, theirs = context.Pipe()
            # A forked worker has our ends of the pipes too; open there, it would never see us go.
            inherited = [*self.pipes, ours] if method == "fork" else []
            process = context.Process(
                target=_serve,
                args=(
                    (number, folder, job, plan, names),
                    theirs,
                    self.taken,
                    self.bytes_read,
                    inherited,
                ),
                daemon=True,
            )
            with Later():  # until the worker has answers of its own
                process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def ask(self, step: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        return self._ask([(step, given, False) for given in arguments])

    def share(self, step: str, items: list[Any]) -> list[Any]:
        self.taken.value = 0
        return self._ask([(step, items, True)] * len(self.pipes))

    def _ask(self, requests: list[tuple[str, Any, bool]]) -> list[Any]:
        for pipe, request in zip(self.pipes, requests, strict=True):
            pipe.send(request)
        answers: list[Any] = []
        for number, pipe in enumerate(self.pipes):
            while not pipe.poll(0.1):
                if not self.processes[number].is_alive() and not pipe.poll(0):
                    raise UnspoolError("a worker process ended unexpectedly (out of memory?)")
                self._tell_progress()
            try:
                answer = pipe.recv()
            except EOFError:
                raise UnspoolError("a worker process ended unexpectedly (out of memory?)") from None
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
        self._tell_progress()
        return answers

    def _tell_progress(self) -> None:
        done = sum(self.bytes_read[:])
        if self.progress is not None and done > self.bytes_told:
            self.progress(done - self.bytes_told)
            self.bytes_told = done

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join()


def _serve(
    share: tuple[int, Path, Job, Plan, dict[str, str]],
    pipe: "Connection",
    taken: Any,
    bytes_read: Any,
    inherited: list["Connection"],
) -> None:
    """A worker process: answers until the driver hangs up, or is no more."""
    for stop in STOPS:
        signal.signal(stop, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for end in inherited:
        end.close()
    number, folder = share[:2]
    tempfile.tempdir = str(folder)  # what a worker leaves when it is ended, the driver removes
    gc.disable()
    driver = os.getppid()

    def progress(count: int) -> None:
        if os.getppid() != driver:
            os._exit(1)
        bytes_read[number] += count

    worker = Worker(*share, progress)
    while True:
        try:
            step, given, is_shared = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            do = getattr(worker, step)
            answer: Any = do(_untaken(given, taken)) if is_shared else do(*given)
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


def _untaken(items: list[Any], taken: Any) -> Iterator[Any]:
    """The items that no other worker took: each takes the next when it has time."""
    while True:
        with taken.get_lock():
            number = taken.value
            taken.value += 1
        if number >= len(items):
            return
        yield items[number]
