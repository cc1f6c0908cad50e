"""Parquet: all conversations as tables, for DuckDB, Polars, Spark and datasets. `docs/parquet.md`.

Workers give the rows of each conversation (`rows.py`); `arrow.py`, the one module that needs pyarrow,
makes files of them and reads them.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import BinaryIO

from unspool.errors import MissingExtra
from unspool.facts import NOBODY, Problem
from unspool.io.origins import Head, Origin, Tally
from unspool.sinks import Combine, Family, Options, Piece
from unspool.sinks.parquet.partitions import partition_of
from unspool.sinks.parquet.rows import TABLES, rows_of
from unspool.trajectory import Trajectory

NAME = "parquet"
MANY_FILES = True
FAMILIES = False
REQUIRES = ("pyarrow",)
FILES = tuple(f"{table}.parquet" for table in TABLES)

NEEDS = "pip install 'unspool[parquet]'"

_MAGIC = b"PAR1"
_COLUMNS = (b"conversation_id", b"messages", b"metadata", b"tools")


def write(family: Family, options: Options) -> Iterator[Piece]:
    """The rows; the name of the piece is the folder of its partition, if there are any."""
    key = options.get("partition_by")
    folder = partition_of(family.root, key) if key else ""
    yield Piece(folder, rows_of(family.root, key))


def load_combine(options: Options) -> Combine:
    if find_spec("pyarrow") is None:
        raise MissingExtra(f"Parquet needs: {NEEDS}")
    return partial(_combine, options.get("partition_by"))


def prepare() -> None:
    """Import what combining needs, while workers read: it takes a fifth of a second."""
    import unspool.sinks.parquet.arrow  # noqa: F401


def _combine(
    key: str | None, pieces: Iterable[bytes | memoryview], files: Mapping[str, BinaryIO]
) -> None:
    # Imported here: workers are forked without the 50 MB that it takes.
    from unspool.sinks.parquet.arrow import combine

    combine(pieces, files, key)


def claims(head: Head) -> bool:
    """A Parquet file, whatever its name, whose footer names the columns of `conversations.parquet`."""
    if not head.plain or not head.data.startswith(_MAGIC):
        return False
    footer = _footer(head.path)
    return all(name in footer for name in _COLUMNS)


def _footer(path: str) -> bytes:
    """The file's description of itself: `… footer, its length in 4 bytes, PAR1`."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 8, 0))
            length = int.from_bytes(file.read(4), "little")
            if file.read(4) != _MAGIC or length > size - 8:
                return b""
            file.seek(size - 8 - length)
            return file.read(length)
    except OSError:
        return b""


def read(origin: Origin, tally: Tally) -> Iterator[Trajectory | Problem]:
    """The trajectories as they were written. Without pyarrow a file that merely lies in a folder is a
    problem, and one that was asked for is an error."""
    if find_spec("pyarrow") is None and not origin.named:
        tally.records += 1
        tally.problems += 1
        yield Problem(key=NOBODY, origin=origin.path, offset=0, code="missing-extra", sample=NEEDS)
        return
    from unspool.sinks.parquet.arrow import read_conversations

    yield from read_conversations(origin, tally)
