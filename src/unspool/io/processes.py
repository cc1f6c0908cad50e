"""Worker processes: started, heard and ended in one way, whoever needs them.

A worker does not listen to Ctrl-C and its like: its driver does, and ends it. It ends by itself where
its driver is no more. What it leaves behind lies in a folder that the driver removes.
"""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspool.errors import UnspoolError, unwritable
from unspool.io.signals import STOPS, Later

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_driver = 0
"""In a worker: the process that started it."""


def context() -> Any:
    """What makes processes and the memory that they share."""
    import multiprocessing  # it takes a while, and a run in one process needs none of it

    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


class WorkerProcess:
    """A worker, as its driver has it."""

    def __init__(self, folder: Path, work: Callable[..., None], *arguments: Any) -> None:
        """`work` is called there with the worker's end of the pipe and the arguments."""
        self.pipe, theirs = context().Pipe()
        self._process = context().Process(
            target=_begin, args=(folder, theirs, work, arguments), daemon=True
        )
        with Later():  # until the worker has answers of its own to signals
            self._process.start()
        theirs.close()

    def receive(self, meanwhile: Callable[[], None] = lambda: None) -> Any:
        """What the worker says next; its errors are raised here."""
        try:
            while not self.pipe.poll(0.1):
                if not self._process.is_alive() and not self.pipe.poll(0):
                    raise EOFError
                meanwhile()
            answer = self.pipe.recv()
        except (EOFError, OSError):
            text = "a worker process ended unexpectedly (out of memory?)"
            raise UnspoolError(text) from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        self.pipe.close()
        self._process.terminate()
        self._process.join()


def _begin(
    folder: Path, pipe: "Connection", work: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    global _driver
    for stop in STOPS:
        signal.signal(stop, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        close_inherited(pipe.fileno())
    tempfile.tempdir = str(folder)
    gc.disable()  # facts hold no cycles; scanning them again and again costs a fifth of the time
    _driver = os.getppid()
    with suppress(EOFError, OSError):  # the driver hung up
        work(pipe, *arguments)
    os._exit(0)


def close_inherited(own: int) -> None:
    """A forked process has all that its parent had open: other workers' pipes, which would never see
    the driver go, and locks, which would outlive it."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - closed while it is read
        if int(name) > 2 and int(name) != own:
            with suppress(OSError):
                os.close(int(name))


def end_with_driver() -> None:
    """In a worker, now and then: nobody waits for it any more where its driver is gone."""
    if os.getppid() != _driver:
        os._exit(1)


def attempt(do: Callable[..., Any], *arguments: Any) -> Any:
    """What it comes to, or the error that it ends with, for the driver to raise."""
    try:
        return do(*arguments)
    except UnspoolError as error:
        return error
    except OSError as error:
        return unwritable(error)
    except Exception as error:
        if os.environ.get("UNSPOOL_DEBUG"):
            raise
        return UnspoolError(f"internal error in a worker: {type(error).__name__}: {error}")
