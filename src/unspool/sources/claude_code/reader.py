"""Reader: every object of a file to the module that knows its kind."""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

import msgspec

from unspool.facts import NOBODY, AnyFact, Key, Noted, Problem
from unspool.io.dirty_json import salvage, sample
from unspool.io.origins import Origin, Tally, iter_lines, read_head
from unspool.sources.claude_code import bare, context, hooks, stream
from unspool.sources.claude_code.files import (
    File,
    has_text,
    head_objects,
    is_lines,
    prefixed,
    read_text,
    scan,
)
from unspool.sources.claude_code.lines import (
    Line,
    Usage,
    decode_line,
    decode_raws,
    lenient_body,
    lenient_line,
    parse_raw,
)
from unspool.sources.claude_code.place import GUESS, NAME, Place, child_id
from unspool.sources.claude_code.spawns import Spawns
from unspool.sources.claude_code.transcript import (
    Speech,
    is_floor,
    read_assistant,
    read_user,
    speech_of,
)
from unspool.sources.hooklogs import Moment, prefix_moment

_NOTED = (
    ("version", "agent_version", 0),
    ("cwd", "workspace.path", GUESS),
    ("gitBranch", "workspace.branch", 0),
    ("slug", "slug", 0),
    ("entrypoint", "entrypoint", 0),
    ("sessionKind", "session_kind", 0),
    ("teamName", "team", 0),
)
_said_of: Callable[[Line], tuple[Any, ...]] = attrgetter(*(field for field, _, _ in _NOTED))
_BAD = (msgspec.MsgspecError, RecursionError, ValueError, TypeError, AttributeError, LookupError)
"""What a value of a type that no version writes may end in: a problem of that line, never more."""
_CHAIN = frozenset(("user", "assistant", "system", "attachment", "progress"))


