"""The records of a recorder journal, as they are written and read."""

from typing import Any

import msgspec

FORMAT = "unspool-recorder/1"
"""Stands on the first record of every journal file, under `journal`."""


class Item(msgspec.Struct, omit_defaults=True):
    """One message of a request that the conversation had not yet."""

    id: str = ""
    message: Any = None
    old: bool = False
    """Said before the recorder was there: its time is not known."""
    summary: bool = False
    """It stands for history that was cut."""
    edits: str = ""
    """The answer that it stands for, in other words than those recorded."""


class Call(msgspec.Struct, omit_defaults=True):
    id: str = ""
    name: str = ""
    arguments: str = ""


class Tokens(msgspec.Struct, omit_defaults=True):
    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cost_usd: float | None = None
    extra: dict[str, Any] | None = None


class Entry(msgspec.Struct, omit_defaults=True):
    """One record; which fields it has goes by its kind."""

    kind: str = ""
    session: str = ""
    time: int | None = None
    id: str = ""
    journal: str = ""
    agent: str = ""
    version: str = ""
    title: str = ""
    parent: str = ""
    call: str = ""
    name: str = ""
    model: str = ""
    answered: str = ""
    """The model that answered, where the answer names another than was asked for."""
    message: str = ""
    """The id of the message that a call stands in or that an answer is."""
    items: list[Item] = []
    seen: int | None = None
    """How many messages the request sent."""
    change: str = ""
    """What was done to the history since the request before: compaction, pruning, rewind."""
    tools: list[Any] | None = None
    text: str = ""
    thinking: str = ""
    calls: list[Call] = []
    usage: Tokens | None = None
    stop: str = ""
    status: str = ""
    error: dict[str, Any] | None = None
    started: int | None = None
    duration_ms: float | None = None
    first_token_ms: float | None = None
    arguments: str = ""
    result: str | None = None
    details: Any = None
    child: str = ""
    tokens: int | None = None
    max_tokens: int | None = None
    data: dict[str, Any] | None = None
