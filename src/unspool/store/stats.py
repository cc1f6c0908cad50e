"""Stats: conversations, turns, tokens, cost, failures, lines and acceptance, grouped."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from unspool.io.times import format_time, parse_time
from unspool.store.filters import Filters, where
from unspool.store.periods import TOKENS, Portion, Tokens, split
from unspool.store.prices import rates_of
from unspool.store.rows import KEPT
from unspool.views.figures import day_and_time

Group = Literal["day", "project", "model", "tool", "source", "file"]
GROUPS: tuple[Group, ...] = ("day", "project", "model", "tool", "source", "file")
UNKNOWN = "(unknown)"
_ADDED = ("tool_calls", "tool_failures", "lines_added", "lines_removed", "cost_usd")


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

    def price(self, model: str, tokens: Tokens) -> None:
        """Add what they cost."""
        prompt, completion, cached, cache_write = tokens
        rates = rates_of(model) if model else None
        if rates is None:
            self.tokens_without_price += (prompt or 0) + (completion or 0)
        elif prompt is not None or completion is not None:
            self.add("cost_usd", rates.cost(prompt, completion, cached, cache_write))


def stats(connection: sqlite3.Connection, by: Group, filters: Filters) -> list[Figures]:
    """The figures of every group, the most important first (days in order)."""
    asked = _Stats(connection, by, filters)
    if by == "tool":
        asked.by_tool()
    elif by == "file":
        asked.by_file()
    elif by == "model":
        asked.by_model()
    else:
        asked.by_conversation()
    return sorted(asked.rows.values(), key=_ORDER[by])


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


def _day(stamp: str) -> str:
    """The day of a stamp in this machine's zone, in SQL."""
    return f"date({stamp}, 'localtime')"


def _moment(table: str, column: str) -> str:
    """When something was done: its own time, its message's, or its turn's."""
    return (
        f"coalesce({table}.{column}, m.timestamp, (SELECT n.started_at FROM conversation_turns n"
        f" WHERE n.conversation_id = {table}.conversation_id AND n.turn_index = {table}.turn_index))"
    )


_START = "nullif(c.started_at, '')"
_END = f"ifnull(c.ended_at, {_START})"
_IN_PARENT = (
    "WITH RECURSIVE counted(id) AS (SELECT l.child_id FROM conversations c JOIN links l"
    " ON l.parent_id = c.id AND l.kind = 'subagent'"
    " WHERE json_extract(c.metadata, '$.usage_includes_subagents')"
    " UNION SELECT l.child_id FROM counted JOIN links l"
    " ON l.parent_id = counted.id AND l.kind = 'subagent') SELECT id FROM counted"
)
"""Sub-agents whose tokens are in their parent's own figures already."""
_WORK = (
    "SELECT n.conversation_id, n.model, n.started_at, 1 AS turns, 0 AS calls, 0 AS failures"
    " FROM conversation_turns n CROSS JOIN messages m ON m.conversation_id = n.conversation_id"
    " AND m.message_index = n.first_message AND NOT m.copied"
    f" UNION ALL SELECT m.conversation_id, m.model, {_moment('t', 'started_at')}, 0, 1,"
    " ifnull(t.is_error, 0) FROM tool_calls t CROSS JOIN messages m"
    " ON m.conversation_id = t.conversation_id AND m.message_index = t.message_index"
)
"""Turns and calls, each with its model and its time."""
_TOUCHES = (
    "FROM files_touched f JOIN conversations c ON c.id = f.conversation_id LEFT JOIN messages m"
    " ON m.conversation_id = f.conversation_id AND m.message_index = f.message_index"
)


