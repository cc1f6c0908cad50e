"""The recorder: what an agent does, appended to a journal while it happens."""

import os
import tempfile
import threading
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeVar

from unspool.errors import UsageError
from unspool.record import reading
from unspool.record.answers import Answer, take_call, to_answer, to_tokens
from unspool.record.history import History, key_of
from unspool.record.identity import choose_session_id
from unspool.record.journal import Journal, Limits
from unspool.record.plain import encode, json_or_text, plain, to_micros
from unspool.record.scopes import Executor, bind, current_scope, error_data, error_status
from unspool.record.spans import Conversation, Request, Tool, now
from unspool.sources.recorder import FORMAT, Entry
from unspool.trajectory import Trajectory

OPEN_CONVERSATIONS = 256
"""Conversations that are remembered, so that only what is new is written. One that was forgotten
is written again from the start of its list, under the same ids."""

Time = datetime | float | None
Client = TypeVar("Client")

_WRAPPERS = {
    "openai": "unspool.record.openai_client",
    "anthropic": "unspool.record.anthropic_client",
}


class Change(NamedTuple):
    """Something was written."""

    kind: str
    session_id: str
    id: str


class _State:
    """What is remembered of one conversation."""

    __slots__ = ("history", "tools")

    def __init__(self) -> None:
        self.history = History()
        self.tools = 0


