"""Answers: what a model said, out of any response or stream of the OpenAI and Anthropic interfaces."""

from collections.abc import Sequence
from typing import Any

import msgspec

from unspool.io.values import str_of
from unspool.record.plain import (
    count_of,
    figure_of,
    json_or_text,
    listed,
    name_of,
    plain,
    rows,
    table,
)
from unspool.sources.recorder.entries import Call, Tokens

Object = dict[str, Any]


class Answer(msgspec.Struct):
    """One answer, whole or as far as it came."""

    text: str = ""
    thinking: str = ""
    calls: list[Call] = []
    usage: Tokens | None = None
    model: str = ""
    stop: str = ""
    data: Object = {}
    """What else is known: the provider's id of the response."""


def to_answer(response: Any) -> Answer:
    """A chat completion, a Messages or Responses response, a bare message, or text."""
    response = plain(response)
    if isinstance(response, str):
        return Answer(text=response)
    if not isinstance(response, dict):
        return Answer(text="" if response is None else json_or_text(response))
    answer = Answer(model=str_of(response.get("model")), usage=to_tokens(response.get("usage")))
    if isinstance(response.get("id"), str) and response.get("id"):
        answer.data = {"response_id": response["id"]}
    choices = response.get("choices")
    if isinstance(choices, list):
        for choice in map(table, choices[:1]):
            answer.stop = str_of(choice.get("finish_reason"))
            take_message(answer, table(choice.get("message")))
        if len(choices) > 1:
            answer.data["choices"] = [plain(choice) for choice in choices[1:]]
    elif isinstance(response.get("output"), list):
        take_output(answer, response)
    else:
        answer.stop = str_of(response.get("stop_reason"))
        take_message(answer, response)
    return answer


def compose(
    answer: Answer,
    *,
    thinking: str | None = None,
    tool_calls: Sequence[Any] | None = None,
    usage: Any = None,
    model: str | None = None,
    stop: str | None = None,
) -> Answer:
    """The answer with what the caller says beside it."""
    answer.thinking = json_or_text(thinking) if thinking else answer.thinking
    for call in listed(tool_calls):
        take_call(answer, plain(call))
    answer.usage = to_tokens(usage) or answer.usage
    answer.model = name_of(model) or answer.model
    answer.stop = name_of(stop) or answer.stop
    return answer


def take_message(answer: Answer, message: Object) -> None:
    """A message: `content` as text or blocks, `tool_calls` as OpenAI has them."""
    content = message.get("content")
    for block in content if isinstance(content, list) else [content]:
        take_block(answer, plain(block))
    refusal = str_of(message.get("refusal"))
    if refusal and not answer.text:
        answer.text = refusal
    for name in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(message.get(name), str):
            answer.thinking = answer.thinking or message[name]
    for call in rows(message.get("tool_calls")):
        take_call(answer, plain(call))


def take_block(answer: Answer, block: Any) -> None:
    if isinstance(block, str):
        answer.text = f"{answer.text}\n{block}" if answer.text else block
    if not isinstance(block, dict):
        return
    kind = block.get("type")
    if kind in ("text", "output_text", "refusal"):
        take_block(answer, str_of(block.get("text") or block.get("refusal")))
    elif kind in ("thinking", "reasoning"):
        answer.thinking += str_of(block.get("thinking") or block.get("text"))
    elif kind in ("tool_use", "function_call", "custom_tool_call"):
        take_call(answer, block)
    elif kind is not None:
        answer.data.setdefault("blocks", []).append(block)


def take_call(answer: Answer, call: Any) -> None:
    """A tool call of any of the three shapes."""
    if not isinstance(call, dict):
        return
    inner = next((call[k] for k in ("function", "custom") if isinstance(call.get(k), dict)), call)
    arguments = inner.get("arguments", inner.get("input"))
    answer.calls = [
        *answer.calls,
        Call(
            id=name_of(call.get("call_id") or call.get("id")),
            name=str_of(inner.get("name")),
            arguments="" if arguments is None else json_or_text(arguments),
        ),
    ]


def take_output(answer: Answer, response: Object) -> None:
    """The items of a Responses answer."""
    answer.stop = str_of(response.get("status"))
    for item in map(table, response["output"]):
        if item.get("type") == "message":
            take_message(answer, item)
        elif item.get("type") == "reasoning":
            parts = [*rows(item.get("summary")), *rows(item.get("content"))]
            texts = [str_of(table(part).get("text")) for part in parts]
            answer.thinking += "\n".join(text for text in texts if text)
        else:
            take_block(answer, item)


def to_tokens(usage: Any) -> Tokens | None:
    """Token counts however they are named; `prompt` holds cache reads and writes too."""
    usage = plain(usage)
    if isinstance(usage, Tokens) or not isinstance(usage, dict) or not usage:
        return usage if isinstance(usage, Tokens) else None
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    prompt = _count(usage, "prompt_tokens", "prompt", "input_tokens")
    if "input_tokens" in usage and "input_tokens_details" not in usage:
        # Anthropic counts fresh input apart from cache reads and writes.
        counts = [
            n for v in (usage["input_tokens"], read, written) if (n := count_of(v)) is not None
        ]
        prompt = sum(counts) if counts else None
    details = _details(usage, "prompt_tokens_details", "input_tokens_details")
    output = _details(usage, "completion_tokens_details", "output_tokens_details")
    return Tokens(
        prompt=prompt,
        completion=_count(usage, "completion_tokens", "completion", "output_tokens"),
        cached=_count(usage, "cache_read_input_tokens", "cached_tokens", "cached")
        if read is not None or not details
        else _count(details, "cached_tokens"),
        cache_write=_count(usage, "cache_creation_input_tokens", "cache_write"),
        reasoning=_count(output, "reasoning_tokens") or _count(usage, "reasoning"),
        cost_usd=figure_of(usage.get("cost_usd")),
    )


