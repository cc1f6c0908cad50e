"""The ledger: what the journal is told, and what is remembered of it. All writing goes through here."""

import os
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from unspool.record.history import History, key_of
from unspool.record.identity import generated_id, now
from unspool.record.journal import Journal, Limits, stem_of
from unspool.record.plain import encode, listed
from unspool.record.spans import Request
from unspool.sources.recorder.entries import FORMAT, Entry

OPEN_CONVERSATIONS = 256
"""Conversations that are remembered, so that only what is new is written. One that was forgotten
is written again from the start of its list, under the same ids."""
LABELS = 256
"""Labels that are remembered; one that was forgotten begins a new session."""

LOCK = threading.RLock()
"""Of all recorders. Its own thread may take it again: the garbage collector may close a forgotten
stream, which is then recorded, in the middle of any other record."""
if hasattr(os, "register_at_fork"):
    # Nobody forks in the middle of a record, so that the child finds the lock free.
    os.register_at_fork(
        before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release
    )


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
        self._histories: OrderedDict[str, History] = OrderedDict()
        self._labels: OrderedDict[str, str] = OrderedDict()
        self._last_label = 0
        self._listeners: list[Callable[[Change], None]] = []
        self._streaming: weakref.WeakSet[Request] = weakref.WeakSet()
        self.journal = Journal(folder, limits, fsync, self.head, self._forget)

    def new_session(self, label: str) -> str:
        """An id made from the label and the time; two of one label in one millisecond are two."""
        with LOCK:
            self._last_label = max(now(), self._last_label + 1000)
            return generated_id(label or self.agent, self._last_label)

    def session_of(self, label: str) -> str:
        """The id that was made for the label before, else a new one."""
        with LOCK:
            session = self._labels.pop(label, "") or self.new_session(label)
            self._labels[label] = session
            if len(self._labels) > LABELS:
                self._labels.popitem(last=False)
        return session

    def head(self, session: str, agent: str = "") -> Entry:
        """The record that a conversation's file begins with."""
        return Entry(
            kind="conversation", journal=FORMAT, session=session, time=now(),
            agent=agent or self.agent, version=self.agent_version,
        )  # fmt: skip

    def write(self, entry: Entry) -> None:
        """Append a record to its conversation's file, and tell the listeners."""
        with LOCK:
            self._append(entry)
        self._tell(Change(entry.kind, entry.session, entry.id))

    def write_request(self, request: Request, messages: Any, tools: Any) -> None:
        """The question: only those messages that the conversation had not yet."""
        messages, tools = listed(messages), listed(tools)
        messages = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
        key = key_of(encode(tools)) if tools else ""
        entry = Entry(
            kind="request", session=request.session, time=request.started, id=request.id,
            model=request.model, seen=len(messages),
        )  # fmt: skip
        with LOCK:
            stem = stem_of(request.session)
            if stem in self._histories and self.journal.is_gone(stem):
                self._forget(stem)
            history = self._history(stem)
            if tools and key != history.tools:
                history.tools = key
                self._append(
                    Entry(kind="tools", session=entry.session, time=entry.time, tools=tools)
                )
            entry.items, entry.change, request.place = history.take(request.id, messages)
            self._append(entry)
        self._tell(Change("request", request.session, request.id))

    def write_answer(self, request: Request, entry: Entry) -> str:
        """The answer, or what failed; the id of its message."""
        if request.conversation:
            calls = [call.id for call in entry.calls]
            with LOCK:
                history = self._history(stem_of(request.session))
                entry.message = history.answer(request.id, request.place, entry.text, calls)
        self.write(entry)
        return entry.message or request.id

    def _append(self, entry: Entry) -> None:
        """Under the lock. A recorder that cannot write does not stop the agent."""
        try:
            self.journal.append(entry)
        except OSError as error:
            self.lost += 1
            # So that the next request writes again what this one lost.
            self._forget(stem_of(entry.session))
            if self.lost == 1:
                warnings.warn(f"unspool cannot write its journal: {error}", stacklevel=4)

    def _tell(self, change: Change) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(change)
            except Exception as error:
                warnings.warn(f"a listener of the recorder failed: {error!r}", stacklevel=3)

    def _history(self, stem: str) -> History:
        history = self._histories.setdefault(stem, History())
        self._histories.move_to_end(stem)
        if len(self._histories) > OPEN_CONVERSATIONS:
            self._histories.popitem(last=False)
        return history

    def _forget(self, stem: str) -> None:
        """What it had is gone: should it go on, it is written from the start of its list."""
        self._histories.pop(stem, None)

    def stream(self, request: Request) -> None:
        """An answer has begun to come in pieces."""
        with LOCK:
            self._streaming.add(request)

    def settle(self, session: str | None = None) -> None:
        """Answers that came to their end although nobody read the end of their stream."""
        with LOCK:
            waiting = [r for r in self._streaming if session is None or r.session == session]
        for request in waiting:
            if request.is_whole:
                request.finish(None)

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def clear(self, session: str | None) -> None:
        with LOCK:
            self.journal.clear(session)
            if session is None:
                self._histories.clear()
                self._labels.clear()
            else:
                self._forget(stem_of(session))
        self._tell(Change("clear", session or "", ""))

    @property
    def sizes(self) -> dict[str, int]:
        with LOCK:
            return {
                "conversations": len(self._histories),
                "messages": sum(len(history) for history in self._histories.values()),
                "labels": len(self._labels),
                **self.journal.sizes,
            }
