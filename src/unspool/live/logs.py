"""Logs: the events of a session as the dated hook log that batch reads.

Every session has a log of its own, `live/logs/<platform>/<session>.jsonl`. No such file exists: its
lines are in `raw_traces`, one per event. But they are what a logging hook would have written,

    {"_logged_at":"2026-03-04T10:00:00.123456Z","session_id":"s1","hook_event_name":"Stop", …}

and they are read by the same source, under the same path, so that a `sync` of such files gives the
same conversations (law ten: live = batch).
"""

import hashlib
import re
from pathlib import Path

from unspool.hooks.spool import Layout
from unspool.live.intake import read_payload
from unspool.live.queue import Arrival
from unspool.store.events import stamp

NOBODYS = "unknown"
"""Where events go that name no session."""
_PLAIN = re.compile(r"[\w.@:+-]{1,120}", re.ASCII)


def log_path(layout: Layout, arrival: Arrival) -> str:
    session = arrival.session or NOBODYS
    if not _PLAIN.fullmatch(session) or session.startswith("."):
        session = hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
    platform = arrival.platform if _PLAIN.fullmatch(arrival.platform) else NOBODYS
    return str(Path(layout.live, "logs", platform, f"{session}.jsonl"))


def traces_path(layout: Layout, database: str) -> str:
    """The log of what was written to an editor's database."""
    name = hashlib.sha256(database.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return str(Path(layout.live, "logs", "database_trace", f"{name}.jsonl"))


def log_line(arrival: Arrival) -> bytes:
    """The payload with the time of its arrival, on one line."""
    at = stamp(arrival.received_ns).encode()
    # In JSON a line end is space between tokens; in a broken payload it is no worse than a space.
    data = arrival.data.replace(b"\n", b" ").strip()
    if not data.startswith(b"{") or not read_payload(data)[1]:
        return b"%s %s\n" % (at, data)
    rest = data[1:].lstrip()
    return b'{"_logged_at":"%s"%s%s\n' % (at, b"" if rest.startswith(b"}") else b",", rest)
