"""Stats: conversations, turns, tokens, cost, failures, lines and acceptance, grouped."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from unspool.io.times import format_time, parse_time
from unspool.store.filters import Filters, where
from unspool.store.periods import TOKENS, Place, Portion, Tokens, split
from unspool.store.prices import rates_of
from unspool.store.rows import KEPT
from unspool.views.figures import day_and_time

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
        self.members: dict[str, set[tuple[str, bool]]] = {}
        """Conversations (id, sub-agent or not) by group, where one may come up several times."""

    def join(self, name: str | None, ident: str, inner: bool) -> Figures:
        row = self.row(name)
        members = self.members.setdefault(row.name, set())
        if (ident, inner) not in members:
            members.add((ident, inner))
            row.add("subagents" if inner else "conversations", 1)
        return row

    def row(self, name: str | None) -> Figures:
        name = name or UNKNOWN
        if name not in self.rows:
            self.rows[name] = Figures(name)
        return self.rows[name]


def price(row: Figures, model: str, tokens: Tokens, total: int | None = None) -> None:
    prompt, completion, cached, cache_write = tokens
    rates = rates_of(model) if model else None
    if rates is None:
        row.tokens_without_price += total or (prompt or 0) + (completion or 0)
    elif prompt is not None or completion is not None:
        row.add("cost_usd", rates.cost(prompt, completion, cached, cache_write))


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
    whole = _Whole(filters, by, included)
    if by != "model":
        _add_whole(connection, whole, table)
    for ident, parent, name, portion in _portions(connection, whole, filters, by):
        own = portion if ident not in included else _without_tokens(portion)
        if by == "model":
            _add_models(table, own, ident, parent is not None, filters)
        else:
            _add(table.row(name), own, parent)
    if by == "model":
        add_work(connection, filters, table)
    _add_touches(connection, filters, table, by)


class _Whole:
    """The conversations that belong to one day, or wholly to the time that is asked about.

    They are nearly all there are, and SQLite adds them up by itself; only of the others it is looked up
    what they did when.
    """

    START = "nullif(c.started_at, '')"
    END = f"ifnull(c.ended_at, {START})"

    def __init__(self, filters: Filters, by: Group, included: set[str]) -> None:
        terms, values = filters.of_conversations()
        self.terms = where(terms)
        self.values = values
        self.name = {
            "day": _day(self.START),
            "project": "c.project",
            "source": "c.source",
        }.get(by, "NULL")
        inside = ["1"]
        self.inside_values: list[Any] = []
        if by == "day":
            inside.append(f"{_day(self.START)} IS {_day(self.END)}")
        if filters.since is not None:
            inside.append(f"ifnull({self.START} >= ?, 1)")
            self.inside_values.append(format_time(filters.since))
        if filters.until is not None:
            inside.append(f"ifnull({self.END} <= ?, 1)")
            self.inside_values.append(format_time(filters.until))
        self.inside = " AND ".join(inside)
        self.own = "c.id NOT IN (SELECT value FROM json_each(?))"
        """Whose tokens are not in its parent's."""
        self.included = json.dumps(sorted(included))


def _day(stamp: str) -> str:
    """The day of a stamp in this machine's zone, in SQL."""
    return f"date({stamp}, 'localtime')"


def _add_whole(connection: sqlite3.Connection, whole: _Whole, table: Table) -> None:
    chosen = f"FROM conversations c WHERE {whole.terms} AND {whole.inside}"
    values = [*whole.values, *whole.inside_values]
    own = f"CASE WHEN {whole.own} THEN %s END"
    sums = ", ".join(f"sum({own % ('c.' + name)})" for name in (*TOKENS, "cost_usd"))
    rows = connection.execute(
        f"SELECT {whole.name}, sum(c.parent_id IS NULL), count(c.parent_id),"
        " sum(CASE WHEN c.parent_id IS NULL THEN c.turns ELSE 0 END), sum(c.tools),"
        f" sum(c.tool_failures), sum(c.lines_added), sum(c.lines_removed), {sums} {chosen} GROUP BY 1",
        [*[whole.included] * (len(TOKENS) + 1), *values],
    )
    fields = (
        "conversations", "subagents", "turns", "tool_calls", "tool_failures", "lines_added",
        "lines_removed", *TOKENS, "cost_usd",
    )  # fmt: skip
    for name, *figures in rows:
        row = table.row(name)
        for field, value in zip(fields, figures, strict=True):
            row.add(field, value)
    rows = connection.execute(
        f"SELECT {whole.name}, json_extract(d.value, '$.outcome'), count(*) FROM conversations c"
        f" JOIN json_each(c.acceptance_decisions) d WHERE c.acceptance_decisions != '[]'"
        f" AND {whole.terms} AND {whole.inside} GROUP BY 1, 2",
        values,
    )
    for name, outcome, number in rows:
        row = table.row(name)
        row.changes_decided += number
        row.changes_kept += number if outcome in KEPT else 0
    # What nobody wrote down the cost of. The prompt is never less than what was cached of it.
    rows = connection.execute(
        f"SELECT {whole.name}, u.model,"
        " sum(max(ifnull(u.prompt_tokens, 0), ifnull(u.cached_tokens, 0)"
        " + ifnull(u.cache_write_tokens, 0))), sum(u.completion_tokens), sum(u.cached_tokens),"
        " sum(u.cache_write_tokens), sum(ifnull(u.prompt_tokens, 0) + ifnull(u.completion_tokens, 0))"
        " FROM conversations c CROSS JOIN model_usage u ON u.conversation_id = c.id"
        " WHERE c.cost_usd IS NULL AND ifnull(u.prompt_tokens, u.completion_tokens) IS NOT NULL"
        f" AND {whole.own} AND {whole.terms} AND {whole.inside} GROUP BY 1, 2",
        [whole.included, *values],
    )
    for name, model, *tokens, total in rows:
        price(table.row(name), model, tokens, total)


