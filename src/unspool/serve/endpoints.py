"""Endpoints: the table of everything that may be asked."""

import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

import unspool
from unspool.serve import conversation, conversations, findings, now
from unspool.serve.answers import (
    Aligned,
    Branched,
    Choices,
    Conversation,
    FiguresAnswer,
    Findings,
    Health,
    Items,
    Messages,
    Now,
    Outline,
    Page,
    Pairs,
    Place,
    RawRecords,
)
from unspool.serve.queries import (
    BranchQuery,
    FiguresQuery,
    ItemsQuery,
    ListQuery,
    MessagesQuery,
    NoQuery,
    OneQuery,
    PairQuery,
    PlaceQuery,
    RawQuery,
    SearchQuery,
)
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


ENDPOINTS = (
    Endpoint("/api/health", "Whether the server is there", NoQuery, Health, health),
    Endpoint(
        "/api/conversations", "Conversations, a page at a time", ListQuery, Page,
        conversations.list_page,
    ),
    Endpoint(
        "/api/conversations/outline", "How many there are, and a cursor for every page",
        ListQuery, Outline, conversations.outline,
    ),
    Endpoint(
        "/api/choices", "Agents, projects and models to filter by", NoQuery, Choices,
        conversations.choices,
    ),
    Endpoint(
        "/api/conversation", "One conversation: facts, turns, sub-agents", OneQuery, Conversation,
        conversation.conversation,
    ),
    Endpoint(
        "/api/conversation/messages", "Its messages as data", MessagesQuery, Messages,
        conversation.messages,
    ),
    Endpoint(
        "/api/conversation/items", "Its messages as pieces of a page", ItemsQuery, Items,
        conversation.items,
    ),
    Endpoint(
        "/api/conversation/place", "Where on the page a message stands", PlaceQuery, Place,
        conversation.place,
    ),
    Endpoint(
        "/api/conversation/branch", "An abandoned branch beside what came instead", BranchQuery,
        Branched, conversation.branch,
    ),
    Endpoint(
        "/api/conversation/raw", "The records that a message was made from", RawQuery, RawRecords,
        conversation.raw,
    ),
    Endpoint("/api/search", "Where something was said", SearchQuery, Findings, findings.search),
    Endpoint(
        "/api/figures", "Tokens, cost, tools, files in figures", FiguresQuery, FiguresAnswer,
        findings.figures,
    ),
    Endpoint(
        "/api/alignment", "Two conversations on one time axis", PairQuery, Aligned,
        findings.alignment,
    ),
    Endpoint(
        "/api/alignments", "The pairs that belong together", NoQuery, Pairs, findings.pairs,
    ),
    Endpoint("/api/now", "What every agent is doing", NoQuery, Now, now.now),
)  # fmt: skip
