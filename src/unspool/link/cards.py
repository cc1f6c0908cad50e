"""Cards: small extracts of trajectories, all that linking needs to know about a conversation.

Messages are on it as digests, one after the other in one bytes object, so that the cards of many
conversations stay small.
"""

from collections.abc import Iterable, Iterator
from operator import itemgetter
from struct import iter_unpack
from typing import Any

import msgspec

from unspool.facts import Key
from unspool.io.digests import WIDTH, digest
from unspool.io.values import field_of
from unspool.reduce.notes import Naming
from unspool.trajectory import Link, Message, ToolCall, Trajectory, Workspace

LEAST_ID_CHARS = 16
"""Programs that count their answers give many the same id: only a long one tells."""
_TELLING_CHARS = 2000
"""Of one id and one time, this much of the words tells, with their length."""
_OPINIONS = ("vote", "vote_down_reason")
"""What may be said of a message after the program wrote it for the last time."""


class Card(msgspec.Struct):
    """What linking needs to know about one conversation."""

    source: str
    id: str
    parent: Link | None = None
    children: list[Link] = []
    spawned: dict[str, str] = {}
    """Tool call → the child that it says it started."""
    calls: list[str] = []
    names: bytes = b""
    """Digests of the ids of its answers."""
    moments: bytes = b""
    """Of the same answers, digests of id and time; a copy may hold less of an answer."""
    run: str = ""
    """The run of several sub-agents that it says it is one of."""
    runs: dict[str, str] = {}
    """Run → the call that says it started it."""
    tasks: dict[str, str] = {}
    """Task that ran beside the conversation → the call that started it; it may be a sub-agent."""
    strays: list[str] = []
    """Of these, the calls that only another channel ascribes to this conversation."""
    session_id: str | None = None
    workspace: Workspace | None = None
    started_at: str = ""
    ended_at: str = ""
    ids: bytes = b""
    """Digests of its message ids, to find history that another conversation copied."""
    said_copied: bytes = b""
    """Of these, the messages that it says itself it has from elsewhere."""
    forked: bool = False
    """Says itself that it goes on from a copy, but not of which messages."""
    opening: bytes = b""
    """Digest of its first words, where it does not know the call that started it."""
    prompts: dict[str, bytes] = {}
    """Tool call that may have started a child nobody names → digest of the prompt it gave."""
    same_as: str = ""
    """The conversation that says this id is one of its own; only where the id is a made-up one."""
    origins: list[str] = []
    """Where it was read, if it may be another one seen again."""
    opinions: dict[str, dict[str, Any]] = {}
    """Message → what a person thought of it, if this may be another conversation seen again."""
    naming: Naming = msgspec.field(default_factory=Naming)
    requests: bytes = b""
    """Digests of the requests that its prompts were made with."""
    indexed: dict[str, str] = {}
    """Requests of prompts that are known by them alone → when they were made."""
    modes: dict[str, str] = {}
    """Of these, the modes that they were made in."""
    only_indexed: bool = False
    """Holds nothing but such prompts."""
    hollow: bool = False
    """Holds nothing that was said, only what it has for others."""
    piece: list[Message] = []
    """All that it says, if it has no name: what a killed process printed of another one."""

    @property
    def key(self) -> Key:
        return (self.source, self.id)

    @property
    def is_alone(self) -> bool:
        """Whether it says nothing of others, nor of itself what concerns them."""
        return not (self.parent or self.children or self.spawned or self.indexed or self.hollow)

    def unheard(self, whole: "Card") -> list[tuple[str, Message]]:
        """Of a piece, the answers that broke off and the whole does not know, each with the message
        that it stands behind."""
        known, names = set(iter_digests(whole.ids)), set(iter_digests(whole.names))
        unheard: list[tuple[str, Message]] = []
        before = ""
        for message in self.piece:
            if message.id and digest_of(message) in known:
                before = message.id
            elif message.role == "assistant" and digest(message.id or "") not in names:
                unheard.append((before, message))
        return unheard

    @property
    def seniority(self) -> tuple[bool, bool, str, str]:
        """Who owns what two conversations hold: what is no fork and no child, then what ended
        first (a fork goes on from where the other stopped)."""
        return (self.forked, _is_child(self.parent), self.ended_at, self.id)


def iter_calls(trajectory: Trajectory) -> Iterator[ToolCall]:
    """All its calls: one that was abandoned has started its sub-agent all the same."""
    for messages in (trajectory.messages, *(b.messages for b in trajectory.branches or ())):
        for message in messages:
            yield from message.tool_calls or ()


