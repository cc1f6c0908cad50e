"""Message shapes: OpenAI, Anthropic and Responses messages turned into the same messages.

Pure: a decoded JSON value in, messages out. One message may become several (an Anthropic user
message with two tool results and a text is three). Nothing is dropped: parts of unknown types are
kept as JSON under `extra`.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.facts import Attachment, Role
from unspool.io.packing import encode_json
from unspool.trajectory import Message, ToolCall, ToolFunction

DATA_LIMIT = 16 * 1024 * 1024
"""Longest base64 text that travels with an attachment; a longer one becomes a bare reference."""

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TEXT_TYPES = {"text", "input_text", "output_text", "refusal", "summary_text"}
_NOTHING_TYPES = {"copilot_cache_control", "cache_control", "cacheBreakpoint"}


class SentFunction(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    name: str
    arguments: str


class SentCall(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    id: str
    function: SentFunction
    type: str


class SentMessage(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The message that most lists consist of, with nothing in it that is not read:

    {"role": "assistant", "content": "…", "tool_calls": [{"id": "c1", "type": "function", "function": …
    """

    role: Role
    content: str
    tool_calls: list[SentCall] = []
    tool_call_id: str | None = None

    def to_message(self) -> Message:
        message = Message(self.role, self.content)
        if self.tool_calls:
            message.tool_calls = [
                ToolCall(
                    call.id,
                    call.type or "function",
                    ToolFunction(call.function.name, call.function.arguments),
                )
                for call in self.tool_calls
            ]
        if self.role == "tool":
            message.tool_call_id = self.tool_call_id or None
        return message


def to_messages(value: Any) -> list[Message]:
    """The messages that one element of a message list stands for; empty where it is none."""
    if not isinstance(value, dict):
        return []
    kind = value.get("type")
    if kind in ("function_call", "custom_tool_call") and "call_id" in value:
        return [Message("assistant", "", tool_calls=[_responses_call(value)])]
    if kind in ("function_call_output", "custom_tool_call_output"):
        return _Parts(value.get("output")).messages("tool", {"tool_call_id": value.get("call_id")})
    if kind == "reasoning":
        return _Parts(value.get("summary") or value.get("content")).as_thinking()
    plain = _plain(value)
    if plain is not None:
        return [plain]
    role = _ROLES.get(str(value.get("role", "")).lower())
    return _Parts(value.get("content")).messages(role, value) if role is not None else []


def _plain(value: dict[str, Any]) -> Message | None:
    """A message whose content is a text, as that of most: {"role": "user", "content": "…"}."""
    role, content = value.get("role"), value.get("content")
    if type(content) is not str or type(role) is not str:
        return None
    speaker = _ROLES.get(role) or _ROLES.get(role.lower())
    if speaker is None:
        return None
    return Message(speaker, content) if len(value) == 2 else _message(speaker, content, value)


_RESPONSE_ITEMS = {"reasoning", "function_call", "custom_tool_call", "message"}


def list_to_messages(values: Iterable[Any]) -> list[Message]:
    """The messages of a list. What one response gave as several items is one message."""
    result: list[Message] = []
    opened: Message | None = None
    for value in values:
        messages = to_messages(value)
        if not is_response_item(value):
            result += messages
            if messages:
                opened = None
            continue
        for message in messages:
            if message.role == "assistant" and opened is not None:
                _extend(opened, message)
                continue
            opened = message if message.role == "assistant" else None
            result.append(message)
    return result


def is_response_item(value: Any) -> bool:
    """Whether it may be one of several items that one response gave."""
    kind = value.get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind in _RESPONSE_ITEMS


def joined(message: Message, more: Message) -> Message:
    """One message of two items of a response."""
    whole = msgspec.structs.replace(message)
    _extend(whole, more)
    return whole


def _extend(message: Message, more: Message) -> None:
    message.content = "\n".join(t for t in (message.content, more.content) if t)
    message.thinking = "\n\n".join(t for t in (message.thinking, more.thinking) if t) or None
    message.tool_calls = [*(message.tool_calls or ()), *(more.tool_calls or ())] or None
    message.attachments = [*(message.attachments or ()), *(more.attachments or ())] or None


def _responses_call(value: dict[str, Any]) -> ToolCall:
    arguments = value.get("arguments", value.get("input", ""))
    name = text(value.get("name"))
    return ToolCall(
        id=text(value.get("call_id")), function=ToolFunction(name, arguments_text(arguments))
    )


def text(value: Any) -> str:
    return value if type(value) is str else "" if value is None else str(value)


def arguments_text(value: Any) -> str:
    """Arguments as the JSON text that the model wrote."""
    if isinstance(value, str):
        return value
    return "" if value is None else encode_json(value).decode()


