"""Answers: what a model said, out of any response or stream of the OpenAI and Anthropic interfaces."""

from collections.abc import Sequence
from typing import Any

from unspool.io.values import dict_of, dicts_of, str_of
from unspool.prompts.shapes import list_to_messages, to_messages
from unspool.record.plain import json_or_text, listed, name_of, number_of, plain
from unspool.sources.recorder.entries import Call, Entry, Tokens

Object = dict[str, Any]


def to_answer(
    response: Any,
    *,
    thinking: str | None = None,
    tool_calls: Sequence[Any] | None = None,
    usage: Any = None,
    model: str | None = None,
    stop: str | None = None,
) -> Entry:
    """What a chat completion, a Messages or Responses response, a bare message, or text says, with
    what the caller says beside it."""
    response = plain(response)
    answer = Entry(kind="response")
    if isinstance(response, dict):
        _read_response(answer, response)
    elif response is not None:
        answer.text = json_or_text(response)
    answer.thinking = json_or_text(thinking) if thinking else answer.thinking
    for call in dicts_of(listed(tool_calls)):
        if call.get("type") == "tool_use":
            call = {"type": "message", "content": [call]}
        elif call.get("type") not in ("function_call", "custom_tool_call"):
            call = {"type": "message", "tool_calls": [call]}
        _take(answer, [call])
    answer.usage = to_tokens(usage) or answer.usage
    answer.answered = name_of(model) or answer.answered
    answer.stop = name_of(stop) or answer.stop
    return answer


def _read_response(answer: Entry, response: Object) -> None:
    answer.answered = str_of(response.get("model"))
    answer.usage = to_tokens(response.get("usage"))
    if str_of(response.get("id")):
        _keep(answer, response_id=response["id"])
    choices, output = response.get("choices"), response.get("output")
    if isinstance(choices, list):
        choice = dict_of(choices[0]) if choices else {}
        answer.stop = str_of(choice.get("finish_reason"))
        _take(answer, [dict_of(choice.get("message"))])
        if len(choices) > 1:
            _keep(answer, choices=choices[1:])
    elif isinstance(output, list):
        answer.stop = str_of(response.get("status"))
        _take(answer, dicts_of(output))
    else:
        answer.stop = str_of(response.get("stop_reason"))
        _take(answer, [response])


def _keep(answer: Entry, **data: Any) -> None:
    answer.data = {**(answer.data or {}), **data}


def _take(answer: Entry, items: list[Object]) -> None:
    """What the items of an answer say: a message, or the several items of a response."""
    spoken = [
        {**item, "role": "assistant"} if item.get("type", "message") == "message" else item
        for item in items
    ]
    blocks: list[Any] = []
    for message in list_to_messages(spoken):
        answer.text = "\n".join(text for text in (answer.text, message.content) if text)
        answer.thinking = "\n\n".join(t for t in (answer.thinking, message.thinking) if t)
        calls = [Call(call.id, call.name, call.arguments) for call in message.tool_calls or ()]
        answer.calls = [*answer.calls, *calls]
        blocks += (message.extra or {}).get("parts", ())
    for item in spoken:
        answer.text = answer.text or str_of(item.get("refusal"))
        answer.thinking = answer.thinking or str_of(item.get("reasoning"))
        if item.get("type") != "reasoning" and not to_messages(item):
            blocks.append(item)
    if blocks:
        _keep(answer, blocks=[*(answer.data or {}).get("blocks", ()), *blocks])


_COUNTS = {
    "prompt": ("prompt_tokens", "prompt", "input_tokens"),
    "completion": ("completion_tokens", "completion", "output_tokens"),
    "cached": ("cache_read_input_tokens", "cached_tokens", "cached"),
    "cache_write": ("cache_creation_input_tokens", "cache_write"),
    "reasoning": ("reasoning_tokens", "reasoning"),
}
_DETAILS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "completion_tokens_details",
    "output_tokens_details",
)


def to_tokens(usage: Any) -> Tokens | None:
    """Token counts however they are named; `prompt` holds cache reads and writes too."""
    usage = dict_of(plain(usage))
    if not usage:
        return None
    values = {**usage, **{k: v for name in _DETAILS for k, v in dict_of(usage.get(name)).items()}}
    counts: Object = {}
    for field, names in _COUNTS.items():
        given = [number_of(values.get(name), int) for name in names]
        counts[field] = next((count for count in given if count is not None), None)
    if "input_tokens" in usage and "input_tokens_details" not in usage:
        # Anthropic counts fresh input apart from cache reads and writes.
        parts = [counts[field] for field in ("prompt", "cached", "cache_write")]
        known = [count for count in parts if count is not None]
        counts["prompt"] = sum(known) if known else None
    return Tokens(**counts, cost_usd=number_of(usage.get("cost_usd"), float))


