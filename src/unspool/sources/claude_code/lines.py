"""Lines: one JSON object of a transcript or a stream, decoded once into a typed struct.

Only what is read is typed; the heavy rest (the fields of `toolUseResult`, `data`, tool input) stays
undecoded.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from unspool.io.structs import Shape
from unspool.io.values import field_of

NAME = "claude-code"
NOTHING = Raw(b"")

Returned = dict[str, Raw] | list[Any] | str | int | float | bool | None | UnsetType
"""What a tool returned beside what the model got: mostly an object, whose fields may be long."""


class Block(msgspec.Struct, gc=False):
    """A content block of any type."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NOTHING
    tool_use_id: str | None = None
    tool_name: str | None = None
    content: Raw = NOTHING
    is_error: bool | None = None
    source: Raw = NOTHING
    resource: Raw = NOTHING
    title: Any = None


class CacheCreation(msgspec.Struct, gc=False):
    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    service_tier: str | None = None
    server_tool_use: dict[str, Any] | None = None
    output_tokens_details: Any = None


class Body(msgspec.Struct, gc=False):
    """`message` of a user or assistant line."""

    id: str | None = None
    model: str | None = None
    content: str | list[Block] | None = None
    stop_reason: str | None = None
    usage: Usage | None = None


class Line(msgspec.Struct, gc=False):
    """A transcript line; also holds what tells a hook payload and a headless stream apart."""

    type: str | None = None
    uuid: str | None = None
    parentUuid: str | None = None
    sessionId: str | None = None
    timestamp: str | None = None
    message: Body | None = None
    toolUseResult: Returned = UNSET
    isSidechain: bool | None = None
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    isApiErrorMessage: bool | None = None
    agentId: str | None = None
    requestId: str | None = None
    promptId: str | None = None
    permissionMode: str | None = None
    cwd: str | None = None
    gitBranch: str | None = None
    version: str | None = None
    slug: str | None = None
    entrypoint: str | None = None
    sessionKind: str | None = None
    teamName: str | None = None
    sourceToolUseID: str | None = None
    forkedFrom: Raw = NOTHING
    data: Raw = NOTHING
    error: Raw = NOTHING
    parentToolUseID: str | None = None
    origin: Any = None
    effort: Any = None
    toolDenialKind: str | None = None
    isAbortedMidStream: bool | None = None
    # of hooks and headless streams
    hook_event_name: str | None = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    is_api_error_message: bool | None = None
    isSynthetic: bool | None = None
    tool_use_result: Returned = UNSET


BLOCK = Shape(Block)
decode_raws: Callable[[bytes | Raw], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_blocks: Callable[[bytes | Raw], str | list[Block] | None] = msgspec.json.Decoder(
    str | list[Block] | None
).decode


def _as_blocks(content: Any) -> list[Any]:
    """What is no block was said all the same: `"content": true` says "true"."""
    return [
        item
        if isinstance(item, dict) and isinstance(item.get("type"), str)
        else {
            "type": "text",
            "text": item if isinstance(item, str) else msgspec.json.encode(item).decode(),
        }
        for item in (content if isinstance(content, list) else [content])
    ]


class _LineShape(Shape[Line]):
    def convert(self, value: Any, wrong: list[str] | None = None) -> Line:
        """A message may be no more than its text, and so may a block be."""
        message = field_of(value, "message")
        if isinstance(message, str):
            value = {**value, "message": {"content": message}}
        elif not isinstance(content := field_of(message, "content"), str | None):
            value = {**value, "message": {**message, "content": _as_blocks(content)}}
        return super().convert(value, wrong)


LINE = _LineShape(Line)


def convert_blocks(value: Any) -> str | list[Block] | None:
    """Text or blocks, out of a decoded value."""
    if isinstance(value, str) or value is None:
        return value
    return [BLOCK.convert(item) for item in _as_blocks(value)]


def parse_blocks(raw: bytes | Raw) -> str | list[Block] | None:
    """The content of a tool result, still undecoded."""
    if not raw:
        return None
    try:
        return _decode_blocks(raw)
    except msgspec.DecodeError:
        return convert_blocks(msgspec.json.decode(raw))


def parse_raw(raw: bytes | Raw) -> Any:
    return msgspec.json.decode(raw) if raw else None


def flat_text(content: str | list[Block] | None) -> str:
    """The text of some content: its text blocks; what is no text is told by what it names."""
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[str] = []
    for block in content:
        if block.text:
            texts.append(block.text)
        elif block.type == "tool_reference" and (block.tool_name or block.name):
            # A search for tools returns their names only (cases/claude_code/tool_search).
            # {"type":"tool_result","content":[{"type":"tool_reference","tool_name":"WebFetch"}]}
            texts.append(block.tool_name or block.name or "")
        elif block.content:
            texts.append(flat_text(parse_blocks(block.content)))
        elif block.resource:  # that an MCP server embedded: its text, else where it is
            value = msgspec.json.decode(block.resource)
            named = value.get("text") or value.get("uri") if isinstance(value, dict) else value
            texts.append(named if isinstance(named, str) else "")
    return "\n\n".join(texts)


def child_id(session: str, agent: str) -> str:
    """The id of a sub-agent's conversation: agent ids are unique within their session only."""
    return f"{session}/{agent}"
