"""Workers of a run, in this process or in several.

Every step, which is a method of `Worker`, is asked of all workers at once; each answers when it is
done.
"""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspool.io.processes import WorkerProcess, attempt, context, end_with_driver
from unspool.pipeline.job import Job, Progress
from unspool.pipeline.worker import Worker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


class Workers:
    """One worker, in this process."""

    def __init__(
        self, folder: Path, job: Job, names: dict[str, str], progress: Progress | None
    ) -> None:
        self._worker = Worker(0, folder, job, names, progress)
        self._gc_was_on = gc.isenabled()
        gc.disable()  # as in `io/processes.py`

    def ask(self, step: str, *arguments: Any) -> list[Any]:
        """A step of every worker; what they answer."""
        return [getattr(self._worker, step)(*arguments)]

    def share(self, step: str, items: list[Any]) -> list[Any]:
        """A step of every worker; of the items, each takes the next when it has time."""
        return self.ask(step, items)

    def close(self) -> None:
        if self._gc_was_on:
            gc.enable()


class Processes(Workers):
    """Several workers, each a process."""

    def __init__(
        self, folder: Path, job: Job, names: dict[str, str], progress: Progress | None
    ) -> None:
        self._progress = progress
        self._taken = context().Array("q", job.workers)
        self._bytes_read = context().Array("q", job.workers)
        self._bytes_told = 0
        self._processes = [
            WorkerProcess(
                folder, _serve, (number, folder, job, names), self._taken, self._bytes_read
            )
            for number in range(job.workers)
        ]

    def ask(self, step: str, *arguments: Any, shared: bool = False) -> list[Any]:
        for process in self._processes:
            process.pipe.send((step, arguments, shared))
        answers = [process.receive(self._tell_progress) for process in self._processes]
        self._tell_progress()
        return answers

    def share(self, step: str, items: list[Any]) -> list[Any]:
        self._taken[:] = [0] * len(self._taken)
        return self.ask(step, items, shared=True)

    def _tell_progress(self) -> None:
        done = sum(self._bytes_read[:])
        if self._progress is not None and done > self._bytes_told:
            self._progress(done - self._bytes_told)
            self._bytes_told = done

    def close(self) -> None:
        for process in self._processes:
            process.close()


def _serve(
    pipe: "Connection",
    share: tuple[int, Path, Job, dict[str, str]],
    taken: Any,
    bytes_read: Any,
) -> None:
    """A worker process: answers until the driver hangs up."""

    def progress(count: int) -> None:
        end_with_driver()
        bytes_read[share[0]] += count

    worker = Worker(*share, progress)
    while True:
        step, arguments, shared = pipe.recv()
        if shared:
            arguments = (_untaken(arguments[0], taken, share[0]),)
        pipe.send(attempt(getattr(worker, step), *arguments))


def _untaken(items: list[Any], taken: Any, worker: int) -> Iterator[Any]:
    """The items that no other worker took: each takes the next of its own share when it has time, and
    then of the share of which most is left. (A conversation goes on in the next file, so neighbours
    are best read by one.) `taken`: how many of each share are."""
    starts = [len(items) * number // len(taken) for number in range(len(taken) + 1)]
    while True:
        with taken.get_lock():
            left = [
                end - start - n for start, end, n in zip(starts, starts[1:], taken, strict=False)
            ]
            share = worker if left[worker] else left.index(max(left))
            if not left[share]:
                return
            at = starts[share] + taken[share]
            taken[share] += 1
        yield items[at]
