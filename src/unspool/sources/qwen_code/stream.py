"""What `qwen --output-format stream-json` prints, in the shape of Claude Code's stream.

    {"type":"system","subtype":"init","session_id":"c31b…","qwen_code_version":"0.24.4",…}
    {"type":"assistant","uuid":"b1b9…","session_id":"c31b…","parent_tool_use_id":null,
     "message":{"id":"b1b9…","content":[{"type":"text","text":"I look."}],"usage":{…}}}
    {"type":"user",…,"message":{"content":[{"type":"tool_result","tool_use_id":"call_1",…}]}}

Every block is a line with an id of its own, which the chat does not know: words are known again by what
they say, calls by their ids. What was typed is not printed.
"""

from collections.abc import Iterator

import msgspec

from unspool.facts import AnyFact, Rank, UsageOf
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape
from unspool.io.values import parse_object
from unspool.sources import streams
from unspool.sources.blocks import Content, blocks_of
from unspool.sources.qwen_code.chats import NAME
from unspool.sources.scribe import Scribe


class Usage(msgspec.Struct, gc=False):
    """All input, and what of it came from the cache."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class Message(msgspec.Struct, gc=False):
    model: str = ""
    content: Content = None
    usage: Usage | None = None


class Event(streams.Event, gc=False):
    subtype: str | None = None
    uuid: str = ""
    session_id: str = ""
    parent_tool_use_id: str | None = None
    qwen_code_version: str | None = None
    cwd: str | None = None
    message: Message | None = None
    is_error: bool | None = None
    usage: Usage | None = None


class _Talk:
    """One conversation of the stream: the answer that its lines are of."""

    def __init__(self) -> None:
        self.answer = ""
        self.thought = ""
        self.unsaid: list[AnyFact] = []
        """Reasoning whose words or calls are still to come, as text and as a message by itself: an
        answer that was killed says no more, and its chat nothing at all (case `killed_stream`)."""
        self.waiting: list[AnyFact] = []
        """Words that were said, until the tokens tell that the model said them."""

    def close(self) -> list[AnyFact]:
        """What was said without tokens is the program's: "Context compressed (10524 -> ~8107)."."""
        closed = [msgspec.structs.replace(fact, rank=Rank.STANDIN) for fact in self.waiting]
        closed += self.unsaid
        self.answer, self.thought, self.waiting, self.unsaid = "", "", [], []
        return closed

    def think(self) -> str:
        """The reasoning that led to what is said now."""
        thought, self.thought, self.unsaid = self.thought, "", []
        return thought


_EVENT = Shape(Event)


def is_stream(objects: list[dict[str, object]]) -> bool:
    return any("qwen_code_version" in value and "session_id" in value for value in objects)


def read_stream(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    return streams.read_stream(origin, tally, recover, _EVENT, _Stream())


class _Stream(streams.Stream[Event]):
    def __init__(self) -> None:
        self.agents: dict[str, str] = {}
        """Call → the sub-agent that it started."""
        self.talks: dict[str, _Talk] = {}

    def scribe(self, event: Event, data: bytes, path: str, offset: int) -> Scribe:
        ident, call = event.session_id, event.parent_tool_use_id or ""
        if ident and call:
            ident = f"{ident}/{self.agents.get(call, call)}"
        return Scribe((NAME, ident), path, offset, entry=event.uuid, rank=Rank.ECHO)

    def tell(self, event: Event, scribe: Scribe) -> int | None:
        talk = self.talks.setdefault(scribe.key[1], _Talk())
        thoughts = len(talk.unsaid)
        call = event.parent_tool_use_id or ""
        waited: list[AnyFact] = []
        if event.type == "assistant" and event.message is not None:
            _tell_answer(event.message, talk, scribe, self.agents)
        elif event.type == "user" and event.message is not None:
            waited = talk.close()
            _tell_given(event.message, scribe, is_task=bool(call))
        elif event.type == "system" and event.subtype == "init":
            waited = talk.close()  # the run before it was killed
            scribe.note("agent", "Qwen Code", Rank.ECHO)
            if event.qwen_code_version:
                scribe.note("agent_version", event.qwen_code_version, Rank.ECHO)
            if event.cwd:
                scribe.note("workspace.path", event.cwd, Rank.LAST_RESORT)
        elif event.type == "result":
            # The tokens are those of the session up to here; its words were printed before.
            waited = talk.close()
            _tell_usage(event.usage, scribe, on="conversation", subject="")
            scribe.mark("end", {"is_error": event.is_error}, rank=Rank.STANDIN)
        elif event.type not in ("system", "stream_event"):
            return None
        if scribe.facts and call:
            scribe.parent(event.session_id, rank=Rank.ECHO, call=call)
        silent = int(not (scribe.facts or talk.waiting or len(talk.unsaid) > thoughts))
        scribe.facts += waited
        return silent if waited or talk.unsaid else silent + thoughts

    def close(self) -> list[AnyFact]:
        return [fact for talk in self.talks.values() for fact in talk.close()]


def _tell_answer(message: Message, talk: _Talk, scribe: Scribe, agents: dict[str, str]) -> None:
    talk.answer = talk.answer or scribe.entry
    for number, block in enumerate(blocks_of(message.content)):
        if block.type == "thinking":
            scribe.message(
                id=talk.answer, role="assistant", thinking=block.thinking, model=message.model,
                status="interrupted", number=number,
            )  # fmt: skip
            talk.unsaid.append(scribe.facts.pop())
            talk.thought += "\n" * bool(talk.thought) + block.thinking
        elif block.type == "text":
            scribe.message(
                id=talk.answer, role="assistant", text=block.text, thinking=talk.think(),
                model=message.model, number=number,
            )  # fmt: skip
            talk.waiting.append(scribe.facts.pop())
        elif block.type == "tool_use":
            kind = (parse_object(block.given) or {}).get("subagent_type")
            if isinstance(kind, str):
                agents[block.id] = f"{kind}-{block.id}"
            scribe.message(
                id=talk.answer, role="assistant", thinking=talk.think(), model=message.model,
                number=number,
            )  # fmt: skip
            scribe.call(id=block.id, message=talk.answer, name=block.name, arguments=block.given)
    if message.usage is not None and message.usage.output_tokens:
        scribe.facts += talk.waiting
        talk.waiting = []
        _tell_usage(message.usage, scribe, on="message", subject=talk.answer)


def _tell_given(message: Message, scribe: Scribe, is_task: bool) -> None:
    for block in blocks_of(message.content):
        if block.type == "tool_result":
            parts = blocks_of(block.content)
            scribe.returned(
                call=block.tool_use_id,
                text="\n".join(part.text for part in parts) if block.content is not None else None,
                failed=block.is_error,
                rank=Rank.ECHO + 1,
            )
        elif block.type == "text" and is_task:
            scribe.message(role="user", text=block.text)


def _tell_usage(usage: Usage | None, scribe: Scribe, on: UsageOf, subject: str) -> None:
    if usage is not None:
        scribe.usage(
            on=on,
            subject=subject,
            prompt=usage.input_tokens,
            completion=usage.output_tokens,
            cached=usage.cache_read_input_tokens,
            rank=Rank.STANDIN,
        )
