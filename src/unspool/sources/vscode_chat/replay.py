"""Chat replays and request logs (`.chatreplay.json`): every model call with its whole message list.

The lists overlap like those of telemetry and go the same way: as snapshots, in OpenAI's shape. The
format names no session. Requests whose lists begin alike are one conversation.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.chat_fields import bare_call_id
from unspool.facts import AnyFact, Key, Noted, SnapshotSeen, View
from unspool.origins import Origin, Tally
from unspool.shapes import arguments_text
from unspool.sources.vscode_chat.chats import NAME
from unspool.sources.vscode_chat.documents import lost, parse, read_whole
from unspool.times import parse_time
from unspool.typed import context_kind

_ROLES = {0: "system", 1: "user", 2: "assistant", 3: "tool"}
_TALK = frozenset((1, 2, 3, 4, 5, 7))
"""Locations of a conversation; the others are the program's own calls."""
_UTILITY = ("title", "progressMessages", "copilotLanguageModelWrapper", "summarize", "intent")
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

    @property
    def conversation(self) -> str:
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
        model = _text(self.metadata.get("model"))
        return View(
            size=size,
            origin=origin,
            offset=self.number * 2 + answered,
            time=parse_time(stamp),
            call=_text(self.log.get("id")),
            request=_text(self.metadata.get("ourRequestId") or self.metadata.get("requestId")),
            requested="" if answered else model,
            answered=model if answered else "",
            kind="" if answered else "chatreplay",
            tools=b"" if answered else msgspec.json.encode(self.metadata.get("tools") or []),
            prompt=_integer(usage.get("prompt_tokens")),
            completion=_integer(usage.get("completion_tokens")),
            cached=_integer(details.get("cached_tokens")),
        )


def read_replay(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    data, _ = read_whole(origin.path)
    value, code = parse(data.removeprefix(b"\xef\xbb\xbf"))
    if code or not isinstance(value, dict):
        yield lost(origin, tally, 0, code or "not-a-replay", data)
    if isinstance(value, dict):
        spoken = _spoken(value, origin, tally)
        last = {call.conversation: call for call in spoken}
        for call in spoken:
            yield from _facts(call, last[call.conversation] is call, origin)


def _spoken(value: dict[str, Any], origin: Origin, tally: Tally) -> list[Spoken]:
    """The model calls of conversations, in order; each with the tools that were run next."""
    prompts = value.get("prompts")
    made: list[Spoken] = []
    number = 0
    for prompt in prompts if isinstance(prompts, list) else [value]:
        logs = prompt.get("logs") if isinstance(prompt, dict) else None
        for log in logs if isinstance(logs, list) else ():
            tally.records += 1
            number += 1
            kind = log.get("kind") if isinstance(log, dict) else None
            if kind == "request" and _is_talk(log):
                made.append(Spoken(log, number, _text(prompt.get("prompt"))))
                if not made[-1].messages:
                    made.pop()
                    tally.noise += 1
            elif kind == "toolCall" and made:
                made[-1].tools.append(log)
            elif kind in ("element", "request", "toolCall", "error"):
                tally.noise += 1
            else:
                tally.unrecognise(f"replay {kind}", origin.path, number)
    return made


def _is_talk(log: dict[str, Any]) -> bool:
    name = _text(log.get("name"))
    if any(word in name for word in _UTILITY):
        return False
    metadata = log.get("metadata")
    location = metadata.get("location") if isinstance(metadata, dict) else None
    return location in _TALK if isinstance(location, int) else "/" in name


def _facts(call: Spoken, last: bool, origin: Origin) -> Iterator[AnyFact]:
    key: Key = (NAME, f"replay-{call.conversation}")
    yield _snapshot(key, call, call.messages, origin.path, False)
    answer = call.answer
    if answer is not None:
        yield _snapshot(key, call, [answer], origin.path, True)
    if last and answer is not None and call.tools:
        # Nothing after it shows what the last tools gave: the list as the next call would see it.
        results = [_result(tool) for tool in call.tools]
        whole = [*call.messages, answer, *results]
        yield _snapshot(key, call, whole, origin.path, False, 2)
    if call.prompt:
        view = call.view(origin.path, 0, False)
        yield Noted(
            key=key, origin=origin.path, offset=view.offset, number=9, time=view.time,
            on="request", subject=view.request, name="typed", value=call.prompt, rank=1,
        )  # fmt: skip


def _snapshot(
    key: Key, call: Spoken, messages: list[Any], origin: str, answered: bool, number: int = 0
) -> SnapshotSeen:
    text = msgspec.json.encode(messages)[:-1]
    view = call.view(origin, len(text), answered)
    if number:
        view = msgspec.structs.replace(view, call="", offset=view.offset + 1)
    return SnapshotSeen(
        key=key, origin=origin, offset=view.offset, number=number, time=view.time, text=text,
        escaped=False, views=(view,),
    )  # fmt: skip


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
            {**c, "id": bare_call_id(_text(c.get("id")))} for c in calls if isinstance(c, dict)
        ]
    if name == "tool":
        made["tool_call_id"] = bare_call_id(_text(value.get("toolCallId")))
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
        return {"type": "text", "text": _text(value.get("text"))}
    if kind in (_IMAGE, "image_url"):
        return {"type": "image_url", "image_url": value.get("imageUrl", value.get("image_url"))}
    inner = value.get("value")
    thinking = inner.get("thinking") if isinstance(inner, dict) else None
    text = thinking.get("text") if isinstance(thinking, dict) else None
    if kind == _OPAQUE and isinstance(text, str) and text:
        return {"type": "thinking", "thinking": text}
    return None


def _call(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": _text(tool.get("tool")), "arguments": arguments_text(tool.get("args"))}
    return {"id": bare_call_id(_text(tool.get("id"))), "type": "function", "function": function}


def _result(tool: dict[str, Any]) -> dict[str, Any]:
    held = tool.get("response")
    pieces = held if isinstance(held, list) else [held]
    text = "\n".join(
        p if isinstance(p, str) else arguments_text(p) for p in pieces if p is not None
    )
    ident = bare_call_id(_text(tool.get("id")))
    return {"role": "tool", "content": text, "tool_call_id": ident}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
