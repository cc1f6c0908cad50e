"""Pipeline: origins → records → facts → grouped by conversation → reduce → link → enrich → sink."""

import os
from collections.abc import Iterable, Iterator

from unspool.errors import NothingToRead
from unspool.origins import Tally
from unspool.pipeline.discover import discover
from unspool.pipeline.simple import finish, read_origins
from unspool.trajectory import Trajectory

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def extract(
    paths: Paths, *, source: str | None = None, merge_tool_metadata: bool = True
) -> Iterator[Trajectory]:
    """The conversations in files and folders, whole, in a stable order.

    `source` names the format where it should not be found out from the content.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    found = discover([os.fspath(path) for path in paths], source)
    if not found.origins:
        raise NothingToRead("nothing readable: no file of a known format under the given paths")
    collection = read_origins(found.origins, Tally())
    yield from finish(collection, merge_tool_metadata)[0]