class Gathering:
    """An answer in the making. Chunks may be of any of the interfaces, or plain text.

    What comes is put together to the blocks of an Anthropic message, or, where a last event holds all
    of a response, is that response.
    """

    def __init__(self) -> None:
        self._blocks: dict[Any, Object] = {}
        self._response: Object = {}

    @property
    def has_begun(self) -> bool:
        """Whether anything of the answer itself has come."""
        said = (b.get(n) for b in self._blocks.values() for n in ("text", "thinking", "name"))
        return any(said) or "output" in self._response

    @property
    def is_whole(self) -> bool:
        return any(str_of(self._response.get(name)) for name in ("stop_reason", "status"))

    @property
    def response(self) -> Object:
        """The response as far as it came."""
        return {"content": list(self._blocks.values()), **self._response}

    def add(self, chunk: Any) -> None:
        chunk = plain(chunk)
        if isinstance(chunk, str):
            self._append("text", "text", chunk)
        elif isinstance(chunk, dict) and isinstance(chunk.get("choices"), list):
            self._take_head(chunk)
            for choice in dicts_of(chunk["choices"][:1]):
                self._add_completion(dict_of(choice.get("delta")))
                self._take_head({"stop_reason": choice.get("finish_reason")})
        elif isinstance(chunk, dict):
            self._add_event(str_of(chunk.get("type")), chunk)

    def _append(self, key: Any, field: str, text: Any, kind: str = "") -> None:
        """More of a block, which is begun where there is none."""
        block = self._blocks.setdefault(key, {"type": kind or field})
        block[field] = str_of(block.get(field)) + str_of(text)

    def _take_head(self, value: Object) -> None:
        for name in ("id", "model", "stop_reason"):
            if str_of(value.get(name)):
                self._response[name] = value[name]
        usage = {k: v for k, v in dict_of(value.get("usage")).items() if v is not None}
        if usage:
            self._response["usage"] = {**self._response.get("usage", {}), **usage}

    def _add_completion(self, delta: Object) -> None:
        """What a chunk of a chat completion adds."""
        for name, field in (("content", "text"), ("refusal", "text"), ("reasoning", "thinking"),
                            ("reasoning_content", "thinking")):  # fmt: skip
            if str_of(delta.get(name)):
                self._append(field, field, delta[name])
        for call in dicts_of(delta.get("tool_calls")):
            function = dict_of(call.get("function"))
            key = str(call.get("index", len(self._blocks)))
            self._append(key, "input", function.get("arguments"), "tool_use")
            given = {"id": call.get("id"), "name": function.get("name")}
            self._blocks[key].update({n: v for n, v in given.items() if str_of(v)})

    def _add_event(self, kind: str, event: Object) -> None:
        """An event of the Messages or of the Responses interface."""
        key = str(event.get("index", event.get("output_index")))
        delta = dict_of(event.get("delta"))
        if kind == "message_start":
            self._take_head(dict_of(event.get("message")))
        elif kind == "content_block_start":
            block = dict_of(event.get("content_block"))
            self._blocks[key] = {**block, "input": ""} if block.get("type") == "tool_use" else block
        elif kind == "content_block_delta":
            # {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "…"}}
            for name, field in (
                ("text", "text"),
                ("thinking", "thinking"),
                ("partial_json", "input"),
            ):
                if name in delta:
                    self._append(key, field, delta[name])
        elif kind == "message_delta":
            self._take_head({"usage": event.get("usage"), **delta})
        elif kind == "response.output_text.delta":
            self._append("text", "text", event.get("delta"))
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            self._append("thinking", "thinking", event.get("delta"))
        elif kind == "response.output_item.done":
            item = dict_of(event.get("item"))
            if item.get("type") in ("function_call", "custom_tool_call"):
                given = item.get("arguments", item.get("input"))
                call = {"id": item.get("call_id"), "name": item.get("name"), "input": given}
                self._blocks[key] = {"type": "tool_use", **call}
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            # The last event holds the whole response.
            self._response = {"output": [], **dict_of(event.get("response"))}
