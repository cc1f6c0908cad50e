"""Parquet: all conversations as tables, for DuckDB, Polars, Spark and datasets. `docs/parquet.md`.

Workers give the rows of each conversation (`rows.py`); `arrow.py`, the one module that needs pyarrow,
makes files of them and reads them.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from importlib.util import find_spec
from typing import BinaryIO
from urllib.parse import quote

from unspool.errors import MissingExtra
from unspool.facts import Problem
from unspool.io.door import clean_text
from unspool.io.origins import Head, Origin, Tally
from unspool.io.times import format_time, parse_time
from unspool.sinks import Combine, Family, Options, Piece
from unspool.sinks.parquet.rows import TABLES, rows_of
from unspool.trajectory import Trajectory, Workspace

NAME = "parquet"
MANY_FILES = True
FAMILIES = False
REQUIRES = ("pyarrow",)
FILES = tuple(f"{table}.parquet" for table in TABLES)

NEEDS = "pip install 'unspool[parquet]'"

UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
LONGEST = 180
"""Of a longer partition's name the beginning and a hash: file names end at 255 bytes."""
_MAGIC = b"PAR1"
_COLUMNS = (b"conversation_id", b"messages", b"metadata", b"tools")


def write(family: Family, options: Options) -> Iterator[Piece]:
    """The rows; the name of the piece is the folder of its partition, if there are any."""
    key = options.get("partition_by")
    folder = partition_of(family.root, key) if key else ""
    yield Piece(folder, rows_of(family.root, key))


def partition_of(trajectory: Trajectory, key: str) -> str:
    """The folder that a conversation's rows go to, named as Hive names them.

    `project=%2Fhome%2Fann%2Fshop`: what is no letter, digit, `_`, `.` or `-` is written as its bytes,
    which every reader undoes; unknown is what Hive calls it, and comes back as null.
    """
    value: str | None = trajectory.source
    if key == "project":
        workspace = trajectory.workspace or Workspace()
        value = workspace.path or workspace.name or workspace.repository
    elif key == "month":
        time = parse_time(trajectory.started_at) or parse_time(trajectory.ended_at)
        value = (format_time(time) or "")[:7]
    if not value:
        return f"{key}={UNKNOWN}"
    name = quote(clean_text(value), safe="").replace("~", "%7E")
    if len(name) > LONGEST:
        beginning = name[:LONGEST]
        cut = beginning.rfind("%", -2)  # not inside of `%2F`
        digest = sha256(value.encode("utf-8", "replace")).hexdigest()[:12]
        name = f"{beginning[:cut] if cut >= 0 else beginning}-{digest}"
    # Windows drops dots at the end of a name.
    return f"{key}={name[:-1]}%2E" if name.endswith(".") else f"{key}={name}"


def load_combine(options: Options) -> Combine:
    if find_spec("pyarrow") is None:
        raise MissingExtra(f"Parquet needs: {NEEDS}")

    def combine(pieces: Iterable[bytes | memoryview], files: Mapping[str, BinaryIO]) -> None:
        # Imported here: workers are forked without the 50 MB that it takes.
        from unspool.sinks.parquet import arrow

        arrow.combine(pieces, files, options.get("partition_by"))

    return combine


def claims(head: Head) -> bool:
    """A Parquet file, whatever its name, whose footer names the columns of `conversations.parquet`."""
    if not head.plain or not head.data.startswith(_MAGIC):
        return False
    try:
        with open(head.path, "rb") as file:  # … footer, its length in 4 bytes, PAR1
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 8, 0))
            length = int.from_bytes(file.read(4), "little")
            if file.read(4) != _MAGIC or length > size - 8:
                return False
            file.seek(size - 8 - length)
            footer = file.read(length)
    except OSError:
        return False
    return all(name in footer for name in _COLUMNS)


def read(origin: Origin, tally: Tally) -> Iterator[Trajectory | Problem]:
    """The trajectories as they were written. Without pyarrow a file that merely lies in a folder is a
    problem, and one that was asked for is an error."""
    if find_spec("pyarrow") is None and not origin.named:
        tally.records += 1
        tally.lose("missing-extra", origin.path, 0, NEEDS)
        yield from tally.take_flaws()
        return
    from unspool.sinks.parquet.arrow import read_conversations

    yield from read_conversations(origin, tally)
