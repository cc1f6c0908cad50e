"""Rows: bytes of any length on their way through Spark, as numbered pieces in Arrow batches.

Spark holds a row in memory, and before 4.1 limits a batch by its number of rows only. So no row
is longer than 256 kB, and the driver asks for batches of 16 rows. Arrow gets its buffers ready made:
`pyarrow.array` keeps every memoryview that it is given for ever, and imports pandas.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from unspool.errors import MissingExtra

try:
    import pyarrow as pa

    from unspool.sinks.parquet.arrow import make_bits
except ImportError as error:
    raise MissingExtra("Spark needs: pip install 'unspool[spark]'") from error

PIECE_BYTES = 256 << 10
BATCH_BYTES = 2 << 20
BATCH_ROWS = 16
"""Rows that Spark gives to Python at once: with pieces of 256 kB that is 4 MB."""

FACTS, READY, REPORT, PATCH, CONVERSATION, MESSAGES = range(6)
"""What a row holds: facts of one conversation; a conversation that was read as such; what a task has to
tell of itself; what linking says of a conversation; a conversation as it was reduced, without its
messages; some of its messages."""

SCHEMA = "key binary, task long, seq int, rest int, kind int, head binary, data binary"
"""`key` is what rows are brought together by; `task` and `seq` put them in order; `rest` counts the
pieces that follow of the same bytes; `head` is small and told in the first piece."""

_TYPES = {"binary": pa.binary(), "long": pa.int64(), "int": pa.int32()}
_COLUMNS = [column.split() for column in SCHEMA.split(", ")]
_ARROW = pa.schema([(name, _TYPES[kind]) for name, kind in _COLUMNS])


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
    data = b"".join(filter(None, values))
    known = make_bits(bytes([value is not None for value in values]))
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


# What the driver hears of the files that tasks wrote.

PARTS = "name string, written long, messages long"
"""A task's name for its files, the conversations in them and their messages; or the name of a filter
and how many conversations it dropped."""


def tell(parts: Sequence[tuple[str, int, int]]) -> Any:
    names, written, messages = zip(*parts, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            _bytes([name.encode() for name in names], pa.string()),
            _whole_numbers(pa.int64(), written),
            _whole_numbers(pa.int64(), messages),
        ],
        names=[column.split()[0] for column in PARTS.split(", ")],
    )
