"""Reading a journal back: the same way that `unspool extract` takes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from unspool.io.origins import Origin, iter_lines
from unspool.pipeline import extract
from unspool.pipeline.batch import open_run
from unspool.pipeline.job import Job
from unspool.pipeline.output import write_many
from unspool.sources.recorder import NAME
from unspool.sources.recorder.entries import Entry
from unspool.trajectory import Trajectory

_SUBAGENT = b'{"kind":"subagent"'


def trajectories(files: Sequence[Path]) -> Iterator[Trajectory]:
    if files:
        yield from extract(files, source=NAME)


def export(
    files: Sequence[Path], folder: str | os.PathLike[str], options: Mapping[str, Any]
) -> list[Path]:
    if not files:
        return []
    job = Job(
        paths=[str(file) for file in files], source=NAME, sink="atif", sink_options=dict(options)
    )
    with open_run(job) as run:
        return write_many(run.write(), os.fspath(folder))


def family_files(find: Callable[[Iterable[str]], list[Path]], session: str) -> list[Path]:
    """The files of a conversation and of all its sub-agents, and of theirs."""
    found: dict[Path, None] = {}
    seen: set[str] = set()
    waiting = [session]
    while waiting:
        files = find(waiting)
        seen.update(waiting)
        found.update(dict.fromkeys(files))
        waiting = [c for c in dict.fromkeys(_children(files)) if c and c not in seen]
    return sorted(found)


def _children(files: Sequence[Path]) -> Iterator[str]:
    for file in files:
        for _, line in iter_lines(Origin(str(file), file.name)):
            if line.startswith(_SUBAGENT):
                try:
                    yield msgspec.json.decode(line, type=Entry).child
                except msgspec.DecodeError:
                    continue