class Reader:
    """One origin being read. What it remembers only keeps it from noting the same thing twice."""

    def __init__(self, origin: Origin, tally: Tally, recover: bool) -> None:
        self.origin = origin
        self.tally = tally
        self.recover = recover
        self.file = File(origin.path)
        self.spawns = Spawns(origin.path)
        self._noted: dict[tuple[Key, str], Any] = {}
        self._said: dict[tuple[Key, int], tuple[Any, ...]] = {}
        """By rank: a line may turn out to be told better elsewhere, and its notes go with it."""
        self._floor: set[Key] = set()
        self._used: tuple[str, Usage] | None = None
        self._speech: Speech | None = None

    def read(self) -> Iterator[AnyFact]:
        head = read_head(self.origin.path)
        if not is_lines(head) or (has_text(head) and hooks.is_log(head_objects(head))):
            if self.origin.start == 0:
                yield from self._read_whole()
            return
        for offset, line in iter_lines(self.origin):
            try:
                # What was left undecoded may prove bad only when it is looked at.
                found: Iterable[AnyFact] = self._read_line(offset, line, decode_line(line), None)
            except _BAD:
                found = self._read_odd(offset, line)
            yield from found

    def _read_whole(self) -> Iterator[AnyFact]:
        for at, before, value in scan(read_text(self.origin.path)):
            if isinstance(value, dict):
                moment = prefix_moment(before.encode())
                yield from self._read_value(at, value, moment)
            else:
                yield self._problem(at, "invalid-json", value)

    def _read_odd(self, offset: int, line: bytes) -> Iterator[AnyFact]:
        """A prefix before the object, an array, glued objects, odd types, broken JSON."""
        before, rest = prefixed(line)
        found = salvage(rest.rstrip(b", ]") if before or line[:1] == b"[" else rest, self.recover)
        values = [
            v for value in found.values for v in (value if isinstance(value, list) else [value])
        ]
        for number, value in enumerate(values):
            if found.lost and _is_inner(value):
                continue
            if isinstance(value, dict):
                yield from self._read_value(offset + number, value, prefix_moment(before))
            else:
                self.tally.records += 1
                self.tally.unrecognise(type(value).__name__, self.origin.path, offset)
        if found.code or not values:
            lost = found.lost or not values
            yield self._problem(offset, found.code or "invalid-json", line, lost)

    def _problem(self, offset: int, code: str, data: bytes | str, lost: bool = True) -> Problem:
        """`lost`: the record is nothing but a problem; else it was mended and read."""
        self.tally.records += lost
        self.tally.problems += lost
        key = (NAME, self.file.session) if self.file.certain else NOBODY
        if key != NOBODY and self.file.agent:
            key = (NAME, child_id(self.file.session, self.file.agent))
        return Problem(
            key=key,
            origin=self.origin.path,
            offset=offset,
            number=99,
            code=code,
            sample=sample(data),
        )

    def _read_value(
        self, offset: int, value: dict[str, Any], logged: Moment | None
    ) -> Iterator[AnyFact]:
        try:
            encoded = msgspec.json.encode(value)
            try:
                line = decode_line(encoded)
            except msgspec.DecodeError:
                line = lenient_line(value)
            found = self._read_line(offset, encoded, line, logged)
        except _BAD as error:
            found = [self._problem(offset, "wrong-types", f"{type(error).__name__}: {error}")]
        yield from found

    def _read_line(
        self, offset: int, data: bytes, line: Line, logged: Moment | None
    ) -> list[AnyFact]:
        """All facts of the line at once: where one cannot be read, none has been counted."""
        kind = line.type
        if kind is not None and line.sessionId is not None and kind in _CHAIN:
            found = self._read_chained(offset, data, line, kind)
        elif line.session_id is not None or line.hook_event_name is not None or kind is None:
            found = self._read_other(offset, data, line, logged)
        elif kind in bare.BARE:
            found = self._read_bare(offset, data, line, kind)
        elif kind in _CHAIN and line.uuid:
            line.sessionId = self.file.or_head()
            found = self._read_chained(offset, data, line, kind)
        elif kind in bare.NOISE:
            self.tally.noise += 1
            found = []
        else:
            found = self._read_other(offset, data, line, logged)
        self.tally.records += 1
        return found

    def _read_bare(self, offset: int, data: bytes, line: Line, kind: str) -> list[AnyFact]:
        key, _ = self._key(line)
        place = Place(key, self.origin.path, offset, line)
        read = bare.BARE[kind]
        found = list(read(msgspec.json.decode(data), place))
        if not found:
            self.tally.noise += 1
        return found

    def _key(self, line: Line) -> tuple[Key, bool]:
        """The conversation of a line, and whether it is a side thread without a name."""
        file = self.file
        session = file.session if file.certain else line.sessionId or file.or_head()
        agent = file.agent or (line.agentId if line.isSidechain else None)
        if agent:
            return (NAME, child_id(session, agent)), False
        return (NAME, session), bool(line.isSidechain)

    def _read_chained(self, offset: int, data: bytes, line: Line, kind: str) -> list[AnyFact]:
        key, side = self._key(line)
        place = Place(key, self.origin.path, offset, line, 0, side)
        if kind == "assistant":
            self._skip_usage(line)
            speech = speech_of(line, key)
            found = read_assistant(line, place, told=speech == self._speech)
            self._speech = speech
        elif kind == "user":
            found = read_user(line, place)
        elif kind == "progress":
            found = [place.link()]
            if b'"agent_progress"' in bytes(line.data):
                found += self._read_agent_progress(line, place)
        else:
            found = list(context.CHAINED[kind](msgspec.json.decode(data), place))
        found += self._notes(line, place)
        file = self.file
        foreign = file.certain and not file.agent and line.sessionId != file.session
        if foreign or line.forkedFrom:
            found += self._copied(line, place)
        return found

    def _skip_usage(self, line: Line) -> None:
        """Most versions repeat the usage on every line of a message: once is enough."""
        body = line.message
        if body is None or body.usage is None or not body.id:
            return
        if self._used is not None and self._used == (body.id, body.usage):
            body.usage = None
        else:
            self._used = (body.id, body.usage)

    def _notes(self, line: Line, place: Place) -> list[AnyFact]:
        """What the line says of its session, where the line before it did not."""
        key = place.key
        said = _said_of(line)
        known = self._said.get((key, place.rank))
        found: list[AnyFact] = []
        if known is None:
            session, _, agent = key[1].partition("/")
            found += [place.note("agent", NAME), place.note("session_id", session)]
            if agent:
                found.append(
                    place.note("parent", {"conversation_id": session, "kind": "subagent"}, 2)
                )
            if agent and self.file.run:
                found.append(place.note("run_id", self.file.run))
        if said != known:
            self._said[(key, place.rank)] = said
            found += self._news(said, known or (None,) * len(said), place)
        if key not in self._floor and _is_floor(line):
            self._floor.add(key)
            found.append(place.note("completion_tokens", "floor"))
        return found

    def _news(
        self, said: tuple[Any, ...], known: tuple[Any, ...], place: Place
    ) -> Iterator[AnyFact]:
        for value, before, (field, name, rank) in zip(said, known, _NOTED, strict=True):
            if value == before or not value or (field == "gitBranch" and value == "HEAD"):
                continue
            yield place.note(name, value, rank)
            if field == "sessionKind" and value == "bg":
                yield place.note("forked", True)

    def _copied(self, line: Line, place: Place) -> Iterator[AnyFact]:
        """History of another session, copied into this one."""
        fork = parse_raw(bytes(line.forkedFrom))
        fork = fork if isinstance(fork, dict) else {"sessionId": line.sessionId}
        body = line.message
        if body is not None:
            subject = line.uuid if line.type == "user" else body.id or line.requestId or line.uuid
            yield Noted(
                **place.common(), on="message", subject=subject or "", name="copied", value=True
            )
        origin = fork.get("sessionId")
        if isinstance(origin, str) and self._noted.get((place.key, "fork")) != origin:
            self._noted[(place.key, "fork")] = origin
            yield place.note("parent", {"conversation_id": origin, "kind": "fork"}, 3)

    def _read_agent_progress(self, line: Line, place: Place) -> Iterator[AnyFact]:
        """A message of a sub-agent, shown in its parent while it ran: an echo of its own file."""
        fields = decode_raws(line.data)
        agent = parse_raw(bytes(fields.get("agentId", b"")))
        message = parse_raw(bytes(fields.get("message", b"")))
        if not isinstance(agent, str) or not agent:
            return
        session = place.key[1].partition("/")[0]
        child = child_id(session, agent)
        if line.parentToolUseID and self._noted.get((place.key, agent)) is None:
            self._noted[(place.key, agent)] = True
            yield place.note_call(line.parentToolUseID, "child_id", child, 1)
        if not isinstance(message, dict):
            return
        inner = lenient_line(message)
        inner.message = lenient_body(message.get("message"))
        for field in ("cwd", "version", "gitBranch", "slug"):
            setattr(inner, field, getattr(line, field))
        at = Place((NAME, child), place.origin, place.offset, inner, rank=1)
        if inner.type == "assistant":
            yield from read_assistant(inner, at)
        elif inner.type == "user":
            yield from read_user(inner, at)
        else:
            return
        yield from self._notes(inner, at)

    def _read_other(
        self, offset: int, data: bytes, line: Line, logged: Moment | None
    ) -> list[AnyFact]:
        """Hook payloads and headless streams."""
        value = msgspec.json.decode(data)
        payload = hooks.unwrap(value)
        if payload is not None:
            found = list(
                hooks.read_payload(payload, value, self.origin.path, offset, logged, self._noted)
            )
        elif stream.is_stream(value):
            found = list(stream.read_value(value, line, self.origin.path, offset, self.spawns))
        else:
            self.tally.unrecognise(str(line.type or "no type"), self.origin.path, offset)
            return []
        if not found:
            self.tally.noise += 1
        return found


def _is_inner(value: Any) -> bool:
    """Whether what was found whole in a torn line is a part of it: a sub-agent's message inside a
    progress line. A line of its own, glued behind, names its session."""
    if not isinstance(value, dict) or value.get("type") not in _CHAIN:
        return False
    return "sessionId" not in value and "session_id" not in value


def _is_floor(line: Line) -> bool:
    body = line.message
    if line.type != "assistant" or body is None or body.usage is None:
        return False
    return is_floor(body, line.version or "")
