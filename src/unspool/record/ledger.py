"""The ledger: what the journal is told, and what is remembered of it. All writing goes through here."""

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unspool.record.answers import Answer
from unspool.record.history import History, key_of
from unspool.record.identity import now
from unspool.record.journal import Journal, Limits
from unspool.record.locks import new_lock
from unspool.record.plain import encode, listed, plain
from unspool.record.spans import Request
from unspool.sources.recorder.entries import FORMAT, Entry

OPEN_CONVERSATIONS = 256
"""Conversations that are remembered, so that only what is new is written. One that was forgotten
is written again from the start of its list, under the same ids."""


class Change(NamedTuple):
    """Something was written (`kind` is the kind of the record) or cleared (`kind` is "clear")."""

    kind: str
    session_id: str
    id: str


class Ledger:
    """Safe for several threads. Whatever goes wrong here does not stop the agent."""

    def __init__(
        self, agent: str, agent_version: str, folder: Path, limits: Limits, fsync: bool
    ) -> None:
        self.agent = agent
        self.agent_version = agent_version
        self.lost = 0
        self._lock = new_lock()
        self._histories: OrderedDict[str, History] = OrderedDict()
        self._listeners: list[Callable[[Change], None]] = []
        self._streaming: weakref.WeakSet[Request] = weakref.WeakSet()
        self.journal = Journal(folder, limits, fsync, self._forget)

    def stream(self, request: Request) -> None:
        """An answer has begun to come in pieces."""
        with self._lock:
            self._streaming.add(request)

    def settle(self, session: str | None = None) -> None:
        """Answers that came to their end although nobody read the end of their stream."""
        with self._lock:
            waiting = [r for r in self._streaming if session is None or r.session == session]
        for request in waiting:
            if request.is_whole:
                request.finish(None)

    def head(self, session: str, agent: str = "") -> Entry:
        """The record that a conversation's file begins with."""
        return Entry(
            kind="conversation", journal=FORMAT, session=session, time=now(),
            agent=agent or self.agent, version=self.agent_version,
        )  # fmt: skip

    def write(self, entry: Entry, counted: bool = False) -> None:
        """Append a record to its conversation's file."""
        data = encode(entry) + b"\n"
        with self._lock:
            self._append(entry.session, data, counted, headed=entry.kind == "conversation")
        self._tell(Change(entry.kind, entry.session, entry.id))

    def write_request(self, request: Request, messages: Sequence[Any]) -> None:
        """The question: only those messages that the conversation had not yet."""
        session = request.session
        messages, offered = listed(messages), listed(request.tools)
        tools = encode(offered) if offered else b""
        with self._lock:
            self.journal.refresh(session)
            history = self._history(session)
            if tools and (key := key_of(tools)) != history.tools:
                history.tools = key
                entry = Entry(
                    kind="tools", session=session, time=request.started,
                    tools=[plain(tool) for tool in offered],
                )  # fmt: skip
                self._append(session, encode(entry) + b"\n", False)
            news = history.take(request.id, messages)
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
                calls = [call.id for call in answer.calls]
                history = self._history(request.session)
                entry.message = history.answer(request.id, answer.text, calls)
            self._append(request.session, encode(entry) + b"\n", not request.conversation)
        self._tell(Change(entry.kind, request.session, request.id))
        return entry.message or request.id

    def _append(self, session: str, data: bytes, counted: bool, headed: bool = False) -> None:
        """Under the lock. A recorder that cannot write does not stop the agent."""

        def head() -> bytes:
            return b"" if headed else encode(self.head(session)) + b"\n"

        try:
            if self.journal.append(session, data, head, counted):
                note = Entry(kind="evicted", session=session, time=now())
                self.journal.append(session, encode(note) + b"\n", head, False)
        except OSError as error:
            self.lost += 1
            self._forget(session)  # so that the next request writes again what this one lost
            if self.lost == 1:
                warnings.warn(f"unspool cannot write its journal: {error}", stacklevel=4)

    def _tell(self, change: Change) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(change)
            except Exception as error:
                warnings.warn(f"a listener of the recorder failed: {error!r}", stacklevel=3)

    def _history(self, session: str) -> History:
        history = self._histories.get(session)
        if history is None:
            history = self._histories[session] = History()
            if len(self._histories) > OPEN_CONVERSATIONS:
                self._histories.popitem(last=False)
        self._histories.move_to_end(session)
        return history

    def _forget(self, session: str) -> None:
        """What it had is gone: should it go on, it is written from the start of its list."""
        self._histories.pop(session, None)

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def clear(self, session: str | None) -> None:
        with self._lock:
            self.journal.clear(session)
            if session is None:
                self._histories.clear()
            else:
                self._histories.pop(session, None)
        self._tell(Change("clear", session or "", ""))

    def close(self) -> None:
        with self._lock:
            self.journal.close()
            self._histories.clear()

    @property
    def sizes(self) -> dict[str, int]:
        with self._lock:
            return {
                "conversations": len(self._histories),
                "messages": sum(len(history) for history in self._histories.values()),
                **self.journal.sizes,
            }
