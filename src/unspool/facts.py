"""Facts: immutable statements about one conversation, each made from one record.

A closed set of tagged structs. They say what was seen and where; they never pair, count or decide.
Every fact carries

- `key`     the conversation: (agent product, native id);
- `origin`, `offset`, `number`   its place: where it was read, and its number within the record;
- `entry`   the id of its record where the format gives one (else the place stands for it): the same
            entry seen twice, in two files or by two channels, is one thing;
- `after`   what the record follows: PREVIOUS (the record before it in its origin), ROOT, or an id;
- `time`    microseconds since 1970, if the record has one.

`rank` says how well a statement knows: 0 is the thing itself, higher numbers are views of it in
another channel. What has the lowest rank wins, field by field. Ranks below ECHO are stores that hold
a conversation as such, though another one may hold more of it; from ECHO on they are mere echoes,
and from INDEX on an index, whose answer to a question that has an answer adds nothing.
"""

from enum import IntEnum
from typing import Any, Literal

import msgspec

Key = tuple[str, str]
"""(agent product, native id of the conversation)."""

NOBODY: Key = ("", "")
"""The key of a problem that no conversation can be named for."""

PREVIOUS: None = None
ROOT = ""


class Rank(IntEnum):
    """How well a statement knows. The lowest wins, field by field; of equal ones the last in order.

    A source may use the numbers between these names (ECHO + 1: an echo of an echo); a negative rank
    replaces what the message itself says.
    """

    ITSELF = 0
    """The thing itself: a transcript line, a chat of the editor's own store."""
    COPY = 1
    """Another store that holds the conversation as such, though perhaps less of it."""
    EXTRACT = 2
    """A store that holds parts of it: a database of summaries, a transcript made for reading."""
    ECHO = 3
    """What another channel repeats of it: a hook payload, a telemetry event."""
    INDEX = 4
    """A mere list of what was asked: it adds nothing where the question has an answer."""
    GUESS = 8
    """Drawn from the content, a title from the first prompt: of equal guesses the first stays."""
    LAST_RESORT = 9
    """Holds only where nobody says anything else."""
    STANDIN = 10
    """A message, call, result, mark or report of tokens that is told only where no store holds the
    conversation: a screen showed it, under an id of its own, and nothing ties it to what it repeats."""


ECHO = Rank.ECHO
INDEX = Rank.INDEX

ZONE = "time_zone"
NO_ZONE = "unknown"
"""A note of this name and value: the times of its origin were written without their zone."""

# Names of notes, and where they land. All others on the conversation go to `metadata`, all others on a
# message or call to its `extra`.
TEXT_NOTES = frozenset((
    "agent", "agent_version", "ended_at", "file_path", "session_id", "started_at",
    "telemetry_type", "title",
))  # fmt: skip
"""Fields of the trajectory that are text."""
VALUE_NOTES = frozenset(("model_usage", "tool_definitions"))
"""Fields of the trajectory that are not."""
LIST_NOTES = frozenset(("children", "references", "checkpoints", "partial"))
"""Fields of the trajectory that add up instead of replacing one another."""
GROUPS = ("context.", "workspace.", "extra.")
"""What begins so is a field of that part of the trajectory (`workspace.branch`)."""
CALL_NOTES = frozenset(("status", "duration_ms", "started_at", "ended_at", "child_id"))
"""On a call: fields of the tool call."""
CALLER_NOTES = frozenset(("model", "thinking"))
"""On a call: fields of the message that called."""
TURN_NOTES = frozenset(("mode", "typed"))
"""On a request or turn: fields of the words that opened it, and of no other message."""
DECIDING_NOTES = frozenset(("expected_model", "served", "side", "utility"))
"""Which message lists are the conversation's, and by which model; they land nowhere. On a request:
`expected_model` {"model", "source"} holds where no call tells, `side` names the sub-agent's run that it
belongs to, `served` says that one of its calls, which has no id, serves the program and not the
conversation; `utility`, on a request or call, says so of all."""
DENIED_BY = "denied_by"
"""On a call: "user" where the person said no, and not a rule."""
ENCRYPTED = "encrypted_reasoning"
"""In a message's `extra`: how many pieces of its reasoning nobody can read; the totals count them."""
CONCURRENT = "concurrent"
"""In the data of a start or resumption: another program had the conversation at that time, too."""

