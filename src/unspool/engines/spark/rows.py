"""Rows: bytes of any length on their way through Spark, as numbered pieces in Arrow batches.

Spark holds a row in memory, and before 4.1 limits a batch by its number of rows only. So no row
is longer than 1 MB, and the driver asks for batches of 16 rows. Arrow gets its buffers ready made:
`pyarrow.array` keeps every memoryview that it is given for ever, and imports pandas.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from unspool.errors import MissingExtra
from unspool.sinks.parquet.rows import TABLES, Columns

try:
    import pyarrow as pa

    from unspool.sinks.parquet.arrow import make_batch, make_bits
except ImportError as error:
    raise MissingExtra("Spark needs: pip install 'unspool[spark]'") from error

PIECE_BYTES = 1 << 20
BATCH_BYTES = 4 << 20
BATCH_ROWS = 16
"""Rows that Spark gives to Python at once: with pieces of 1 MB that is 16 MB."""

FACTS, READY, REPORT, PATCH, CONVERSATION, MESSAGES = range(6)
"""What a row holds: facts of one conversation; a conversation that was read as such; what a task has to
tell of itself; what linking says of a conversation; a conversation as it was reduced, without its
messages; some of its messages."""

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


def use_system_memory() -> None:
    """Arrow's own allocator keeps what it once had; the system's gives it back (io/memory.py)."""
    pa.set_memory_pool(pa.system_memory_pool())


class Item(NamedTuple):
    """What one task hands to another: in full, however many rows it takes."""

    key: bytes
    task: int
    kind: int
    head: bytes | None
    data: bytes


def pack(items: Iterable[Item]) -> Iterator[Any]:
    """The items as Arrow batches."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    seqs: dict[tuple[bytes, int], int] = {}
    for key, task, kind, head, data in items:
        seq = seqs.get((key, task), 0)
        starts = range(0, len(data) or 1, PIECE_BYTES)
        whole = data if len(starts) == 1 else memoryview(data)
        for rest, at in zip(reversed(range(len(starts))), starts, strict=True):
            piece = whole if len(starts) == 1 else whole[at : at + PIECE_BYTES]
            rows.append((key, task, seq, rest, kind, None if at else head, piece))
            seq += 1
            size += len(piece) + 100
            if size >= BATCH_BYTES:
                yield _batch(rows)
                rows, size = [], 0
        seqs[(key, task)] = seq
    if rows:
        yield _batch(rows)


def _batch(rows: list[tuple[Any, ...]]) -> Any:
    arrays = [
        _bytes(values) if kind == pa.binary() else _whole_numbers(kind, values)
        for kind, values in zip(_ARROW.types, zip(*rows, strict=True), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _whole_numbers(kind: Any, values: Sequence[int]) -> Any:
    numbers = array("q" if kind == pa.int64() else "i", values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(numbers)])


def _bytes(values: Sequence[Any], kind: Any = pa.binary()) -> Any:  # noqa: B008 - a constant
    ends = array("i", accumulate((len(value or b"") for value in values), initial=0))
    # A long value goes over as it is, not copied once more.
    data = values[0] if len(values) == 1 and values[0] else b"".join(filter(None, values))
    known = make_bits([value is not None for value in values])
    return pa.Array.from_buffers(kind, len(values), [known, pa.py_buffer(ends), pa.py_buffer(data)])


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


# What goes out: rows of all tables in one schema, told apart by `_table`.

TABLE = "_table"
WRITTEN = "conversations"
"""The table that has a row for every conversation; of one that a filter dropped there is a row with
the name of the filter instead."""

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


def output_tables(sink: str) -> dict[str, Columns]:
    return TABLES if sink == "parquet" else {WRITTEN: {"value": "text", "n_messages": "count"}}


def _all_columns(sink: str) -> Columns:
    columns: Columns = {TABLE: "text"}
    for table in output_tables(sink).values():
        columns.update(table)
    return columns


def output_schema(sink: str) -> str:
    return ", ".join(f"`{name}` {_TYPES[kind][0]}" for name, kind in _all_columns(sink).items())


class Finished(NamedTuple):
    """Rows of a table as the sink has them, or of a conversation that a filter dropped: nothing."""

    table: str
    data: Any = b""
    messages: int = 0
    """How many the conversation has."""


def tabulate(rows: Iterable[Finished], sink: str) -> Iterator[Any]:
    """What was finished, as Arrow batches. A long conversation is one by itself."""
    waiting: dict[str, list[Finished]] = {}
    size = 0
    for row in rows:
        if size and size + len(row.data) > BATCH_BYTES:
            yield from _output_batches(waiting, sink)
            waiting, size = {}, 0
        waiting.setdefault(row.table, []).append(row)
        size += len(row.data) + 100
        del row
    yield from _output_batches(waiting, sink)


def _output_batches(waiting: dict[str, list[Finished]], sink: str) -> Iterator[Any]:
    for table, rows in waiting.items():
        columns = output_tables(sink).get(table, {})
        made: dict[str, Any] = {}
        count = len(rows)
        if columns and sink == "parquet":
            batch = make_batch(columns, [row.data for row in rows])
            made, count = dict(zip(columns, batch.columns, strict=True)), batch.num_rows
        elif columns:
            made["value"] = _bytes([row.data for row in rows], pa.string())
            made["n_messages"] = _whole_numbers(pa.int64(), [row.messages for row in rows])
        made[TABLE] = _bytes([table.encode()] * count, pa.string())
        rows.clear()
        kinds = {name: _TYPES[kind][1] for name, kind in _all_columns(sink).items()}
        yield pa.RecordBatch.from_arrays(
            [
                _plain(made.pop(name)).cast(kind) if name in made else pa.nulls(count, kind)
                for name, kind in kinds.items()
            ],
            names=list(kinds),
        )


def _plain(array: Any) -> Any:
    """Without the mark that says JSON, which Spark does not know."""
    if isinstance(array, pa.ExtensionArray):
        return array.storage
    if pa.types.is_large_list(array.type) and isinstance(array.values, pa.ExtensionArray):
        absent = array.is_null()
        return pa.LargeListArray.from_arrays(array.offsets, array.values.storage, mask=absent)
    return array