class _Stats:
    """Figures on the way, by the name of their group."""

    def __init__(self, connection: sqlite3.Connection, by: Group, filters: Filters) -> None:
        self.connection = connection
        self.by = by
        self.filters = filters
        self.rows: dict[str, Figures] = {}
        self.members: set[tuple[str, str]] = set()
        """(group, conversation), where one may come up several times."""
        terms, self.values = filters.of_conversations()
        self.terms = where(terms)

    def row(self, name: str | None) -> Figures:
        name = name or UNKNOWN
        if name not in self.rows:
            self.rows[name] = Figures(name)
        return self.rows[name]

    def _join(self, name: str, ident: str, inner: bool) -> Figures:
        row = self.row(name)
        if (row.name, ident) not in self.members:
            self.members.add((row.name, ident))
            row.add("subagents" if inner else "conversations", 1)
        return row

    # By what a conversation is.

    def by_conversation(self) -> None:
        names = {"day": _day(_START), "project": "c.project", "source": "c.source"}
        for _, parent, group, portion in self._portions(names[self.by]):
            row = self.row(group)
            row.add("subagents" if parent else "conversations", 1)
            row.turns += 0 if parent else portion.turns  # what is sent to a sub-agent, nobody typed
            row.changes_decided += len(portion.outcomes)
            row.changes_kept += sum(1 for outcome in portion.outcomes if outcome in KEPT)
            for field in _ADDED:
                row.add(field, getattr(portion, field))
            for field, value in zip(TOKENS, portion.tokens, strict=True):
                row.add(field, value)
            if portion.cost_usd is None:
                for model, tokens in portion.by_model.items():
                    row.price(model, tokens)
        self._add_touches(names | {"day": _day("coalesce(f.timestamp, m.timestamp, c.ended_at)")})

    def _inside(self) -> tuple[str, list[Any]]:
        """The condition on a conversation that it belongs to one group and to the time as a whole."""
        terms = [f"{_day(_START)} IS {_day(_END)}" if self.by == "day" else "1"]
        values = []
        if self.filters.since is not None:
            terms.append(f"ifnull({_START} >= ?, 1)")
            values.append(format_time(self.filters.since))
        if self.filters.until is not None:
            terms.append(f"ifnull({_END} <= ?, 1)")
            values.append(format_time(self.filters.until))
        return where(terms), values

    def _portions(self, name: str) -> Iterator[tuple[str, str | None, str | None, Portion]]:
        """(id, parent, group, figures) of what conversations did on a day or in the time that is asked
        about. Nearly all belong there as a whole: only of the others it is looked up what they did
        when."""
        inside, times = self._inside()
        in_parent = {ident for (ident,) in self.connection.execute(_IN_PARENT)}
        rows = self.connection.execute(
            f"SELECT {inside}, {name}, c.id, c.parent_id, {_START}, c.turns, c.tools,"
            f" c.tool_failures, {', '.join('c.' + column for column in TOKENS)}, c.cost_usd,"
            f" c.lines_added, c.lines_removed, c.acceptance_decisions FROM conversations c"
            f" WHERE {self.terms}",
            [*times, *self.values],
        ).fetchall()
        usage: dict[str, dict[str, Tokens]] = {}
        for ident, model, *tokens in self.connection.execute(
            f"SELECT conversation_id, model, {', '.join(TOKENS)} FROM model_usage"
            " WHERE conversation_id IN (SELECT value FROM json_each(?))",
            (json.dumps([row[2] for row in rows]),),
        ):
            usage.setdefault(ident, {})[model] = tokens
        for is_inside, group, ident, parent, start, turns, tools, failures, *rest in rows:
            *tokens, cost, added, removed, decided = rest
            outcomes = [one["outcome"] for one in json.loads(decided)] if decided != "[]" else []
            portion = Portion(
                turns, tools, failures, tokens, cost, usage.get(ident, {}), added, removed, outcomes
            )
            if is_inside:
                portions: dict[str | None, Portion] = {group: portion}
            else:
                portions = split(self.connection, ident, portion, self._place, start)
                portions.pop(None, None)
            for place, part in portions.items():
                if ident in in_parent:
                    none: Tokens = [None] * len(TOKENS)
                    part = msgspec.structs.replace(part, tokens=none, cost_usd=None, by_model={})
                yield ident, parent, place if self.by == "day" else group, part

    def _place(self, stamp: str | None) -> str | None:
        """The day in this machine's zone, or only whether it is in the time that is asked about."""
        time = parse_time(stamp)
        if time is not None and not self.filters.holds(time):
            return None
        return day_and_time(stamp)[:10] if self.by == "day" else ""

    def _add_touches(self, names: dict[str, str]) -> None:
        """How often files were read and changed."""
        when, times = self.filters.of_moments("coalesce(f.timestamp, m.timestamp, c.ended_at)")
        for group, number in self.connection.execute(
            f"SELECT {names[self.by]}, count(*) {_TOUCHES}"
            f" WHERE {where([self.terms, *when])} GROUP BY 1",
            [*self.values, *times],
        ):
            if (group or UNKNOWN) in self.rows:
                self.row(group).touches += number

    # By what was used.

    def by_model(self) -> None:
        """Tokens of every model; its turns, calls and failures; models whose tokens nobody counted."""
        for ident, parent, _, portion in self._portions("NULL"):
            for model, tokens in portion.by_model.items():
                if self._is_meant(model):
                    row = self._join(model, ident, parent is not None)
                    for field, value in zip(TOKENS, tokens, strict=True):
                        row.add(field, value)
                    row.price(model, tokens)
        when, times = self.filters.of_moments("x.started_at")
        for model, ident, inner, turns, calls, failures in self.connection.execute(
            "SELECT x.model, c.id, c.parent_id IS NOT NULL, sum(x.turns), sum(x.calls),"
            f" sum(x.failures) FROM ({_WORK}) x"
            " JOIN conversations c ON c.id = x.conversation_id"
            f" WHERE x.model IS NOT NULL AND {where([self.terms, *when])} GROUP BY 1, 2",
            [*self.values, *times],
        ):
            if self._is_meant(model):
                row = self._join(model, ident, bool(inner))
                row.turns += 0 if inner else turns
                row.tool_calls += calls
                row.tool_failures += failures
        self._add_touches({"model": "ifnull(m.model, c.model)"})

    def _is_meant(self, model: str) -> bool:
        return self.filters.model is None or self.filters.model.lower() in model.lower()

    def by_tool(self) -> None:
        when, times = self.filters.of_moments(_moment("t", "started_at"))
        # Who asks about all of them needs the calls alone.
        join = (
            " JOIN conversations c ON c.id = t.conversation_id JOIN messages m"
            " ON m.conversation_id = t.conversation_id AND m.message_index = t.message_index"
            if self.values or when
            else ""
        )
        self._add_named(
            "SELECT name, sum(calls) AS tool_calls, sum(failures) AS tool_failures,"
            " count(*) AS conversations FROM (SELECT t.name AS name,"
            " count(*) AS calls, sum(ifnull(t.is_error, 0)) AS failures FROM tool_calls t"
            f"{join} WHERE {where([self.terms, *when])} GROUP BY t.conversation_id, t.name)"
            " GROUP BY 1",
            [*self.values, *times],
            lambda name: self.filters.tool in (None, name),
        )

    def by_file(self) -> None:
        when, times = self.filters.of_moments(_moment("f", "timestamp"))
        kept = ", ".join(f"'{outcome}'" for outcome in sorted(KEPT))
        decided = "f.operation != 'read' AND f.outcome != 'failed'"
        part = (self.filters.file or "").lower()
        self._add_named(
            "SELECT f.path AS name, count(*) AS touches, sum(f.lines_added) AS lines_added,"
            f" sum(f.lines_removed) AS lines_removed, sum(ifnull({decided}, 0)) AS changes_decided,"
            f" sum(ifnull({decided} AND f.outcome IN ({kept}), 0)) AS changes_kept,"
            f" count(DISTINCT f.conversation_id) AS conversations {_TOUCHES}"
            f" WHERE {where([self.terms, *when])} GROUP BY 1",
            [*self.values, *times],
            lambda path: part in path.lower(),
        )

    def _add_named(self, query: str, values: list[Any], is_meant: Callable[[str], bool]) -> None:
        """Rows of a query whose columns are called as the figures are."""
        rows = self.connection.execute(query, values)
        columns = [name for name, *_ in rows.description]
        for row in rows:
            figures = Figures(**dict(zip(columns, row, strict=True)))
            if is_meant(figures.name):
                figures.name = figures.name or UNKNOWN
                self.rows[figures.name] = figures
