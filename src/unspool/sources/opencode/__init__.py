"""OpenCode, and Kilo Code, which keeps its sessions in the same way.

sessions.py  what a session, a message and its parts state, wherever they stand
database.py  `opencode.db` of 1.x and 2.x
files.py     sessions as JSON: storage of older versions, `opencode export`, the printed stream
hooks.py     events of our plugin
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from unspool.facts import AnyFact
from unspool.io.databases import MAGIC
from unspool.io.origins import Head, Origin, Tally, read_head
from unspool.io.values import field_of
from unspool.sources.hook_events import Hooks
from unspool.sources.hook_payloads import is_log, read_payloads
from unspool.sources.opencode.database import read_database
from unspool.sources.opencode.files import read_export, read_storage, read_stream, storage_kind
from unspool.sources.opencode.hooks import DIALECT
from unspool.sources.opencode.sessions import NAME

RANGES = False
IN_TURN = True

_EXPORT = re.compile(rb'\s*\{\s*"(?:info|messages)"\s*:')
_DATABASE = re.compile(r"(?:opencode(?:-[\w.]+)?|kilo)\.db")


HOOKS = Hooks(
    {
        "session.created": "idle",
        "chat.message": "working",
        "tool.execute.before": "working",
        "tool.execute.after": "working",
        "session.compacted": "working",
        "permission.asked": "waiting",
        "permission.updated": "waiting",
        "permission.replied": "working",
        "session.idle": "idle",
        "session.error": "failed",
        "session.deleted": "ended",
    },
    calls="tool.execute.before",
    tool=lambda told: field_of(told.input, "tool"),
)


def claims(head: Head) -> bool:
    if head.data.startswith(MAGIC):
        tables = b"session_message" in head.data or b"message_id" in head.data
        return bool(_DATABASE.fullmatch(head.name)) or (tables and b"tokens_input" in head.data)
    if storage_kind(head.path):
        return True
    # {"info":{"id":"ses_…",…},"messages":[{"info":{…},"parts":[…]}]}
    is_export = _EXPORT.match(head.data) and b'"ses_' in head.data[:2048]
    return is_log(head, DIALECT) or _is_stream(head) or bool(is_export)


def _is_stream(head: Head) -> bool:
    # {"type":"text","timestamp":…,"sessionID":"ses_…","part":{…,"messageID":"msg_…"}}
    return any(
        str(value.get("sessionID", "")).startswith("ses_") and "timestamp" in value
        for value in head.objects[:5]
    )


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    data = Path(env["XDG_DATA_HOME"]) if env.get("XDG_DATA_HOME") else home / ".local" / "share"
    named = [Path(env["OPENCODE_DB"])] if env.get("OPENCODE_DB") else []
    return [*named, data / "opencode", data / "kilo"]


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    head = read_head(origin.path)
    if head.data.startswith(MAGIC):
        return read_database(origin, tally)
    if storage_kind(origin.path):
        return read_storage(origin, tally)
    if is_log(head, DIALECT):
        return read_payloads(origin, tally, recover, DIALECT)
    if _is_stream(head):
        return read_stream(origin, tally, recover)
    return read_export(origin, tally)


__all__ = ["IN_TURN", "NAME", "RANGES", "claims", "places", "read"]