def _details(usage: Object, *names: str) -> Object:
    return next((table(usage[name]) for name in names if usage.get(name) is not None), {})


def _count(values: Object, *names: str) -> int | None:
    counts = (count_of(values.get(name)) for name in names)
    return next((count for count in counts if count is not None), None)


class Gathering:
    """An answer in the making. Chunks may be of any of the interfaces, or plain text."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.started = False
        """Whether anything of the answer itself has come."""
        self._calls: dict[Any, Object] = {}
        self._usage: Object = {}

    def add(self, chunk: Any) -> None:
        chunk = plain(chunk)
        if isinstance(chunk, str):
            self._say(chunk)
        elif isinstance(chunk, dict) and isinstance(chunk.get("choices"), list):
            self._add_completion(chunk)
        elif isinstance(chunk, dict):
            kind, index = chunk.get("type"), chunk.get("index")
            block, delta = table(chunk.get("content_block")), table(chunk.get("delta"))
            if kind == "message_start":
                self._take_head(table(chunk.get("message")))
            elif kind == "content_block_start" and block.get("type") == "text":
                if self.answer.text:
                    self.answer.text += "\n"  # as between the blocks of a whole response
                self._say(block.get("text"))
            elif kind == "content_block_start" and block.get("type") == "thinking":
                self._think(block.get("thinking"))
            elif kind == "content_block_start" and block.get("type") == "tool_use":
                self._call(index, id=block.get("id"), name=block.get("name"))
            elif kind == "content_block_delta" and delta.get("type") == "text_delta":
                self._say(delta.get("text"))
            elif kind == "content_block_delta" and delta.get("type") == "thinking_delta":
                self._think(delta.get("thinking"))
            elif kind == "content_block_delta" and delta.get("type") == "input_json_delta":
                self._call(index, arguments=delta.get("partial_json"))
            elif kind == "message_delta":
                self._take_head({"usage": chunk.get("usage")})
                self.answer.stop = str_of(delta.get("stop_reason")) or self.answer.stop
            elif isinstance(kind, str) and kind.startswith("response."):
                self._add_response_event(kind, chunk)

    def finish(self) -> Answer:
        """The answer as far as it came."""
        for call in self._calls.values():
            take_call(self.answer, call)
        self._calls = {}
        if self._usage:
            self.answer.usage = to_tokens(self._usage)
        return self.answer

    def _say(self, text: Any) -> None:
        if isinstance(text, str) and text:
            self.answer.text += text
            self.started = True

    def _think(self, text: Any) -> None:
        if isinstance(text, str) and text:
            self.answer.thinking += text
            self.started = True

    def _call(self, key: Any, **fields: Any) -> None:
        """More of a call: its arguments come in pieces, everything else once."""
        self.started = True
        key = key if isinstance(key, int) else str(key)
        call = self._calls.setdefault(key, {"id": "", "name": "", "arguments": ""})
        call["arguments"] = str_of(call.get("arguments")) + str_of(fields.pop("arguments", None))
        call.update({name: value for name, value in fields.items() if str_of(value)})

    def _add_completion(self, chunk: Object) -> None:
        """A chunk of a chat completion."""
        self._take_head(chunk)
        for choice in map(table, chunk["choices"][:1]):
            delta = table(choice.get("delta"))
            self._say(delta.get("content"))
            self._say(delta.get("refusal"))
            self._think(delta.get("reasoning_content") or delta.get("reasoning"))
            for call in map(table, rows(delta.get("tool_calls"))):
                function = table(call.get("function"))
                self._call(
                    call.get("index", len(self._calls)),
                    id=call.get("id"),
                    name=function.get("name"),
                    arguments=function.get("arguments"),
                )
            self.answer.stop = str_of(choice.get("finish_reason")) or self.answer.stop

    def _take_head(self, value: Object) -> None:
        self.answer.model = str_of(value.get("model")) or self.answer.model
        if str_of(value.get("id")):
            self.answer.data["response_id"] = value["id"]
        usage = table(value.get("usage"))
        self._usage.update({k: v for k, v in usage.items() if v is not None})

    def _add_response_event(self, kind: str, event: Object) -> None:
        """An event of the Responses interface; the last one holds the whole response."""
        if kind == "response.output_text.delta":
            self._say(event.get("delta"))
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            self._think(event.get("delta"))
        elif kind == "response.output_item.done":
            item = table(event.get("item"))
            if item.get("type") in ("function_call", "custom_tool_call"):
                self._calls[str(event.get("output_index"))] = item
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            whole = to_answer(event.get("response"))
            self._calls = {}
            self._usage = {}
            self.started = True
            self.answer = whole
