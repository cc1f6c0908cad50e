"""Rows: what each table holds of one conversation. `docs/parquet.md` explains every column."""

import math
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, islice, pairwise
from typing import Any, NamedTuple

import msgspec

from unspool.io.door import clean_text
from unspool.io.packing import encode_json
from unspool.io.times import parse_time
from unspool.reduce.totals import is_turn
from unspool.sinks.jsonl import drop_bytes
from unspool.trajectory import FileTouch, Mark, Message, ToolCall, Trajectory, Usage, Workspace

Columns = dict[str, str]
"""Column → kind: text, long (a text of any length), texts, count, number, flag, time, json, jsons."""

_KEYS: Columns = {"source": "text", "conversation_id": "text"}
_TOKENS: Columns = {
    "prompt_tokens": "count",
    "completion_tokens": "count",
    "cached_tokens": "count",
    "cache_write_tokens": "count",
    "reasoning_tokens": "count",
    "cost_usd": "number",
}

TABLES: dict[str, Columns] = {
    "conversations": {
        **_KEYS,
        "session_id": "text",
        "agent": "text",
        "agent_version": "text",
        "title": "text",
        "started_at": "time",
        "ended_at": "time",
        "workspace_path": "text",
        "repository": "text",
        "branch": "text",
        "commit": "text",
        "primary_model": "text",
        "n_turns": "count",
        "n_messages": "count",
        "n_tool_calls": "count",
        "n_tool_failures": "count",
        **_TOKENS,
        "partial": "texts",
        "parent_id": "text",
        "parent_kind": "text",
        "file_path": "text",
        "messages": "jsons",
        "tools": "jsons",
        "metadata": "json",
        "extra": "json",
    },
    "messages": {
        **_KEYS,
        "message_index": "count",
        "message_id": "text",
        "role": "text",
        "kind": "text",
        "timestamp": "time",
        "turn": "count",
        "segment": "count",
        "model": "text",
        "mode": "text",
        "content": "long",
        "typed": "long",
        "thinking": "long",
        "tool_name": "text",
        "tool_call_id": "text",
        "is_error": "flag",
        "status": "text",
        "stop_reason": "text",
        "duration_ms": "number",
        "n_tool_calls": "count",
        "copied": "flag",
    },
    "tool_calls": {
        **_KEYS,
        "message_index": "count",
        "tool_call_id": "text",
        "tool_name": "text",
        "arguments": "long",
        "status": "text",
        "is_error": "flag",
        "result_index": "count",
        "started_at": "time",
        "ended_at": "time",
        "duration_ms": "number",
        "child_id": "text",
        "by_user": "flag",
        "turn": "count",
        "model": "text",
        "copied": "flag",
    },
    "files": {
        **_KEYS,
        "message_index": "count",
        "path": "text",
        "operation": "text",
        "outcome": "text",
        "lines_added": "count",
        "lines_removed": "count",
        "turn": "count",
        "tool_name": "text",
        "tool_call_id": "text",
        "timestamp": "time",
    },
    "usage": {
        **_KEYS,
        "message_index": "count",
        "timestamp": "time",
        "model": "text",
        "turn": "count",
        **_TOKENS,
        "requests": "count",
        "copied": "flag",
    },
    "marks": {
        **_KEYS,
        "message_index": "count",
        "kind": "text",
        "timestamp": "time",
        "subject": "text",
        "data": "json",
    },
}
"""Table → its columns. The file of a table has its name."""

OWN_COLUMNS = (
    "source",
    "conversation_id",
    "session_id",
    "agent",
    "agent_version",
    "title",
    "partial",
    "file_path",
)
"""Fields of a trajectory that are columns as they are. All others are in `messages`, `tools`,
`metadata` and `extra`, and the other columns say once more what stands there."""

JSON_COLUMNS = ("messages", "tools", "metadata", "extra")

_LARGEST = 2**63 - 1
ABSENT = -1
"""As the length of a text that is not there."""
NUMBERS: dict[str, tuple[str, float]] = {
    "count": ("q", -_LARGEST - 1),
    "time": ("q", -_LARGEST - 1),
    "number": ("d", math.nan),
    "flag": ("b", ABSENT),
}
"""Kind → how an array holds it, and what stands for one that is not there. (JSON has no NaN.)"""

_BARE = Trajectory(conversation_id="", messages=[])
_OPENING = encode_json(_BARE)[:-1]
_pack_sizes = msgspec.msgpack.encode
_unpack_sizes = msgspec.msgpack.Decoder(list[list[list[int]]]).decode
_SIZE_BYTES = 8