def _add_touches(connection: sqlite3.Connection, filters: Filters, table: Table, by: Group) -> None:
    """How often files were read and changed."""
    terms, values = filters.of_conversations()
    stamp = "coalesce(f.timestamp, m.timestamp, c.ended_at)"
    when, times = filters.of_moments(stamp)
    name = {
        "day": _day(stamp),
        "project": "c.project",
        "source": "c.source",
        "model": "ifnull(m.model, c.model)",
    }
    rows = connection.execute(
        f"SELECT {name[by]}, count(*)"
        " FROM files_touched f JOIN conversations c ON c.id = f.conversation_id LEFT JOIN messages m"
        " ON m.conversation_id = f.conversation_id AND m.message_index = f.message_index"
        f" WHERE {where([*terms, *when])} GROUP BY 1",
        [*values, *times],
    )
    for group, number in rows:
        row = table.rows.get(group or UNKNOWN)
        if row is not None:
            row.touches += number


def _portions(
    connection: sqlite3.Connection, whole: _Whole, filters: Filters, by: Group
) -> Iterator[tuple[str, str | None, str | None, Portion]]:
    """(id, parent, group, figures) of what every other conversation did on a day or in a time.

    By model: of every conversation, for their tokens stand in a table of their own.
    """
    name = "NULL" if by == "day" else whole.name
    rows = connection.execute(
        f"SELECT {whole.inside}, {name}, c.id, c.parent_id, {whole.START}, c.turns, c.tools,"
        f" c.tool_failures, {', '.join('c.' + name for name in TOKENS)}, c.cost_usd, c.lines_added,"
        f" c.lines_removed, c.acceptance_decisions FROM conversations c WHERE {whole.terms}"
        + ("" if by == "model" else f" AND NOT ({whole.inside})"),
        [*whole.inside_values, *whole.values, *(() if by == "model" else whole.inside_values)],
    ).fetchall()
    usage = _usage(connection, None if by == "model" else [row[2] for row in rows])
    place = _place(filters, by)
    for inside, group, ident, parent, start, turns, tools, failures, *rest in rows:
        *tokens, cost, added, removed, decided = rest
        outcomes = [one["outcome"] for one in json.loads(decided)] if decided != "[]" else []
        portion = Portion(
            turns, tools, failures, tokens, cost, usage.get(ident, {}), added, removed, outcomes
        )
        if inside:
            yield ident, parent, group, portion
            continue
        for where_to, part in split(connection, ident, portion, place, start).items():
            if where_to is not None:
                yield ident, parent, where_to if by == "day" else group, part


def _place(filters: Filters, by: Group) -> Place:
    """By the day in this machine's zone, or only whether it is in the time that is asked about."""

    def place(stamp: str | None) -> str | None:
        time = parse_time(stamp)
        if time is not None and not filters.holds(time):
            return None
        return day_and_time(stamp)[:10] if by == "day" else ""

    return place


def _usage(
    connection: sqlite3.Connection, idents: list[str] | None
) -> dict[str, dict[str, Tokens]]:
    """Tokens by conversation and model: of these, or of all."""
    which = "" if idents is None else " WHERE conversation_id IN (SELECT value FROM json_each(?))"
    usage: dict[str, dict[str, Tokens]] = {}
    for ident, model, *tokens in connection.execute(
        f"SELECT conversation_id, model, {', '.join(TOKENS)} FROM model_usage{which}",
        () if idents is None else (json.dumps(idents),),
    ):
        usage.setdefault(ident, {})[model] = tokens
    return usage


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
    row.changes_decided += len(portion.outcomes)
    row.changes_kept += sum(1 for outcome in portion.outcomes if outcome in KEPT)
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
    counted: set[str] = set()
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in counted:
                counted.add(child)
                waiting.append(child)
    return counted


