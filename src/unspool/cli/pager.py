"""The pager, as git has it: only on a terminal, and not for what fits on the screen."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


def pager_command() -> str | None:
    """The pager to use: UNSPOOL_PAGER, PAGER or less; None where there is none or it is off."""
    for name in ("UNSPOOL_PAGER", "PAGER"):
        if name in os.environ:
            wanted = os.environ[name].strip()
            return wanted if wanted not in ("", "cat") else None
    return "less" if shutil.which("less") else None


@contextmanager
def paged(enabled: bool = True) -> Iterator[IO[str]]:
    """Where to write: the pager on a terminal, else stdout."""
    wanted = pager_command() if enabled and sys.stdout.isatty() else None
    if wanted is None:
        yield sys.stdout
        return
    # As git: leave at once if all fits, keep colours, leave the screen as it is.
    environment = {"LESS": "FRX", "LV": "-c", "LESSCHARSET": "utf-8", **os.environ}
    process = subprocess.Popen(
        wanted,
        shell=True,
        stdin=subprocess.PIPE,
        env=environment,
        encoding="utf-8",
        errors="replace",
    )  # a shell, because PAGER may hold options and pipes
    assert process.stdin is not None
    # An interrupt is for the pager: we stay until the person leaves it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with suppress(BrokenPipeError):
            yield process.stdin
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()
        signal.signal(signal.SIGINT, before)