class _Parts:
    """The content of one message, sorted by what its parts are."""

    def __init__(self, content: Any) -> None:
        self.texts: list[str] = []
        self.thinking: list[str] = []
        self.calls: list[ToolCall] = []
        self.results: list[Message] = []
        self.attachments: list[Attachment] = []
        self.unknown: list[Any] = []
        if isinstance(content, list):
            for part in content:
                self._take(part)
        elif isinstance(content, dict):
            self._take(content)
        elif content is not None:
            self.texts.append(text(content))

    def _take(self, part: Any) -> None:
        if isinstance(part, str):
            self.texts.append(part)
            return
        if not isinstance(part, dict):
            return
        kind = text(part.get("type")) or None
        if kind in _TEXT_TYPES or (kind is None and isinstance(part.get("text"), str)):
            self.texts.append(text(part.get("text", part.get("refusal"))))
        elif kind == "tool_use":
            function = ToolFunction(text(part.get("name")), arguments_text(part.get("input")))
            self.calls.append(ToolCall(id=text(part.get("id")), function=function))
        elif kind == "tool_result":
            self.results += _Parts(part.get("content")).messages("tool", part)
        elif kind in ("thinking", "reasoning"):
            self.thinking.append(text(part.get("thinking", part.get("text"))))
        elif kind in ("image", "image_url", "input_image"):
            self.attachments.append(image_of(part))
        elif kind == "input_audio" and isinstance(sound := part.get("input_audio"), dict):
            media_type = f"audio/{text(sound.get('format')) or 'wav'}"
            self.attachments.append(binary("audio", text(sound.get("data")), media_type))
        elif kind not in _NOTHING_TYPES:
            self.unknown.append(part)

    def as_thinking(self) -> list[Message]:
        thinking = "\n\n".join(t for t in (*self.thinking, *self.texts) if t)
        return [Message("assistant", "", thinking=thinking)] if thinking else []

    def messages(self, role: Role, value: dict[str, Any]) -> list[Message]:
        message = _message(role, "\n".join(self.texts), value)
        message.thinking = "\n\n".join(t for t in self.thinking if t) or message.thinking
        if self.calls:
            message.tool_calls = [*self.calls, *(message.tool_calls or ())]
        message.attachments = self.attachments or None
        if self.unknown:
            message.extra = {"parts": self.unknown}
        alone = bool(self.results) and not (
            message.content or message.tool_calls or self.attachments
        )
        return self.results if alone else [*self.results, message]


def _message(role: Role, content: str, value: dict[str, Any]) -> Message:
    """A message with what stands beside its content."""
    message = Message(role, content)
    if not _CALLS.isdisjoint(value):
        message.tool_calls = _openai_calls(value) or None
    if not _THINKING.isdisjoint(value):
        message.thinking = _thinking(value)
    if role == "tool":
        message.name = text(value.get("name")) or None
        for name in _CALL_IDS:
            if name in value:
                message.tool_call_id = text(value[name]) or None
                break
        message.is_error = True if value.get("is_error") is True else None
    return message


_CALLS = frozenset(("tool_calls", "toolCalls", "function_call"))
_THINKING = {"reasoning_content": 1, "reasoning_text": 2, "cot_summary": 3, "thinking": 4}.keys()
"""The first of them counts that says something."""
_CALL_IDS = ("tool_call_id", "tool_use_id", "toolCallId")


def _thinking(value: dict[str, Any]) -> str | None:
    for name in _THINKING:
        thinking = value.get(name)
        if isinstance(thinking, dict):
            thinking = thinking.get("text")
        if isinstance(thinking, str) and thinking:
            return thinking
    return None


def _openai_calls(value: dict[str, Any]) -> list[ToolCall]:
    calls = value.get("tool_calls", value.get("toolCalls"))
    tool_calls: list[ToolCall] = []
    for call in calls if type(calls) is list else ():
        if type(call) is not dict:
            continue
        inner = call.get("function")
        if type(inner) is not dict:
            # {"type": "custom", "custom": {"name": "run", "input": "ls"}}
            inner = call["custom"] if type(call.get("custom")) is dict else call
        arguments = inner.get("arguments", inner.get("input"))
        function = ToolFunction(text(inner.get("name")), arguments_text(arguments))
        kind = text(call.get("type")) or "function"
        tool_calls.append(ToolCall(text(call.get("id")), kind, function))
    old = value.get("function_call")
    if isinstance(old, dict) and not tool_calls:
        tool_calls.append(
            ToolCall(
                id="",
                function=ToolFunction(text(old.get("name")), arguments_text(old.get("arguments"))),
            )
        )
    return tool_calls


def image_of(part: dict[str, Any]) -> Attachment:
    """An image part of any of the three shapes."""
    source = part.get("source")
    if isinstance(source, dict):
        if source.get("type") == "base64" or "data" in source:
            return binary("image", text(source.get("data")), text(source.get("media_type")))
        return Attachment(kind="image", uri=text(source.get("url")))
    address = part.get("image_url", part.get("url"))
    media_type = text(part.get("media_type"))
    if isinstance(address, dict):
        media_type = text(address.get("media_type")) or media_type
        address = address.get("url")
    url = text(address)
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        return binary("image", data, head.split(";")[0] or media_type)
    return Attachment(kind="image", uri=url, media_type=media_type)


def binary(kind: str, data: str, media_type: str = "", name: str = "") -> Attachment:
    """An attachment whose bytes are given as base64: size, hash, and the bytes if not too long."""
    digest = digest_base64(data)
    if digest is None:
        return Attachment(kind=kind, name=name, media_type=media_type, extra={"broken": True})
    return Attachment(
        kind=kind,
        name=name,
        media_type=media_type,
        size_bytes=digest[0],
        sha256=digest[1],
        data=data if len(data) <= DATA_LIMIT else "",
    )


def digest_base64(data: str) -> tuple[int, str] | None:
    """(size, SHA-256) of what base64 text stands for; None where it is no base64."""
    try:
        content = base64.b64decode("".join(data.split()) if "\n" in data else data)
    except (binascii.Error, ValueError):
        return None
    return len(content), hashlib.sha256(content).hexdigest()
