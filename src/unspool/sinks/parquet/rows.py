"""Rows: what each table holds of one conversation. `docs/parquet.md` explains every column."""

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from unspool.io.door import clean_text
from unspool.io.packing import Packer, encode_json
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
_pack = Packer().encode
unpack = msgspec.msgpack.Decoder(list[bytes]).decode
"""The tables of a conversation, in the order of TABLES."""
unpack_columns = msgspec.msgpack.Decoder(list[list[memoryview]]).decode
"""The columns of a table, each as `pack_column` packs it. The second, `conversation_id`, tells how many
rows there are."""

Values = dict[str, Iterable[Any]]
"""Column → its value in every row; columns that nobody names are empty."""


def rows_of(trajectory: Trajectory, partition_by: str | None = None) -> bytes:
    """For every table, in order, its rows as `unpack_columns` reads them; empty where it has none."""
    drop_bytes(trajectory)
    messages = trajectory.messages
    files = trajectory.files or []
    marks = trajectory.marks or []
    used = [at for at, message in enumerate(messages) if message.usage is not None]
    tables: dict[str, tuple[int, Values]] = {
        "conversations": (1, {n: (v,) for n, v in _conversation(trajectory, partition_by).items()}),
        "messages": (
            len(messages),
            {
                **_fields(TABLES["messages"], Message, messages),
                "message_index": range(len(messages)),
                "message_id": map(attrgetter("id"), messages),
                "tool_name": map(attrgetter("name"), messages),
                "n_tool_calls": (len(message.tool_calls or ()) for message in messages),
            },
        ),
        "tool_calls": _tool_calls(messages),
        "files": (
            len(files),
            {
                **_fields(TABLES["files"], FileTouch, files),
                "message_index": map(attrgetter("index"), files),
                "tool_name": map(attrgetter("tool"), files),
            },
        ),
        "usage": (
            len(used),
            {
                **_fields(TABLES["usage"], Message, [messages[at] for at in used]),
                **_fields(TABLES["usage"], Usage, [messages[at].usage for at in used]),
                "message_index": used,
            },
        ),
        "marks": (
            len(marks),
            {
                **_fields(TABLES["marks"], Mark, marks),
                "message_index": map(attrgetter("index"), marks),
                "data": (None if m.data is None else encode_json(m.data) for m in marks),
            },
        ),
    }
    keys = {"source": trajectory.source, "conversation_id": trajectory.conversation_id}
    rows: list[bytes] = []
    for table, columns in TABLES.items():
        count, values = tables[table]
        packed: list[list[bytes]] = []
        if count:
            values.update({name: [key] * count for name, key in keys.items()})
            packed = [pack_column(kind, list(values.get(n, ()))) for n, kind in columns.items()]
        rows.append(_pack(packed) if packed else b"")
    return _pack(rows)


def _fields(columns: Columns, struct: type[msgspec.Struct], items: Sequence[Any]) -> Values:
    """The columns that are fields of the same name."""
    return {n: map(attrgetter(n), items) for n in struct.__struct_fields__ if n in columns}


def _conversation(trajectory: Trajectory, partition_by: str | None) -> dict[str, Any]:
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
    return {
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
        "messages": list(map(encode_json, trajectory.messages)),
        "tools": None
        if trajectory.tool_definitions is None
        else list(map(encode_json, trajectory.tool_definitions)),
        "metadata": encode_json(trajectory.metadata),
        "extra": b"{" + encode_json(rest).removeprefix(_OPENING).removeprefix(b","),
    }


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
        **_fields(TABLES["tool_calls"], ToolCall, calls),
        "message_index": indexes,
        "tool_call_id": map(attrgetter("id"), calls),
        "tool_name": map(attrgetter("name"), calls),
        "arguments": map(attrgetter("arguments"), calls),
        "result_index": answers,
        "is_error": (None if at is None else messages[at].is_error for at in answers),
        "turn": map(attrgetter("turn"), callers),
        "model": map(attrgetter("model"), callers),
        "copied": map(attrgetter("copied"), callers),
    }


def pack_column(kind: str, values: list[Any]) -> list[bytes]:
    """The values as Arrow will have them, so that the driver need not look at each: texts by their
    lengths and one after the other, numbers as an array; nothing where all are absent.

    One that the column cannot hold is absent there; the JSON of the conversation has it.
    """
    if values.count(None) == len(values):
        return []
    if kind in ("texts", "jsons"):
        counts = [ABSENT if items is None else len(items) for items in values]
        items = [item for items in values for item in items or ()]
        return [array("q", counts).tobytes(), *_joined(items)]
    if kind in _FITS:
        plain, fit = _FITS[kind]
        if not plain.issuperset(map(type, values)):
            values = list(map(fit, values))
    if kind not in NUMBERS:
        return _joined(values)
    code, absent = NUMBERS[kind]
    try:
        return [array(code, [absent if v is None else v for v in values]).tobytes()]
    except OverflowError:  # more than 64 bits
        return pack_column(kind, list(map(_count, values)))


def _joined(values: list[Any]) -> list[bytes]:
    try:
        encoded = [value.encode() if type(value) is str else value for value in values]
    except UnicodeEncodeError:  # half a surrogate pair
        encoded = [clean_text(v).encode() if type(v) is str else v for v in values]
    lengths = array("q", [ABSENT if value is None else len(value) for value in encoded])
    return [lengths.tobytes(), b"".join(filter(None, encoded))]


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