Packed = list[list[bytes]]
"""A column: the parts that Arrow has of it (lengths, texts), each as bytes that belong one after the
other; none where all values are absent."""

Values = dict[str, Sequence[Any]]
"""Column → its value in every row; columns that nobody names are empty."""


class Rows(NamedTuple):
    """The packed rows of one conversation in one table."""

    sizes: list[list[int]]
    """Of every part of every column. The second, `conversation_id`, tells how many rows there are."""
    data: memoryview

    def columns(self) -> list[list[memoryview]]:
        ends = accumulate((size for column in self.sizes for size in column), initial=0)
        pieces = (self.data[start:end] for start, end in pairwise(ends))
        return [list(islice(pieces, len(column))) for column in self.sizes]


def unpack(piece: bytes | memoryview) -> list[Rows]:
    """What `rows_of` gave for every table, in order."""
    start = _SIZE_BYTES + int.from_bytes(piece[:_SIZE_BYTES], "little")
    view = memoryview(piece)
    tables = []
    for sizes in _unpack_sizes(view[_SIZE_BYTES:start]):
        end = start + sum(map(sum, sizes))
        data = view[start:end]
        if len(data) < len(view) // 4:
            # A copy: rows of a small table wait for many others, and would hold the whole piece.
            data = memoryview(bytes(data))
        tables.append(Rows(sizes, data))
        start = end
    return tables


def rows_of(trajectory: Trajectory, partition_by: str | None = None) -> bytes:
    """The rows of a conversation in every table, as `unpack` reads them."""
    drop_bytes(trajectory)
    messages, files, marks = trajectory.messages, trajectory.files or [], trajectory.marks or []
    spent = [at for at, message in enumerate(messages) if message.usage is not None]
    tables: dict[str, tuple[int, Values]] = {
        "conversations": (1, _conversation(trajectory, partition_by)),
        "messages": (
            len(messages),
            {
                **_fields(Message, messages, message_id="id", tool_name="name"),
                "message_index": range(len(messages)),
                "n_tool_calls": [len(message.tool_calls or ()) for message in messages],
            },
        ),
        "tool_calls": _tool_calls(messages),
        "files": (len(files), _fields(FileTouch, files, message_index="index", tool_name="tool")),
        "usage": (
            len(spent),
            {
                **_fields(Message, [messages[at] for at in spent]),
                **_fields(Usage, [messages[at].usage for at in spent]),
                "message_index": spent,
            },
        ),
        "marks": (
            len(marks),
            {
                **_fields(Mark, marks, message_index="index"),
                "data": [None if mark.data is None else encode_json(mark.data) for mark in marks],
            },
        ),
    }
    keys = [pack_column("text", [key]) for key in (trajectory.source, trajectory.conversation_id)]
    sizes: list[list[list[int]]] = []
    pieces: list[bytes] = []
    for table, (count, values) in tables.items():
        sizes.append([])
        if not count:
            continue
        columns = [[[part[0] * count] for part in key] for key in keys]
        for name, kind in list(TABLES[table].items())[len(keys) :]:
            columns.append(pack_column(kind, values.get(name, ())))
        for column in columns:
            sizes[-1].append([sum(map(len, part)) for part in column])
            for part in column:
                pieces += part
    header = _pack_sizes(sizes)
    # Joined once: the texts are most of it, and each of them is copied here for the first time.
    return b"".join((len(header).to_bytes(_SIZE_BYTES, "little"), header, *pieces))


def _fields(struct: type[msgspec.Struct], items: Sequence[Any], **renamed: str) -> Values:
    """Field → its value of every item; and the columns that have another name than their field."""
    columns = zip(*map(msgspec.structs.astuple, items), strict=True)
    fields = dict(zip(struct.__struct_fields__, columns, strict=bool(items)))
    return {**fields, **{column: fields.get(field, ()) for column, field in renamed.items()}}


