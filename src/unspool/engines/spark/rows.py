"""Rows: bytes of any length on their way through Spark, as numbered pieces in Arrow batches.

Spark holds a row in memory, and before 4.1 limits a batch by its number of rows only. So no row
is longer than 1 MB, and the driver asks for batches of 16 rows.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from unspool.errors import MissingExtra
from unspool.sinks.parquet.rows import TABLES, Columns
from unspool.sinks.parquet.rows import unpack as unpack_tables

try:
    import pyarrow as pa

    from unspool.sinks.parquet.arrow import make_batch
except ImportError as error:
    raise MissingExtra("Spark needs: pip install 'unspool[spark]'") from error

PIECE_BYTES = 1 << 20
BATCH_BYTES = 8 << 20
BATCH_ROWS = 16
"""Rows that Spark gives to Python at once: with pieces of 1 MB that is 16 MB."""

FACTS, READY, REPORT, PATCH, CONVERSATION = range(5)
"""What a row holds: facts of one conversation; a conversation that was read as such; what a task has to
tell of itself; what linking says of a conversation; a conversation as it was reduced."""

SCHEMA = "key binary, task long, seq int, rest int, kind int, head binary, data binary"
"""`key` is what rows are brought together by; `task` and `seq` put them in order; `rest` counts the
pieces that follow of the same bytes; `head` is small and told in the first piece."""

_ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("task", pa.int64()),
        ("seq", pa.int32()),
        ("rest", pa.int32()),
        ("kind", pa.int32()),
        ("head", pa.binary()),
        ("data", pa.binary()),
    ]
)


class Item(NamedTuple):
    """What one task hands to another: in full, however many rows it takes."""

    key: bytes
    task: int
    kind: int
    head: bytes | None
    data: bytes


def pack(items: Iterable[Item]) -> Iterator[Any]:
    """The items as Arrow batches."""
    columns: list[list[Any]] = [[] for _ in _ARROW]
    size = 0
    seqs: dict[tuple[bytes, int], int] = {}
    for item in items:
        whole = memoryview(item.data)
        seq = seqs.get((item.key, item.task), 0)
        for at in range(0, len(whole) or 1, PIECE_BYTES):
            piece = whole[at : at + PIECE_BYTES]
            rest = max(0, -(-len(whole) // PIECE_BYTES) - 1 - at // PIECE_BYTES)
            row = (item.key, item.task, seq, rest, item.kind, item.head if not at else None, piece)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
            seq += 1
            size += len(piece) + 100
            if size >= BATCH_BYTES:
                yield _batch(columns, _ARROW)
                columns, size = [[] for _ in _ARROW], 0
        seqs[(item.key, item.task)] = seq
    if size:
        yield _batch(columns, _ARROW)


def _batch(columns: list[list[Any]], schema: Any) -> Any:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def unpack(batches: Iterable[Any]) -> Iterator[Item]:
    """The items of a partition, whole; their rows come sorted by key, task and seq."""
    head: bytes | None = None
    pieces: list[bytes] = []
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in _ARROW.names[:-1])
        datas = batch.column("data")  # not as a list: it would hold all of it twice
        for at, (key, task, _, rest, kind, told) in enumerate(zip(*columns, strict=True)):
            if not pieces:
                head = told
            data = datas[at].as_py()
            pieces.append(data)
            if not rest:
                whole = data if len(pieces) == 1 else b"".join(pieces)
                pieces = []
                yield Item(key, task, kind, head, whole)


Finished = tuple[str | None, int, bytes]
"""The filter that dropped a conversation, how many messages it has, what the sink makes of it."""

_TYPES: dict[str, tuple[str, Any]] = {
    "text": ("string", pa.string()),
    "long": ("string", pa.string()),
    "texts": ("array<string>", pa.list_(pa.string())),
    "count": ("bigint", pa.int64()),
    "number": ("double", pa.float64()),
    "flag": ("boolean", pa.bool_()),
    "time": ("timestamp", pa.timestamp("us", tz="UTC")),
    "json": ("string", pa.string()),
    "jsons": ("array<string>", pa.list_(pa.string())),
}
"""Kind of a column (see `sinks.parquet.rows`) → its type in Spark and in Arrow."""
_COUNTED = {"_dropped": "text", "_messages": "count"}


def output_columns(sink: str) -> Columns:
    return TABLES["conversations"] if sink == "parquet" else {"value": "text"}


def output_schema(sink: str) -> str:
    columns = {**_COUNTED, **output_columns(sink)}
    return ", ".join(f"`{name}` {_TYPES[kind][0]}" for name, kind in columns.items())


def tabulate(rows: Iterable[Finished], sink: str) -> Iterator[Any]:
    """Finished conversations as Arrow batches."""
    waiting: list[Finished] = []
    size = 0
    for row in rows:
        if size and size + len(row[2]) > BATCH_BYTES:
            yield _output_batch(waiting, sink)
            waiting, size = [], 0
        waiting.append(row)
        size += len(row[2]) + 100
    if waiting:
        yield _output_batch(waiting, sink)


def _output_batch(rows: list[Finished], sink: str) -> Any:
    """Those that a filter dropped stand last, with nothing in their columns."""
    kept = [data for dropped, _, data in rows if dropped is None]
    rows.sort(key=lambda row: row[0] is not None)
    columns = output_columns(sink)
    if sink == "parquet":
        made = make_batch(columns, [unpack_tables(data)[0] for data in kept]).columns
    else:
        made = [pa.array([data.removesuffix(b"\n") for data in kept], pa.string())]
    counted = [[row[at] for row in rows] for at in range(len(_COUNTED))]
    arrays = [
        pa.array(values, _TYPES[kind][1])
        for values, kind in zip(counted, _COUNTED.values(), strict=True)
    ]
    for array, kind in zip(made, columns.values(), strict=True):
        wanted = _TYPES[kind][1]
        absent = pa.nulls(len(rows) - len(kept), wanted)
        arrays.append(pa.concat_arrays([_plain(array).cast(wanted), absent]))
    return pa.RecordBatch.from_arrays(arrays, names=[*_COUNTED, *columns])


def _plain(array: Any) -> Any:
    """Without the mark that says JSON, which Spark does not know."""
    if isinstance(array, pa.ExtensionArray):
        return array.storage
    if pa.types.is_large_list(array.type) and isinstance(array.values, pa.ExtensionArray):
        absent = array.is_null()
        return pa.LargeListArray.from_arrays(array.offsets, array.values.storage, mask=absent)
    return array