# Which tools were called, which files touched, and what each model did.


def by_tool(connection: sqlite3.Connection, filters: Filters, table: Table) -> None:
    terms, values = filters.of_conversations()
    when, times = filters.of_moments(_moment("t", "started_at"))
    # Who asks about all of them needs the calls alone.
    join = (
        " JOIN conversations c ON c.id = t.conversation_id JOIN messages m"
        " ON m.conversation_id = t.conversation_id AND m.message_index = t.message_index"
        if terms or when
        else ""
    )
    rows = connection.execute(
        "SELECT name, sum(calls), sum(failures), count(*) FROM (SELECT t.name AS name,"
        " count(*) AS calls, sum(ifnull(t.is_error, 0)) AS failures"
        f" FROM tool_calls t{join} WHERE {where([*terms, *when])} GROUP BY t.conversation_id, t.name)"
        " GROUP BY 1",
        [*values, *times],
    )
    for name, calls, failures, conversations in rows:
        if filters.tool is None or name == filters.tool:
            row = table.row(name)
            row.tool_calls, row.tool_failures, row.conversations = calls, failures, conversations


def by_file(connection: sqlite3.Connection, filters: Filters, table: Table) -> None:
    terms, values = filters.of_conversations()
    when, times = filters.of_moments(_moment("f", "timestamp"))
    kept = ", ".join(f"'{outcome}'" for outcome in sorted(KEPT))
    decided = "f.operation != 'read' AND f.outcome != 'failed'"
    rows = connection.execute(
        "SELECT f.path, count(*), sum(f.lines_added), sum(f.lines_removed),"
        f" sum(ifnull({decided}, 0)), sum(ifnull({decided} AND f.outcome IN ({kept}), 0)),"
        " count(DISTINCT f.conversation_id)"
        " FROM files_touched f JOIN conversations c ON c.id = f.conversation_id LEFT JOIN messages m"
        " ON m.conversation_id = f.conversation_id AND m.message_index = f.message_index"
        f" WHERE {where([*terms, *when])} GROUP BY 1",
        [*values, *times],
    )
    for path, touches, added, removed, decisions, changes_kept, conversations in rows:
        if filters.file is None or filters.file.lower() in path.lower():
            row = table.row(path)
            row.touches, row.conversations = touches, conversations
            row.lines_added, row.lines_removed = added, removed
            row.changes_decided, row.changes_kept = decisions, changes_kept


def add_work(connection: sqlite3.Connection, filters: Filters, table: Table) -> None:
    """Turns, calls and failures of every model, and the models whose tokens nobody counted."""
    terms, values = filters.of_conversations()
    when, times = filters.of_moments("x.started_at")
    done = f"SELECT * FROM ({_TURNS}) UNION ALL SELECT * FROM ({_CALLS})" if when else _ALL
    rows = connection.execute(
        "SELECT x.model, c.id, c.parent_id IS NOT NULL, sum(x.turns), sum(x.calls), sum(x.failures)"
        f" FROM ({done}) x JOIN conversations c ON c.id = x.conversation_id"
        f" WHERE x.model IS NOT NULL AND {where([*terms, *when])} GROUP BY 1, 2",
        [*values, *times],
    )
    for model, ident, inner, turns, calls, failures in rows:
        if filters.model is None or filters.model.lower() in model.lower():
            row = table.join(model, ident, bool(inner))
            row.turns += 0 if inner else turns
            row.tool_calls += calls
            row.tool_failures += failures


def _moment(table: str, column: str) -> str:
    """When something was done: its own time, its message's, or its turn's."""
    return (
        f"coalesce({table}.{column}, m.timestamp, (SELECT n.started_at FROM conversation_turns n"
        f" WHERE n.conversation_id = {table}.conversation_id AND n.turn_index = {table}.turn_index))"
    )


_ALL = (
    "SELECT conversation_id, model, turns, tool_calls AS calls, tool_failures AS failures"
    " FROM model_work"
)
"""What every model did, whenever that was,"""
_TURNS = (
    "SELECT n.conversation_id, n.model, n.started_at, 1 AS turns, 0 AS calls, 0 AS failures"
    " FROM conversation_turns n CROSS JOIN messages m ON m.conversation_id = n.conversation_id"
    " AND m.message_index = n.first_message AND NOT m.copied"
)
"""and one by one, with its time."""
_CALLS = (
    f"SELECT m.conversation_id, m.model, {_moment('t', 'started_at')} AS started_at, 0, 1,"
    " ifnull(t.is_error, 0) FROM tool_calls t CROSS JOIN messages m"
    " ON m.conversation_id = t.conversation_id AND m.message_index = t.message_index"
)
