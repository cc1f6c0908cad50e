"""Answers: what the API says. What is unknown is absent, as everywhere in unspool."""

import msgspec

from unspool.store.align import Correlation
from unspool.store.stats import Figures


class Listed(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A conversation as a row of a list."""

    id: str
    """`source/id`: what every endpoint takes."""
    source: str
    title: str | None = None
    project: str | None = None
    branch: str | None = None
    model: str | None = None
    agent_version: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    messages: int = msgspec.field(default_factory=int)
    turns: int = msgspec.field(default_factory=int)
    tools: int = msgspec.field(default_factory=int)
    failures: int = msgspec.field(default_factory=int)
    children: int = msgspec.field(default_factory=int)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    parent: str | None = None
    partial: str | None = None
    """What is known to be missing."""


class Page(msgspec.Struct, omit_defaults=True):
    """Rows of the list, and where to go on."""

    conversations: list[Listed]
    next: str | None = None
    """The cursor of what comes after; absent at the end."""


class Outline(msgspec.Struct):
    """How long the list is, and the cursor before every page of it: any place is one request away."""

    total: int
    page: int
    """Rows on a page."""
    cursors: list[str]
    """Of the second page, the third …"""


class Choice(msgspec.Struct):
    value: str
    conversations: int


class Choices(msgspec.Struct):
    """What there is to filter by, the most frequent first."""

    sources: list[Choice]
    projects: list[Choice]
    models: list[Choice]


class TurnLine(msgspec.Struct, omit_defaults=True):
    """A turn in the sidebar."""

    item: int
    """The number of its first item."""
    words: str
    number: int | None = None
    anchor: str = ""


class Relative(msgspec.Struct, omit_defaults=True):
    """A conversation that this one started, or that started it."""

    id: str
    kind: str
    title: str
    here: bool
    """Whether the store holds it."""
    children: list["Relative"]
    messages: int | None = None


class Conversation(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One conversation without its messages."""

    id: str
    version: str
    """Changes whenever anything of it does."""
    title: str
    listed: Listed
    items: int
    """How many items there are to read."""
    messages: int
    masthead: str
    """Its facts, as HTML."""
    turns: list[TurnLine]
    errors: list[int]
    """The numbers of the items in which something failed."""
    children: list[Relative]
    parent: Relative | None = None
    branches: list[str]
    """Why each of its abandoned branches was left."""
    files: list[str]
    """The files that it was read from."""
    formats: list[str]
    """What it can be downloaded as."""


class ItemPiece(msgspec.Struct):
    """A message with its calls, a rule, or an aside, as HTML that is safe to show."""

    number: int
    turn: str
    html: str
    messages: list[int]
    """The numbers of the messages that stand in it."""


class Items(msgspec.Struct):
    version: str
    total: int
    items: list[ItemPiece]


class Place(msgspec.Struct):
    """Where a message stands."""

    message: int
    item: int
    anchor: str


class Messages(msgspec.Struct, omit_defaults=True):
    """Messages as the trajectory has them (see docs/trajectory.md)."""

    version: str
    total: int
    messages: list[msgspec.Raw]
    next: int | None = None


class Branched(msgspec.Struct):
    """An abandoned branch beside what came in its place."""

    reason: str
    before: int
    """How many messages both share."""
    branch: str
    main: str


class RawRecord(msgspec.Struct, omit_defaults=True):
    """A record as the agent wrote it."""

    origin: str
    text: str
    offset: int | None = None
    """The byte at which its line stands."""
    where: str = ""
    """Its place in a document or a database."""
    truncated: bool = False


class RawRecords(msgspec.Struct):
    message: int
    records: list[RawRecord]
    note: str = ""
    """Why there is none."""


class Hit(msgspec.Struct, omit_defaults=True):
    """A message in which it was found; the snippet has U+E000 and U+E001 around every place."""

    message: int
    role: str
    field: str
    snippet: str
    turn: int | None = None
    timestamp: str | None = None
    tool: str | None = None


class HitGroup(msgspec.Struct, omit_defaults=True):
    id: str
    hits: list[Hit]
    title: str | None = None


class Findings(msgspec.Struct):
    groups: list[HitGroup]
    hits: int
    capped: bool
    """There is more, which was not looked at."""


class FiguresRow(Figures, omit_defaults=True):
    """One group of `unspool stats`, with what is worked out of it."""

    total: int = 0
    acceptance: float | None = None


class FiguresAnswer(msgspec.Struct):
    by: str
    rows: list[FiguresRow]


class Event(msgspec.Struct):
    time: str
    name: str
    turn: int | None = None


class AlignedSide(msgspec.Struct):
    listed: Listed
    events: list[Event]


class Aligned(msgspec.Struct):
    confidence: float
    left: AlignedSide
    right: AlignedSide
    correlations: list[Correlation]


class Pair(msgspec.Struct, omit_defaults=True):
    left: str
    right: str
    confidence: float
    left_title: str | None = None
    right_title: str | None = None


class Pairs(msgspec.Struct):
    pairs: list[Pair]


class Doing(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What one agent is doing."""

    listed: Listed
    state: str
    """working, waiting, idle, failed or ended."""
    since: str | None = None
    tool: str | None = None
    words: str | None = None
    """What was said last."""
    children: list["Doing"]


class Now(msgspec.Struct):
    agents: list[Doing]
    live: bool
    """Whether a daemon keeps the store current."""


class Health(msgspec.Struct):
    version: str
    conversations: int
    live: bool
    seq: int
    """The last change."""


class Refusal(msgspec.Struct):
    error: str
