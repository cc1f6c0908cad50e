"""Now: what every agent is doing, its sub-agents below it."""

import sqlite3
from contextlib import suppress

import msgspec

from unspool.errors import UnknownConversation
from unspool.hooks.spool import Layout
from unspool.live.daemon import is_running
from unspool.live.states import doings
from unspool.serve.answers import Doing, Listed, Now
from unspool.serve.conversations import listed
from unspool.serve.queries import NoQuery
from unspool.store.ids import row_id
from unspool.store.opening import store_path
from unspool.store.periods import TOKENS
from unspool.store.stats import Figures
from unspool.views.characters import one_line

MOST = 100
_WORDS = 300


def now(connection: sqlite3.Connection, query: NoQuery) -> Now:
    """Whoever was heard of in the last day; those that want something first."""
    known: dict[str, Doing] = {}

    def add(ident: str, state: str, since: str | None, tool: str | None) -> None:
        row = row_id(*ident.split("/", 1))
        with suppress(UnknownConversation):  # its first event came, and no record of it yet
            known[ident] = Doing(
                listed=_priced(connection, row, listed(connection, row)),
                state=state,
                since=since,
                tool=tool,
                words=_last_words(connection, row),
                children=[],
            )

    for doing in doings(connection):
        if len(known) >= MOST:
            break
        add("/".join(doing.key), doing.state, doing.since, doing.tool)
    # Of a parent that nobody told anything of, its sub-agents tell.
    for child in list(known.values()):
        parent = child.listed.parent
        if parent and parent not in known:
            add(parent, "working" if child.state == "working" else "idle", child.since, None)
    agents: list[Doing] = []
    for one in known.values():
        parent_doing = known.get(one.listed.parent or "")
        (parent_doing.children if parent_doing is not None else agents).append(one)
    order = ("waiting", "failed", "working", "idle", "ended")
    for beside in (agents, *(one.children for one in known.values())):
        beside.sort(key=lambda one: order.index(one.state))
    return Now(agents, is_live(connection))


def _last_words(connection: sqlite3.Connection, row: str) -> str | None:
    found = connection.execute(
        "SELECT ifnull(answer, prompt) FROM conversation_turns WHERE conversation_id = ?"
        " ORDER BY turn_index DESC LIMIT 1",
        (row,),
    ).fetchone()
    return one_line(found[0], _WORDS) if found and found[0] else None


def _priced(connection: sqlite3.Connection, row: str, one: Listed) -> Listed:
    """With what its tokens cost, where nobody wrote that down and prices are known."""
    if one.cost_usd is not None:
        return one
    figures = Figures("")
    for model, *tokens in connection.execute(
        f"SELECT model, {', '.join(TOKENS)} FROM model_usage WHERE conversation_id = ?", (row,)
    ):
        figures.price(model, tokens)
    return msgspec.structs.replace(one, cost_usd=figures.cost_usd)


def is_live(connection: sqlite3.Connection) -> bool:
    """Whether a daemon keeps the store current."""
    return is_running(Layout.beside(store_path(connection)))
