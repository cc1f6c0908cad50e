"""Arrow: packed rows into Parquet files, and conversations out of one. The only user of pyarrow."""

import os
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from unspool.errors import MissingExtra, UnreadableOrigin
from unspool.facts import Problem
from unspool.io.origins import Origin, Tally
from unspool.io.packing import encode_json
from unspool.sinks import jsonl
from unspool.sinks.parquet.rows import (
    ABSENT,
    JSON_COLUMNS,
    NUMBERS,
    OWN_COLUMNS,
    TABLES,
    Columns,
    Rows,
    pack_column,
    unpack,
)
from unspool.trajectory import Trajectory

if sys.platform in ("linux", "darwin"):
    # What a row group took is given back. Arrow's usual allocator then asks the system for it anew,
    # page by page, which takes a sixth of the time; jemalloc does not. Read when pyarrow is imported.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
try:
    import pyarrow as pa
except ImportError as error:
    raise MissingExtra("Parquet needs: pip install 'unspool[parquet]'") from error

GROUP_BYTES = 4 * 1024 * 1024
"""Row groups are closed when the rows that wait are about so large: what is held in memory."""
CHUNK_BYTES = 64 * 1024
"""Texts of a conversation that are longer than this are not joined with those of others."""
BATCH_ROWS = 16
"""Rows are read so many at a time: each may be a conversation of many megabytes."""
LONG = ("long", "json", "jsons")
"""Kinds whose values have neither a dictionary nor statistics: each is another one, and long."""

# Offsets of 64 bits: a conversation may be larger than 2 GB, though none of its values is.
_JSON = pa.json_(pa.large_string())
_TYPES: dict[str, Any] = {
    "text": pa.large_string(),
    "long": pa.large_string(),
    "texts": pa.large_list(pa.large_string()),
    "count": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
    "json": _JSON,
    "jsons": pa.large_list(_JSON),
}


