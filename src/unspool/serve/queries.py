"""Queries: what every endpoint may be asked. Made from the address; what is wrong in it is refused."""

from typing import Annotated, Literal

import msgspec

from unspool.errors import UsageError
from unspool.io.times import parse_moment
from unspool.store.filters import Filters
from unspool.store.stats import Group

Text = Annotated[str, msgspec.Meta(max_length=1000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Moment = Annotated[
    str, msgspec.Meta(max_length=40, description="2026-03-01, 2026-03-01T12:00:00Z, or 7d ago")
]
Sort = Literal[
    "activity", "started", "title", "messages", "turns", "tools", "failures", "tokens", "cost"
]


class NoQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Nothing."""


class Chosen(NoQuery, kw_only=True, forbid_unknown_fields=True):
    """Which conversations."""

    source: Text | None = None
    """The agent: claude-code, cursor …"""
    project: Text | None = None
    """What the path of the project holds."""
    model: Text | None = None
    """What the name of the model holds."""
    since: Moment | None = None
    until: Moment | None = None

    def filters(self, **more: str | None) -> Filters:
        return Filters(
            source=self.source,
            project=self.project,
            model=self.model,
            since=moment(self.since, "since"),
            until=moment(self.until, "until"),
            **more,
        )


class ListQuery(Chosen, kw_only=True, forbid_unknown_fields=True):
    text: Text | None = None
    """What the title, the project, the branch or the id holds."""
    errors: bool = False
    """Only where a tool failed."""
    subagents: bool = False
    """Only with sub-agents."""
    partial: bool = False
    """Only those of which something is known to be missing."""
    agents: bool = False
    """Sub-agents too, as rows of their own."""
    sort: Sort = "activity"
    order: Literal["asc", "desc"] = "desc"
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100
    cursor: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    """From an answer before: the rows after it."""


class OneQuery(NoQuery, kw_only=True, forbid_unknown_fields=True):
    id: Text
    """`source/id`, as `unspool list` and this API print it; the id may be shortened."""


class ItemsQuery(OneQuery, kw_only=True, forbid_unknown_fields=True):
    first: Count = 0
    """The number of the first item."""
    count: Annotated[int, msgspec.Meta(ge=1, le=200)] = 40
    prefix: Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]{0,40}$")] = ""
    """Stands before the ids in the HTML, where several conversations are on one page."""


class MessagesQuery(OneQuery, kw_only=True, forbid_unknown_fields=True):
    cursor: Count = 0
    """The number of the first message."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class BranchQuery(OneQuery, kw_only=True, forbid_unknown_fields=True):
    branch: Count


class PlaceQuery(OneQuery, kw_only=True, forbid_unknown_fields=True):
    message: Count


class RawQuery(PlaceQuery, kw_only=True, forbid_unknown_fields=True):
    branch: Count | None = None
    """The abandoned branch whose message it is."""


class ExportQuery(OneQuery, kw_only=True, forbid_unknown_fields=True):
    to: Text = "jsonl"


class SearchQuery(Chosen, kw_only=True, forbid_unknown_fields=True):
    q: Text
    mode: Literal["words", "substring", "regex"] = "words"
    typing: bool = False
    """The last word may go on: what begins with it is found after what is it."""
    role: Text | None = None
    tool: Text | None = None
    file: Text | None = None
    id: Text | None = None
    """Only in this conversation."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100


class FiguresQuery(Chosen, kw_only=True, forbid_unknown_fields=True):
    by: Group = "day"
    tool: Text | None = None
    file: Text | None = None


class PairQuery(NoQuery, kw_only=True, forbid_unknown_fields=True):
    left: Text
    right: Text


class EventsQuery(NoQuery, kw_only=True, forbid_unknown_fields=True):
    after: Count | None = None
    """The last `seq` that is known; the header Last-Event-ID says the same."""


def moment(text: str | None, name: str) -> int | None:
    if not text:
        return None
    time = parse_moment(text)
    if time is None:
        raise UsageError(f"{name}: {text!r} is no time: write 2026-03-01, 2026-03-01T12:00Z or 7d")
    return time
