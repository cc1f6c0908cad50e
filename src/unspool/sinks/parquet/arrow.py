"""Arrow: packed rows into Parquet files, and conversations out of one. The only user of pyarrow."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, BinaryIO

from unspool.errors import MissingExtra
from unspool.facts import Problem
from unspool.io.origins import Origin, Tally
from unspool.io.packing import encode_json
from unspool.sinks import jsonl
from unspool.sinks.parquet.rows import (
    JSON_COLUMNS,
    OWN_COLUMNS,
    TABLES,
    Columns,
    unpack,
    unpack_rows,
)
from unspool.trajectory import Trajectory

try:
    import pyarrow as pa
    from pyarrow import parquet as pq
except ImportError as error:
    raise MissingExtra("Parquet needs: pip install 'unspool[parquet]'") from error

GROUP_BYTES = 8 * 1024 * 1024
"""Row groups are closed when the rows that wait are about so large: what is held in memory."""
BATCH_ROWS = 16
"""Rows are read so many at a time: each may be a conversation of many megabytes."""
LONG = ("jsons", "json")
"""Kinds whose values have neither a dictionary nor statistics: each is another one, and long."""
LONG_TEXTS = ("content", "typed", "thinking", "arguments")

# Offsets of 64 bits: a conversation may be larger than 2 GB, though none of its values is.
_JSON = pa.json_(pa.large_string())
_TYPES: dict[str, Any] = {
    "text": pa.large_string(),
    "texts": pa.list_(pa.string()),
    "count": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
    "json": _JSON,
    "jsons": pa.large_list(_JSON),
}


def combine(pieces: Iterable[bytes], files: Mapping[str, BinaryIO]) -> None:
    """All conversations' rows into the files of the tables, in the order in which they come."""
    tables = [_Table(columns, files[f"{name}.parquet"]) for name, columns in TABLES.items()]
    for piece in pieces:
        for table, rows in zip(tables, unpack(piece), strict=True):
            table.add(rows)
    for table in tables:
        table.close()


class _Table:
    """A Parquet file that grows by row groups. The bytes depend on the rows alone."""

    def __init__(self, columns: Columns, file: BinaryIO) -> None:
        self._columns = columns
        self._schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
        short = [n for n, kind in columns.items() if kind not in LONG and n not in LONG_TEXTS]
        self._writer = pq.ParquetWriter(
            file,
            self._schema,
            compression="zstd",
            use_dictionary=short,
            write_statistics=short,
        )
        self._waiting: list[bytes] = []
        self._size = 0

    def add(self, rows: bytes) -> None:
        if not rows:
            return
        self._waiting.append(rows)
        self._size += len(rows)
        if self._size >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        values: list[list[Any]] = [[] for _ in self._columns]
        self._waiting.reverse()
        while self._waiting:  # each is let go when it is unpacked
            for column, more in zip(values, unpack_rows(self._waiting.pop()), strict=True):
                column += more
        self._size = 0
        arrays = []
        for kind in self._columns.values():
            arrays.append(_array(kind, values.pop(0)))  # and each column when it is made
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._writer.close()


def _array(kind: str, values: list[Any]) -> Any:
    if kind == "json":
        return pa.ExtensionArray.from_storage(_JSON, pa.array(values, _JSON.storage_type))
    if kind != "jsons":
        return pa.array(values, _TYPES[kind])
    ends = accumulate(len(items or ()) for items in values)
    inner = _array("json", [item for items in values for item in items or ()])
    absent = pa.array([items is None for items in values], pa.bool_())
    return pa.LargeListArray.from_arrays(pa.array([0, *ends], pa.int64()), inner, mask=absent)


def read_conversations(origin: Origin, tally: Tally) -> Iterator[Trajectory | Problem]:
    """Each row as the line of JSONL that it is: what is wrong with it is told as there."""
    for number, row in enumerate(_iter_rows(origin.path)):
        tally.records += 1
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
        try:
            yield jsonl.parse(line)
        except jsonl.NO_TRAJECTORY as error:
            tally.problems += 1
            yield jsonl.problem_of(origin, number, line, error)


def _iter_rows(path: str) -> Iterator[dict[str, Any]]:
    wanted = [*OWN_COLUMNS, *JSON_COLUMNS]
    try:
        with pq.ParquetFile(path) as file:
            columns = [name for name in wanted if name in file.schema_arrow.names]
            for batch in file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
                yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise OSError(f"damaged: {error}") from None
