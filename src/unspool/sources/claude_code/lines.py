"""Lines: one JSON object of a transcript, decoded once into a typed struct.

Only what is read is typed; the heavy rest (`toolUseResult`, `data`, tool input) stays undecoded.
A line whose fields have other types than all known versions wrote is taken field by field.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

NOTHING = Raw(b"")


class Block(msgspec.Struct, gc=False):
    """A content block of any type."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NOTHING
    tool_use_id: str | None = None
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
    speed: str | None = None


class Body(msgspec.Struct, gc=False):
    """`message` of a user or assistant line."""

    id: str | None = None
    role: str | None = None
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
    toolUseResult: Raw = NOTHING
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
    subtype: str | None = None
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
    tool_use_result: Raw = NOTHING


decode_line = msgspec.json.Decoder(Line).decode
decode_raws: Any = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_blocks: Callable[[bytes], str | list[Block] | None] = msgspec.json.Decoder(
    str | list[Block] | None
).decode
_FIELDS = {field.name: field.type for field in msgspec.structs.fields(Line)}


def lenient_line(value: dict[str, Any]) -> Line:
    """A line out of an object with odd types: every field that fits is kept, the others are not."""
    made = Line()
    for name, kind in _FIELDS.items():
        if name not in value:
            continue
        found = value[name]
        if name == "message":
            made.message = lenient_body(found)
        elif kind is Raw:
            setattr(made, name, Raw(msgspec.json.encode(found)))
        elif kind is Any:
            setattr(made, name, found)
        elif isinstance(found, bool) or found is None:
            if kind == bool | None:
                setattr(made, name, found)
        elif kind == str | None and isinstance(found, str | int):
            setattr(made, name, str(found))
    return made


def lenient_body(value: Any) -> Body | None:
    if isinstance(value, str):
        return Body(content=value)
    if not isinstance(value, dict):
        return None
    made = Body()
    for name in ("id", "role", "model", "stop_reason"):
        found = value.get(name)
        if isinstance(found, str):
            setattr(made, name, found)
    made.content = lenient_content(value.get("content"))
    try:
        made.usage = msgspec.convert(value.get("usage"), Usage | None, strict=False)
    except msgspec.ValidationError:
        made.usage = None
    return made


def lenient_content(value: Any) -> str | list[Block] | None:
    """Text or blocks; a bare string among blocks is a text block, an odd block keeps its JSON."""
    if isinstance(value, str) or value is None:
        return value
    blocks: list[Block] = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            blocks.append(Block(type="text", text=item))
            continue
        encoded = msgspec.json.encode(item)
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            blocks.append(Block(type="text", text=encoded.decode()))  # no block, but something said
            continue
        try:
            blocks.append(msgspec.json.decode(encoded, type=Block))
        except msgspec.ValidationError:
            blocks.append(Block(type="unknown", content=Raw(encoded)))
    return blocks


def parse_content(raw: bytes) -> str | list[Block] | None:
    """The content of a tool result or queued prompt."""
    if not raw:
        return None
    try:
        return _decode_blocks(raw)
    except msgspec.DecodeError:
        return lenient_content(msgspec.json.decode(raw))


def parse_raw(raw: bytes) -> Any:
    return msgspec.json.decode(raw) if raw else None
