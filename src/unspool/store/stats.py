"""Stats: conversations, turns, tokens, cost, failures, lines and acceptance, grouped."""

import json
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from unspool.store.filters import Filters, where
from unspool.store.metrics import KEPT
from unspool.store.prices import rates_of

Group = Literal["day", "project", "model", "tool", "source", "file"]
GROUPS: tuple[Group, ...] = ("day", "project", "model", "tool", "source", "file")
UNKNOWN = "(unknown)"


class Figures(msgspec.Struct, omit_defaults=True):
    """The figures of one group. What nobody knows is absent."""

    name: str
    conversations: int = 0
    subagents: int = 0
    turns: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_usd: float | None = None
    tokens_without_price: int = 0
    """Tokens of models whose price nobody knows: their cost is not in `cost_usd`."""
    tool_calls: int = 0
    tool_failures: int = 0
    lines_added: int | None = None
    lines_removed: int | None = None
    changes_kept: int = 0
    changes_decided: int = 0
    touches: int = 0

    @property
    def acceptance_rate(self) -> float | None:
        return self.changes_kept / self.changes_decided if self.changes_decided else None

    @property
    def total_tokens(self) -> int:
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)

    def add(self, field: str, value: float | None) -> None:
        if value is not None:
            setattr(self, field, (getattr(self, field) or 0) + value)


class Table:
    """Figures by the name of their group."""

    def __init__(self) -> None:
        self.rows: dict[str, Figures] = {}

    def row(self, name: str | None) -> Figures:
        name = name or UNKNOWN
        if name not in self.rows:
            self.rows[name] = Figures(name)
        return self.rows[name]


def stats(connection: sqlite3.Connection, by: Group, filters: Filters) -> list[Figures]:
    """The figures of every group, the most important first (days in order)."""
    table = Table()
    if by == "tool":
        _by_tool(connection, filters, table)
    elif by == "file":
        _by_file(connection, filters, table)
    elif by == "model":
        _by_model(connection, filters, table)
    else:
        _by_conversation(connection, filters, table, _NAMES[by])
    return sorted(table.rows.values(), key=_ORDER[by])


_NAMES: dict[str, str] = {
    "day": "substr(nullif(c.started_at, ''), 1, 10)",
    "project": "c.project",
    "source": "c.source",
}


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
    connection: sqlite3.Connection, filters: Filters, table: Table, name: str
) -> None:
    terms, values = filters.of_conversations()
    rows = connection.execute(
        f"SELECT {name}, c.id, c.parent_id, c.turns, c.tools, c.tool_failures, c.prompt_tokens,"
        " c.completion_tokens, c.cached_tokens, c.cache_write_tokens, c.cost_usd, c.lines_added,"
        f" c.lines_removed, c.acceptance_decisions FROM conversations c WHERE {where(terms)}",
        values,
    )
    costs = Costs(connection)
    included = counted_in_parent(connection)
    for (
        group,
        ident,
        parent,
        turns,
        tools,
        failures,
        *tokens,
        cost,
        added,
        removed,
        decided,
    ) in rows:
        row = table.row(group)
        row.add("subagents" if parent else "conversations", 1)
        row.turns += 0 if parent else turns  # what is sent to a sub-agent, nobody typed
        row.tool_calls += tools
        row.tool_failures += failures
        row.add("lines_added", added)
        row.add("lines_removed", removed)
        _decide(row, [one["outcome"] for one in json.loads(decided)])
        if ident in included:
            continue
        for field, value in zip(_TOKENS, tokens, strict=True):
            row.add(field, value)
        if cost is not None:
            row.add("cost_usd", cost)
        else:
            costs.add(row, ident)


_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")


def counted_in_parent(connection: sqlite3.Connection) -> set[str]:
    """Sub-agents whose tokens are in their parent's own figures already."""
    children: dict[str, list[str]] = {}
    for parent, child in connection.execute("SELECT parent_id, child_id FROM links"):
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


def _decide(row: Figures, outcomes: Iterable[str | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            row.changes_decided += 1
            row.changes_kept += outcome in KEPT


class Costs:
    """The cost of conversations that do not say it themselves, by their models' prices."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.usage: dict[str, list[tuple[Any, ...]]] = {}
        rows = connection.execute(
            f"SELECT conversation_id, model, {', '.join(_TOKENS)} FROM model_usage"
        )
        for ident, *usage in rows:
            self.usage.setdefault(ident, []).append(tuple(usage))

    def add(self, row: Figures, ident: str) -> None:
        for model, *tokens in self.usage.get(ident, ()):
            price(row, model, tokens)


def price(row: Figures, model: str, tokens: list[int | None]) -> None:
    prompt, completion, cached, cache_write = tokens
    rates = rates_of(model) if model else None
    if rates is None:
        row.tokens_without_price += (prompt or 0) + (completion or 0)
    elif prompt is not None or completion is not None:
        row.add("cost_usd", rates.cost(prompt, completion, cached, cache_write))


def _by_model(connection: sqlite3.Connection, filters: Filters, table: Table) -> None:
    terms, values = filters.of_conversations()
    rows = connection.execute(
        f"SELECT u.model, c.id, c.parent_id, {', '.join('u.' + name for name in _TOKENS)}"
        f" FROM model_usage u JOIN conversations c ON c.id = u.conversation_id WHERE {where(terms)}",
        values,
    )
    included = counted_in_parent(connection)
    for model, ident, parent, *tokens in rows:
        unwanted = filters.model is not None and filters.model.lower() not in model.lower()
        if unwanted or ident in included:
            continue
        row = table.row(model)
        row.add("subagents" if parent else "conversations", 1)
        for field, value in zip(_TOKENS, tokens, strict=True):
            row.add(field, value)
        price(row, model, tokens)


def _by_tool(connection: sqlite3.Connection, filters: Filters, table: Table) -> None:
    terms, values = filters.of_conversations()
    rows = connection.execute(
        "SELECT t.name, count(*), sum(ifnull(t.is_error, 0)), count(DISTINCT t.conversation_id)"
        " FROM tool_calls t JOIN conversations c ON c.id = t.conversation_id"
        f" WHERE {where(terms)} GROUP BY t.name",
        values,
    )
    for name, calls, failures, conversations in rows:
        if filters.tool is None or name == filters.tool:
            row = table.row(name)
            row.tool_calls, row.tool_failures, row.conversations = calls, failures, conversations


def _by_file(connection: sqlite3.Connection, filters: Filters, table: Table) -> None:
    terms, values = filters.of_conversations()
    rows = connection.execute(
        "SELECT f.path, f.conversation_id, f.operation, f.lines_added, f.lines_removed, f.outcome"
        " FROM files_touched f JOIN conversations c ON c.id = f.conversation_id"
        f" WHERE {where(terms)}",
        values,
    )
    conversations: dict[str, set[str]] = {}
    for path, ident, operation, added, removed, outcome in rows:
        if filters.file is not None and filters.file.lower() not in path.lower():
            continue
        row = table.row(path)
        row.touches += 1
        row.add("lines_added", added)
        row.add("lines_removed", removed)
        if operation != "read":
            _decide(row, [outcome if outcome != "failed" else None])
        conversations.setdefault(path or UNKNOWN, set()).add(ident)
    for path, idents in conversations.items():
        table.row(path).conversations = len(idents)
