"""Chat replays and request logs (`.chatreplay.json`): every model call with its whole message list.

    {"prompts": [{"prompt": "fix it", "logs": [
        {"kind": "request", "requestMessages": {"messages": […]}, "metadata": {…}, "response": {…}},
        {"kind": "toolCall", "id": "…", "tool": "read_file", "args": "{…}", "response": […]}]}]}

The lists overlap like those of telemetry and go the same way: as snapshots, in OpenAI's shape. The
format names no session. Requests whose lists begin alike are one conversation, and one whose list
begins from a summary is that of the request, of the calls or of the summary that it goes on from.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact, Key, Rank, SnapshotSeen, View
from unspool.io.door import Flaw, read_json, sample
from unspool.io.origins import Origin, Tally
from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, dicts_of, field_of, list_of, str_of
from unspool.prompts.shapes import arguments_text
from unspool.prompts.typed import context_kind, summary_of
from unspool.sources.scribe import Scribe
from unspool.sources.vscode_chat.documents import lose, read_whole
from unspool.sources.vscode_chat.edits import count_lines
from unspool.sources.vscode_chat.fields import NAME, bare_call_id
from unspool.sources.vscode_chat.prompts import thinking_text
from unspool.sources.vscode_chat.uris import integer, path_of

_CONVERSATION_LOCATIONS = frozenset((1, 2, 3, 4, 5, 7))
"""The others are the program's own calls."""
_UTILITY = ("title", "progressMessages", "copilotLanguageModelWrapper", "summarize", "intent")
_ROLES = {0: "system", 1: "user", 2: "assistant", 3: "tool"}
_IMAGE, _TEXT, _OPAQUE = 0, 1, 2


