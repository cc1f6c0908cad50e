"""Figures: what `stats` knows of one group, and groups by their names."""

from collections.abc import Iterable

import msgspec

from unspool.store.metrics import KEPT
from unspool.store.portions import Tokens
from unspool.store.prices import rates_of

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


def decide(row: Figures, outcomes: Iterable[str | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            row.changes_decided += 1
            row.changes_kept += outcome in KEPT


def price(row: Figures, model: str, tokens: Tokens) -> None:
    prompt, completion, cached, cache_write = tokens
    rates = rates_of(model) if model else None
    if rates is None:
        row.tokens_without_price += (prompt or 0) + (completion or 0)
    elif prompt is not None or completion is not None:
        row.add("cost_usd", rates.cost(prompt, completion, cached, cache_write))
