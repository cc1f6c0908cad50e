"""Elsewhere: records that do not lie in local files, put into one for as long as they are read.

Rows of a table, and spans of what pyarrow opens by its URL (S3, GCS, HDFS). Sources read files; the
facts then get the place where the record really stands.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import force_setattr

from unspool import sources
from unspool.facts import AnyFact, SnapshotSeen
from unspool.io.compression import PACKED
from unspool.io.origins import HEAD_BYTES, Origin, Tally
from unspool.io.temporary import scratch

if TYPE_CHECKING:
    from unspool.pipeline.discover import Found

COPY_BYTES = 1 << 20
_URL = re.compile(r"\w[\w+.-]+:/")
BOM = b"\xef\xbb\xbf"


def is_url(path: str) -> bool:
    return _URL.match(path) is not None


class Row(NamedTuple):
    """A raw event in a table."""

    raw: bytes
    origin: str
    offset: int


def read_rows(rows: Iterable[Row], source: str, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    """The facts of some rows. Those of one origin are a file: its path may tell of what it is."""
    by_origin: dict[str, list[Row]] = {}
    for row in rows:
        by_origin.setdefault(row.origin, []).append(row)
    with scratch() as folder:
        for origin, some in by_origin.items():
            path = _beneath(folder, origin)
            starts: list[int] = []
            size = 0
            with open(path, "wb") as file:
                for row in some:
                    starts.append(size)
                    size += file.write(row.raw.removeprefix(BOM) + b"\n")
            for fact in sources.read(Origin(str(path), path.name, source, size), tally, recover):
                for placed in _places_of(fact):
                    row = some[bisect_right(starts, placed.offset) - 1]
                    force_setattr(placed, "origin", origin)
                    force_setattr(placed, "offset", row.offset)
                yield fact
            path.unlink()


def _places_of(fact: AnyFact) -> Iterator[Any]:
    yield fact
    if type(fact) is SnapshotSeen:
        yield from fact.views


def _beneath(folder: Path, origin: str) -> Path:
    """A path in the folder that ends as the origin's does."""
    parts = [part for part in origin.rpartition("://")[2].split("/") if part.strip(".")]
    path = folder.joinpath("files", *parts or ["rows"])
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def discover_urls(urls: Iterable[str], source: str | None) -> "Found":
    """What `discover` says of the first bytes of every file below the URLs.

    Raises OSError where pyarrow cannot open them.
    """
    from pyarrow.fs import FileSelector, FileSystem, FileType  # 5 MB: not for local files

    from unspool.pipeline.discover import Found, discover  # of the driver: tasks find nothing

    found = Found()
    for url in urls:
        system, top = FileSystem.from_uri(url)
        here = system.get_file_info(top)
        if here.type == FileType.NotFound:
            raise FileNotFoundError("no such file or folder")
        is_folder = here.type == FileType.Directory
        files = system.get_file_info(FileSelector(top, recursive=True)) if is_folder else [here]
        with scratch() as folder:
            sizes: dict[str, int] = {}
            for info in files:
                if info.type != FileType.File or not info.size:
                    continue
                name = info.path[len(top) :].lstrip("/") if is_folder else info.base_name
                local = folder / "files" / name
                local.parent.mkdir(parents=True, exist_ok=True)
                with system.open_input_file(info.path) as file:
                    local.write_bytes(file.read(2 * HEAD_BYTES))
                sizes[str(local)] = info.size
            some = discover([str(folder / "files" / ("" if is_folder else here.base_name))], source)
            prefix = f"{folder}/files/"
            base = url.rstrip("/") + "/" if is_folder else url[: -len(here.base_name)]
            for origin in some.origins:
                size, path = sizes[origin.path], base + origin.path.removeprefix(prefix)
                found.origins.append(msgspec.structs.replace(origin, path=path, size=size))
            for problem in some.problems:
                path = base + problem.origin.removeprefix(prefix)
                found.problems.append(msgspec.structs.replace(problem, origin=path))
            found.skipped += some.skipped
            found.files += some.files
    found.origins.sort(key=lambda origin: origin.path)
    return found


@contextmanager
def localised(span: Origin) -> Iterator[Origin]:
    """The span as one of a local file."""
    if not is_url(span.path):
        yield span
        return
    with scratch() as folder:
        path = _beneath(folder, span.path)
        _copy(span, path)
        yield msgspec.structs.replace(span, path=str(path))


def relabelled(facts: Iterable[AnyFact], origin: str) -> Iterator[AnyFact]:
    for fact in facts:
        for placed in _places_of(fact):
            force_setattr(placed, "origin", origin)
        yield fact


def _copy(span: Origin, path: Path) -> None:
    """The span's bytes, at the places that they have in the file, with the rest of its last record."""
    from pyarrow.fs import FileSystem

    system, inner = FileSystem.from_uri(span.path)
    with system.open_input_file(inner) as source, open(path, "wb") as file:
        at = max(0, span.start - 1)
        source.seek(at)
        file.seek(at)
        over = False
        while not over and (piece := source.read(COPY_BYTES)):
            file.write(piece)
            before, at = at, at + len(piece)
            if span.end is not None and not path.name.endswith(PACKED) and at > span.end:
                # A line may go on from the one before: only one that begins a record is the end.
                over = piece.find(b'\n{"', max(0, span.end - before)) >= 0
