"""The trajectory: one conversation, whole. This is also the shape of the trajectory JSONL.

Fields that are unknown are absent. `docs/trajectory.md` explains every field; a test keeps the two
in step.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from unspool.facts import Attachment, Role
from unspool.io.dirty_json import clean
from unspool.io.longjson import decode_long, encode, encode_long
from unspool.io.longtext import is_long
from unspool.io.packing import Packer

__all__ = [
    "KINDS",
    "Attachment",
    "Branch",
    "FileTouch",
    "Link",
    "Mark",
    "Message",
    "ToolCall",
    "ToolFunction",
    "Trajectory",
    "Usage",
    "Workspace",
    "decode_trajectory",
    "encode_trajectory",
]

KINDS = (
    "injected",  # context that the program put there, not typed by anybody
    "summary",  # the summary that stands for compacted history
    "command",  # a slash command
    "shell",  # a shell command that the person ran in the chat
    "output",  # what a local or shell command printed
    "notification",  # the program's own message: a task ended, a hook spoke
    "interruption",  # the person stopped the model
    "steering",  # typed while the model was at work
    "error",  # an error in place of an answer
)
"""What a message is when it is not simply what its role says."""


class Usage(msgspec.Struct, omit_defaults=True, gc=False):
    """Tokens and cost. Absent is unknown. `prompt_tokens` holds cache reads and writes too."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    requests: int | None = None
    extra: dict[str, Any] | None = None


class ToolFunction(msgspec.Struct, gc=False):
    name: str
    arguments: str = ""
    """JSON text as the model wrote it (plain text for tools that take text)."""


class ToolCall(msgspec.Struct, omit_defaults=True, gc=False):
    """A call of a tool, in the shape that OpenAI's messages have, with what else is known."""

    id: str
    # A factory, so that the value is written although it is the default.
    type: str = msgspec.field(default_factory=lambda: "function")
    function: ToolFunction = msgspec.field(default_factory=lambda: ToolFunction(name=""))
    status: str | None = None
    """completed, failed, interrupted, denied, cancelled, pending; absent where unknown."""
    duration_ms: float | None = None
    started_at: str | None = None
    ended_at: str | None = None
    child_id: str | None = None
    """The conversation id of the sub-agent that this call started."""
    by_user: bool = False
    extra: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def arguments(self) -> str:
        return self.function.arguments


class Message(msgspec.Struct, omit_defaults=True):
    """One message, with all that is known about it."""

    role: Role
    content: str
    mode: str | None = None
    model: str | None = None
    model_source: str | None = None
    model_conflict: bool | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    # what follows is ours
    id: str | None = None
    kind: str | None = None
    typed: str | None = None
    thinking: str | None = None
    timestamp: str | None = None
    turn: int | None = None
    """The user turn that it belongs to, 0-based."""
    segment: int = 0
    """How many times the context had been compacted before it."""
    name: str | None = None
    """Of a tool message: the tool."""
    is_error: bool | None = None
    details: Any = None
    """Of a tool message: what the tool returned, beside what the model got (`content`)."""
    duration_ms: float | None = None
    request_id: str | None = None
    call_id: str | None = None
    stop_reason: str | None = None
    status: str | None = None
    copied: bool = False
    """Copied from another conversation; left out of all totals."""
    usage: Usage | None = None
    attachments: list[Attachment] | None = None
    extra: dict[str, Any] | None = None


class Mark(msgspec.Struct, omit_defaults=True):
    """Something between messages. `index` is the number of messages before it."""

    kind: str
    index: int
    timestamp: str | None = None
    subject: str | None = None
    data: dict[str, Any] | None = None


class Branch(msgspec.Struct, omit_defaults=True):
    """Messages that were abandoned. `index` is the number of kept messages before the fork."""

    index: int
    messages: list[Message]
    fork_id: str | None = None
    """The record id that both branches follow."""
    reason: str | None = None
    marks: list[Mark] | None = None
    """What happened between its messages; `index` is the number of them before it."""


class Link(msgspec.Struct, omit_defaults=True, gc=False):
    """A tie to another conversation."""

    conversation_id: str
    # Factories, here and below: texts are always written, so that the same trajectory is the same
    # bytes whether or not it went through a file (defaults are told by identity).
    kind: str = msgspec.field(default_factory=lambda: "subagent")
    """subagent, fork, continuation, handoff."""
    tool_call_id: str | None = None
    message_id: str | None = None
    name: str | None = None
    source: str | None = None
    """Its source, where that is another one."""


class FileTouch(msgspec.Struct, omit_defaults=True):
    """A file that was read or changed. `index` is the message that did it."""

    path: str
    operation: str = msgspec.field(default_factory=lambda: "edit")
    """read, create, edit, delete, rename."""
    lines_added: int | None = None
    lines_removed: int | None = None
    index: int | None = None
    turn: int | None = None
    tool: str | None = None
    tool_call_id: str | None = None
    outcome: str | None = None
    """accepted, modified, rejected, denied, failed, undone; absent where nothing tells."""
    timestamp: str | None = None
    extra: dict[str, Any] | None = None


class Workspace(msgspec.Struct, omit_defaults=True):
    path: str | None = None
    name: str | None = None
    hash: str | None = None
    """First 16 hex digits of SHA-256 of the path."""
    repository: str | None = None
    git_root: str | None = None
    branch: str | None = None
    base_branch: str | None = None
    commit: str | None = None


