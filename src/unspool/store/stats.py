"""Stats: conversations, turns, tokens, cost, failures, lines and acceptance, grouped."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from unspool.io.times import parse_time
from unspool.store.figures import Figures, Table, decide, price
from unspool.store.filters import Filters, where
from unspool.store.portions import TOKENS, Place, Portion, Tokens, split
from unspool.store.work import add_work, by_file, by_tool
from unspool.views.figures import day_and_time

Group = Literal["day", "project", "model", "tool", "source", "file"]
GROUPS: tuple[Group, ...] = ("day", "project", "model", "tool", "source", "file")


def stats(connection: sqlite3.Connection, by: Group, filters: Filters) -> list[Figures]:
    """The figures of every group, the most important first (days in order)."""
    table = Table()
    if by == "tool":
        by_tool(connection, filters, table)
    elif by == "file":
        by_file(connection, filters, table)
    else:
        _by_conversation(connection, filters, table, by)
    return sorted(table.rows.values(), key=_ORDER[by])


def _weight(row: Figures) -> tuple[Any, ...]:
    return (-row.conversations, -row.total_tokens, row.name)


_ORDER: dict[str, Callable[[Figures], tuple[Any, ...]]] = {
    "day": lambda row: (row.name,),
    "project": _weight,
    "source": _weight,
    "model": lambda row: (-row.total_tokens, row.name),
    "tool": lambda row: (-row.tool_calls, row.name),
    "file": lambda row: (-row.conversations, -row.touches, row.name),
}


def _by_conversation(
    connection: sqlite3.Connection, filters: Filters, table: Table, by: Group
) -> None:
    included = counted_in_parent(connection)
    for ident, parent, name, portion in _portions(connection, filters, by):
        own = portion if ident not in included else _without_tokens(portion)
        if by == "model":
            _add_models(table, own, ident, parent is not None, filters)
        else:
            _add(table.row(name), own, parent)
    if by == "model":
        add_work(connection, filters, table)


def _portions(
    connection: sqlite3.Connection, filters: Filters, by: Group
) -> Iterator[tuple[str, str | None, str | None, Portion]]:
    """(id, parent, group, figures) of every conversation, or of what it did on a day or in a time."""
    terms, values = filters.of_conversations()
    name = {"project": "c.project", "source": "c.source"}.get(by, "NULL")
    rows = connection.execute(
        f"SELECT {name}, c.id, c.parent_id, nullif(c.started_at, ''), c.ended_at, c.turns, c.tools,"
        f" c.tool_failures, {', '.join('c.' + name for name in TOKENS)}, c.cost_usd, c.lines_added,"
        f" c.lines_removed, c.acceptance_decisions FROM conversations c WHERE {where(terms)}",
        values,
    ).fetchall()
    usage = _usage(connection)
    place = _place(filters, by)
    for group, ident, parent, start, end, turns, tools, failures, *rest in rows:
        *tokens, cost, added, removed, decided = rest
        outcomes = [one["outcome"] for one in json.loads(decided)]
        whole = Portion(
            turns, tools, failures, tokens, cost, usage.get(ident, {}), added, removed, outcomes
        )
        first = place(start)
        if first == place(end or start):
            parts = {first: whole}
        else:
            parts = split(connection, ident, whole, place, start)
        for where_to, portion in parts.items():
            if where_to is not None:
                yield ident, parent, where_to if by == "day" else group, portion


def _place(filters: Filters, by: Group) -> Place:
    """By the day in this machine's zone, or only whether it is in the time that is asked about."""

    def place(stamp: str | None) -> str | None:
        time = parse_time(stamp)
        if time is not None and not filters.holds(time):
            return None
        return day_and_time(stamp)[:10] if by == "day" else ""

    return place


def _usage(connection: sqlite3.Connection) -> dict[str, dict[str, Tokens]]:
    """Tokens by conversation and model."""
    made: dict[str, dict[str, Tokens]] = {}
    for ident, model, *tokens in connection.execute(
        f"SELECT conversation_id, model, {', '.join(TOKENS)} FROM model_usage"
    ):
        made.setdefault(ident, {})[model] = tokens
    return made


def _without_tokens(portion: Portion) -> Portion:
    none: Tokens = [None] * len(TOKENS)
    return msgspec.structs.replace(portion, tokens=none, cost_usd=None, by_model={})


def _add(row: Figures, portion: Portion, parent: str | None) -> None:
    row.add("subagents" if parent else "conversations", 1)
    row.turns += 0 if parent else portion.turns  # what is sent to a sub-agent, nobody typed
    row.tool_calls += portion.tool_calls
    row.tool_failures += portion.tool_failures
    row.add("lines_added", portion.lines_added)
    row.add("lines_removed", portion.lines_removed)
    decide(row, portion.outcomes)
    for field, value in zip(TOKENS, portion.tokens, strict=True):
        row.add(field, value)
    if portion.cost_usd is not None:
        row.add("cost_usd", portion.cost_usd)
    else:
        for model, tokens in portion.by_model.items():
            price(row, model, tokens)


def _add_models(table: Table, portion: Portion, ident: str, inner: bool, filters: Filters) -> None:
    for model, tokens in portion.by_model.items():
        if filters.model is not None and filters.model.lower() not in model.lower():
            continue
        row = table.join(model, ident, inner)
        for field, value in zip(TOKENS, tokens, strict=True):
            row.add(field, value)
        price(row, model, tokens)


def counted_in_parent(connection: sqlite3.Connection) -> set[str]:
    """Sub-agents whose tokens are in their parent's own figures already."""
    children: dict[str, list[str]] = {}
    for parent, child in connection.execute(
        "SELECT parent_id, child_id FROM links WHERE kind = 'subagent'"
    ):
        children.setdefault(parent, []).append(child)
    waiting = [
        ident
        for (ident,) in connection.execute(
            "SELECT id FROM conversations WHERE json_extract(metadata, '$.usage_includes_subagents')"
        )
    ]
    found: set[str] = set()
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found