def _conversation(trajectory: Trajectory, partition_by: str | None) -> Values:
    workspace = trajectory.workspace or Workspace()
    own = [message for message in trajectory.messages if not message.copied]
    rest = msgspec.structs.replace(
        trajectory,
        messages=[],
        metadata={},
        tool_definitions=None,
        # A column that only the folder's name tells is here too: the file alone is whole.
        **{name: getattr(_BARE, name) for name in OWN_COLUMNS if name != partition_by},
    )
    values = {
        **msgspec.structs.asdict(trajectory.usage or Usage()),
        **{name: getattr(trajectory, name) for name in OWN_COLUMNS},
        "started_at": trajectory.started_at,
        "ended_at": trajectory.ended_at,
        "workspace_path": workspace.path,
        "repository": workspace.repository,
        "branch": workspace.branch,
        "commit": workspace.commit,
        "primary_model": (trajectory.model_usage or {}).get("primary_model"),
        "n_turns": sum(map(is_turn, own)),
        "n_messages": len(trajectory.messages),
        "n_tool_calls": sum(len(message.tool_calls or ()) for message in own),
        "n_tool_failures": sum(1 for message in own if message.is_error),
        "parent_id": trajectory.parent.conversation_id if trajectory.parent else None,
        "parent_kind": trajectory.parent.kind if trajectory.parent else None,
        "messages": trajectory.messages,
        "tools": trajectory.tool_definitions,
        "metadata": encode_json(trajectory.metadata),
        "extra": b"{" + encode_json(rest).removeprefix(_OPENING).removeprefix(b","),
    }
    return {name: (value,) for name, value in values.items()}


def _tool_calls(messages: list[Message]) -> tuple[int, Values]:
    results: dict[str, int] = {}
    for at, message in enumerate(messages):
        if message.role == "tool" and message.tool_call_id:
            results.setdefault(message.tool_call_id, at)
    indexes = [at for at, m in enumerate(messages) for _ in m.tool_calls or ()]
    callers = [messages[at] for at in indexes]
    calls = [call for message in messages for call in message.tool_calls or ()]
    answers = [results.get(call.id) for call in calls]
    return len(calls), {
        **_fields(ToolCall, calls),
        "message_index": indexes,
        "tool_call_id": [call.id for call in calls],
        "tool_name": [call.function.name for call in calls],
        "arguments": [call.function.arguments for call in calls],
        "result_index": answers,
        "is_error": [None if at is None else messages[at].is_error for at in answers],
        "turn": [message.turn for message in callers],
        "model": [message.model for message in callers],
        "copied": [message.copied for message in callers],
    }


def pack_column(kind: str, values: Sequence[Any]) -> Packed:
    """The values as Arrow will have them, so that the driver need not look at each: texts by their
    lengths and one after the other, numbers as an array; nothing where all are absent.

    One that the column cannot hold is absent there; the JSON of the conversation has it.
    """
    absent = values.count(None)
    if absent == len(values):
        return []
    if kind in ("texts", "jsons"):
        counts = [ABSENT if items is None else len(items) for items in values]
        items = [item for items in values for item in items or ()]
        if kind == "jsons":
            items = list(map(encode_json, items))
        return [[array("q", counts).tobytes()], *_pack_texts(items, 0)]
    if kind in _FITS:
        plain, fit = _FITS[kind]
        if not plain.issuperset(map(type, values)):
            values = list(map(fit, values))
            absent = values.count(None)
    if kind not in NUMBERS:
        return _pack_texts(values, absent)
    code, nothing = NUMBERS[kind]
    numbers = [nothing if v is None else v for v in values] if absent else values
    try:
        return [[array(code, numbers).tobytes()]]
    except OverflowError:  # more than 64 bits
        return pack_column(kind, list(map(_count, values)))


def _pack_texts(values: Sequence[Any], absent: int) -> Packed:
    """Texts, or bytes, of which so many are absent."""
    known = [value for value in values if value is not None] if absent else values
    if known and type(known[0]) is str:
        try:
            encoded = list(map(str.encode, known))
        except UnicodeEncodeError:  # half a surrogate pair
            encoded = [clean_text(text).encode() for text in known]
    else:
        encoded = list(known)
    lengths = array("q", map(len, encoded))
    if absent:
        rest = iter(lengths)
        lengths = array("q", [ABSENT if value is None else next(rest) for value in values])
    return [[lengths.tobytes()], encoded]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and -_LARGEST <= value <= _LARGEST else None


def _number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


_NULL = type(None)
_FITS: dict[str, tuple[frozenset[type], Callable[[Any], Any]]] = {
    "text": (frozenset((str, _NULL)), _text),
    "long": (frozenset((str, _NULL)), _text),
    "count": (frozenset((int, _NULL)), _count),
    "number": (frozenset((float, _NULL)), _number),
    "flag": (frozenset((bool, _NULL)), _flag),
    # A message's time is told in several tables.
    "time": (frozenset((_NULL,)), lru_cache(4096)(parse_time)),
}
"""Kind → the types that need no second look, and what becomes of the others."""
