"""Lines: one JSON object of a transcript or a stream, decoded once into a typed struct.

Only what is read is typed; the heavy rest (the fields of `toolUseResult`, `data`, tool input) stays
undecoded.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from unspool.facts import Attachment
from unspool.io.structs import Shape
from unspool.io.values import dict_of, str_of
from unspool.prompts.shapes import image_of

NAME = "claude-code"
NOTHING = Raw(b"")

Returned = dict[str, Raw] | list[Any] | str | int | float | bool | None | UnsetType
"""What a tool returned beside what the model got: mostly an object, whose fields may be long."""


class Block(msgspec.Struct, gc=False, omit_defaults=True):
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
    output_tokens_details: dict[str, Any] | None = None


class Body(msgspec.Struct, gc=False):
    """`message` of a user or assistant line."""

    id: str | None = None
    model: str | None = None
    content: str | list[Block | str] | None = None
    stop_reason: str | None = None
    usage: Usage | None = None


class Line(msgspec.Struct, gc=False):
    """A transcript line; also holds what tells a hook payload and a headless stream apart."""

    type: str | None = None
    uuid: str | None = None
    parentUuid: str | None = None
    sessionId: str | None = None
    timestamp: str | None = None
    message: Body | str | None = None
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
    forkedFrom: dict[str, Any] | None = None
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

    @property
    def body(self) -> Body:
        """The message, which may be no more than its text."""
        message = self.message
        return message if isinstance(message, Body) else Body(content=message)


LINE = Shape(Line)
USAGE = Shape(Usage)
_BLOCK = Shape(Block)
decode_raws: Callable[[bytes | Raw], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode


def blocks_of(content: Any) -> list[Block]:
    """The blocks of some content, typed or merely decoded; a block may be no more than its text."""
    items = content if isinstance(content, list) else [content] if content else []
    return [item if type(item) is Block else _block_of(item) for item in items]


def _block_of(item: Any) -> Block:
    return Block("text", item) if isinstance(item, str) else _BLOCK.convert(item)


def parse_raw(raw: bytes | Raw) -> Any:
    return msgspec.json.decode(raw) if raw else None


def plain_block(block: Block) -> dict[str, Any]:
    """A block of a type that is not read, as it is."""
    return dict_of(msgspec.json.decode(msgspec.json.encode(block)))


def attachment_of(block: Block) -> Attachment:
    """An image or a document."""
    image = image_of({"source": parse_raw(block.source)})
    return msgspec.structs.replace(image, kind=block.type, name=str_of(block.title))


def text_of(content: Any) -> str:
    """The text of some content: its text blocks; what is no text is told by what it names."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for block in blocks_of(content):
        if block.text:
            texts.append(block.text)
        elif block.type == "tool_reference" and (block.tool_name or block.name):
            # A search for tools returns their names only (cases/claude_code/tool_search).
            # {"type":"tool_result","content":[{"type":"tool_reference","tool_name":"WebFetch"}]}
            texts.append(block.tool_name or block.name or "")
        elif block.content:
            texts.append(text_of(parse_raw(block.content)))
        elif block.resource:  # that an MCP server embedded: its text, else where it is
            value = dict_of(parse_raw(block.resource))
            texts.append(str_of(value.get("text") or value.get("uri")))
    return "\n\n".join(texts)


def child_id(session: str, agent: str) -> str:
    """The id of a sub-agent's conversation: agent ids are unique within their session only."""
    return f"{session}/{agent}"
