"""Model calls of a replay: their message lists in OpenAI's shape, and what is known of each."""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import View
from unspool.io.times import parse_time
from unspool.prompts.shapes import arguments_text
from unspool.prompts.typed import context_kind, summary_of
from unspool.sources.vscode_chat.fields import bare_call_id

_ROLES = {0: "system", 1: "user", 2: "assistant", 3: "tool"}
_IMAGE, _TEXT, _OPAQUE = 0, 1, 2


class Spoken:
    """A model call of a conversation, and the tools that ran after it."""

    def __init__(self, log: dict[str, Any], number: int, prompt: str) -> None:
        self.log = log
        self.number = number
        self.prompt = prompt
        held = log.get("requestMessages")
        messages = held.get("messages") if isinstance(held, dict) else held
        self.messages = (
            [m for v in messages if (m := to_openai(v))] if isinstance(messages, list) else []
        )
        metadata = log.get("metadata")
        self.metadata: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
        self.tools: list[dict[str, Any]] = []
        self.conversation = self._opening()

    @property
    def request(self) -> str:
        return text_of(self.metadata.get("ourRequestId") or self.metadata.get("requestId"))

    @property
    def summary(self) -> str:
        """The summary of earlier history that the list goes on from; empty where it has none."""
        texts = (m["content"] for m in self.messages if m["role"] == "user")
        found = (summary_of(text) for text in texts if isinstance(text, str))
        return next((summary for summary in found if summary), "")

    @property
    def calls(self) -> Iterator[str]:
        """The tool calls that the list holds."""
        for message in self.messages:
            for call in message.get("tool_calls", ()):
                yield call["id"]

    def _opening(self) -> str:
        """What tells conversations apart: the list up to the first words of the person."""
        users: list[dict[str, Any]] = []
        for message in self.messages:
            if message["role"] == "user":
                users.append(message)
                if not (isinstance(message["content"], str) and context_kind(message["content"])):
                    break
        return hashlib.sha256(msgspec.json.encode(users)).hexdigest()[:16]

    @property
    def answer(self) -> dict[str, Any] | None:
        response = self.log.get("response")
        held = response.get("message") if isinstance(response, dict) else None
        texts = [t for t in held if isinstance(t, str)] if isinstance(held, list) else []
        text = "\n".join(texts) if texts else held if isinstance(held, str) else ""
        calls = [_call(tool) for tool in self.tools]
        if not text and not calls:
            return None
        return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}

    def view(self, origin: str, size: int, answered: bool) -> View:
        usage = self.metadata.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        details = usage.get("prompt_tokens_details")
        details = details if isinstance(details, dict) else {}
        stamp = self.metadata.get("endTime" if answered else "startTime")
        model = text_of(self.metadata.get("model"))
        return View(
            size=size,
            origin=origin,
            offset=self.number * 2 + answered,
            time=parse_time(stamp),
            call=text_of(self.log.get("id")),
            request=self.request,
            requested="" if answered else model,
            answered=model if answered else "",
            kind="" if answered else "chatreplay",
            tools=b"" if answered else msgspec.json.encode(self.metadata.get("tools") or []),
            prompt=_integer(usage.get("prompt_tokens")),
            completion=_integer(usage.get("completion_tokens")),
            cached=_integer(details.get("cached_tokens")),
        )


def to_openai(value: Any) -> dict[str, Any] | None:
    """A message of the prompt library, whose roles and parts are numbers, in OpenAI's shape."""
    if not isinstance(value, dict):
        return None
    role = value.get("role")
    name = _ROLES.get(role) if isinstance(role, int) else role
    if not isinstance(name, str):
        return None
    content = value.get("content")
    parts = content if isinstance(content, list) else [content]
    made: dict[str, Any] = {"role": name, "content": _contents(parts)}
    calls = value.get("toolCalls")
    if isinstance(calls, list) and calls:
        made["tool_calls"] = [
            {**c, "id": bare_call_id(text_of(c.get("id")))} for c in calls if isinstance(c, dict)
        ]
    if name == "tool":
        made["tool_call_id"] = bare_call_id(text_of(value.get("toolCallId")))
    return made


def _contents(parts: list[Any]) -> Any:
    made = [part for value in parts if (part := _part(value)) is not None]
    if len(made) == 1 and made[0]["type"] == "text":
        return made[0]["text"]
    return made if made else ""


def _part(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        return {"type": "text", "text": value}
    if not isinstance(value, dict):
        return None
    kind = value.get("type")
    if kind in (_TEXT, "text"):
        return {"type": "text", "text": text_of(value.get("text"))}
    if kind in (_IMAGE, "image_url"):
        return {"type": "image_url", "image_url": value.get("imageUrl", value.get("image_url"))}
    inner = value.get("value")
    text = thought_of(inner.get("thinking")) if isinstance(inner, dict) else ""
    return {"type": "thinking", "thinking": text} if kind == _OPAQUE and text else None


def thought_of(thinking: Any) -> str:
    """Its text, or its texts where it came in pieces."""
    held = thinking.get("text") if isinstance(thinking, dict) else None
    if isinstance(held, list):
        return "".join(t for t in held if isinstance(t, str))
    return text_of(held)


def _call(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": text_of(tool.get("tool")), "arguments": arguments_text(tool.get("args"))}
    return {"id": bare_call_id(text_of(tool.get("id"))), "type": "function", "function": function}


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _integer(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 2**60 else None
