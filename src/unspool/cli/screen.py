"""The screen: lines, JSON, the progress bar and the pager. Words out of data do nothing to it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import click
import msgspec

from unspool.cli import VERDICT, plain_wanted
from unspool.views.characters import printable


def coloured() -> bool:
    """Whether what goes to standard output may have colours."""
    return sys.stdout.isatty() and not plain_wanted()


def columns() -> int:
    """How wide the terminal is; 0 where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def say(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """One line, whatever stands in it."""
    line = printable(text).replace("\n", " ")
    click.echo(click.style(line, **style) if any(style.values()) else line, err=err, nl=nl)


def say_rows(*rows: tuple[str, str]) -> None:
    """The closing lines of a long command on stderr: a name and what it came to."""
    for name, text in rows:
        say(f"{name:>14}  {text}", err=True)


def print_json(value: object, indent: int = 2) -> None:
    """A report for a program; with indent 0 on one line."""
    data = msgspec.json.encode(value)
    click.echo((msgspec.json.format(data, indent=indent) if indent else data).decode())


def verdict(code: int) -> int:
    """The code that the command ends with, even where nobody reads all of its output."""
    click.get_current_context().meta[VERDICT] = code
    return code


def cut(text: str, width: int) -> str:
    """As much of it as the screen has room for."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 3 else ""


class Display:
    """A progress bar on a terminal; nothing in a pipe."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet or not sys.stderr.isatty()
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def start(self, total: int) -> Any:
        """The callback that takes the bytes done; None where nothing is shown."""
        if self.quiet:
            return None
        self._left = self._total = total
        return self._advance

    def _advance(self, count: int) -> None:
        if self._progress is None:
            # Imported and started only now: after the workers were forked, and not for --help.
            from rich import progress
            from rich.console import Console

            self._progress = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.DownloadColumn(),
                progress.TransferSpeedColumn(),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task("reading", total=self._total)
        self._left -= count
        # All is read, but it takes a while until it is put together and written.
        self._progress.update(
            self._task, advance=count, description="reading" if self._left > 0 else "writing"
        )


def pager_command() -> str | None:
    """The pager to use: UNSPOOL_PAGER, PAGER or less; None where there is none or it is off."""
    for name in ("UNSPOOL_PAGER", "PAGER"):
        if name in os.environ:
            wanted = os.environ[name].strip()
            return wanted if wanted not in ("", "cat") else None
    return "less" if shutil.which("less") else None


@contextmanager
def paged(enabled: bool = True) -> Iterator[IO[str]]:
    """Where to write: the pager on a terminal (as git has it), else stdout."""
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