def read_replay(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    data = read_whole(origin.path)
    salvage = read_json(data.removeprefix(b"\xef\xbb\xbf"))
    value = salvage.values[0] if salvage.values else None
    if salvage.lost or not isinstance(value, dict):
        flaw = Flaw("not-a-replay", 0, sample(data))
        lose(origin, tally, salvage.flaws[0] if salvage.flaws else flaw)
    if isinstance(value, dict):
        calls = _model_calls(value, origin, tally)
        # Where history was compacted, nothing after it shows what stood before.
        last = {(call.conversation, call.summary): call for call in calls}
        begun: set[str] = set()
        for call in calls:
            opens = bool(call.request) and call.request not in begun
            begun.add(call.request)
            closes = last[call.conversation, call.summary] is call
            yield from _call_facts(call, origin.path, opens, closes)


def _call_facts(call: "ModelCall", origin: str, opens: bool, closes: bool) -> Iterator[AnyFact]:
    """`opens` a request; `closes` what is known of its conversation, or of it up to a compaction."""
    key: Key = (NAME, f"replay-{call.conversation}")
    yield _snapshot(key, call, call.messages, origin, False)
    answer = call.answer
    if answer is not None:
        yield _snapshot(key, call, [answer], origin, True)
    if closes and answer is not None and call.tools:
        # Nothing after it shows what the last tools gave: the list as a next call would see it.
        whole = [*call.messages, answer, *map(_result, call.tools)]
        yield _snapshot(key, call, whole, origin, False, 2)
    # What led to the tools that ran next, when they came back, and what they edited.
    for number, tool in enumerate(call.tools):
        time = parse_time(tool.get("time"))
        scribe = Scribe(key, origin, (call.number << 20) + number + 1)
        ident = _call_id(tool)
        notes = {
            "ended_at": format_time(time),
            # The model call's own entry holds no reasoning, and later lists need not repeat it.
            "thinking": thinking_text(tool.get("thinking")),
            "metadata": tool.get("toolMetadata"),
        }
        for name, value in notes.items():
            if ident and value:
                when = time if name == "ended_at" else None
                scribe.note(name, value, on="call", subject=ident, time=when)
        for edit in dicts_of(tool.get("edits")):
            if path := path_of(edit.get("path")):
                added, removed = count_lines(edit.get("edits"))
                touch = {"path": path, "lines_added": added, "lines_removed": removed}
                scribe.mark("file", touch, ident, time=time)
        yield from scribe.facts
    view = call.view(origin, 0, False)
    scribe = Scribe(key, origin, view.offset, time=view.time)
    if call.prompt:
        scribe.note("typed", call.prompt, Rank.COPY, "request", call.request, number=9)
    if opens:
        # The words that opened the request went out with its first model call.
        sent = format_time(view.time)
        scribe.note("timestamp", sent, Rank.COPY, "request", call.request, number=8)
    yield from scribe.facts


class ModelCall:
    """A model call of a conversation, and the tools that ran after it."""

    def __init__(self, log: dict[str, Any], number: int, prompt: str) -> None:
        self.log = log
        self.number = number
        self.prompt = prompt
        """What the person typed."""
        messages = log.get("requestMessages")
        messages = messages.get("messages") if isinstance(messages, dict) else messages
        self.messages = [m for value in list_of(messages) if (m := _to_openai(value))]
        self.metadata: dict[str, Any] = dict_of(log.get("metadata"))
        self.request = str_of(self.metadata.get("ourRequestId") or self.metadata.get("requestId"))
        self.tools: list[dict[str, Any]] = []
        # What tells conversations apart: the list up to the first words of the person.
        users: list[dict[str, Any]] = []
        for message in self.messages:
            if message["role"] == "user":
                users.append(message)
                if not (isinstance(message["content"], str) and context_kind(message["content"])):
                    break
        self.conversation = hashlib.sha256(msgspec.json.encode(users)).hexdigest()[:16]
        texts = (m["content"] for m in self.messages if m["role"] == "user")
        summaries = (summary_of(text) for text in texts if isinstance(text, str))
        self.summary = next((summary for summary in summaries if summary), "")
        """The summary of earlier history that the list goes on from; empty where it has none."""

    @property
    def answer(self) -> dict[str, Any] | None:
        words = field_of(self.log.get("response"), "message")
        if isinstance(words, list):
            words = "\n".join(text for text in words if isinstance(text, str))
        calls = []
        for tool in self.tools:
            name, arguments = str_of(tool.get("tool")), arguments_text(tool.get("args"))
            function = {"name": name, "arguments": arguments}
            calls.append({"id": _call_id(tool), "type": "function", "function": function})
        if not calls and not str_of(words):
            return None
        answer = {"role": "assistant", "content": str_of(words)}
        return {**answer, "tool_calls": calls} if calls else answer

    def view(self, origin: str, size: int, answered: bool) -> View:
        usage = dict_of(self.metadata.get("usage"))
        details = dict_of(usage.get("prompt_tokens_details"))
        stamp = self.metadata.get("endTime" if answered else "startTime")
        model = str_of(self.metadata.get("model"))
        return View(
            size=size,
            origin=origin,
            offset=self.number * 2 + answered,
            time=parse_time(stamp),
            call=str_of(self.log.get("id")),
            request=self.request,
            requested="" if answered else model,
            answered=model if answered else "",
            notes=() if answered else ("telemetry_type", "chatreplay"),
            tools=b"" if answered else msgspec.json.encode(self.metadata.get("tools") or []),
            prompt=integer(usage.get("prompt_tokens")),
            completion=integer(usage.get("completion_tokens")),
            cached=integer(details.get("cached_tokens")),
        )


class Names:
    """Which conversation a model call belongs to, as the calls go by."""

    def __init__(self) -> None:
        self._requests: dict[str, str] = {}
        self._summaries: dict[str, str] = {}
        self.tools: dict[str, str] = {}

    def place(self, call: ModelCall) -> None:
        """One that begins from a summary goes on from another: in the middle of a request, with
        tools that were called before, or with a summary that was written of it."""
        used = [tool["id"] for m in call.messages for tool in m.get("tool_calls", ())]
        if call.summary:
            callers = (self.tools[tool] for tool in used if tool in self.tools)
            written = (ident for text, ident in self._summaries.items() if text in call.summary)
            call.conversation = (
                self._requests.get(call.request)
                or next(callers, None)
                or next(written, None)
                or call.conversation
            )
        if call.request:
            self._requests[call.request] = call.conversation
        self.tools.update(dict.fromkeys(used, call.conversation))

    def summarised(self, call: ModelCall) -> None:
        """A call that wrote a summary: it was given the history as the conversation has it."""
        self.place(call)
        text = ((call.answer or {}).get("content") or "").strip()
        if text:
            self._summaries[text] = call.conversation


def _model_calls(value: dict[str, Any], origin: Origin, tally: Tally) -> list[ModelCall]:
    """The model calls of conversations, in order; each with the tools that were run next."""
    prompts = value.get("prompts")
    calls: list[ModelCall] = []
    names = Names()
    number = 0
    for prompt in prompts if isinstance(prompts, list) else [value]:
        for log in list_of(field_of(prompt, "logs")):
            tally.records += 1
            number += 1
            kind = field_of(log, "kind")
            if kind == "request" and _is_of_conversation(log):
                call = ModelCall(log, number, str_of(prompt.get("prompt")))
                names.place(call)
                if call.messages:
                    calls.append(call)
                else:
                    tally.noise += 1
            elif kind == "toolCall" and calls:
                calls[-1].tools.append(log)
                names.tools[_call_id(log)] = calls[-1].conversation
            elif kind == "request" and "summar" in str_of(log.get("name")).lower():
                names.summarised(ModelCall(log, number, ""))
                tally.noise += 1
            elif kind in ("element", "request", "toolCall", "error"):
                tally.noise += 1
            else:
                tally.unrecognise(f"replay {kind}", origin.path, number)
    return calls


def _is_of_conversation(log: dict[str, Any]) -> bool:
    name = str_of(log.get("name"))
    if any(word in name for word in _UTILITY):
        return False
    location = field_of(log.get("metadata"), "location")
    return location in _CONVERSATION_LOCATIONS if isinstance(location, int) else "/" in name


def _snapshot(
    key: Key, call: ModelCall, messages: list[Any], origin: str, answered: bool, number: int = 0
) -> SnapshotSeen:
    text = msgspec.json.encode(messages)[:-1]
    view = call.view(origin, len(text), answered)
    if number:
        view = msgspec.structs.replace(view, call="", offset=view.offset + 1)
    return SnapshotSeen(
        key=key, origin=origin, offset=view.offset, number=number, time=view.time, text=text,
        views=(view,),
    )  # fmt: skip


def _result(tool: dict[str, Any]) -> dict[str, Any]:
    response = tool.get("response")
    pieces = response if isinstance(response, list) else [response]
    texts = (p if isinstance(p, str) else arguments_text(p) for p in pieces if p is not None)
    return {"role": "tool", "content": "\n".join(texts), "tool_call_id": _call_id(tool)}


def _call_id(log: dict[str, Any]) -> str:
    return bare_call_id(str_of(log.get("id")))


def _to_openai(value: Any) -> dict[str, Any] | None:
    """A message of the prompt library, whose roles and parts are numbers, in OpenAI's shape."""
    if not isinstance(value, dict):
        return None
    role = value.get("role")
    name = _ROLES.get(role) if isinstance(role, int) else role
    if not isinstance(name, str):
        return None
    content = value.get("content")
    contents = content if isinstance(content, list) else [content]
    parts = [part for held in contents if (part := _content_part(held)) is not None]
    only_text = len(parts) == 1 and parts[0]["type"] == "text"
    message: dict[str, Any] = {
        "role": name,
        "content": parts[0]["text"] if only_text else parts or "",
    }
    if calls := dicts_of(value.get("toolCalls")):
        message["tool_calls"] = [{**call, "id": _call_id(call)} for call in calls]
    if name == "tool":
        message["tool_call_id"] = bare_call_id(str_of(value.get("toolCallId")))
    return message


def _content_part(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        return {"type": "text", "text": value}
    if not isinstance(value, dict):
        return None
    kind = value.get("type")
    if kind in (_TEXT, "text"):
        return {"type": "text", "text": str_of(value.get("text"))}
    if kind in (_IMAGE, "image_url"):
        return {"type": "image_url", "image_url": value.get("imageUrl", value.get("image_url"))}
    opaque = value.get("value")
    text = thinking_text(field_of(opaque, "thinking"))
    return {"type": "thinking", "thinking": text} if kind == _OPAQUE and text else None
