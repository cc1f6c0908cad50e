"""stream-json: what `cursor-agent -p --output-format stream-json` prints while it works."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from unspool.facts import (
    NOBODY,
    AnyFact,
    Key,
    Link,
    Marked,
    MessageSeen,
    Noted,
    Problem,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.io.door import clean, read_json, sample
from unspool.io.origins import Head, Origin, Tally, iter_lines
from unspool.io.times import parse_time
from unspool.prompts.shapes import arguments_text, to_messages
from unspool.sources.cursor.entries import Entries, Steps, rank_of
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.tools import counted, likeness, output_of, path_of, touches

RANK = 1
_OWN = {("thinking", "delta"), ("thinking", "completed"), ("tool_call", "started")}
_OWN |= {("tool_call", "completed"), ("interaction_query", "request")}


def claims(head: Head) -> bool:
    """Events that only Cursor prints, or its first event, which has neither tools nor a uuid."""
    return any(_is_event(value) for value in head.objects[:20])


def _is_event(value: dict[str, object]) -> bool:
    if "session_id" not in value or "uuid" in value:
        return False
    kind = (str(value.get("type")), str(value.get("subtype")))
    if kind == ("system", "init"):
        return "tools" not in value
    return kind in _OWN or (kind[0] == "assistant" and "model_call_id" in value)


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    stream = Stream(origin.path)
    for offset, line in iter_lines(origin):
        try:
            values: list[Any] = [msgspec.json.decode(line)]
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            found = read_json(line, recover)
            values = found.values
            if found.lost:
                tally.records += 1
                tally.problems += 1
            if found.code and not (values and found.code == "invalid-utf8"):
                yield Problem(
                    key=NOBODY, origin=origin.path, offset=offset, number=99, code=found.code,
                    sample=sample(line),
                )  # fmt: skip
        for number, value in enumerate(values):
            tally.records += 1
            if isinstance(value, dict):
                yield from stream.read(clean(value), offset + number, line, tally)
            else:
                tally.unrecognise(type(value).__name__, origin.path, offset)
    yield from stream.flush()


class Stream:
    """One run. Deltas are gathered until something else comes."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.key: Key = NOBODY
        self._entries = Entries("stream")
        self._steps = Steps()
        self._common: dict[str, Any] = {}
        self._deltas: dict[str, Any] | None = None
        """The facts' common fields, the kind and the texts of the deltas that are open."""
        self._last = ""

    def read(
        self, value: dict[str, Any], offset: int, line: bytes, tally: Tally
    ) -> Iterator[AnyFact]:
        ident = value.get("session_id")
        if isinstance(ident, str) and ident:
            self.key = ("cursor", ident)
        if self.key == NOBODY:
            tally.problems += 1
            yield Problem(
                key=NOBODY, origin=self.origin, offset=offset, code="missing-conversation-id",
                sample=sample(line),
            )  # fmt: skip
            return
        reader = _READERS.get(str(value.get("type")))
        if reader is None:
            tally.unrecognise(str(value.get("type") or "no type"), self.origin, offset)
            return
        self._common = {
            "key": self.key, "origin": self.origin, "offset": offset,
            "entry": self._entries.of(line), "time": parse_time(value.get("timestamp_ms")),
        }  # fmt: skip
        yield from reader(self, value)

    def flush(self) -> Iterator[AnyFact]:
        """The open deltas as one part of their step."""
        held, self._deltas = self._deltas, None
        if held is None:
            return
        text = "".join(held["texts"])
        self._last = text if held["kind"] == "text" else self._last
        yield MessageSeen(
            **held["common"], id=held["step"], role="assistant", rank=RANK,
            text=text if held["kind"] == "text" else "",
            thinking=text if held["kind"] == "thinking" else "",
        )  # fmt: skip

    def _delta(
        self, kind: Literal["thinking", "text"], value: dict[str, Any], text: str
    ) -> Iterator[AnyFact]:
        if self._deltas is not None and self._deltas["kind"] == kind:
            self._deltas["texts"].append(text)
            yield Link(**self._common)
            return
        yield from self.flush()
        group = str(value.get("model_call_id") or "")
        step = self._steps.part(kind, self._common["entry"], group)
        self._deltas = {"common": self._common, "kind": kind, "texts": [text], "step": step}

    def read_system(self, value: dict[str, Any]) -> Iterator[AnyFact]:
        yield from self.flush()
        self._steps.close()
        cwd = value.get("cwd")
        notes = {
            "session_id": self.key[1],
            "workspace.path": clean_path(cwd) if isinstance(cwd, str) and cwd else None,
            "permission_mode": value.get("permissionMode"),
        }
        for number, (name, told) in enumerate(notes.items()):
            rank = rank_of(self.key, name, told, RANK)
            yield Noted(**self._common, number=number, name=name, value=told, rank=rank)
        model = value.get("model")
        if isinstance(model, str) and model:
            yield Noted(
                **self._common, number=8, on="following", name="model", value=model, rank=RANK
            )
        data = {n: value[n] for n in ("apiKeySource", "permissionMode") if value.get(n)}
        yield Marked(**self._common, kind="start", data=data or None, rank=RANK)

    def read_user(self, value: dict[str, Any]) -> Iterator[AnyFact]:
        yield from self.flush()
        self._steps.close()
        for number, made in enumerate(to_messages({"role": "user", **_message(value)})):
            yield MessageSeen(
                **self._common, number=number, id=f"{self._common['entry']}:{number}", role="user",
                text=made.content, attachments=tuple(made.attachments or ()), rank=RANK,
            )  # fmt: skip

    def read_assistant(self, value: dict[str, Any]) -> Iterator[AnyFact]:
        """A whole text; or, with a time but without a call id, a piece of one (partial output)."""
        text = "".join(m.content for m in to_messages({"role": "assistant", **_message(value)}))
        group = str(value.get("model_call_id") or "")
        if not group and "timestamp_ms" in value:
            yield from self._delta("text", value, text)
            return
        yield from self.flush()
        if text and text == self._last:
            self._last = ""
            yield Link(**self._common)  # The pieces again, as a whole.
            return
        step = self._steps.part("text", self._common["entry"], group)
        yield MessageSeen(
            **self._common, id=step, role="assistant", text=text, rank=RANK, request=group
        )

    def read_thinking(self, value: dict[str, Any]) -> Iterator[AnyFact]:
        text = value.get("text")
        if value.get("subtype") == "completed":
            yield from self.flush()
            yield Link(**self._common)
            return
        yield from self._delta("thinking", value, text if isinstance(text, str) else "")

    def read_call(self, value: dict[str, Any]) -> Iterator[AnyFact]:
        yield from self.flush()
        name, given, result = _tool(value.get("tool_call"))
        ident = str(value.get("call_id") or self._common["entry"])
        group = str(value.get("model_call_id") or "")
        like = likeness(name, given)
        ended = value.get("subtype") == "completed"
        if not ended:
            step = self._steps.part("call", self._common["entry"], group)
            self._steps.began(ident)
            yield MessageSeen(**self._common, id=step, role="assistant", rank=RANK, request=group)
            yield ToolCalled(
                **self._common, id=ident, message=step, name=name, like=like, rank=RANK,
                arguments=arguments_text(given), files=touches(name, given),
            )  # fmt: skip
            return
        self._steps.ended(ident)
        yield from self._returned(ident, name, given, like, result)

    def _returned(
        self, ident: str, name: str, given: Any, like: str, result: Any
    ) -> Iterator[AnyFact]:
        outcome, body = (
            next(iter(result.items())) if isinstance(result, dict) and result else ("", None)
        )
        failed = outcome not in ("success", "")
        text, details = output_of(body)
        yield ToolReturned(
            **self._common, call=ident, name=name, text=text, details=details, rank=RANK,
            failed=failed, status="denied" if outcome in ("rejected", "permissionDenied") else "",
            files=counted(name, body, path_of(given)),
        )  # fmt: skip
        yield ToolCalled(
            **self._common, number=1, id=ident, name=name, like=like, rank=RANK,
            arguments=arguments_text(given),
        )  # fmt: skip

    def read_query(self, value: dict[str, Any]) -> Iterator[AnyFact]:
        names = ("subtype", "query_type", "query", "response")
        data = {name: value[name] for name in names if name in value}
        yield Marked(**self._common, kind="interaction", data=data, rank=RANK)

    def read_result(self, value: dict[str, Any]) -> Iterator[AnyFact]:
        yield from self.flush()
        names = ("subtype", "is_error", "duration_ms", "duration_api_ms", "request_id")
        data = {name: value[name] for name in names if value.get(name) is not None}
        yield Marked(**self._common, kind="end", data=data or None, rank=RANK)
        usage = value.get("usage")
        if isinstance(usage, dict) and usage:
            yield self._usage(usage, str(value.get("request_id") or self._common["entry"]))

    def _usage(self, usage: dict[str, Any], run: str) -> AnyFact:
        def figure(name: str) -> int | None:
            found = usage.get(name)
            return int(found) if isinstance(found, int | float) else None

        fresh, read, written = map(figure, ("inputTokens", "cacheReadTokens", "cacheWriteTokens"))
        cost = usage.get("totalCost")
        return UsageReported(
            **self._common, on="segment", subject=run, rank=RANK,
            prompt=None if fresh is None else fresh + (read or 0) + (written or 0),
            completion=figure("outputTokens"), cached=read, cache_write=written,
            cost_usd=float(cost) if isinstance(cost, int | float) else None,
        )  # fmt: skip


def _message(value: dict[str, Any]) -> dict[str, Any]:
    message = value.get("message")
    return message if isinstance(message, dict) else {"content": message}


def _tool(value: Any) -> tuple[str, Any, Any]:
    """(name, arguments, result) of `{shellToolCall: {args, result}}` or `{function: {name, …}}`."""
    if not isinstance(value, dict) or not value:
        return "", None, None
    for kind, body in value.items():
        if not isinstance(body, dict):
            continue
        if kind.endswith("ToolCall"):
            return kind.removesuffix("ToolCall"), body.get("args"), body.get("result")
        if kind == "function":
            return str(body.get("name") or ""), body.get("arguments"), body.get("result")
    return next(iter(value)), None, None


_READERS: dict[str, Callable[[Stream, dict[str, Any]], Iterator[AnyFact]]] = {
    "system": Stream.read_system,
    "user": Stream.read_user,
    "assistant": Stream.read_assistant,
    "thinking": Stream.read_thinking,
    "tool_call": Stream.read_call,
    "interaction_query": Stream.read_query,
    "result": Stream.read_result,
}