class Recorder:
    """Records conversations, requests, tool calls and sub-agents into a journal.

    `path` is the journal's folder; without one the journal is temporary and goes with the recorder.
    `max_entries` (requests, tool calls and elements), `max_bytes` and `max_age_seconds` limit what
    the journal keeps; `fsync` waits for the disk at every record.
    """

    def __init__(
        self,
        agent: str = "agent",
        path: str | os.PathLike[str] | None = None,
        max_entries: int | None = None,
        *,
        agent_version: str = "",
        max_bytes: int | None = None,
        max_age_seconds: float | None = None,
        fsync: bool = False,
    ) -> None:
        for name, limit in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            if limit is not None and limit < 1:
                raise UsageError(f"{name} must be at least 1")
        self.agent = agent
        self.agent_version = agent_version
        self._temporary = tempfile.TemporaryDirectory("-unspool") if path is None else None
        folder = Path(self._temporary.name) if self._temporary else Path(os.fspath(path or ""))
        self._lock = threading.Lock()
        self._states: OrderedDict[str, _State] = OrderedDict()
        self._labels: OrderedDict[str, str] = OrderedDict()
        self._last_generated = 0
        self._listeners: list[Callable[[Change], None]] = []
        self.lost = 0
        """Records that could not be written (the disk was full, the folder gone)."""
        limits = Limits(max_entries, max_bytes, max_age_seconds)
        self._journal = Journal(folder, limits, fsync, self._forget)

    @property
    def path(self) -> Path:
        """The journal's folder."""
        return self._journal.folder

    # What happens, as context managers

    def conversation(
        self,
        id: str | None = None,
        *,
        label: str = "",
        title: str = "",
        agent: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Conversation:
        """A conversation by its id; without one, by an id made from the label and the time."""
        session = self._choose(None, id, label)
        declared = None
        if title or agent or metadata:
            declared = self._head(session, agent)
            declared.title, declared.data = title, dict(metadata or {}) or None
        return Conversation(self, session, declared)

    def subagent(
        self,
        name: str = "",
        *,
        invocation_id: str | None = None,
        call_id: str | None = None,
        parent_id: str | None = None,
        title: str = "",
    ) -> Conversation:
        """A sub-agent's conversation, tied to the conversation and tool call that it is opened in."""
        scope = current_scope(self)
        inside = scope is not None and (parent_id is None or scope.session == parent_id)
        parent = parent_id or (scope.session if scope is not None else "")
        session = self._choose(invocation_id, None, name or "subagent")
        declared = self._head(session, name or "subagent")
        declared.parent, declared.title, declared.name = parent, title, name
        declared.call = call_id or (scope.call if scope is not None and inside else "")
        return Conversation(self, session, declared)

    def request(
        self,
        model: str,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        conversation: bool = True,
        data: Mapping[str, Any] | None = None,
    ) -> Request:
        """A request to a model. `conversation=False` is for titles, summaries and the like."""
        return Request(
            self,
            session_id or self._session(),
            model,
            messages,
            tools,
            ident=request_id or uuid.uuid4().hex,
            conversation=conversation,
            data=data,
        )

    def tool(
        self,
        name: str,
        arguments: Any = None,
        call_id: str | None = None,
        *,
        session_id: str | None = None,
    ) -> Tool:
        """A call of a tool; `call_id` is the id that the model gave it."""
        return Tool(
            self, session_id or self._session(), name, arguments, call_id or uuid.uuid4().hex
        )

    # What happened, in one go

    def log_request(
        self,
        model: str,
        messages: Sequence[Any],
        response: Any = None,
        *,
        tools: Sequence[Any] | None = None,
        thinking: str = "",
        tool_calls: Sequence[Any] | None = None,
        usage: Any = None,
        error: BaseException | str | None = None,
        status: Literal["", "failed", "cancelled", "interrupted"] = "",
        started_at: Time = None,
        ended_at: Time = None,
        time_to_first_token_ms: float | None = None,
        conversation: bool = True,
        session_id: str | None = None,
        invocation_id: str | None = None,
        label: str = "",
        request_id: str | None = None,
    ) -> str:
        """A request and what came of it. Gives the request's id."""
        request = Request(
            self,
            self._session(invocation_id, session_id, label),
            model,
            messages,
            tools,
            ident=request_id or uuid.uuid4().hex,
            conversation=conversation,
            started=to_micros(started_at),
        )
        if time_to_first_token_ms is not None:
            request.data["time_to_first_token_ms"] = time_to_first_token_ms
        answer = to_answer(response)
        answer.thinking = thinking or answer.thinking
        for call in tool_calls or ():
            take_call(answer, plain(call))
        answer.usage = to_tokens(usage) or answer.usage
        if error is not None and not status:
            status = "failed" if isinstance(error, str) else _status(error)
        request.end(
            answer, status, None if error is None else error_data(error), to_micros(ended_at)
        )
        return request.id

    def log_tool_call(
        self,
        name: str,
        arguments: Any = None,
        result: Any = None,
        *,
        call_id: str | None = None,
        error: BaseException | str | None = None,
        is_error: bool = False,
        started_at: Time = None,
        ended_at: Time = None,
        child_id: str = "",
        session_id: str | None = None,
        invocation_id: str | None = None,
        label: str = "",
    ) -> str:
        """A tool call and what it gave; `child_id` is the session of the sub-agent it started."""
        session = self._session(invocation_id, session_id, label)
        ident = call_id or uuid.uuid4().hex
        end = to_micros(ended_at) or now()
        start = to_micros(started_at) or end
        text = "" if arguments is None else json_or_text(arguments)
        self.write(
            Entry(kind="tool", session=session, time=start, id=ident, name=name, arguments=text),
            counted=True,
        )
        done = Entry(kind="result", session=session, time=end, id=ident, name=name)
        if result is not None or error is None:
            done.result = "" if result is None else json_or_text(result)
            done.details = None if isinstance(result, str) else plain(result)
        done.status = "failed" if is_error else ""
        if error is not None:
            done.error = error_data(error)
            done.status = "failed" if isinstance(error, str) else error_status(error)
        done.duration_ms = (end - start) / 1000 if started_at is not None else None
        if child_id:
            self.write(
                Entry(kind="subagent", session=session, time=end, child=child_id, call=ident)
            )
        self.write(done)
        return ident

    def log_element(
        self,
        name: str,
        tokens: int | None = None,
        max_tokens: int | None = None,
        *,
        data: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        invocation_id: str | None = None,
        label: str = "",
    ) -> str:
        """An element of a prompt and what it took of its budget."""
        ident = uuid.uuid4().hex
        self.write(
            Entry(
                kind="element", session=self._session(invocation_id, session_id, label),
                time=now(), id=ident, name=name, tokens=tokens, max_tokens=max_tokens,
                data=dict(data) if data else None,
            ),
            counted=True,
        )  # fmt: skip
        return ident

    # What was recorded

    def trajectories(self, session_id: str | None = None) -> Iterator[Trajectory]:
        """All conversations, or one with its sub-agents: what `unspool extract` makes of them."""
        return reading.trajectories(self._files(session_id))

    def export(
        self,
        folder: str | os.PathLike[str],
        session_id: str | None = None,
        *,
        atif_version: str | None = None,
        subagents: Literal["embedded", "files"] | None = None,
    ) -> list[Path]:
        """Write ATIF files, sub-agents with their parents; the files that were written."""
        options = {"atif_version": atif_version, "subagents": subagents}
        known = {name: value for name, value in options.items() if value is not None}
        return reading.export(self._files(session_id), folder, known)

    def _files(self, session_id: str | None) -> list[Path]:
        if session_id is None:
            return self._journal.files()
        return reading.family_files(self._journal, session_id)

    def clear(self, session_id: str | None = None) -> None:
        """Forget one conversation, or all of them, in memory and on disk."""
        with self._lock:
            self._journal.clear(session_id)
            if session_id is None:
                self._states.clear()
                self._labels.clear()
            else:
                self._states.pop(session_id, None)
        self._tell(Change("clear", session_id or "", ""))

    def close(self) -> None:
        """Close the journal's files; a temporary journal is removed."""
        with self._lock:
            self._journal.close()
            self._states.clear()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Around it

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call the listener after every record; gives the function that ends it."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def wrap(self, client: Client) -> Client:
        """Record every request of an `openai` or `anthropic` client; gives the same client."""
        for kind in type(client).__mro__:
            wrapper = _WRAPPERS.get(kind.__module__.partition(".")[0])
            if wrapper is not None:
                import_module(wrapper).wrap(self, client)
                return client
        raise UsageError(f"cannot wrap {type(client).__name__}: no client of openai or anthropic")

    bind = staticmethod(bind)
    executor = Executor

    @property
    def sizes(self) -> dict[str, int]:
        """How many things are held in memory; all of them bounded."""
        with self._lock:
            return {
                "conversations": len(self._states),
                "messages": sum(len(state.history) for state in self._states.values()),
                "labels": len(self._labels),
                **self._journal.sizes,
            }

    # Writing: for the spans

    def write(self, entry: Entry, counted: bool = False) -> None:
        """Append a record to its conversation's file."""
        data = encode(entry) + b"\n"
        with self._lock:
            self._append(entry.session, data, counted, headed=entry.kind == "conversation")
        self._tell(Change(entry.kind, entry.session, entry.id))

    def write_request(self, request: Request, messages: Sequence[Any]) -> None:
        """The question: only those messages that the conversation had not yet."""
        session = request.session
        tools = encode(request.tools) if request.tools else b""
        if isinstance(messages, str):
            messages = [messages]
        with self._lock:
            state = self._state(session)
            if tools and (key := key_of(tools)) != state.tools:
                state.tools = key
                entry = Entry(
                    kind="tools", session=session, time=request.started,
                    tools=[plain(tool) for tool in request.tools or ()],
                )  # fmt: skip
                self._append(session, encode(entry) + b"\n", False)
            news = state.history.take(request.id, messages)
            entry = Entry(
                kind="request", session=session, time=request.started, id=request.id,
                model=request.model, items=news.items, seen=len(messages), change=news.change,
            )  # fmt: skip
            self._append(session, encode(entry) + b"\n", True)
        self._tell(Change("request", session, request.id))

    def write_answer(
        self,
        request: Request,
        answer: Answer,
        status: str,
        error: dict[str, Any] | None,
        ended: int | None,
    ) -> str:
        """The answer, or what failed; the id of its message."""
        end, start = ended or now(), request.started
        data = {**request.data, **answer.data}
        entry = Entry(
            kind="response" if request.conversation else "utility",
            session=request.session, time=end, id=request.id, model=request.model,
            answered=answer.model if answer.model != request.model else "",
            text=answer.text, thinking=answer.thinking, calls=answer.calls, usage=answer.usage,
            stop=answer.stop, status=status, error=error, started=start,
            duration_ms=(end - start) / 1000 if start is not None else None,
            first_token_ms=data.pop("time_to_first_token_ms", request.first_token_ms),
            data=data or None,
        )  # fmt: skip
        with self._lock:
            if request.conversation:
                history = self._state(request.session).history
                calls = [call.id for call in answer.calls]
                entry.message = history.answer(request.id, answer.text, calls)
            self._append(request.session, encode(entry) + b"\n", not request.conversation)
        self._tell(Change(entry.kind, request.session, request.id))
        return entry.message or request.id

    def _append(self, session: str, data: bytes, counted: bool, headed: bool = False) -> None:
        """Under the lock. A recorder that cannot write does not stop the agent."""

        def head() -> bytes:
            return b"" if headed else encode(self._head(session, "")) + b"\n"

        try:
            self._journal.append(session, data, head, counted)
        except OSError as error:
            self.lost += 1
            if self.lost == 1:
                warnings.warn(f"unspool cannot write its journal: {error}", stacklevel=4)

    def _head(self, session: str, agent: str) -> Entry:
        return Entry(
            kind="conversation", journal=FORMAT, session=session, time=now(),
            agent=agent or self.agent, version=self.agent_version,
        )  # fmt: skip

    def _tell(self, change: Change) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(change)
            except Exception as error:
                warnings.warn(f"a listener of the recorder failed: {error!r}", stacklevel=3)

    # Which conversation: under no lock, but for what is shared

    def _state(self, session: str) -> _State:
        state = self._states.get(session)
        if state is None:
            state = self._states[session] = _State()
            while len(self._states) > OPEN_CONVERSATIONS:
                self._states.popitem(last=False)
        self._states.move_to_end(session)
        return state

    def _forget(self, session: str) -> None:
        """Its file was evicted: should it go on, it is written from the start of its list."""
        self._states.pop(session, None)

    def _session(
        self, invocation_id: str | None = None, session_id: str | None = None, label: str = ""
    ) -> str:
        """The session that is named, else the one around, else one for this label."""
        if invocation_id or session_id:
            return choose_session_id(invocation_id, session_id, label, None)
        scope = None if label else current_scope(self)
        if scope is not None:
            return scope.session
        label = label or self.agent
        with self._lock:
            known = self._labels.get(label)
        session = known or self._choose(None, None, label)
        with self._lock:
            session = self._labels.setdefault(label, session)
            self._labels.move_to_end(label)
            while len(self._labels) > OPEN_CONVERSATIONS:
                self._labels.popitem(last=False)
        return session

    def _choose(self, invocation_id: str | None, session_id: str | None, label: str) -> str:
        if invocation_id or session_id:
            return choose_session_id(invocation_id, session_id, label, None)
        with self._lock:  # two of one label in one millisecond are still two
            self._last_generated = max(now(), self._last_generated + 1000)
            moment = self._last_generated
        return choose_session_id(None, None, label or self.agent, moment)


def _status(error: BaseException) -> Literal["failed", "cancelled", "interrupted"]:
    made = error_status(error)
    return (
        "cancelled" if made == "cancelled" else "interrupted" if made == "interrupted" else "failed"
    )