def schema_of(columns: Columns) -> Any:
    """The Arrow schema of a table: `schema_of(TABLES["messages"])`."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])


def make_table(columns: Columns, chunks: Iterable[list[list[Any]]]) -> Any:
    """Values that come column by column, some rows at a time, as an Arrow table."""
    schema = schema_of(columns)
    batches = []
    for values in chunks:
        count = [len(values[0])]
        arrays = []
        for kind, column in zip(columns.values(), values, strict=True):
            packed = [memoryview(b"".join(part)) for part in pack_column(kind, column)]
            arrays.append(_array(kind, [packed], count))
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema=schema)


def open_table(places: Iterable[Path]) -> Any:
    """A table in files, or in folders with partitions, of which readers take what they need."""
    from pyarrow import dataset

    parts = []
    try:
        for place in places:
            folders = sorted(place.iterdir()) if place.is_dir() else []
            keys = dict.fromkeys(f.name.partition("=")[0] for f in folders if "=" in f.name)
            schema = pa.schema([(key, pa.large_string()) for key in keys])
            hive = dataset.partitioning(schema, flavor="hive")
            parts.append(dataset.dataset(place, format="parquet", partitioning=hive))
        return parts[0] if len(parts) == 1 else dataset.dataset(parts)
    except (pa.ArrowException, OSError) as error:
        text = str(error).partition("\n")[0]
        raise UnreadableOrigin(f"{place} cannot be read: {text}") from None


def combine(
    pieces: Iterable[bytes | memoryview],
    files: Mapping[str, BinaryIO],
    partition_by: str | None = None,
) -> None:
    """All conversations' rows into the files of the tables, in the order in which they come.

    The column that a partition's folder is named by is left out, as Hive has it: readers take it
    from there, and some (pyarrow, Glue) do not bear it twice.
    """
    with ThreadPoolExecutor(2) as threads:  # compressing is most of the work, and needs no Python
        tables = [
            _Table(columns, partition_by, files[f"{name}.parquet"], threads)
            for name, columns in TABLES.items()
        ]
        for piece in pieces:
            for table, rows in zip(tables, unpack(piece), strict=True):
                if rows.sizes:
                    table.add(rows)
        for table in tables:
            table.close()


class _Table:
    """A Parquet file that grows by row groups. The bytes depend on the rows alone."""

    def __init__(
        self, columns: Columns, left_out: str | None, file: BinaryIO, threads: Executor
    ) -> None:
        from pyarrow.parquet import ParquetWriter  # with file systems that take 5 MB

        self._columns = columns
        self._threads = threads
        self._kept = [name for name in columns if name != left_out]
        short = [name for name in self._kept if columns[name] not in LONG]
        self._schema = schema_of({name: columns[name] for name in self._kept})
        self._writer = ParquetWriter(
            file,
            self._schema,
            compression="zstd",
            use_dictionary=short,
            write_statistics=short,
        )
        self._waiting: list[Rows] = []
        self._size = 0
        self._writing: Future[None] | None = None

    def add(self, rows: Rows) -> None:
        self._waiting.append(rows)
        self._size += len(rows.data)
        if self._size >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        """What waits becomes a row group, in a thread, once the one before is written."""
        self._wait()
        self._writing = self._threads.submit(self._write, self._waiting)
        self._waiting = []
        self._size = 0

    def _write(self, waiting: list[Rows]) -> None:
        parts = [rows.columns() for rows in waiting]
        counts = [len(part[1][0]) // 8 for part in parts]
        arrays = []
        for at, (name, kind) in enumerate(self._columns.items()):
            if name in self._kept:
                arrays.append(_column(kind, [part[at] for part in parts], counts))
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        pa.default_memory_pool().release_unused()

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._wait()
        self._writer.close()


def _column(kind: str, parts: list[list[memoryview]], counts: list[int]) -> Any:
    """One column of some conversations. Where its texts are long, those of each conversation are a
    chunk by themselves: joining them would copy them once more."""
    if kind in LONG and sum(len(part[-1]) for part in parts if part) > len(parts) * CHUNK_BYTES:
        return pa.chunked_array(
            [_array(kind, [part], [count]) for part, count in zip(parts, counts, strict=True)]
        )
    return _array(kind, parts, counts)


def _array(kind: str, parts: list[list[memoryview]], counts: list[int]) -> Any:
    """One column of some conversations as an array, whose values nobody looks at; `counts` are their
    rows.

    `pyarrow.array` would do it too, but imports pandas where that is installed: 60 MB for nothing.
    """
    if kind == "json":
        return pa.ExtensionArray.from_storage(_JSON, _array("long", parts, counts))
    if not any(parts):
        return pa.nulls(sum(counts), _TYPES[kind])
    code, nothing = NUMBERS.get(kind, ("q", ABSENT))
    numbers: array[Any] = array(code)
    missing = array(code, [nothing]).tobytes()
    for part, count in zip(parts, counts, strict=True):
        numbers.frombytes(part[0] if part else missing * count)
    known = _known(kind, numbers, nothing)
    bits, absent = make_bits(known), known.count(0)
    if kind in NUMBERS:
        if kind == "flag":
            data = make_bits(numbers.tobytes().replace(missing, b"\0"), True)
        else:
            data = pa.py_buffer(numbers)
        return pa.Array.from_buffers(_TYPES[kind], len(numbers), [bits, data], absent)
    if absent:  # of the other lengths none fills its eight bytes with ones, nor begins with them
        numbers = array("q", numbers.tobytes().replace(missing, bytes(8)))
    ends = pa.py_buffer(array("q", accumulate(numbers, initial=0)))
    if kind in ("text", "long"):
        texts = [part[1] for part in parts if part]
        data = texts[0] if len(texts) == 1 else b"".join(texts)
        return pa.LargeStringArray.from_buffers(
            len(numbers), ends, pa.py_buffer(data), bits, absent
        )
    items = _array(
        "json" if kind == "jsons" else "long", [part[1:] for part in parts], [0] * len(parts)
    )
    return pa.Array.from_buffers(_TYPES[kind], len(numbers), [bits, ends], absent, children=[items])


def _known(kind: str, numbers: "array[Any]", nothing: float) -> bytes:
    """A byte of each: 0 where it is absent, else 1. (NaN equals nothing.)"""
    if kind == "number":
        return bytes([number == number for number in numbers])
    if kind in ("count", "time"):
        return bytes([number != nothing for number in numbers])
    # Of lengths and flags only the absent one is negative: its last byte has all bits.
    return numbers.tobytes()[numbers.itemsize - 1 :: numbers.itemsize].translate(_NOT_ABSENT)


_NOT_ABSENT = bytes(255 * [1] + [0])
_DIGITS = b"0" + 255 * b"1"


def make_bits(flags: bytes, always: bool = False) -> Any:
    """A bitmap of bytes that are 0 or 1, the first in the lowest bit; nothing where all are 1."""
    if 0 not in flags and not always:
        return None
    digits = flags[::-1].translate(_DIGITS)
    return pa.py_buffer(int(digits or b"0", 2).to_bytes(len(flags) // 8 + 1, "little"))


def read_conversations(origin: Origin, tally: Tally) -> Iterator[Trajectory | Problem]:
    """Each row as the line of JSONL that it is: what is wrong with it is told as there."""
    for number, row in enumerate(_iter_rows(origin.path)):
        # What the columns say goes last, and so holds.
        own = {name: row[name] for name in OWN_COLUMNS if row.get(name) is not None}
        parts = [
            (row.get("extra") or "{}").strip()[1:-1],
            f'"metadata":{row.get("metadata") or "{}"}',
            f'"messages":[{",".join(row.get("messages") or ())}]',
        ]
        if row.get("tools") is not None:
            parts.append(f'"tool_definitions":[{",".join(row["tools"])}]')
        parts.append(encode_json(own).decode()[1:-1])
        line = f"{{{','.join(filter(None, parts))}}}".encode()
        yield from jsonl.read_line(origin, number, line, tally)


def _iter_rows(path: str) -> Iterator[dict[str, Any]]:
    from pyarrow.parquet import ParquetFile

    wanted = [*OWN_COLUMNS, *JSON_COLUMNS]
    try:
        with ParquetFile(path) as file:
            columns = [name for name in wanted if name in file.schema_arrow.names]
            for batch in file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
                yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise OSError(f"damaged: {error}") from None
