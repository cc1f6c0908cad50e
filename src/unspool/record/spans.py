"""Spans: a conversation, a request to a model, a call of a tool; and which of them is around.

What is recorded here and now, in this task or thread, is a scope in a context variable, so that
concurrent tasks never see each other's. New threads begin without one: `bind` and `Executor` carry it
over.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from unspool.record.answers import Gathering, to_answer
from unspool.record.identity import now
from unspool.record.plain import json_or_text, plain, text_of
from unspool.sources.recorder.entries import Entry

if TYPE_CHECKING:
    from unspool.record.recorder import Recorder

P = ParamSpec("P")
T = TypeVar("T")


_open: ContextVar[tuple["Span", ...]] = ContextVar("unspool_recorder_scope", default=())
"""The conversations and tool calls that are open here, of all recorders, the innermost last."""


def current_scope(recorder: "Recorder") -> "Span | None":
    """The innermost one of this recorder."""
    return next((span for span in reversed(_open.get()) if span.recorder is recorder), None)


def bind(function: Callable[P, T]) -> Callable[P, T]:
    """The function, to be called in another thread under the context of the caller of `bind`."""
    context = copy_context()

    def bound(*args: P.args, **kwargs: P.kwargs) -> T:
        return context.copy().run(function, *args, **kwargs)

    return bound


class Executor(ThreadPoolExecutor):
    """A thread pool whose work is recorded where it was submitted."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(copy_context().run, fn, *args, **kwargs)


class Span:
    """Something with a beginning and an end, for `with` and for `async with`."""

    recorder: "Recorder"
    session: str
    call: str | None = None
    """The tool call that things inside of it belong to; None where it is no scope."""

    def start(self) -> None:
        """Record the beginning."""

    def finish(self, error: BaseException | None) -> None:
        """Record the end."""

    def __enter__(self) -> Self:
        self.start()
        if self.call is not None:
            _open.set((*_open.get(), self))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # Back to the scope around. No token: a generator may be left in another context.
        spans = _open.get()
        if self in spans:
            _open.set(spans[: len(spans) - 1 - spans[::-1].index(self)])
        self.finish(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)


class Conversation(Span):
    """A conversation that is recorded: what is logged inside of its `with` belongs to it.

    Its methods also work without `with` and from any thread: they name the conversation.
    """

    def __init__(self, recorder: "Recorder", session_id: str, declared: Entry | None) -> None:
        self.recorder = recorder
        self.id = self.session = session_id
        self.call = ""
        self._declared = declared

    def start(self) -> None:
        declared, self._declared = self._declared, None
        if declared is None:
            return
        if declared.parent:
            self.recorder.ledger.write(
                Entry(
                    kind="subagent", session=declared.parent, time=now(), child=self.id,
                    call=declared.call, name=declared.name,
                )
            )  # fmt: skip
        self.recorder.ledger.write(declared)

    def finish(self, error: BaseException | None) -> None:
        self.recorder.ledger.settle(self.id)
        if error is not None and not getattr(error, "_unspool_recorded", False):
            entry = Entry(kind="error", session=self.id, time=now())
            _blame(entry, error)
            self.recorder.ledger.write(entry)

    def request(
        self, model: str, messages: Sequence[Any], tools: Sequence[Any] | None = None, **more: Any
    ) -> "Request":
        """`Recorder.request` in this conversation."""
        return self.recorder.request(model, messages, tools, session_id=self.id, **more)

    def tool(self, name: str, arguments: Any = None, call_id: str | None = None) -> "Tool":
        """`Recorder.tool` in this conversation."""
        return self.recorder.tool(name, arguments, call_id, session_id=self.id)

    def subagent(self, name: str = "", **more: Any) -> "Conversation":
        """`Recorder.subagent` of this conversation."""
        return self.recorder.subagent(name, parent_id=self.id, **more)


