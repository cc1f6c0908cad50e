"""Workers of a run, in this process or in several.

Every step is asked of all workers at once; each answers when it is done.
"""

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from unspool.io.processes import WorkerProcess, attempt, context, end_with_driver
from unspool.pipeline.discover import Plan
from unspool.pipeline.job import Job, Progress
from unspool.pipeline.worker import Worker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


class Workers(Protocol):
    """What the driver asks of its workers; the steps are methods of `Worker`."""

    def ask(self, step: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """A step of every worker, each with arguments of its own; what they answer."""

    def share(self, step: str, items: list[Any]) -> list[Any]:
        """A step of every worker; of the items, each takes the next when it has time."""

    def close(self) -> None: ...


class OneHere:
    """One worker, in this process."""

    def __init__(
        self, folder: Path, job: Job, plan: Plan, names: dict[str, str], progress: Progress | None
    ) -> None:
        self.worker = Worker(0, folder, job, plan, names, progress)
        self._gc_was_on = gc.isenabled()
        gc.disable()  # as in `io/processes.py`

    def ask(self, step: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [getattr(self.worker, step)(*arguments[0])]

    def share(self, step: str, items: list[Any]) -> list[Any]:
        return [getattr(self.worker, step)(items)]

    def close(self) -> None:
        if self._gc_was_on:
            gc.enable()


class Several:
    """Several workers, each a process."""

    def __init__(
        self, folder: Path, job: Job, plan: Plan, names: dict[str, str], progress: Progress | None
    ) -> None:
        self.progress = progress
        self.taken = context().Value("q", 0)
        self.bytes_read = context().Array("q", job.workers)
        self.bytes_told = 0
        self.processes = [
            WorkerProcess(
                folder, _serve, (number, folder, job, plan, names), self.taken, self.bytes_read
            )
            for number in range(job.workers)
        ]

    def ask(self, step: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        return self._ask([(step, given, False) for given in arguments])

    def share(self, step: str, items: list[Any]) -> list[Any]:
        self.taken.value = 0
        return self._ask([(step, items, True)] * len(self.processes))

    def _ask(self, requests: list[tuple[str, Any, bool]]) -> list[Any]:
        for process, request in zip(self.processes, requests, strict=True):
            process.pipe.send(request)
        answers = [process.receive(self._tell_progress) for process in self.processes]
        self._tell_progress()
        return answers

    def _tell_progress(self) -> None:
        done = sum(self.bytes_read[:])
        if self.progress is not None and done > self.bytes_told:
            self.progress(done - self.bytes_told)
            self.bytes_told = done

    def close(self) -> None:
        for process in self.processes:
            process.close()


def _serve(
    pipe: "Connection",
    share: tuple[int, Path, Job, Plan, dict[str, str]],
    taken: Any,
    bytes_read: Any,
) -> None:
    """A worker process: answers until the driver hangs up."""

    def progress(count: int) -> None:
        end_with_driver()
        bytes_read[share[0]] += count

    worker = Worker(*share, progress)
    while True:
        step, given, is_shared = pipe.recv()
        do = getattr(worker, step)
        pipe.send(attempt(do, _untaken(given, taken)) if is_shared else attempt(do, *given))


def _untaken(items: list[Any], taken: Any) -> Iterator[Any]:
    """The items that no other worker took: each takes the next when it has time."""
    while True:
        with taken.get_lock():
            number = taken.value
            taken.value += 1
        if number >= len(items):
            return
        yield items[number]
