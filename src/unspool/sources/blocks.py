"""Content blocks: the parts of a message as Anthropic's API, and agents that took them over, have them.

{"type":"text","text":"I look."}   {"type":"thinking","thinking":"First …"}
{"type":"tool_use","id":"c1","name":"read","input":{…}}      {"type":"toolCall",…,"arguments":{…}}
{"type":"image","source":{"media_type":"image/png","data":"…"}}
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from unspool.facts import Attachment
from unspool.prompts.shapes import binary
from unspool.sources.scribe import Scribe, touched

_CALLS = ("tool_use", "toolCall")


class Picture(msgspec.Struct, gc=False):
    media_type: str = ""
    data: str = ""


class Block(msgspec.Struct, gc=False):
    """A part of a message of any type."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"")
    arguments: Raw = Raw(b"")
    tool_use_id: str = ""
    content: "str | list[Block] | None" = None
    is_error: bool | None = None
    source: Picture | None = None
    data: str = ""
    mimeType: str = ""
    delta: str = ""
    """Of a block that is being printed, the next piece: {"type":"text_delta","delta":"I lo"}."""

    @property
    def given(self) -> str:
        """The arguments of a call, as they were written."""
        return bytes(self.input or self.arguments).decode("utf-8", "replace")


Content = str | list[Block] | None


def blocks_of(content: Content) -> list[Block]:
    if isinstance(content, list):
        return content
    return [Block(type="text", text=content)] if content else []


def calls_of(content: Content) -> list[Block]:
    return [block for block in blocks_of(content) if block.type in _CALLS]


def text_of(content: Content) -> str:
    if not isinstance(content, list):
        return content or ""
    return "\n\n".join(block.text for block in content if block.type == "text" and block.text)


def images_of(content: Content) -> tuple[Attachment, ...]:
    images = [block for block in blocks_of(content) if block.type == "image"]
    pictures = [block.source or Picture(block.mimeType, block.data) for block in images]
    return tuple(binary("image", one.data, one.media_type) for one in pictures)


def tell_answer(
    content: Content, ident: str, scribe: Scribe, touches: Mapping[str, str], **fields: Any
) -> None:
    """An answer with its calls. `touches`: what the agent's tools for files do to their `path`;
    `fields`: those of MessageSeen beside its words."""
    thoughts = (block.thinking for block in blocks_of(content) if block.thinking)
    said = {"text": text_of(content), "thinking": "\n\n".join(thoughts)}
    scribe.message(id=ident, role="assistant", **{**said, **fields})
    for block in calls_of(content):
        scribe.call(
            id=block.id,
            message=ident,
            name=block.name,
            arguments=block.given,
            files=touched(touches, block.name, block.given, "path"),
        )
