"""Rows: what each table holds of one conversation. `docs/parquet.md` explains every column."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from unspool.io.packing import Packer, encode_json
from unspool.io.times import parse_time
from unspool.reduce.totals import is_turn
from unspool.sinks.jsonl import drop_bytes
from unspool.trajectory import Message, Trajectory, Usage, Workspace

Columns = dict[str, str]
"""Column → kind: text, texts, count, number, flag, time, json, jsons."""

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
        "content": "text",
        "typed": "text",
        "thinking": "text",
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
        "arguments": "text",
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
_BARE = Trajectory(conversation_id="", messages=[])
_OPENING = encode_json(_BARE)[:-1]
_pack = Packer().encode
unpack = msgspec.msgpack.Decoder(list[bytes]).decode
unpack_rows = msgspec.msgpack.Decoder(list[list[Any]]).decode


def rows_of(trajectory: Trajectory) -> bytes:
    """For every table, in order, its rows: column by column, packed."""
    drop_bytes(trajectory)
    tables: dict[str, list[dict[str, Any]]] = {
        "conversations": [_conversation(trajectory)],
        "messages": [_message(at, m) for at, m in enumerate(trajectory.messages)],
        "tool_calls": list(_tool_calls(trajectory.messages)),
        "files": [
            {"message_index": touch.index, "tool_name": touch.tool, **_fields(touch)}
            for touch in trajectory.files or ()
        ],
        "usage": [
            {"message_index": at, **_fields(message), **_fields(message.usage)}
            for at, message in enumerate(trajectory.messages)
            if message.usage is not None
        ],
        "marks": [
            {
                "message_index": mark.index,
                **_fields(mark),
                "data": None if mark.data is None else encode_json(mark.data),
            }
            for mark in trajectory.marks or ()
        ],
    }
    keys = {"source": trajectory.source, "conversation_id": trajectory.conversation_id}
    packed: list[bytes] = []
    for table, columns in TABLES.items():
        rows = tables[table]
        values: list[list[Any]] = []
        for name, kind in columns.items():
            if name in keys:
                values.append([keys[name]] * len(rows))
                continue
            fit = _FITS[kind]
            column = (row.get(name) for row in rows)
            values.append([None if value is None else fit(value) for value in column])
        packed.append(_pack(values) if rows else b"")
    return _pack(packed)


def _fields(struct: msgspec.Struct | None) -> dict[str, Any]:
    return {} if struct is None else msgspec.structs.asdict(struct)


def _conversation(trajectory: Trajectory) -> dict[str, Any]:
    workspace = trajectory.workspace or Workspace()
    own = [message for message in trajectory.messages if not message.copied]
    rest = msgspec.structs.replace(
        trajectory,
        messages=[],
        metadata={},
        tool_definitions=None,
        **{name: getattr(_BARE, name) for name in OWN_COLUMNS},
    )
    return {
        **_fields(trajectory.usage or Usage()),
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


def _message(index: int, message: Message) -> dict[str, Any]:
    return {
        **_fields(message),
        "message_index": index,
        "message_id": message.id,
        "tool_name": message.name,
        "n_tool_calls": len(message.tool_calls or ()),
    }


def _tool_calls(messages: list[Message]) -> Iterable[dict[str, Any]]:
    results: dict[str, int] = {}
    for at, message in enumerate(messages):
        if message.role == "tool" and message.tool_call_id:
            results.setdefault(message.tool_call_id, at)
    for at, message in enumerate(messages):
        for call in message.tool_calls or ():
            result = results.get(call.id)
            yield {
                **_fields(call),
                "message_index": at,
                "tool_call_id": call.id,
                "tool_name": call.name,
                "arguments": call.arguments,
                "result_index": result,
                "is_error": None if result is None else messages[result].is_error,
                "turn": message.turn,
                "model": message.model,
                "copied": message.copied,
            }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and -_LARGEST <= value <= _LARGEST else None


def _number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _as_it_is(value: Any) -> Any:
    return value


# A value that the column cannot hold is absent there; the JSON of the conversation has it.
_FITS: dict[str, Callable[[Any], Any]] = {
    "text": _text,
    "texts": _as_it_is,
    "count": _count,
    "number": _number,
    "flag": _flag,
    "time": parse_time,
    "json": _as_it_is,
    "jsons": _as_it_is,
}