class Trajectory(msgspec.Struct, omit_defaults=True):
    """One conversation, whole."""

    conversation_id: str
    messages: list[Message]
    context: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    mode_distribution: dict[str, int] = {}
    telemetry_type: str | None = None
    file_path: str | None = None
    # what follows is ours
    source: str = ""
    agent: str | None = None
    agent_version: str | None = None
    session_id: str | None = None
    title: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    workspace: Workspace | None = None
    partial: list[str] | None = None
    """Why the trajectory is known to be incomplete; absent when nothing says so."""
    parent: Link | None = None
    children: list[Link] | None = None
    marks: list[Mark] | None = None
    branches: list[Branch] | None = None
    files: list[FileTouch] | None = None
    usage: Usage | None = None
    model_usage: dict[str, Any] | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    references: list[dict[str, Any]] | None = None
    """Commits, pull requests, issues and the like."""
    checkpoints: list[dict[str, Any]] | None = None
    origins: list[str] | None = None
    """The other files that it was built from, besides file_path."""
    extra: dict[str, Any] | None = None


_decoder: msgspec.json.Decoder[Trajectory] = msgspec.json.Decoder(Trajectory)
_packer = Packer()
_unpacker: msgspec.msgpack.Decoder[Trajectory] = msgspec.msgpack.Decoder(Trajectory)
_messages_unpacker: msgspec.msgpack.Decoder[list[Message]] = msgspec.msgpack.Decoder(list[Message])
_EMPTY = b'{"conversation_id":"","messages":[]}'
_BATCH_CHARS = 1_000_000
_GOES_ON, _ENDS, _ENDS_AS_TYPED = b"J", b"E", b"T"
"""How parts begin that are JSON, and what stands behind them; msgpack begins no list so."""


def encode_trajectory(trajectory: Trajectory) -> bytes:
    """One line of trajectory JSONL, without the newline."""
    return encode(trajectory)


def encode_line(
    trajectory: Trajectory, batches: Iterable[list[Message]] | None = None
) -> Iterator[bytes]:
    """The line with its end, in pieces, because it may be very long.

    Where `batches` of messages are given they are the trajectory's, and it is looked at once more
    when all have gone out.
    """
    if batches is None:
        held = list(_batches(trajectory.messages))
        if len(held) < 2 and not any(map(_is_long, held)):
            yield encode(trajectory) + b"\n"
            return
        batches = held
    yield encode(Trajectory(conversation_id=trajectory.conversation_id, messages=[]))[:-2]
    for number, batch in enumerate(batches):
        if number:
            yield b","
        if _is_long(batch):
            yield from encode_long(batch[0])
        else:
            yield encode(batch)[1:-1]  # without the brackets
    yield b"]"
    if trajectory.context:
        yield b',"context":'
        yield from encode_long(trajectory.context)
    rest = encode(msgspec.structs.replace(trajectory, conversation_id="", messages=[], context={}))
    yield rest[len(_EMPTY) - 1 :] + b"\n"


def decode_trajectory(line: bytes) -> Trajectory:
    return _decoder.decode(line)


def pack_trajectory(trajectory: Trajectory) -> bytes:
    """The whole trajectory, binary, for a trip through a temporary file."""
    return _packer.encode(trajectory)


def unpack_trajectory(data: bytes) -> Trajectory:
    return _unpacker.decode(data)


def pack_parts(trajectory: Trajectory) -> Iterator[bytes]:
    """The same in parts: all but the messages, then these, some at a time, a long one as JSON."""
    yield _packer.encode(msgspec.structs.replace(trajectory, messages=[]))
    for batch in _batches(trajectory.messages):
        if _is_long(batch):
            as_typed = batch[0].typed == batch[0].content
            shown = msgspec.structs.replace(batch[0], typed=None) if as_typed else batch[0]
            yield from (_GOES_ON + piece for piece in encode_long([shown]))
            yield _ENDS_AS_TYPED if as_typed else _ENDS
        else:
            yield _packer.encode(batch)


def unpack_parts(parts: Iterable[bytes]) -> Trajectory:
    trajectory, batches = open_parts(parts)
    for batch in batches:
        trajectory.messages += map(widened, batch)
    return trajectory


def open_parts(parts: Iterable[bytes]) -> tuple[Trajectory, Iterator[list[Message]]]:
    """The trajectory without its messages, and these, some at a time; long ones have narrow texts."""
    found = iter(parts)
    return _unpacker.decode(next(found)), _unpack_batches(found)


def _unpack_batches(parts: Iterable[bytes]) -> Iterator[list[Message]]:
    long = bytearray()
    for part in parts:
        if part.startswith(_GOES_ON):
            long += memoryview(part)[len(_GOES_ON) :]
        elif part in (_ENDS, _ENDS_AS_TYPED):
            batch = msgspec.convert(decode_long(long), list[Message])
            if part == _ENDS_AS_TYPED:
                batch[0].typed = batch[0].content
            yield batch
            del batch
        else:
            yield _messages_unpacker.decode(part)


def widened(message: Message) -> Message:
    """The message with whole texts, where it is long and has narrow ones."""
    if not is_long(_length(message)):
        return message
    return msgspec.convert(clean(msgspec.to_builtins(message)), Message)


def _is_long(batch: list[Message]) -> bool:
    """Only one message that is long makes a batch long."""
    return len(batch) == 1 and is_long(_length(batch[0]))


def _batches(messages: list[Message]) -> Iterator[list[Message]]:
    """Some messages at a time: about a million characters, or one message that is longer."""
    first = weight = 0
    for at, message in enumerate(messages):
        size = _length(message)
        if weight + size > _BATCH_CHARS and first < at:
            yield messages[first:at]
            first, weight = at, 0
        weight += size
    if first < len(messages):
        yield messages[first:]


def _length(message: Message) -> int:
    size = len(message.content) + len(message.thinking or "")
    for call in message.tool_calls or ():
        size += len(call.function.arguments)
    return size


def text_of(message: Message) -> str:
    """What a person would say that this message is: what was typed, else what was sent."""
    return message.typed if message.typed is not None else message.content