@dataclass(eq=False, repr=False)
class Request(Span):
    """One request to a model, from the question to the whole answer."""

    recorder: "Recorder"
    session: str
    model: str
    asked: tuple[Any, Any] | None
    """Messages and tools, until they are written."""
    id: str
    conversation: bool
    data: dict[str, Any]
    started: int | None = None
    place: int = 0
    """Where in the conversation its answer stands."""
    done: bool = False
    _gathering: Gathering | None = None
    _first: int | None = None

    def start(self) -> None:
        if self.asked is None:
            return
        (messages, tools), self.asked = self.asked, None
        self.started = self.started or now()
        if self.conversation:
            self.recorder.ledger.write_request(self, messages, tools)

    def chunk(self, chunk: Any) -> None:
        """Take in a piece of a streamed answer: text, or a chunk of a client's stream."""
        if self._gathering is None:
            self._gathering = Gathering()
            self.recorder.ledger.stream(self)
        self._gathering.add(chunk)
        if self._first is None and self._gathering.has_begun:
            self._first = now()

    def respond(
        self,
        response: Any = None,
        *,
        thinking: str | None = None,
        tool_calls: Sequence[Any] | None = None,
        usage: Any = None,
        model: str | None = None,
        stop: str | None = None,
    ) -> str:
        """Record the answer: text, a message, or a client's whole response. Its message id."""
        answer = to_answer(
            self._gathered if response is None else response, thinking=thinking,
            tool_calls=tool_calls, usage=usage, model=model, stop=stop,
        )  # fmt: skip
        return self.end(answer)

    def fail(self, error: BaseException | str, status: str | None = None) -> None:
        """Record that the request failed or was cancelled, with what had come of the answer."""
        self.end(to_answer(self._gathered), error, status)

    def finish(self, error: BaseException | None) -> None:
        status = None if error or self._gathering else "interrupted"
        self.end(to_answer(self._gathered), error, status)

    @property
    def _gathered(self) -> dict[str, Any] | None:
        return self._gathering.response if self._gathering is not None else None

    def end(
        self,
        answer: Entry,
        error: BaseException | str | None = None,
        status: str | None = None,
        ended: int | None = None,
    ) -> str:
        """Record the answer, whole or as far as it came; a second one is none."""
        self.start()
        if self.done:
            return ""
        self.done = True
        self._gathering = None
        end, start = ended or now(), self.started or 0
        answer.kind = "response" if self.conversation else "utility"
        answer.session, answer.id, answer.time = self.session, self.id, end
        answer.model = self.model
        answer.answered = answer.answered if answer.answered != self.model else ""
        answer.started, answer.duration_ms = start, (end - start) / 1000
        if self._first is not None:
            answer.first_token_ms = (self._first - start) / 1000
        answer.data = {**self.data, **(answer.data or {})} or None
        answer.status = status or ""
        if error is not None:
            _blame(answer, error, status)
        return self.recorder.ledger.write_answer(self, answer)

    @property
    def is_whole(self) -> bool:
        """Whether a streamed answer has come to its end."""
        return self._gathering is not None and self._gathering.is_whole


@dataclass(eq=False, repr=False)
class Tool(Span):
    """One call of a tool, from its arguments to what it gave."""

    recorder: "Recorder"
    session: str
    name: str
    id: str
    _arguments: Any
    _started: int = 0
    _result: Any = None
    _given: bool = False
    _failed: bool = False

    def __post_init__(self) -> None:
        self.call = self.id

    def start(self, at: int | None = None) -> None:
        self._started = at or now()
        arguments, self._arguments = self._arguments, None
        self.recorder.ledger.write(
            Entry(
                kind="tool", session=self.session, time=self._started, id=self.id, name=self.name,
                arguments="" if arguments is None else json_or_text(arguments),
            )
        )  # fmt: skip

    def result(self, value: Any, *, is_error: bool = False) -> None:
        """What the tool gave; text is what the model will get, anything else is kept beside it."""
        self._result, self._given, self._failed = value, True, is_error

    def finish(self, error: BaseException | str | None, at: int | None = None) -> None:
        ended = at or now()
        value, self._result = self._result, None
        entry = Entry(
            kind="result", session=self.session, time=ended, id=self.id, name=self.name,
            status="failed" if self._failed else "",
        )  # fmt: skip
        if ended > self._started:
            entry.duration_ms = (ended - self._started) / 1000
        if self._given:
            entry.result = json_or_text(value)
            entry.details = None if isinstance(value, str) else plain(value)
        if error is not None:
            _blame(entry, error)
        self.recorder.ledger.write(entry)


def _blame(entry: Entry, error: BaseException | str, status: str | None = None) -> None:
    """Put the error into a record: once, where it arose, and not again into what is around."""
    entry.error = {"message": text_of(error)}
    entry.status = status or "failed"
    if not isinstance(error, BaseException):
        return
    kind = type(error).__name__
    entry.error = {"type": kind, **entry.error}
    if not status and kind == "CancelledError":
        entry.status = "cancelled"
    elif not status and isinstance(error, KeyboardInterrupt | GeneratorExit):
        entry.status = "interrupted"
    with suppress(Exception):  # its class may not like it
        error._unspool_recorded = True  # type: ignore[attr-defined]  # a note for ourselves
