"""Streams: an answer put together from the chunks of the OpenAI and Anthropic interfaces."""

from typing import Any

from unspool.record.answers import Answer, take_call, to_answer, to_tokens
from unspool.record.plain import plain, rows, table, word

Object = dict[str, Any]


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
        elif isinstance(chunk, dict):
            if isinstance(chunk.get("choices"), list):
                self._add_completion(chunk)
            else:
                self._add_event(chunk)

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
        call["arguments"] = word(call.get("arguments")) + word(fields.pop("arguments", None))
        call.update({name: value for name, value in fields.items() if word(value)})

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
            self.answer.stop = word(choice.get("finish_reason")) or self.answer.stop

    def _take_head(self, value: Object) -> None:
        self.answer.model = word(value.get("model")) or self.answer.model
        if word(value.get("id")):
            self.answer.data["response_id"] = value["id"]
        usage = table(value.get("usage"))
        self._usage.update({k: v for k, v in usage.items() if v is not None})

    def _add_event(self, event: Object) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self._take_head(table(event.get("message")))
        elif kind == "content_block_start":
            self._start_block(event.get("index"), table(event.get("content_block")))
        elif kind == "content_block_delta":
            self._add_delta(event.get("index"), table(event.get("delta")))
        elif kind == "message_delta":
            self._take_head({"usage": event.get("usage")})
            delta = table(event.get("delta"))
            self.answer.stop = word(delta.get("stop_reason")) or self.answer.stop
        elif isinstance(kind, str) and kind.startswith("response."):
            self._add_response_event(kind, event)

    def _start_block(self, index: Any, block: Object) -> None:
        kind = block.get("type")
        if kind == "text":
            if self.answer.text:
                self.answer.text += "\n"  # as between the blocks of a whole response
            self._say(block.get("text"))
        elif kind == "thinking":
            self._think(block.get("thinking"))
        elif kind == "tool_use":
            self._call(index, id=block.get("id"), name=block.get("name"))

    def _add_delta(self, index: Any, delta: Object) -> None:
        kind = delta.get("type")
        if kind == "text_delta":
            self._say(delta.get("text"))
        elif kind == "thinking_delta":
            self._think(delta.get("thinking"))
        elif kind == "input_json_delta":
            self._call(index, arguments=delta.get("partial_json"))

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
