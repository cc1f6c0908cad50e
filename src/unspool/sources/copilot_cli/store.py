"""session-store.db: the index that the CLI (and VS Code, in a file of its own) keeps of sessions.

It is not a transcript: per user message the last answer without tool calls. So its words are echoes
of the log's; what they fill in is what the log lacks, and a session that only the store knows is
partial. Rows have no place in time that can be trusted (a turn is stamped when it ends): they are
given by turn, and find their place by the words that they share with the log.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

from unspool.facts import INDEX, AnyFact
from unspool.io.databases import Database, reading
from unspool.io.origins import Origin, Tally
from unspool.io.times import format_time, parse_time
from unspool.sources.copilot_cli.lookup import content_id
from unspool.sources.copilot_cli.texts import whole_number
from unspool.sources.scribe import Scribe, chosen, title_of

RANK = INDEX

SECTIONS = ("title", "overview", "history", "work_done", "technical_details", "important_files",
            "next_steps", "created_at")  # fmt: skip
_SESSION = (
    ("cwd", "workspace.path"),
    ("repository", "workspace.repository"),
    ("branch", "workspace.branch"),
    ("host_type", "host_type"),
    ("summary", "summary"),
)
_ARTIFACT = ":workspace:"
_LAST = 1 << 62
Row = dict[str, Any]


class Rows:
    """Rows of the store's tables, whichever columns its version has."""

    def __init__(self, origin: Origin, database: Database, tally: Tally, product: str) -> None:
        self.origin = origin
        self.database = database
        self.tally = tally
        self.product = product
        self.tables = database.tables()
        self.told = 0

    def iter(self, table: str, order: str, where: str = "") -> Iterator[Row]:
        if table not in self.tables:
            return
        connection = self.database.connection
        cursor = connection.execute(f"SELECT * FROM {table} {where} ORDER BY {order}")
        names = [column[0] for column in cursor.description]
        for values in cursor:
            self.tally.records += 1
            yield dict(zip(names, values, strict=True))

    def by_session(self, table: str) -> dict[str, list[Row]]:
        sessions: dict[str, list[Row]] = {}
        for row in self.iter(table, "rowid"):
            sessions.setdefault(str(row.get("session_id") or ""), []).append(row)
        return sessions

    def scribe(self, session: str, entry: str) -> Scribe:
        """Of one row; the entry makes the row one, in however many copies of the store.

        Places follow the order in which rows are told, turn by turn, not that of the tables.
        """
        self.told += 1
        key = (self.product, session)
        return Scribe(key, self.origin.path, self.told, entry=f"store:{entry}", rank=RANK)


def read_store(origin: Origin, tally: Tally, product: str) -> Iterator[AnyFact]:
    with reading(origin, tally) as database:
        rows = Rows(origin, database, tally, product)
        turns = rows.by_session("turns")
        files, references = rows.by_session("session_files"), rows.by_session("session_refs")
        sessions = {str(row["id"]): row for row in rows.iter("sessions", "id")}
        for session in sorted({*sessions, *turns}):
            if not session:
                continue
            own = turns.get(session, [])
            row = sessions.get(session, {})
            scribe = rows.scribe(session, "session")
            if row:
                scribe.notes({name: row.get(column) for column, name in _SESSION}, RANK + 1)
                # The row may be as old as the session: its turns go on (case `store_turn_ends`).
                ends = [row.get("updated_at"), *(turn.get("timestamp") for turn in own)]
                notes = {
                    "title": title_of(str(row.get("summary") or "")),
                    "session_id": session,
                    "started_at": format_time(parse_time(row.get("created_at"))),
                    "ended_at": format_time(max(filter(None, map(parse_time, ends)), default=None)),
                }
                scribe.notes(notes, RANK + 1)
            yield from scribe.facts
            extras = [*files.pop(session, []), *references.pop(session, [])]
            yield from _turns(rows, session, own, extras)
        for row in rows.iter("checkpoints", "rowid"):
            number = whole_number(row.get("checkpoint_number"))
            value = {"number": number} if number is not None else {}
            scribe = rows.scribe(str(row.get("session_id") or ""), f"checkpoint:{number}")
            scribe.note("checkpoints", value | chosen(row, SECTIONS), 1)
            yield from scribe.facts
        yield from _usage(rows)
        yield from _artifacts(rows)
        rows.tally.noise += sum(map(len, (*files.values(), *references.values())))


