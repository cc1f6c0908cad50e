"""Endpoints: the table of everything that may be asked."""

import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple, get_type_hints

import msgspec

import unspool
from unspool.serve import conversation, conversations, findings, now
from unspool.serve.answers import Health
from unspool.serve.queries import NoQuery
from unspool.store.changes import last_change

encode = msgspec.json.Encoder(enc_hook=str).encode  # Markup is text


class Endpoint(NamedTuple):
    """One question and the shape of its answer."""

    path: str
    summary: str
    query: type[NoQuery]
    answer: type
    handle: Callable[[sqlite3.Connection, Any], Any]


def health(connection: sqlite3.Connection, query: NoQuery) -> Health:
    (count,) = connection.execute("SELECT count(*) FROM conversations").fetchone()
    return Health(unspool.__version__, count, now.is_live(connection), last_change(connection))


_HANDLERS: tuple[tuple[str, str, Callable[[sqlite3.Connection, Any], Any]], ...] = (
    ("health", "Whether the server is there", health),
    ("conversations", "Conversations, a page at a time", conversations.list_page),
    (
        "conversations/outline", "How many there are, and a cursor for every page",
        conversations.outline,
    ),
    ("choices", "Agents, projects and models to filter by", conversations.choices),
    (
        "conversation", "One conversation: facts, turns, sub-agents", conversation.conversation,
    ),
    ("conversation/messages", "Its messages as data", conversation.messages),
    ("conversation/items", "Its messages as pieces of a page", conversation.items),
    ("conversation/place", "Where on the page a message stands", conversation.place),
    ("conversation/branch", "An abandoned branch beside what came instead", conversation.branch),
    ("conversation/raw", "The records that a message was made from", conversation.raw),
    ("search", "Where something was said", findings.search),
    ("figures", "Tokens, cost, tools, files in figures", findings.figures),
    ("alignment", "Two conversations on one time axis", findings.alignment),
    ("alignments", "The pairs that belong together", findings.pairs),
    ("now", "What every agent is doing", now.now),
)  # fmt: skip


def _endpoint(
    name: str, summary: str, handle: Callable[[sqlite3.Connection, Any], Any]
) -> Endpoint:
    """What is asked and answered stands in the function's own signature."""
    types = get_type_hints(handle)
    return Endpoint(f"/api/{name}", summary, types["query"], types["return"], handle)


ENDPOINTS = tuple(_endpoint(*row) for row in _HANDLERS)
