"""Reader: every object of a file to the module that knows its kind."""

from collections.abc import Callable, Iterator
from functools import cached_property
from operator import attrgetter
from typing import Any

import msgspec

from unspool.facts import NOBODY, PREVIOUS, ROOT, AnyFact, Key, Rank
from unspool.io.door import iter_json_lines, read_json
from unspool.io.origins import Origin, Tally, read_head
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.sources import hooklogs
from unspool.sources.claude_code import bare, context, hooks, stream
from unspool.sources.claude_code.companions import file_of, first_session
from unspool.sources.claude_code.lines import LINE, NAME, Body, Line, Usage, child_id, parse_raw
from unspool.sources.claude_code.transcript import (
    message_id,
    read_assistant,
    read_user,
)
from unspool.sources.hook_payloads import state_payload
from unspool.sources.scribe import Notebook, Scribe

CHAIN = frozenset(("user", "assistant", "system", "attachment", "progress"))
"""Lines with an id of their own and of the line that they follow."""
_NOTED = {
    "version": ("agent_version", Rank.ITSELF),
    "cwd": ("workspace.path", Rank.GUESS),
    "gitBranch": ("workspace.branch", Rank.ITSELF),
    "slug": ("slug", Rank.ITSELF),
    "entrypoint": ("entrypoint", Rank.ITSELF),
    "sessionKind": ("session_kind", Rank.ITSELF),
    "teamName": ("team", Rank.ITSELF),
}
_notes_of: Callable[[Line], tuple[Any, ...]] = attrgetter(*_NOTED)


class Progress(msgspec.Struct, gc=False):
    """`data` of a progress line: a message of a sub-agent."""

    agentId: str = ""
    message: Line | None = None


_PROGRESS = Shape(Progress)
_BAD = (msgspec.MsgspecError, RecursionError, ValueError, TypeError, AttributeError, LookupError)
"""What a value of a type that no version writes may end in: a problem of that line, never more."""


