"""The recorder: what an agent does, appended to a journal while it happens."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import msgspec

from unspool.errors import UsageError
from unspool.io.origins import Origin, iter_lines
from unspool.io.times import parse_time
from unspool.io.values import dict_of
from unspool.pipeline.batch import extract, open_run
from unspool.pipeline.job import Job
from unspool.pipeline.output import write_many
from unspool.record import clients
from unspool.record.answers import to_answer
from unspool.record.identity import new_id, now
from unspool.record.journal import Limits
from unspool.record.ledger import Change, Ledger
from unspool.record.plain import name_of, number_of, plain
from unspool.record.spans import Conversation, Request, Tool, current_scope
from unspool.sources.recorder import NAME
from unspool.sources.recorder.entries import Entry
from unspool.trajectory import Trajectory

Time = datetime | float | None
Client = TypeVar("Client")


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
        self.agent = name_of(agent) or "agent"
        folder = Path(tempfile.mkdtemp("-unspool") if path is None else os.fspath(path))
        self._remove = None
        if path is None:
            self._remove = weakref.finalize(self, _remove, folder, os.getpid())
        limits = Limits(max_entries, max_bytes, max_age_seconds)
        self.ledger = Ledger(self.agent, name_of(agent_version), folder, limits, fsync)

    @property
    def path(self) -> Path:
        """The journal's folder."""
        return self.ledger.journal.folder

    @property
    def lost(self) -> int:
        """Records that could not be written (the disk was full, the folder gone)."""
        return self.ledger.lost

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
        session = name_of(id) or self.ledger.new_session(name_of(label))
        declared = None
        if title or agent or metadata:
            declared = self.ledger.head(session, name_of(agent))
            declared.title, declared.data = name_of(title), dict_of(plain(metadata)) or None
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
        name, scope = name_of(name), current_scope(self)
        around = scope.session if scope is not None else ""
        parent = name_of(parent_id) or around
        session = name_of(invocation_id) or self.ledger.new_session(name or "subagent")
        declared = self.ledger.head(session, name or "subagent")
        declared.parent, declared.title, declared.name = parent, name_of(title), name
        inner = scope.call if scope is not None and parent == around else ""
        declared.call = name_of(call_id) or inner or ""
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
        session = name_of(session_id) or self._session()
        ident = name_of(request_id) or new_id()
        kept = dict_of(plain(data))
        return Request(self, session, name_of(model), (messages, tools), ident, conversation, kept)

    def tool(
        self,
        name: str,
        arguments: Any = None,
        call_id: str | None = None,
        *,
        session_id: str | None = None,
    ) -> Tool:
        """A call of a tool; `call_id` is the id that the model gave it."""
        session = name_of(session_id) or self._session()
        return Tool(self, session, name_of(name), name_of(call_id) or new_id(), arguments)

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
        session = self._session(invocation_id, session_id, label)
        request = self.request(
            model,
            messages,
            tools,
            session_id=session,
            request_id=request_id,
            conversation=conversation,
        )
        request.started = _micros(started_at)
        answer = to_answer(response, thinking=thinking, tool_calls=tool_calls, usage=usage)
        answer.first_token_ms = number_of(time_to_first_token_ms, float)
        request.end(answer, error, status, _micros(ended_at))
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
        tool = self.tool(name, arguments, call_id, session_id=session)
        ended = _micros(ended_at) or now()
        tool.start(_micros(started_at) or ended)
        if result is not None or error is None:
            tool.result("" if result is None else result, is_error=is_error)
        if child_id:
            self.ledger.write(
                Entry(
                    kind="subagent", session=session, time=ended, child=name_of(child_id),
                    call=tool.id,
                )
            )  # fmt: skip
        tool.finish(error, ended)
        return tool.id

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
        ident = new_id()
        self.ledger.write(
            Entry(
                kind="element", session=self._session(invocation_id, session_id, label),
                time=now(), id=ident, name=name_of(name), tokens=number_of(tokens, int),
                max_tokens=number_of(max_tokens, int), data=dict_of(plain(data)) or None,
            )
        )  # fmt: skip
        return ident

    # What was recorded

    def trajectories(self, session_id: str | None = None) -> Iterator[Trajectory]:
        """All conversations, or one with its sub-agents: what `unspool extract` makes of them."""
        files = self._files(session_id)
        if files:
            yield from extract(files, source=NAME)

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
        given = {name: value for name, value in options.items() if value is not None}
        files = [str(file) for file in self._files(session_id)]
        if not files:
            return []
        with open_run(Job(paths=files, source=NAME, sink="atif", sink_options=given)) as run:
            return write_many(run.write(), os.fspath(folder))

    def _files(self, session_id: str | None) -> list[Path]:
        """Those of a conversation and of all its sub-agents, and of theirs; else all."""
        if session_id is None:
            return self.ledger.journal.files()
        sessions = [name_of(session_id)]
        files: list[Path] = []
        for session in sessions:  # which grows on the way
            own = self.ledger.journal.files([session])
            sessions += [child for child in _children(own) if child not in sessions]
            files += own
        return sorted(files)

    def clear(self, session_id: str | None = None) -> None:
        """Forget one conversation, or all of them, in memory and on disk."""
        self.ledger.clear(None if session_id is None else name_of(session_id))

    def close(self) -> None:
        """Record what is still open; a temporary journal is removed."""
        self.ledger.settle()
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Around it

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call the listener after every record; gives the function that ends it."""
        return self.ledger.listen(listener)

    def wrap(self, client: Client) -> Client:
        """Record every request of an `openai` or `anthropic` client; gives the same client."""
        makers = {kind.__module__.partition(".")[0] for kind in type(client).__mro__}
        if makers.isdisjoint(("openai", "anthropic")):
            name = type(client).__name__
            raise UsageError(f"cannot wrap {name}: no client of openai or anthropic")
        clients.wrap(self, client)
        return client

    @property
    def sizes(self) -> dict[str, int]:
        """How many things are held in memory; all of them bounded."""
        return self.ledger.sizes

    def _session(
        self, invocation_id: str | None = None, session_id: str | None = None, label: str = ""
    ) -> str:
        """The session that is named, else the one around, else one for this label."""
        scope = current_scope(self)
        if scope is not None and not (invocation_id or session_id or label):
            return scope.session
        named = name_of(invocation_id) or name_of(session_id)
        return named or self.ledger.session_of(name_of(label))


def _micros(time: Time) -> int | None:
    """Of a datetime (naive is UTC) or of seconds as time.time() gives; None where it is no time."""
    return parse_time(plain(time))


def _remove(folder: Path, owner: int) -> None:
    """Remove a temporary journal; a forked process leaves its parent's alone."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _children(files: Sequence[Path]) -> Iterator[str]:
    for file in files:
        for _, line in iter_lines(Origin(str(file), file.name)):
            if line.startswith(b'{"kind":"subagent"'):
                with suppress(msgspec.DecodeError):  # a torn record
                    yield msgspec.json.decode(line, type=Entry).child
