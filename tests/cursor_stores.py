"""Cursor's databases for tests: real SQLite files in the schemas that the editor and the CLI use."""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

KV = "CREATE TABLE {} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"


def write_editor(
    path: Path, rows: Mapping[str, Any], items: Mapping[str, Any] | None = None
) -> Path:
    """A `state.vscdb`, checkpointed and closed. None is a deleted row; bytes go in as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        for table, values in (("cursorDiskKV", rows), ("ItemTable", items or {})):
            connection.execute(KV.format(table))
            fill(connection, table, values)
    return path


def fill(connection: sqlite3.Connection, table: str, values: Mapping[str, Any]) -> None:
    connection.executemany(
        f"INSERT INTO {table} VALUES (?, ?)",
        [
            (key, value if value is None or isinstance(value, bytes | str) else json.dumps(value))
            for key, value in values.items()
        ],
    )


def bubble(ident: str, kind: int, text: str = "", **fields: Any) -> dict[str, Any]:
    return {"_v": 3, "bubbleId": ident, "type": kind, "text": text, **fields}


def tool(
    ident: str, name: str, call: str, params: Any, result: Any = None, **fields: Any
) -> dict[str, Any]:
    data = {
        "tool": 7, "name": name, "toolCallId": call, "status": "completed",
        "rawArgs": json.dumps(params), "params": json.dumps(params), **fields,
    }  # fmt: skip
    if result is not None:
        data["result"] = json.dumps(result)
    return bubble(ident, 2, capabilityType=15, toolFormerData=data)


def rows_of(
    composer: dict[str, Any], *bubbles: dict[str, Any], listed: int | None = None
) -> dict[str, Any]:
    """The rows of one composer, its headers naming the first `listed` bubbles (all, unless told)."""
    ident = composer["composerId"]
    headers = [{"bubbleId": b["bubbleId"], "type": b["type"]} for b in bubbles[:listed]]
    made = {f"composerData:{ident}": {"_v": 10, "fullConversationHeadersOnly": headers, **composer}}
    # Rows lie in the order of their keys, never in that of the conversation.
    for b in sorted(bubbles, key=lambda b: b["bubbleId"], reverse=True):
        made[f"bubbleId:{ident}:{b['bubbleId']}"] = b
    return made


def write_chat(path: Path, messages: list[Any], root: bytes | None = None, **meta: Any) -> Path:
    """A `store.db` whose root lists the messages, or with a root of the caller's making."""
    path.parent.mkdir(parents=True, exist_ok=True)
    blobs: dict[str, bytes] = {}
    listed = b""
    for message in messages:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        blobs[put(blobs, data)] = data
        listed += b"\x0a\x20" + hashlib.sha256(data).digest()
    node = put(blobs, root if root is not None else listed)
    head = {"agentId": path.parent.name, "latestRootBlobId": node, **meta}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        connection.executemany("INSERT INTO blobs VALUES (?, ?)", blobs.items())
        connection.execute("INSERT INTO meta VALUES ('0', ?)", (json.dumps(head).encode().hex(),))
    return path


def put(blobs: dict[str, bytes], data: bytes) -> str:
    ident = hashlib.sha256(data).hexdigest()
    blobs[ident] = data
    return ident
