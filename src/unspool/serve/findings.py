"""Search, figures and alignment: what several conversations say together."""

import sqlite3
from collections.abc import Iterable, Iterator

import msgspec

from unspool.errors import UsageError
from unspool.serve.answers import (
    Aligned,
    AlignedSide,
    Event,
    FiguresAnswer,
    FiguresRow,
    Findings,
    Hit,
    HitGroup,
    Pair,
    Pairs,
)
from unspool.serve.conversations import find, listed
from unspool.serve.queries import FiguresQuery, NoQuery, PairQuery, SearchQuery
from unspool.serve.recent import Recent
from unspool.store import search as searching
from unspool.store.align import align, in_order
from unspool.store.changes import last_change
from unspool.store.filters import Filters
from unspool.store.ids import shown_id
from unspool.store.opening import store_path
from unspool.store.stats import stats

MOST_EVENTS = 5000


def search(connection: sqlite3.Connection, query: SearchQuery) -> Findings:
    found = searching.search(
        connection,
        query.q,
        query.mode,
        filters=filters_of(connection, query),
        limit=query.limit,
        typing=query.typing,
    )
    return Findings(group(found.hits), len(found.hits), found.capped)


def filters_of(connection: sqlite3.Connection, query: SearchQuery) -> Filters:
    row = find(connection, query.id) if query.id else None
    return query.filters(role=query.role, tool=query.tool, file=query.file, conversation=row)


def group(hits: Iterable[searching.Hit]) -> list[HitGroup]:
    """By conversation, in the order of the best hit of each."""
    groups: dict[tuple[str, str], HitGroup] = {}
    for hit in hits:
        key = (hit.source, hit.conversation_id)
        made = groups.get(key)
        if made is None:
            made = groups[key] = HitGroup(f"{hit.source}/{hit.conversation_id}", [], hit.title)
        made.hits.append(make_hit(hit))
    return list(groups.values())


def make_hit(hit: searching.Hit) -> Hit:
    # Characters that no keyboard has: shell code is full of [[ ]], and JSON escapes controls.
    snippet = hit.snippet.replace(searching.OPEN, "\ue000").replace(searching.CLOSE, "\ue001")
    return Hit(hit.message_index, hit.role, hit.field, snippet, hit.turn, hit.timestamp, hit.tool)


_figures: Recent[FiguresAnswer] = Recent(50)


def figures(connection: sqlite3.Connection, query: FiguresQuery) -> FiguresAnswer:
    """They hold until something in the store changes."""
    filters = query.filters(tool=query.tool, file=query.file)

    def make() -> FiguresAnswer:
        rows = [
            FiguresRow(
                **msgspec.structs.asdict(row),
                total=row.total_tokens,
                acceptance=row.acceptance_rate,
            )
            for row in stats(connection, query.by, filters)
        ]
        return FiguresAnswer(query.by, rows)

    key = (store_path(connection), query.by, *msgspec.structs.astuple(filters))
    return _figures.get(key, last_change(connection), make)


def alignment(connection: sqlite3.Connection, query: PairQuery) -> Aligned:
    first, second = find(connection, query.left), find(connection, query.right)
    if first == second:
        raise UsageError("a conversation is not aligned with itself: name two")
    left, right = in_order(first, second)
    made = align(connection, left, right)
    one, other = (
        AlignedSide(listed(connection, row), list(_events(connection, row)))
        for row in (left, right)
    )
    return Aligned(made.confidence, one, other, made.correlations)


def _events(connection: sqlite3.Connection, row: str) -> Iterator[Event]:
    rows = connection.execute(
        "SELECT started_at, 'prompt', turn_index FROM conversation_turns"
        " WHERE conversation_id = ? AND started_at IS NOT NULL"
        " UNION ALL SELECT ifnull(t.started_at, m.timestamp), t.name, t.turn_index"
        " FROM tool_calls t LEFT JOIN messages m ON m.conversation_id = t.conversation_id"
        " AND m.message_index = t.message_index"
        " WHERE t.conversation_id = ? AND ifnull(t.started_at, m.timestamp) IS NOT NULL"
        " ORDER BY 1 LIMIT ?",
        (row, row, MOST_EVENTS),
    )
    return (Event(*columns) for columns in rows)


def pairs(connection: sqlite3.Connection, query: NoQuery) -> Pairs:
    """The alignments that `unspool align` has found, the surest first."""
    rows = connection.execute(
        "SELECT a.claude_conversation_id, a.cursor_conversation_id,"
        " json_extract(a.correlation_data, '$.confidence'), l.title, r.title"
        " FROM conversation_alignments a"
        " JOIN conversations l ON l.id = a.claude_conversation_id"
        " JOIN conversations r ON r.id = a.cursor_conversation_id ORDER BY 3 DESC LIMIT 200"
    )
    return Pairs(
        [
            Pair(shown_id(left), shown_id(right), float(sure or 0), ours, theirs)
            for left, right, sure, ours, theirs in rows
        ]
    )