class Reader:
    """One origin being read. What it remembers only keeps it from noting the same thing twice."""

    def __init__(self, origin: Origin, tally: Tally, recover: bool) -> None:
        self.origin = origin
        self.tally = tally
        self.recover = recover
        self.file = file_of(origin.path)
        self._keys: dict[tuple[Any, ...], tuple[Key, bool]] = {}
        self._noted = Notebook()
        self._last_notes: dict[tuple[Key, int], tuple[Any, ...]] = {}
        """By rank: a line may turn out to be told better elsewhere, and its notes go with it."""
        self._last_usage: Usage | None = None
        self._last_answer: tuple[Any, ...] = ()

    @cached_property
    def _session(self) -> str:
        """Of lines that name none."""
        return self.file.session or first_session(self.origin.path)

    @cached_property
    def _agents(self) -> dict[str, str]:
        """Of a stream: the call that started a sub-agent → its id."""
        return stream.agents_in(self.origin.path)

    def read(self) -> Iterator[AnyFact]:
        head = read_head(self.origin.path)
        if hooks.may_be_log(head) and any(
            map(hooks.unwrap, head.objects or hooklogs.head_payloads(head))
        ):
            # Nobody prescribes the shape of these; lines of a transcript may stand among them.
            for logged in hooklogs.read_log(self.origin, self.recover):
                self.tally.records += logged.lost
                if logged.written is not None:
                    data = msgspec.json.encode(logged.written)
                    line = LINE.convert(logged.written)
                    yield from self._read_line(logged.offset, data, line, logged.moment)
                else:
                    self.tally.problems += logged.lost
                    yield from self._problem(logged.offset, logged.code, logged.text)
            return
        # A packed file, which is not cut into ranges, has lines all the same.
        lines = b'}\n{"' in head.data or b"\n" not in head.data or bool(head.objects)
        origin = msgspec.structs.replace(self.origin, lines=lines)
        # Undo state may hold whole files; nothing in it was said.
        undo = b'{"type":"file-history-snapshot"'
        for offset, data, line in iter_json_lines(
            origin, LINE, self.tally, self.recover, noise=undo, lazy=True
        ):
            yield from self._read_line(offset, data, line, None)

    def _problem(self, offset: int, code: str, found: bytes | str) -> list[AnyFact]:
        scribe = Scribe(NOBODY, self.origin.path, offset)
        scribe.problem(code, found)
        return scribe.facts

    def _read_line(
        self, offset: int, data: bytes, line: Line, moment: hooklogs.Moment | None
    ) -> list[AnyFact]:
        """All facts of the line at once. What was left undecoded may prove bad only when it is looked
        at: then the line is mended and read anew."""
        try:
            return self._facts_of(offset, data, line, moment)
        except _BAD:
            salvage = read_json(data, self.recover)
        facts: list[AnyFact] = []
        lost = salvage.lost
        for value in salvage.values:
            try:
                mended = LINE.convert(value)
                facts += self._facts_of(offset, msgspec.json.encode(value), mended, moment)
            except _BAD as error:
                lost = True
                facts += self._problem(offset, "wrong-types", f"{type(error).__name__}: {error}")
        if salvage.code:
            facts += self._problem(offset, salvage.code, data)
        self.tally.problems += lost
        return facts

    def _facts_of(
        self, offset: int, data: bytes, line: Line, moment: hooklogs.Moment | None
    ) -> list[AnyFact]:
        kind = line.type
        if kind in CHAIN and line.sessionId is not None:
            return self._read_chained(offset, data, line, kind)
        if line.session_id is not None or line.hook_event_name is not None or kind is None:
            return self._read_other(offset, data, line, moment)
        if kind in bare.BARE or kind in bare.NOTES:
            key, _ = self._key(line)
            time = parse_time(line.timestamp)
            scribe = Scribe(key, self.origin.path, offset, time=time, entry=line.uuid or "")
            bare.read_bare(kind, msgspec.json.decode(data), scribe)
            self.tally.noise += not scribe.facts
            return scribe.facts
        if kind in CHAIN and line.uuid and (kind == "system" or b'"parentUuid"' in data):
            # A sub-agent's message inside a torn progress line follows nothing: it is no line.
            line.sessionId = self._session
            return self._read_chained(offset, data, line, kind)
        if kind in bare.NOISE:
            self.tally.noise += 1
            return []
        return self._read_other(offset, data, line, moment)

    def _key(self, line: Line) -> tuple[Key, bool]:
        """The conversation of a line, and whether it is a side thread without a name."""
        named = (line.sessionId, line.agentId, line.isSidechain)
        if named not in self._keys:
            session = self.file.session or line.sessionId or self._session
            agent = self.file.agent or (line.agentId if line.isSidechain else None)
            key = (NAME, child_id(session, agent) if agent else session)
            self._keys[named] = (key, not agent and bool(line.isSidechain))
        return self._keys[named]

    def _read_chained(self, offset: int, data: bytes, line: Line, kind: str) -> list[AnyFact]:
        key, side = self._key(line)
        scribe = Scribe(
            key,
            self.origin.path,
            offset,
            time=parse_time(line.timestamp),
            entry=line.uuid or "",
            # Only lines with an id hang in the tree; a missing parent of such a line is a root.
            after=(line.parentUuid or ROOT) if line.uuid else PREVIOUS,
            side=side,
        )
        floor = False
        if kind == "assistant":
            body = line.body
            floor = read_assistant(line, body, scribe, self._repeats(line, body, key))
        elif kind == "user":
            read_user(line, scribe)
        elif kind == "system":
            context.read_system(msgspec.json.decode(data), scribe)
        elif kind == "attachment":
            context.read_attachment(msgspec.json.decode(data), scribe)
        else:
            scribe.link()
            if b'"agent_progress"' in bytes(line.data):
                self._read_agent_progress(line, offset, scribe)
        self._note(line, scribe, floor)
        file = self.file
        foreign = file.session and not file.agent and line.sessionId != file.session
        if foreign or line.forkedFrom:
            # History of another session, copied into this one.
            session = (line.forkedFrom or {}).get("sessionId", line.sessionId)
            if line.message is not None:
                subject = line.uuid if line.type == "user" else message_id(line, line.body)
                scribe.note("copied", True, 0, "message", subject or "")
            if isinstance(session, str) and self._noted.is_new(key, "fork", session):
                scribe.parent(session, "fork", Rank.ECHO)
        return scribe.facts

    def _repeats(self, line: Line, body: Body, key: Key) -> bool:
        """Whether the line says of its message, beside words and calls, what the line before said.
        Most versions repeat the usage on every line of a message, too: once is enough."""
        answer = (key, message_id(line, body), body.model, line.requestId, body.stop_reason)
        repeats = answer == self._last_answer
        if repeats and body.usage == self._last_usage:
            body.usage = None
        else:
            self._last_answer, self._last_usage = answer, body.usage
        return repeats

    def _note(self, line: Line, scribe: Scribe, floor: bool) -> None:
        """What the line says of its session, where no line before it did."""
        key, rank = scribe.key, scribe.rank
        notes = _notes_of(line)
        if notes != self._last_notes.get((key, rank)):
            self._last_notes[(key, rank)] = notes
            session, _, agent = key[1].partition("/")
            if self._noted.is_new(key, f"agent of rank {rank}", NAME):
                scribe.notes({"agent": NAME, "session_id": session})
                if agent:
                    scribe.parent(session, rank=Rank.EXTRACT)
                    scribe.notes({"run_id": self.file.run})
            for value, (name, noted_rank) in zip(notes, _NOTED.values(), strict=True):
                # A checkout without a branch has the branch `HEAD`.
                if value != "HEAD" and self._noted.is_new(key, f"{name} of rank {rank}", value):
                    scribe.note(name, value, noted_rank)
                    if (name, value) == ("session_kind", "bg"):
                        scribe.note("forked", True)
        if floor and self._noted.is_new(key, "floor", floor):
            scribe.note("completion_tokens", "floor")

    def _read_agent_progress(self, line: Line, offset: int, scribe: Scribe) -> None:
        """A message of a sub-agent, shown in its parent while it ran: an echo of its own file."""
        progress = _PROGRESS.convert(parse_raw(line.data))
        agent, inner = progress.agentId, progress.message
        if not agent:
            return
        child = child_id(scribe.key[1].partition("/")[0], agent)
        if line.parentToolUseID and self._noted.is_new(scribe.key, f"child {agent}", True):
            scribe.note("child_id", child, Rank.COPY, "call", line.parentToolUseID)
        if inner is None:
            return
        for field in ("cwd", "version", "gitBranch", "slug"):
            setattr(inner, field, getattr(line, field))
        time, entry = parse_time(inner.timestamp), inner.uuid or ""
        echo = Scribe(
            (NAME, child), self.origin.path, offset, time=time, entry=entry, rank=Rank.COPY
        )
        floor = False
        if inner.type == "assistant":
            floor = read_assistant(inner, inner.body, echo)
        elif inner.type == "user":
            read_user(inner, echo)
        if echo.facts:
            self._note(inner, echo, floor)
            scribe.facts += echo.facts

    def _read_other(
        self, offset: int, data: bytes, line: Line, moment: hooklogs.Moment | None
    ) -> list[AnyFact]:
        """Hook payloads and headless streams."""
        value = msgspec.json.decode(data)
        payload = hooks.unwrap(value)
        if payload is not None:
            when = moment or hooklogs.noted_moment(payload) or hooklogs.noted_moment(value)
            place = (self.origin.path, offset, when)
            event = hooks.event_of(payload)
            facts = state_payload(payload, event, place, hooks.DIALECT, self._noted)
        elif stream.is_stream(value):
            session = str(value["session_id"])
            caller = line.parent_tool_use_id
            agent = child_id(session, self._agents.get(caller, caller)) if caller else session
            time, entry = parse_time(line.timestamp), line.uuid or ""
            scribe = Scribe(
                (NAME, agent), self.origin.path, offset, time=time, entry=entry, rank=Rank.COPY
            )
            stream.read_event(value, line, scribe, session)
            facts = scribe.facts
        else:
            self.tally.unrecognise(str(line.type or "no type"), self.origin.path, offset)
            return []
        self.tally.noise += not facts
        return facts
