"""What `gemini --output-format stream-json` prints: another form of the same session.

    {"type":"init","timestamp":"…","session_id":"851b…","model":"gemini-2.5-pro"}
    {"type":"message","timestamp":"…","role":"assistant","content":"Whole: the obe","delta":true}
    {"type":"tool_use","timestamp":"…","tool_name":"replace","tool_id":"replace__c1","parameters":{…}}
    {"type":"tool_result","timestamp":"…","tool_id":"replace__c1","status":"success"}

An answer that was cut off stands here and nowhere else. A result is what the screen showed of it.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.facts import AnyFact, Rank
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.sources import streams
from unspool.sources.gemini_cli.chats import NAME
from unspool.sources.gemini_parts import arguments_of
from unspool.sources.scribe import Scribe, title_of


class Stats(msgspec.Struct, gc=False):
    """Tokens of the run, with its sub-agents."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached: int | None = None


class Event(streams.Event, gc=False):
    timestamp: str | None = None
    session_id: str = ""
    model: str = ""
    role: str = ""
    content: str = ""
    tool_name: str = ""
    tool_id: str = ""
    parameters: Any = None
    status: str = ""
    output: str | None = None
    error: Any = None
    message: str = ""
    stats: Stats | None = None


_EVENT = Shape(Event)


def is_stream(objects: list[dict[str, object]]) -> bool:
    return any(
        value.get("type") == "init" and {"timestamp", "session_id", "model"} <= value.keys()
        for value in objects[:5]
    )


def read_stream(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    return streams.read_stream(origin, tally, recover, _EVENT, _Stream())


class _Stream(streams.Stream[Event]):
    session = model = answer = ""

    def scribe(self, event: Event, data: bytes, path: str, offset: int) -> Scribe:
        self.session = event.session_id or self.session
        entry = f"stream:{hashlib.sha256(data).hexdigest()[:16]}"
        time = parse_time(event.timestamp)
        return Scribe((NAME, self.session), path, offset, time=time, entry=entry, rank=Rank.ECHO)

    def tell(self, event: Event, scribe: Scribe) -> int | None:
        if event.type == "init":
            self.model = event.model
            scribe.note("agent", "Gemini CLI", Rank.ECHO)
        elif event.type == "message" and event.role == "user":
            self.answer = ""
            scribe.message(role="user", text=event.content, typed=event.content)
            scribe.note("title", title_of(event.content), Rank.LAST_RESORT)
        elif event.type == "message":
            self.answer = self.answer or scribe.entry
            scribe.message(
                id=self.answer, role="assistant", text=event.content, model=self.model, piece=True
            )
        elif event.type == "tool_use":
            self.answer = self.answer or scribe.entry
            scribe.call(
                id=event.tool_id,
                message=self.answer,
                name=event.tool_name,
                arguments=arguments_of(event.parameters),
            )
        elif event.type == "tool_result":
            self.answer = ""
            error = event.error.get("message") if isinstance(event.error, dict) else event.error
            text = event.output if event.output is not None else error
            scribe.returned(
                call=event.tool_id,
                text=str(text) if text is not None else None,
                failed=event.status == "error",
                rank=Rank.ECHO + 1,
            )
        elif event.type == "error":
            scribe.message(role="assistant", text=event.message, kind="error", rank=Rank.STANDIN)
        elif event.type == "result":
            stats = event.stats or Stats()
            total, prompt = stats.total_tokens, stats.input_tokens
            scribe.usage(
                on="segment",
                subject=scribe.entry,
                model=self.model,
                prompt=prompt,
                completion=total - prompt if total and prompt else stats.output_tokens,
                cached=stats.cached,
                rank=Rank.STANDIN,
            )
            scribe.mark("end", {"status": event.status}, rank=Rank.STANDIN)
        else:
            return None
        return not scribe.facts
