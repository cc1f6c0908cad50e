"""Periods: how much of a conversation belongs to a day, or to the time that is asked about.

A conversation may go on for days. What it did counts when it did it; what is known only of the
whole of it (tokens that an agent reports for a session) counts when it ended.
"""

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from unspool.reduce.records import NOT_TYPED
from unspool.store.rows import CHANGES, KEPT, NOT_MADE, REFUSED

TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
Tokens = list[int | None]
Place = Callable[[str | None], str | None]
"""Where a moment belongs; None: not to the time that is asked about."""


class Portion(msgspec.Struct):
    """A conversation, or what it did at some time."""

    turns: int = 0
    tool_calls: int = 0
    tool_failures: int = 0
    tokens: Tokens = msgspec.field(default_factory=lambda: [None] * len(TOKENS))
    cost_usd: float | None = None
    """What the agent itself says."""
    by_model: dict[str, Tokens] = {}
    lines_added: int | None = None
    lines_removed: int | None = None
    outcomes: list[str] = []


def split(
    connection: sqlite3.Connection, ident: str, whole: Portion, place: Place, start: str | None
) -> dict[str | None, Portion]:
    """The conversation by where its moments belong; the portions add up to the whole."""
    portions: dict[str | None, Portion] = {}
    places = _messages(connection, ident, place, start, portions)
    last = next(reversed(places.values()), place(start))

    def at(index: int | None, stamp: str | None = None) -> Portion:
        where = place(stamp) if stamp else places.get(index, last)
        return portions.setdefault(where, Portion())

    for (index,) in _rows(connection, "message_index", "tool_calls", ident):
        at(index).tool_calls += 1
    columns = "message_index, timestamp, operation, outcome, lines_added, lines_removed"
    for index, stamp, operation, outcome, added, removed in _rows(
        connection, columns, "files_touched", ident
    ):
        if operation not in CHANGES:
            continue
        portion = at(index, stamp)
        if outcome in KEPT or outcome in REFUSED:
            portion.outcomes.append(outcome)
        if outcome not in NOT_MADE:
            portion.lines_added = _sum(portion.lines_added, added)
            portion.lines_removed = _sum(portion.lines_removed, removed)
    portions.setdefault(last, Portion())
    _settle(whole, list(portions.values()), list(portions).index(last))
    return portions


def _rows(connection: sqlite3.Connection, columns: str, table: str, ident: str) -> sqlite3.Cursor:
    return connection.execute(f"SELECT {columns} FROM {table} WHERE conversation_id = ?", (ident,))


def _messages(
    connection: sqlite3.Connection,
    ident: str,
    place: Place,
    start: str | None,
    portions: dict[str | None, Portion],
) -> dict[int | None, str | None]:
    """Where each message belongs: one without a time to the one before it."""
    where = place(start)
    places: dict[int | None, str | None] = {}
    columns = "message_index, timestamp, copied, role, kind, is_error, model, " + ", ".join(TOKENS)
    rows = _rows(connection, columns, "messages", ident)
    for index, stamp, copied, role, kind, failed, model, *tokens in sorted(rows):
        if copied:
            continue
        where = place(stamp) if stamp else where
        places[index] = where
        portion = portions.setdefault(where, Portion())
        portion.turns += role == "user" and kind not in NOT_TYPED
        portion.tool_failures += bool(failed)
        portion.tokens = _added(portion.tokens, tokens)
        if model:
            portion.by_model[model] = _added(portion.by_model.get(model), tokens)
    return places


def _settle(whole: Portion, portions: list[Portion], last: int) -> None:
    """Make the portions add up: what no message tells of goes to the last."""
    shares = _shares(whole.tokens, [portion.tokens for portion in portions], last)
    for portion, tokens in zip(portions, shares, strict=True):
        portion.tokens = tokens
    counted = [portion.by_model for portion in portions]
    for portion in portions:
        portion.by_model = {}
    for model, used in whole.by_model.items():
        shares = _shares(used, [one.get(model) or [None] * len(TOKENS) for one in counted], last)
        for portion, tokens in zip(portions, shares, strict=True):
            if any(value is not None for value in tokens):
                portion.by_model[model] = tokens
    if whole.cost_usd is not None:
        sizes = [(portion.tokens[0] or 0) + (portion.tokens[1] or 0) for portion in portions]
        if not sum(sizes):
            sizes[last] = 1
        for portion, size in zip(portions, sizes, strict=True):
            portion.cost_usd = whole.cost_usd * size / sum(sizes)


def _shares(whole: Tokens, counted: list[Tokens], last: int) -> list[Tokens]:
    """What was counted, and with the last one what is left of the whole; all of it, where more was
    counted than there is. Nothing is left, rather than 0, where the counts are all of it."""
    shares = [list(one) for one in counted]
    for at, value in enumerate(whole):
        counts = [one[at] for one in counted if one[at] is not None]
        total = sum(count or 0 for count in counts)
        if value is None or total > value:
            counts, total = [], 0
            for one in shares:
                one[at] = None
        if value is not None and (value > total or not counts):
            shares[last][at] = (shares[last][at] or 0) + value - total
    return shares


def _added(first: Tokens | None, second: Tokens) -> Tokens:
    return list(map(_sum, first, second)) if first is not None else second


def _sum(first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else first + second
