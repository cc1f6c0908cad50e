"""stream-json: what `cursor-agent -p --output-format stream-json` prints while it works.

{"type": "tool_call", "subtype": "started", "call_id": …, "model_call_id": …, "session_id": …,
 "tool_call": {"shellToolCall": {"args": {"command": "ls"}}}}
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from unspool.facts import AnyFact, Rank
from unspool.io.origins import Head, Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.io.values import field_of
from unspool.prompts.shapes import to_messages
from unspool.sources import streams
from unspool.sources.cursor.entries import AUTO, Entries, Steps, note_all
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.tools import DENIED, called, counted, output_of, path_of
from unspool.sources.scribe import Scribe, all_input

RANK = Rank.COPY
_OWN = {("thinking", "delta"), ("thinking", "completed"), ("tool_call", "started")}
_OWN |= {("tool_call", "completed"), ("interaction_query", "request")}


class Usage(msgspec.Struct):
    inputTokens: int | None = None
    outputTokens: int | None = None
    cacheReadTokens: int | None = None
    cacheWriteTokens: int | None = None
    totalCost: float | None = None


class Event(streams.Event, gc=False):
    subtype: str | None = None
    session_id: str | None = None
    timestamp_ms: Any = None
    model_call_id: str | None = None
    call_id: str | None = None
    message: Any = None
    text: str | None = None
    tool_call: Any = None
    cwd: str | None = None
    model: str | None = None
    permissionMode: Any = None
    apiKeySource: Any = None
    query_type: Any = None
    query: Any = None
    response: Any = None
    is_error: Any = None
    duration_ms: Any = None
    duration_api_ms: Any = None
    request_id: str | None = None
    usage: Usage | None = None

    @property
    def piece_of(self) -> Literal["thinking", "text", ""]:
        """What it is a piece of: with a time but without a call id, a text is one (partial output)."""
        if self.type == "thinking" and self.subtype != "completed":
            return "thinking"
        is_text = self.type == "assistant" and not self.model_call_id
        return "text" if is_text and self.timestamp_ms is not None else ""

    @property
    def words(self) -> str:
        if self.type == "thinking":
            return self.text or ""
        spoken = to_messages({"role": "assistant", **_message(self)})
        return "".join(message.content for message in spoken)

    def pick(self, *names: str) -> dict[str, Any]:
        """The fields of these names that the event has."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


EVENT = Shape(Event)


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
    return streams.read_stream(origin, tally, recover, EVENT, Stream())


