"""A server on loopback that speaks the wire formats of the OpenAI and Anthropic interfaces."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Object = dict[str, Any]

CALL = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": '{"d": "."}'}}
USAGE = {
    "prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16,
    "prompt_tokens_details": {"cached_tokens": 8},
    "completion_tokens_details": {"reasoning_tokens": 1},
}  # fmt: skip


def last_text(body: Object) -> str:
    """What the last message says: the answer is made from it."""
    given = body.get("messages") or body.get("input") or ""
    content = (
        given if isinstance(given, str) else given[-1].get("content") or given[-1].get("output")
    )
    return content if isinstance(content, str) else content[-1].get("text") or "a result"


def completion(body: Object) -> Object:
    message: Object = {"role": "assistant", "content": f"You said: {last_text(body)}"}
    if body.get("tools") and len(body["messages"]) < 3:
        message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    stop = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-test-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": stop}], "usage": USAGE,
    }  # fmt: skip


def completion_chunks(body: Object) -> Iterator[Object]:
    whole = completion(body)
    message = whole["choices"][0]["message"]

    def chunk(delta: Object, stop: str | None = None, **more: Any) -> Object:
        choice = {"index": 0, "delta": delta, "finish_reason": stop}
        base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}
        return {**base, "model": "gpt-test-2026", "choices": [choice], **more}

    yield chunk({"role": "assistant", "content": ""})
    for word in (message["content"] or "").split(" "):
        yield chunk(
            {"content": word if word == "You" else f" {word}"} if message["content"] else {}
        )
    for call in message.get("tool_calls", ()):
        name = {"name": call["function"]["name"], "arguments": ""}
        yield chunk(
            {"tool_calls": [{"index": 0, "id": call["id"], "type": "function", "function": name}]}
        )
        for piece in ('{"d"', ': "."}'):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield chunk({}, whole["choices"][0]["finish_reason"])
    yield {**chunk({}), "choices": [], "usage": USAGE}


def response(body: Object) -> Object:
    text = {"type": "output_text", "text": f"You said: {last_text(body)}", "annotations": []}
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-test-2026",
        "status": "completed", "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
             "content": [text]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ls",
             "arguments": "{}", "status": "completed"},
        ],
        "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 6},
                  "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 2},
                  "total_tokens": 13},
    }  # fmt: skip


def response_events(body: Object) -> Iterator[Object]:
    whole = response(body)
    text = whole["output"][1]["content"][0]["text"]
    yield {"type": "response.created", "sequence_number": 0, "response": {**whole, "output": []}}
    for number, piece in enumerate((text[:4], text[4:])):
        yield {
            "type": "response.output_text.delta", "sequence_number": number + 1, "item_id": "msg_1",
            "output_index": 1, "content_index": 0, "delta": piece, "logprobs": [],
        }  # fmt: skip
    yield {"type": "response.completed", "sequence_number": 9, "response": whole}


def message(body: Object) -> Object:
    content: list[Object] = [
        {"type": "thinking", "thinking": "Let me think.", "signature": "s"},
        {"type": "text", "text": f"You said: {last_text(body)}"},
    ]
    stop = "end_turn"
    if body.get("tools") and len(body["messages"]) < 2:
        content.append({"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"d": "."}})
        stop = "tool_use"
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-2026",
        "content": content, "stop_reason": stop, "stop_sequence": None,
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 20,
                  "cache_creation_input_tokens": 3, "output_tokens": 9},
    }  # fmt: skip


def message_events(body: Object) -> Iterator[Object]:
    whole = message(body)
    usage = {**whole["usage"], "output_tokens": 1}
    yield {
        "type": "message_start",
        "message": {**whole, "content": [], "stop_reason": None, "usage": usage},
    }
    for index, block in enumerate(whole["content"]):
        empty = {
            "thinking": {"thinking": "", "signature": ""},
            "text": {"text": ""},
            "tool_use": {"input": {}},
        }
        yield {
            "type": "content_block_start",
            "index": index,
            "content_block": {**block, **empty[block["type"]]},
        }
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}
    yield {"type": "message_stop"}


def _deltas(block: Object) -> list[Object]:
    if block["type"] == "thinking":
        return [{"type": "thinking_delta", "thinking": piece} for piece in ("Let me", " think.")]
    if block["type"] == "text":
        return [
            {"type": "text_delta", "text": piece}
            for piece in (block["text"][:3], block["text"][3:])
        ]
    return [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"d"', ': "."}')]


WHOLE = {"/v1/chat/completions": completion, "/v1/responses": response, "/v1/messages": message}
STREAMED = {
    "/v1/chat/completions": completion_chunks,
    "/v1/responses": response_events,
    "/v1/messages": message_events,
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        if body["model"] == "broken":
            self._send(500, json.dumps({"error": {"message": "out of order"}}).encode())
        elif body.get("stream"):
            with suppress(ConnectionError):  # the client may leave before the end
                self._stream(path, body)
        else:
            self._send(200, json.dumps(WHOLE[path](body)).encode())

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, path: str, body: Object) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in STREAMED[path](body):
            named = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{named}data: {json.dumps(event)}\n\n".encode())
        if path.endswith("completions"):
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class Server:
    """The server in a thread, for `with`; gives its address."""

    def __enter__(self) -> str:
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()