def make_card(trajectory: Trajectory, naming: Naming | None = None) -> Card:
    calls = list(iter_calls(trajectory))
    named_messages = [m for m in trajectory.messages if m.id]
    answers = [m for m in named_messages if m.role == "assistant"]
    # Of a conversation whose own record names no session: the one that it may be a copy of.
    named = trajectory.metadata.get("same_as")
    same_as = named if isinstance(named, str) and trajectory.session_id is None else ""
    partial = trajectory.partial or ()
    # A list of prompts says when each was made, but not in which conversation.
    listing = "prompts-without-conversation" in partial
    listed = [message for message in trajectory.messages if message.request_id] if listing else []
    indexed = {message.request_id or "": message.timestamp or "" for message in listed}
    echoes = "only-echoes" in partial
    unnamed = "unnamed-session" in partial
    requests = {
        message.request_id: None
        for message in trajectory.messages
        if message.role == "user" and message.request_id and not message.kind and not listing
    }
    return Card(
        source=trajectory.source,
        id=trajectory.conversation_id,
        parent=trajectory.parent,
        children=trajectory.children or [],
        spawned={call.id: call.child_id for call in calls if call.child_id},
        calls=[call.id for call in calls],
        names=b"".join([digest(m.id or "") for m in answers]),
        moments=b"".join([digest(f"{m.id} {m.timestamp or m.content}") for m in answers]),
        run=str(trajectory.metadata.get("run_id") or "") if _is_child(trajectory.parent) else "",
        runs=_said_by("run_id", calls),
        tasks=_said_by("task_id", calls),
        strays=[
            call.id
            for message in trajectory.messages
            if echoes or (message.extra and message.extra.get("echo_only"))
            for call in message.tool_calls or ()
        ],
        session_id=trajectory.session_id,
        workspace=trajectory.workspace,
        started_at=trajectory.started_at or "",
        ended_at=trajectory.ended_at or "",
        ids=digests(named_messages),
        said_copied=digests([m for m in named_messages if m.copied]),
        forked=_is_fork(trajectory),
        opening=_opening(trajectory) if _needs_call(trajectory.parent) else b"",
        prompts=dict(filter(None, map(_prompt, calls))),
        same_as=same_as,
        origins=_origins(trajectory)
        if same_as or indexed or unnamed or _is_nameless(trajectory)
        else [],
        piece=trajectory.messages if unnamed else [],
        requests=b"".join(map(digest, requests)),
        indexed=indexed,
        modes={message.request_id or "": message.mode for message in listed if message.mode},
        only_indexed=len(indexed) == len(trajectory.messages) > 0,
        opinions=_opinions(trajectory) if same_as else {},
        naming=naming or Naming(),
        hollow=not trajectory.checkpoints
        and not any(message.content or not listing for message in trajectory.messages),
    )


def without_calls(card: Card, calls: set[str]) -> Card:
    """The card as if the conversation had not made these calls."""
    return msgspec.structs.replace(
        card,
        spawned={call: child for call, child in card.spawned.items() if call not in calls},
        calls=[call for call in card.calls if call not in calls],
        runs={run: call for run, call in card.runs.items() if call not in calls},
        tasks={task: call for task, call in card.tasks.items() if call not in calls},
        prompts={call: prompt for call, prompt in card.prompts.items() if call not in calls},
    )


def _origins(trajectory: Trajectory) -> list[str]:
    return [path for path in (trajectory.file_path, *(trajectory.origins or ())) if path]


def _opinions(trajectory: Trajectory) -> dict[str, dict[str, Any]]:
    opinions: dict[str, dict[str, Any]] = {}
    for message in trajectory.messages:
        opinion = {name: v for name, v in (message.extra or {}).items() if name in _OPINIONS}
        if opinion and message.id:
            opinions[message.id] = opinion
    return opinions


def _is_fork(trajectory: Trajectory) -> bool:
    if trajectory.parent is not None and trajectory.parent.kind == "fork":
        return not any(message.copied for message in trajectory.messages)
    if "unnamed-session" in (trajectory.partial or ()):
        return True  # a piece of a conversation: whoever has a name owns what both hold
    return trajectory.metadata.get("forked") is True


def _is_nameless(trajectory: Trajectory) -> bool:
    """Whether it is a sub-agent that is known by nothing but the call that started it."""
    call = trajectory.parent.tool_call_id if trajectory.parent is not None else None
    return bool(call) and trajectory.conversation_id.endswith(f"/{call}")


def _is_child(parent: Link | None) -> bool:
    return parent is not None and parent.kind == "subagent"


def _needs_call(parent: Link | None) -> bool:
    return _is_child(parent) and parent is not None and parent.tool_call_id is None


def _said_by(name: str, calls: list[ToolCall]) -> dict[str, str]:
    """What the calls say under a name → the first call that says so."""
    callers: dict[str, str] = {}
    for call in calls:
        value = call.extra.get(name) if call.extra else None
        if isinstance(value, str) and value:
            callers.setdefault(value, call.id)
    return callers


def _prompt(call: ToolCall) -> tuple[str, bytes] | None:
    """The prompt in the arguments of a call that names no child."""
    if call.child_id or '"prompt"' not in call.arguments:
        return None
    try:
        value: Any = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    prompt = field_of(value, "prompt")
    return (call.id, digest(prompt.strip())) if isinstance(prompt, str) else None


def _opening(trajectory: Trajectory) -> bytes:
    """The digest of the words that a conversation opens with."""
    for message in trajectory.messages:
        if message.role == "user" and message.kind is None:
            return digest((message.typed or message.content).strip())
    return b""


def digest_of(message: Message) -> bytes | None:
    """Of its id, time and words; the first bit says whether it tells a copy. None without an id.

    The id alone does not tell: programs that count their messages give many the same, and where a
    format has none it is made from the words. Nobody says the same twice at the same moment; only
    programs do, that put one and the same line into each of their conversations.
    """
    if not message.id:
        return None
    time = message.timestamp or ""
    words = message.content
    whole = digest(f"{message.id} {message.role} {time} {len(words)} {words[:_TELLING_CHARS]}")
    tells = time and message.kind != "injected"
    return bytes([whole[0] | 0x80 if tells else whole[0] & 0x7F]) + whole[1:]


def tells(piece: bytes) -> bool:
    return piece[0] >= 0x80


def digests(messages: Iterable[Message]) -> bytes:
    return b"".join(filter(None, map(digest_of, messages)))


def iter_digests(ids: bytes) -> Iterator[bytes]:
    return map(itemgetter(0), iter_unpack(f"{WIDTH}s", ids))
