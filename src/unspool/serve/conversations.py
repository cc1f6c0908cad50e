"""The list of conversations: filtered and sorted by the store, a page at a time from any place."""

import base64
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from unspool.errors import AmbiguousId, UnknownConversation, UsageError
from unspool.serve.answers import Choice, Choices, Listed, Outline, Page
from unspool.serve.queries import ListQuery, NoQuery
from unspool.serve.readers import Readers
from unspool.store.conversations import get_trajectory
from unspool.store.filters import where
from unspool.store.ids import row_id, shown_id
from unspool.trajectory import encode_trajectory

_COLUMNS = (
    "c.id, c.source, c.title, c.project, c.branch, c.model, c.agent_version,"
    " nullif(c.started_at, ''), c.ended_at, c.messages, c.turns, c.tools, c.tool_failures,"
    " c.children, c.prompt_tokens, c.completion_tokens, c.cost_usd, c.parent_id, c.partial"
)
"""The fields of `Listed`, in their order."""
_SORTS = {
    "activity": "ifnull(c.ended_at, c.started_at)",
    "started": "c.started_at",
    "title": "lower(ifnull(c.title, ''))",
    "messages": "c.messages",
    "turns": "c.turns",
    "tools": "c.tools",
    "failures": "c.tool_failures",
    "tokens": "ifnull(c.prompt_tokens, 0) + ifnull(c.completion_tokens, 0)",
    "cost": "ifnull(c.cost_usd, -1)",
}


def list_page(connection: sqlite3.Connection, query: ListQuery) -> Page:
    terms, values = _conditions(query)
    key = _SORTS[query.sort]
    if query.cursor is not None:
        compare = "<" if query.order == "desc" else ">"
        terms.append(f"({key}, c.id) {compare} (?, ?)")
        values += _read_cursor(query.cursor)
    rows = connection.execute(
        f"SELECT {key}, {_COLUMNS} FROM conversations c WHERE {where(terms)}"
        f" ORDER BY {key} {query.order}, c.id {query.order} LIMIT ?",
        (*values, query.limit + 1),
    ).fetchall()
    shown = rows[: query.limit]
    more = len(rows) > query.limit
    return Page(
        [make_listed(row[1:]) for row in shown],
        _cursor(shown[-1][0], shown[-1][1]) if more else None,
    )


def outline(connection: sqlite3.Connection, query: ListQuery) -> Outline:
    terms, values = _conditions(query)
    key = _SORTS[query.sort]
    rows = connection.execute(
        f"SELECT {key}, c.id FROM conversations c WHERE {where(terms)}"
        f" ORDER BY {key} {query.order}, c.id {query.order}",
        values,
    ).fetchall()
    last_of_pages = rows[query.limit - 1 :: query.limit]
    return Outline(len(rows), query.limit, [_cursor(*row) for row in last_of_pages])


def choices(connection: sqlite3.Connection, query: NoQuery) -> Choices:
    names: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())
    for *values, number in connection.execute(
        "SELECT source, project, model, count(*) FROM conversations WHERE parent_id IS NULL"
        " GROUP BY 1, 2, 3"
    ):
        for counter, value in zip(names, values, strict=True):
            if value:
                counter[value] += number
    frequent = (sorted(one.items(), key=lambda pair: (-pair[1], pair[0])) for one in names)
    return Choices(*([Choice(*pair) for pair in pairs[:500]] for pairs in frequent))


def find(connection: sqlite3.Connection, ident: str) -> str:
    """The row id of the conversation that `source/id` means; the id may be shortened."""
    source, _, name = ident.partition("/")
    row = row_id(source, name)
    if connection.execute("SELECT 1 FROM conversations WHERE id = ?", (row,)).fetchone():
        return row
    rows = connection.execute(
        "SELECT id FROM conversations WHERE id >= ? AND id < ? LIMIT 2",
        (row, row + "\U0010ffff"),
    ).fetchall()
    if not rows or not name:
        raise UnknownConversation(f"no conversation {ident!r} in the store")
    if len(rows) > 1:
        raise AmbiguousId(f"{ident!r} means several conversations")
    return str(rows[0][0])


def listed(connection: sqlite3.Connection, row: str) -> Listed:
    columns = connection.execute(
        f"SELECT {_COLUMNS} FROM conversations c WHERE c.id = ?", (row,)
    ).fetchone()
    if columns is None:
        raise UnknownConversation(f"no conversation {shown_id(row)!r} in the store")
    return make_listed(columns)


def make_listed(columns: tuple[Any, ...]) -> Listed:
    row = Listed(**dict(zip(Listed.__struct_fields__, columns, strict=True)))
    row.id = shown_id(row.id)
    row.parent = f"{row.source}/{row.parent}" if row.parent else None
    return row


def _conditions(query: ListQuery) -> tuple[list[str], list[Any]]:
    terms, values = query.filters().of_conversations()
    if query.model is not None:
        terms.append("instr(lower(ifnull(c.model, '')), ?)")
        values.append(query.model.lower())
    if query.text:
        # Every word, in whichever of them.
        for word in query.text.lower().split():
            terms.append(
                "instr(lower(ifnull(c.title, '') || ' ' || ifnull(c.project, '') || ' ' ||"
                " ifnull(c.branch, '') || ' ' || c.external_id), ?)"
            )
            values.append(word)
    if not query.agents:
        terms += ["c.parent_id IS NULL", "(c.messages OR c.partial IS NOT NULL)"]
    if query.errors:
        terms.append("c.tool_failures")
    if query.subagents:
        terms.append("c.children")
    if query.partial:
        terms.append("c.partial IS NOT NULL")
    return terms, values


def _cursor(value: Any, row: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([value, row])).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[Any, str]:
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(data, type=tuple[str | int | float, str])
    except (ValueError, msgspec.MsgspecError):
        raise UsageError("the cursor is not one of this server's") from None


async def iter_chosen(readers: Readers, query: ListQuery) -> AsyncIterator[bytes]:
    """All conversations that are chosen, as lines of trajectory JSONL, a page at a time."""
    cursor = query.cursor
    while True:
        asked = msgspec.structs.replace(query, cursor=cursor, limit=20)

        def page(
            connection: sqlite3.Connection, asked: ListQuery = asked
        ) -> tuple[bytes, str | None]:
            rows = list_page(connection, asked)
            found = (
                get_trajectory(connection, row_id(*one.id.split("/", 1)))
                for one in rows.conversations
            )
            lines = (encode_trajectory(one) + b"\n" for one in found if one is not None)
            return b"".join(lines), rows.next

        lines, cursor = await readers.ask(page)
        yield lines
        if cursor is None:
            return