class Stream(streams.Stream[Event]):
    """One run. What comes in pieces is told when something else comes."""

    def __init__(self) -> None:
        self._session = ""
        self._entries = Entries("stream")
        self._steps = Steps()
        self._open: tuple[Scribe, str, str] | None = None
        """The scribe of the first piece, its step, and what it is a piece of."""
        self._pieces: list[str] = []
        self._last = ""
        """The last text that was told in pieces."""

    def scribe(self, event: Event, data: bytes, path: str, offset: int) -> Scribe:
        self._session = event.session_id or self._session
        return Scribe(
            ("cursor", self._session), path, offset, entry=self._entries.of(data),
            time=parse_time(event.timestamp_ms), rank=RANK,
        )  # fmt: skip

    def tell(self, event: Event, scribe: Scribe) -> int | None:
        reader, kind = _READERS.get(event.type), event.piece_of
        if reader is None:
            return None
        if self._open is not None and self._open[2] != kind:
            scribe.facts += self.close()
        if not kind:
            reader(self, scribe, event)
            return 0
        self._pieces.append(event.words)
        if self._open is not None:
            scribe.link()
        else:  # what this line tells now is of pieces before it
            step = self._steps.part(kind, scribe.entry, event.model_call_id or "")
            self._open = (replace(scribe, facts=[]), step, kind)
        return 0

    def close(self) -> list[AnyFact]:
        """Pieces are one part of their step, where the first of them stood."""
        if self._open is None:
            return []
        first, step, kind = self._open
        told: dict[str, Any] = {kind: "".join(self._pieces)}
        first.message(id=step, role="assistant", **told)
        self._last = told.get("text", self._last)
        self._open, self._pieces = None, []
        return first.facts

    def read_system(self, scribe: Scribe, event: Event) -> None:
        self._steps.close()
        notes = {
            "session_id": self._session,
            "workspace.path": clean_path(event.cwd) if event.cwd else None,
            "permission_mode": event.permissionMode,
        }
        note_all(scribe, notes, RANK)
        if event.model and event.model != AUTO:
            scribe.note("model", event.model, RANK, on="following")
        scribe.mark("start", event.pick("apiKeySource", "permissionMode"), rank=RANK)

    def read_user(self, scribe: Scribe, event: Event) -> None:
        self._steps.close()
        for number, message in enumerate(to_messages({"role": "user", **_message(event)})):
            attachments = tuple(message.attachments or ())
            ident = f"{scribe.entry}:{number}"
            scribe.message(id=ident, role="user", text=message.content, attachments=attachments)

    def read_assistant(self, scribe: Scribe, event: Event) -> None:
        text, group = event.words, event.model_call_id or ""
        if text and text == self._last:
            self._last = ""
            scribe.link()  # The pieces again, as a whole.
            return
        step = self._steps.part("text", scribe.entry, group)
        scribe.message(id=step, role="assistant", text=text, request=group)

    def read_thinking(self, scribe: Scribe, event: Event) -> None:
        scribe.link()  # All pieces of it were told.

    def read_call(self, scribe: Scribe, event: Event) -> None:
        name, given, result = _tool(event.tool_call)
        ident = event.call_id or scribe.entry
        asked = called(name, given)
        if event.subtype != "completed":
            group = event.model_call_id or ""
            step = self._steps.part("call", scribe.entry, group)
            self._steps.began(ident)
            scribe.message(id=step, role="assistant", request=group)
            scribe.call(**asked, id=ident, message=step)
            return
        self._steps.ended(ident)
        # `{"success": {…}}`: the name of the result is its outcome.
        named = result if isinstance(result, dict) and result else {"": None}
        outcome, body = next(iter(named.items()))
        text, details = output_of(body)
        scribe.returned(
            call=ident, name=name, text=text, details=details,
            failed=outcome not in ("success", "") or field_of(body, "isError") is True,
            status="denied" if outcome in DENIED else "",
            files=counted(name, body, path_of(given)),
        )  # fmt: skip
        scribe.call(**asked | {"files": ()}, id=ident)

    def read_query(self, scribe: Scribe, event: Event) -> None:
        data = event.pick("subtype", "query_type", "query", "response")
        scribe.mark("interaction", data, rank=RANK)

    def read_result(self, scribe: Scribe, event: Event) -> None:
        names = ("subtype", "is_error", "duration_ms", "duration_api_ms", "request_id")
        scribe.mark("end", event.pick(*names), rank=RANK)
        usage = event.usage
        if usage is not None and usage != Usage():
            read, written = usage.cacheReadTokens, usage.cacheWriteTokens
            scribe.usage(
                on="segment", subject=event.request_id or scribe.entry,
                prompt=all_input(usage.inputTokens, read, written), completion=usage.outputTokens,
                cached=read, cache_write=written, cost_usd=usage.totalCost,
            )  # fmt: skip


def _message(event: Event) -> dict[str, Any]:
    return event.message if isinstance(event.message, dict) else {"content": event.message}


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


_READERS: dict[str, Callable[[Stream, Scribe, Event], None]] = {
    "system": Stream.read_system,
    "user": Stream.read_user,
    "assistant": Stream.read_assistant,
    "thinking": Stream.read_thinking,
    "tool_call": Stream.read_call,
    "interaction_query": Stream.read_query,
    "result": Stream.read_result,
}
