"""What `extract` shows on the terminal: progress while it runs, a summary when it is done."""

import sys
from types import TracebackType
from typing import Any

import click
import msgspec

from unspool.cli.screen import say
from unspool.pipeline.job import Summary
from unspool.views.figures import size


class Display:
    """A progress bar on a terminal; nothing in a pipe."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet or not sys.stderr.isatty()
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> "Display":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            self._open()
        self._left -= count
        # All is read, but it takes a while until it is put together and written.
        self._progress.update(
            self._task, advance=count, description="reading" if self._left > 0 else "writing"
        )

    def _open(self) -> None:
        # Imported and started only now: after the workers were forked, and not for --help.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task("reading", total=self._total)


def number(count: int) -> str:
    return f"{count:,}"


def print_summary(summary: Summary, verbose: bool) -> None:
    """The closing lines on stderr."""

    def line(name: str, text: str) -> None:
        say(f"{name:>14}  {text}", err=True)

    skipped = (
        f", {number(summary.files_skipped)} of no known format" if summary.files_skipped else ""
    )
    line("files", f"{number(summary.files)} ({size(summary.bytes)}){skipped}")
    line(
        "records",
        f"{number(summary.records)}: {number(summary.used)} used, "
        f"{number(summary.superseded)} superseded, {number(summary.noise)} noise, "
        f"{number(summary.unrecognised)} unrecognised, {number(summary.problem_records)} bad",
    )
    kinds = ", ".join(f"{number(count)} {name}" for name, count in summary.sources.items())
    line("conversations", f"{number(summary.conversations)} ({kinds})" if kinds else "0")
    line(
        "written",
        f"{number(summary.written)} with {number(summary.messages)} messages; "
        f"{number(summary.merged)} merged from several files, {number(summary.partial)} partial",
    )
    for name, count in summary.filtered.items():
        line("left out", f"{number(count)} by {name}")
    if summary.empty:
        shown = ", ".join(summary.empty[:5]) + (" …" if len(summary.empty) > 5 else "")
        line("nothing in", f"{number(len(summary.empty))}: {shown}")
    for code, count in summary.problems.items():
        line("problem", f"{number(count)} × {code}")
    if verbose:
        for problem in summary.samples:
            line("", f"{problem.origin}:{problem.offset} {problem.code} {problem.sample!r:.120}")
        for kind, count in list(summary.unknown.items())[:20]:
            line("unrecognised", f"{number(count)} × {kind}")
    if summary.tag_summary:
        line("prompt tags", summary.tag_summary)
    line("took", f"{summary.seconds:.1f} s, {summary.megabytes_per_second:.0f} MB/s")


def print_json(value: object) -> None:
    """A report for a program."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())
