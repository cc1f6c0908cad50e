"""Periods: how much of a conversation belongs to a day, or to the time that is asked about.

A conversation may go on for days. What it did counts when it did it; what is known only of the
whole of it (tokens that an agent reports for a session) counts when it ended.
"""

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from unspool.reduce.totals import NOT_TYPED
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
        if operation in CHANGES:
            _change(at(index, stamp), outcome, added, removed)
    _settle(whole, portions, portions.setdefault(last, Portion()))
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


def _change(portion: Portion, outcome: str | None, added: int | None, removed: int | None) -> None:
    if outcome in KEPT or outcome in REFUSED:
        portion.outcomes.append(outcome)
    if outcome not in NOT_MADE:
        portion.lines_added = _sum(portion.lines_added, added)
        portion.lines_removed = _sum(portion.lines_removed, removed)


def _settle(whole: Portion, portions: dict[str | None, Portion], last: Portion) -> None:
    """Make the portions add up: what no message tells of goes to the last."""
    counted = [portion.tokens for portion in portions.values()]
    for portion, tokens in zip(portions.values(), _shares(whole.tokens, counted), strict=True):
        portion.tokens = tokens
    last.tokens = _added(last.tokens, _rest(whole.tokens, [p.tokens for p in portions.values()]))
    by_model = [portion.by_model for portion in portions.values()]
    for portion in portions.values():
        portion.by_model = {}
    for model, tokens in whole.by_model.items():
        shares = _shares(tokens, [one.get(model) or [None] * len(TOKENS) for one in by_model])
        for portion, share in zip(portions.values(), shares, strict=True):
            if any(value is not None for value in share):
                portion.by_model[model] = share
        rest = _rest(tokens, shares)
        if any(value is not None for value in rest):
            last.by_model[model] = _added(last.by_model.get(model), rest)
    if whole.cost_usd is not None:
        total = _size(whole)
        for portion in portions.values():
            portion.cost_usd = whole.cost_usd * _size(portion) / total if total else 0.0
        if not total:
            last.cost_usd = whole.cost_usd


def _size(portion: Portion) -> int:
    return (portion.tokens[0] or 0) + (portion.tokens[1] or 0)


def _shares(whole: Tokens, counted: list[Tokens]) -> list[Tokens]:
    """What was counted, as far as the whole has it: nothing where more was counted than there is."""
    shares = [list(one) for one in counted]
    for at, value in enumerate(whole):
        if value is None or sum(one[at] or 0 for one in counted) > value:
            for one in shares:
                one[at] = None
    return shares


def _rest(whole: Tokens, shares: list[Tokens]) -> Tokens:
    """What is left; nothing, rather than 0, where the shares are all of it."""
    rests: Tokens = []
    for at, value in enumerate(whole):
        counts = [one[at] or 0 for one in shares if one[at] is not None]
        rest = (value or 0) - sum(counts)
        rests.append(rest if value is not None and (rest or not counts) else None)
    return rests


def _added(first: Tokens | None, second: Tokens) -> Tokens:
    return list(map(_sum, first, second)) if first is not None else second


def _sum(first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else first + second