Role = Literal["system", "user", "assistant", "tool"]
On = Literal["conversation", "message", "call", "request", "turn", "entry", "following"]
UsageOf = Literal["message", "answer", "request", "call", "segment", "conversation"]
"""An answer is the first one behind the report, which knows it by the time alone."""


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Something that came with a message: a file, an image, a selection, a symbol, a reference."""

    kind: str
    name: str = ""
    path: str = ""
    uri: str = ""
    media_type: str = ""
    size_bytes: int | None = None
    sha256: str = ""
    text: str = ""
    """The content, where it is text and the record holds it."""
    data: str = ""
    """The content as base64, where it is binary; the trajectory JSONL leaves it out."""
    start_line: int | None = None
    end_line: int | None = None
    extra: dict[str, Any] | None = None


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag=True):
    key: Key
    origin: str
    offset: int
    number: int = 0
    time: int | None = None
    entry: str = ""
    after: str | None = PREVIOUS

    @property
    def place(self) -> tuple[str, int, int]:
        return (self.origin, self.offset, self.number)


class MessageSeen(Fact, frozen=True, gc=False):
    """A message, or one part of it: all parts with the same `id` are one message."""

    id: str = ""
    """Native id; empty where there is none (then the entry stands for itself, or, with a rank
    above 0, the message is the k-th with this role and text)."""
    role: Role = "user"
    text: str = ""
    thinking: str = ""
    kind: str = ""
    """Empty for what the role says; else one of `unspool.trajectory.KINDS`."""
    typed: str | None = None
    """What the person typed, where the record tells it apart from the text that was sent."""
    shown: str = ""
    """What stood on the screen for a text that nobody typed: another channel may know it by that."""
    model: str = ""
    mode: str = ""
    rank: int = 0
    side: bool = False
    """On a side thread (a sub-agent's line in its parent's file): never on the main chain."""
    joins: bool = False
    """Goes on from the assistant message before it, unless a Link, a result or somebody else's
    words stand between, or the two name different requests: some logs have a record per chunk, or one
    per call, and no id that is common to them (cases/copilot_cli/chunks_of_old_logs,
    cases/qwen_code/subagent)."""
    piece: bool = False
    """Goes on in the middle of the text of the part before it (streams)."""
    withdrawn: bool = False
    """Its origin tells that the record was taken out of the conversation again."""
    edition: int = 0
    """Agents change their stores, from flat files to a log or a database, and leave the old ones. The
    newer store has the higher number: of two copies of a record it says whether the record was
    withdrawn, and it counts where both tell equally much."""
    request: str = ""
    """The id of the request that the message belongs to or was answered in."""
    stop: str = ""
    """Why the model stopped."""
    status: str = ""
    """hidden, undone, cancelled, interrupted, failed, queued: what became of the message."""
    attachments: tuple[Attachment, ...] = ()
    extra: dict[str, Any] | None = None


class ToolCalled(Fact, frozen=True, gc=False):
    """A call of a tool, as the model asked for it or as it was run."""

    id: str = ""
    """Empty in old logs: then the k-th call with this name and these arguments is meant."""
    message: str = ""
    """The id of the message that asked for it; empty where the record does not say."""
    name: str = ""
    arguments: str = ""
    """JSON text, or plain text for tools that take text."""
    index: int | None = None
    """Its number in the message, where the format tells; else the order of its record."""
    rank: int = 0
    side: bool = False
    by_user: bool = False
    """Run by the person, not asked for by the model."""
    request: str = ""
    """The id of the prompt or request that it was run for, where a record of the run tells."""
    like: str = ""
    """What the call is recognised by in a channel that gives it another id, or none: two calls of
    one likeness in two channels, each the k-th of it there, are one call."""
    files: tuple[dict[str, Any], ...] = ()
    """What the call did to files, as the fields of `unspool.trajectory.FileTouch`."""
    extra: dict[str, Any] | None = None


class ToolReturned(Fact, frozen=True, gc=False):
    """What came of a call: what the model got (`text`) and what the tool returned (`details`)."""

    call: str = ""
    name: str = ""
    arguments: str = ""
    text: str | None = None
    """None where the record tells that the call ended but not with what."""
    failed: bool | None = None
    status: str = ""
    """interrupted, denied, cancelled, pending …; empty for an ordinary end."""
    details: Any = None
    duration_ms: float | None = None
    rank: int = 0
    side: bool = False
    like: str = ""
    """As in ToolCalled."""
    files: tuple[dict[str, Any], ...] = ()
    """As in ToolCalled."""
    attachments: tuple[Attachment, ...] = ()
    extra: dict[str, Any] | None = None


class UsageReported(Fact, frozen=True, gc=False):
    """Tokens and cost of a message (`subject` is its id), a request, an engine call that names
    neither, a run segment (from its start or resumption to this record) or all.

    What is known of a whole request goes to its last answer, unless its messages know better.

    `prompt` is all input: fresh, cache reads and cache writes together. None is unknown, never 0.
    Of several reports on one subject the lowest rank wins, then the last in order.
    """

    on: UsageOf = "message"
    subject: str = ""
    model: str = ""
    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cost_usd: float | None = None
    requests: int | None = None
    rank: int = 0
    extra: dict[str, Any] | None = None


class Noted(Fact, frozen=True, gc=False):
    """A note `name` = `value` on a subject. Lowest rank wins, then the last in order.

    On the conversation, the names of trajectory fields (title, session_id, started_at, parent …)
    land there and all others in `metadata`. On a message, a call, or a message by its request or
    turn likewise: the fields of a message or tool call, and all others in its `extra`. `model` and
    `thinking` on a call are those of the message that called. On what is `following`: `model` or
    `mode` of the messages behind this record that do not say it themselves, until the next such note.
    """

    on: On = "conversation"
    subject: str = ""
    name: str = ""
    value: Any = None
    rank: int = 0


class Marked(Fact, frozen=True, gc=False):
    """Something that happened between messages: start, end, compaction, rewind, file edit …"""

    kind: str = ""
    subject: str = ""
    """The id of the call or message that it belongs to, where there is one."""
    data: dict[str, Any] | None = None
    rank: int = 0
    """A mark of a higher rank is an echo: it stands only where no mark of its kind (and subject)
    is known from a lower rank."""


class Link(Fact, frozen=True, gc=False):
    """A record that is only a link of the chain and states nothing else."""


class View(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True, gc=False):
    """One engine call that logged a message list: how much of the text it saw, and what it said."""

    size: int
    """Bytes of the (undecoded) text that this call saw, without the closing bracket."""
    origin: str
    offset: int
    time: int | None = None
    call: str = ""
    request: str = ""
    message: str = ""
    requested: str = ""
    """The model that was asked for."""
    answered: str = ""
    """The model that answered."""
    side: str = ""
    """The sub-agent run that it belongs to; empty for the conversation itself."""
    system: bytes = b""
    """The system prompt where it is sent apart, undecoded."""
    tools: bytes = b""
    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    notes: tuple[Any, ...] = ()
    """What holds of the conversation where this call is its last: names, each with its value behind it,
    as in Noted."""


class SnapshotSeen(Fact, frozen=True, gc=False):
    """A whole message list, still undecoded, and the calls that saw how much of it.

    `text` is the JSON array without its closing bracket.
    """

    text: bytes = b""
    broken: bool = False
    """Cut off or with a part missing: only the messages up to there can be used."""
    views: tuple[View, ...] = ()


class ListSeen(Fact, frozen=True, gc=False):
    """A message list by reference: the ids of a call's input, or of its answer."""

    call: str = ""
    request: str = ""
    answer: bool = False
    ids: bytes = b""
    """JSON array of ids, undecoded; where it was sent in pieces, one piece of it."""
    piece: int = 0
    pieces: int = 1
    options: str = ""
    view: View | None = None


class PieceSeen(Fact, frozen=True, gc=False):
    """One piece of a body that was sent in pieces: a message, or the options of a request."""

    id: str = ""
    body: bytes = b""
    piece: int = 0
    pieces: int = 1
    prefix: str = ""
    """Of options, what stands before the names `model`, `system` and `tools`."""


class Problem(Fact, frozen=True, gc=False):
    """Bad data: what, where, and a clipped sample. Counted and shown, never raised."""

    code: str = ""
    sample: str = ""


AnyFact = (
    MessageSeen
    | ToolCalled
    | ToolReturned
    | UsageReported
    | Noted
    | Marked
    | Link
    | SnapshotSeen
    | ListSeen
    | PieceSeen
    | Problem
)

MESSAGE_BEARING = (MessageSeen, ToolCalled, SnapshotSeen, ListSeen)
"""The kinds whose first place gives a conversation its place in the output."""