def _turns(rows: Rows, session: str, turns: list[Row], extras: list[Row]) -> Iterator[AnyFact]:
    """Turn by turn: what was asked, which files and references it touched, what came of it."""
    parts = [(_turn(row), place, role, row) for row in turns for place, role in _WORDS]
    parts += [(_turn(row), 1, "", row) for row in extras]
    parts.sort(key=lambda part: part[:2])
    for turn, _, role, row in parts:
        if not role:
            yield from _extra(rows, session, row)
        elif row.get(_COLUMN[role]):
            entry = f"turn:{turn}:{role}"
            scribe = rows.scribe(session, entry)
            scribe.message(id=f"store:{entry}", role=role, text=str(row[_COLUMN[role]]))
            time = format_time(parse_time(row.get("timestamp")))
            if time and role == "assistant":  # the row is written when the turn ends
                scribe.note("timestamp", time, RANK, "message", f"store:{entry}")
            yield from scribe.facts


_WORDS = ((0, "user"), (2, "assistant"))
_COLUMN = {"user": "user_message", "assistant": "assistant_response"}


def _turn(row: Row) -> int:
    turn = whole_number(row.get("turn_index"))
    return turn if turn is not None else _LAST


def _extra(rows: Rows, session: str, row: Row) -> list[AnyFact]:
    """A file that a turn touched, or a reference that it named."""
    if "file_path" in row:
        path, tool = str(row["file_path"]), row.get("tool_name")
        kind, entry, subject = "file", f"file:{path}", ""
        data: Row = {"path": path, "tool": tool}
        data["operation"] = "create" if tool == "create" else "edit"
        data["timestamp"] = format_time(parse_time(row.get("first_seen_at")))
    else:
        what, subject = row.get("ref_type"), str(row.get("ref_value") or "")
        kind, entry = "reference", f"ref:{what}:{subject}"
        data = {"type": what, "value": subject}
        data["created_at"] = format_time(parse_time(row.get("created_at")))
    scribe = rows.scribe(session, entry)
    scribe.mark(kind, chosen(data, data), subject, RANK)
    return scribe.facts


def _usage(rows: Rows) -> Iterator[AnyFact]:
    """Figures of single engine calls, for runs that ended without a report; and for the answers,
    which the log of a version before 1.0.102 gives no input tokens. Those of a sub-agent name the call
    that started it, and a row is as old as its answer to some milliseconds."""
    started: dict[str, str] = {}
    for row in rows.iter("assistant_usage_events", "rowid"):
        entry = f"usage:{row.get('id')}"
        session = str(row.get("session_id") or "")
        scribe = rows.scribe(session, entry)
        time = parse_time(row.get("created_at"))
        report: dict[str, Any] = {
            "subject": entry,
            "time": time,
            "model": str(row.get("model") or ""),
            "rank": 1,
            **{name: whole_number(row.get(f"{n}_tokens")) for name, n in _FIGURES.items()},
        }
        extra = chosen(row, _USAGE_EXTRAS) or None
        scribe.usage(on="call", requests=1, extra=extra, **report)
        agent, call = str(row.get("agent_id") or ""), str(row.get("parent_tool_call_id") or "")
        child = started.setdefault(agent, call) if agent else call
        if time is not None and row.get("initiator") != "compaction":
            key = (rows.product, f"{session}/{child}" if child else session)
            scribe.usage(key=key, on="answer", **report)
        yield from scribe.facts


_FIGURES = {
    "prompt": "input",
    "completion": "output",
    "cached": "cache_read",
    "cache_write": "cache_write",
    "reasoning": "reasoning",
}
_USAGE_EXTRAS = ("agent_id", "parent_tool_call_id", "turn_index", "duration_ms", "initiator",
                 "finish_reason", "total_nano_aiu")  # fmt: skip


def _artifacts(rows: Rows) -> Iterator[AnyFact]:
    """Files of the session's folder (its plan, say), kept whole in the search index."""
    try:
        artifacts = list(
            rows.iter("search_index", "rowid", "WHERE source_type = 'workspace_artifact'")
        )
    except sqlite3.Error:
        return  # built without full-text search, or another table of that name
    for row in artifacts:
        session = str(row.get("session_id") or "")
        path = str(row.get("source_id") or "").partition(_ARTIFACT)[2]
        content = row.get("content")
        if not session or not isinstance(content, str) or not content:
            rows.tally.noise += 1
            continue
        scribe = rows.scribe(session, f"artifact:{path or content_id(content)[:16]}")
        if path:
            scribe.note("plan" if path == "plan.md" else f"artifact:{path}", content, 1)
        else:  # an index of three columns does not say which file it is
            scribe.note("checkpoints", {"kind": "artifact", "text": content}, 1)
        yield from scribe.facts


def is_store(data: bytes, name: str) -> bool:
    """By its name, or by its tables (a renamed copy)."""
    return name.startswith("session-store") or (
        b"assistant_response" in data and b"turn_index" in data
    )
