"""The trajectory: one conversation, whole. This is also the shape of the trajectory JSONL.

Fields that are unknown are absent. `docs/trajectory.md` explains every field; a test keeps the two
in step.
"""

from typing import Any

import msgspec

from unspool.facts import Attachment, Role
from unspool.io.packing import Packer, encode_json

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


class Message(msgspec.Struct, omit_defaults=True, gc=False):
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


class Mark(msgspec.Struct, omit_defaults=True, gc=False):
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


class FileTouch(msgspec.Struct, omit_defaults=True, gc=False):
    """A file that was read or changed. `index` is the message that did it."""

    path: str = msgspec.field(default_factory=lambda: "")
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


def encode_trajectory(trajectory: Trajectory) -> bytes:
    """One line of trajectory JSONL, without the newline."""
    return encode_json(trajectory)


def decode_trajectory(line: bytes) -> Trajectory:
    return _decoder.decode(line)


def pack_trajectory(trajectory: Trajectory) -> bytes:
    """The whole trajectory, binary, for a trip through a temporary file."""
    return _packer.encode(trajectory)


def unpack_trajectory(data: bytes | bytearray) -> Trajectory:
    return _unpacker.decode(data)


def text_of(message: Message) -> str:
    """What a person would say that this message is: what was typed, else what was sent."""
    return message.typed if message.typed is not None else message.content
