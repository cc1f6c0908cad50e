"""Pipeline: origins → records → facts → grouped by conversation → reduce → link → enrich → sink."""

import os
from collections.abc import Iterable, Iterator

from unspool import sinks, sources
from unspool.errors import UsageError
from unspool.pipeline.batch import iter_trajectories
from unspool.pipeline.job import Job
from unspool.trajectory import Trajectory

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def extract(
    paths: Paths,
    *,
    source: str | None = None,
    workers: int = 1,
    recover: bool = False,
    merge_tool_metadata: bool = True,
) -> Iterator[Trajectory]:
    """The conversations in files and folders, whole, in a stable order.

    `source` names the format where it should not be found out from the content; `recover` repairs
    JSON that was cut off; with several `workers`, processes share the reading; without
    `merge_tool_metadata`, a message list gets no calls from another one of the conversation. Raises
    NothingToRead where no file is of a known format. Temporary files are gone when the iterator ends or
    is closed. Bad data is told, counted by its kind, to the logger `unspool`.
    """
    if source is not None and source not in {*sources.SOURCES, *sinks.READERS}:
        raise UsageError(f"no source is called {source!r}")
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    job = Job(
        paths=[os.path.expanduser(path) for path in paths],  # noqa: PTH111 - may be text
        source=source,
        workers=workers,
        recover=recover,
        merge_tools=merge_tool_metadata,
    )
    return iter_trajectories(job)
