"""What a session, a message and its parts state. One assistant message is one call of the model.

    session  {"id":"ses_1","parentID":"ses_0","directory":"/w","title":"…","time":{"created":…}}
    message  {"role":"assistant","modelID":"…","tokens":{"input":27,"cache":{"read":20480}},"time":{…}}
    part     {"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed","output":"…"}}

Ids stand in columns or file names beside them.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw

from unspool.facts import ROOT, Attachment, Key, Rank
from unspool.io.door import LONGEST_BYTES, UNREADABLE, StructType, read_json
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.io.values import field_of
from unspool.sources.scribe import Scribe, all_input, title_of, touched

NAME = "opencode"

_TOUCHES = {"read": "read", "write": "create", "edit": "edit", "patch": "edit"}
_FORK = re.compile(r"\(fork #(\d+)\)$")
_DENIED = ("The user rejected permission", "The user has specified a rule which prevents")
_STEPS = frozenset((
    "text", "reasoning", "step-start", "step-finish", "snapshot", "retry", "agent", "file", "subtask",
))  # fmt: skip
"""Parts that are what the message says, repeat it, or say nothing of it."""
FILES, DATABASE = 0, 1
"""Editions: OpenCode went over from files to a database, and left the files where they were."""


NOTHING = Raw(b"")


class Time(msgspec.Struct, gc=False):
    created: int | float | None = None
    completed: int | float | None = None
    start: int | float | None = None
    end: int | float | None = None
    compacted: Any = None


class Cache(msgspec.Struct, gc=False):
    read: int | None = None
    write: int | None = None


class Tokens(msgspec.Struct, gc=False):
    """`input` leaves out the cache, `output` the reasoning."""

    input: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cache: Cache | None = None


class Revert(msgspec.Struct, gc=False):
    messageID: str = ""


class Session(msgspec.Struct, gc=False):
    id: str = ""
    parentID: str | None = None
    directory: str | None = None
    title: str | None = None
    version: str | None = None
    revert: Revert | None = None
    time: Time | None = None


class State(msgspec.Struct, gc=False):
    """What became of a tool call."""

    status: str = ""
    input: Raw = NOTHING
    output: str | None = None
    error: Any = None
    metadata: Raw = NOTHING
    """Holds the output once more, which is not decoded a second time."""
    time: Time | None = None
    content: list[dict[str, Any]] | None = None


class Part(msgspec.Struct, gc=False):
    id: str = ""
    type: str = ""
    text: str | None = None
    synthetic: bool | None = None
    ignored: bool | None = None
    tool: str = ""
    name: str = ""
    callID: str = ""
    state: State | None = None
    messageID: str = ""
    mime: str | None = None
    filename: str | None = None
    url: str | None = None
    prompt: str | None = None
    files: list[str] | None = None
    auto: bool | None = None


class Message(msgspec.Struct, gc=False):
    id: str = ""
    role: str = ""
    time: Time | None = None
    agent: str | None = None
    mode: str | None = None
    modelID: str | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    finish: str | None = None
    error: Any = None
    summary: Any = None
    # of 2.x, where the parts of a message stand in it
    text: str | None = None
    content: list[Part] | None = None
    model: Any = None
    reason: str | None = None
    command: str | None = None
    output: str | None = None


SESSION, MESSAGE, PART = Shape(Session), Shape(Message), Shape(Part)
_decode = msgspec.json.Decoder().decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw] | None).decode


def state_session(session: Session, scribe: Scribe, agent: str = "OpenCode") -> None:
    told = {"agent": agent, "agent_version": session.version, "title": session.title}
    scribe.notes({**told, "workspace.path": session.directory})
    if session.parentID:
        scribe.parent(session.parentID)


def fork_number(title: str | None) -> int:
    """Which fork the title says that it is of: "Paint the shelf (fork #2)"; 0 for none."""
    counted = _FORK.search(title or "")
    return int(counted[1]) if counted else 0


class Teller:
    """States the messages of a session one after the other."""

    def __init__(self, session: Session, key: Key, origin: str, edition: int = FILES) -> None:
        self.session = session
        self.key = key
        self.origin = origin
        self.edition = edition
        self.previous = ROOT
        """The message before."""
        self.reverted = False
        self.compacting = False
        """Whether the next answer is the summary of a compaction."""

    def state(self, message: Message, parts: list[Part], offset: int) -> Scribe:
        """The facts of a message. `revert` takes the message that it names back, and all behind it."""
        revert = self.session.revert
        self.reverted = self.reverted or (revert is not None and revert.messageID == message.id)
        created = message.time.created if message.time is not None else None
        scribe = Scribe(
            self.key,
            self.origin,
            offset,
            time=parse_time(created),
            entry=message.id,
            after=self.previous,
        )
        self.previous = message.id
        began = self.session.time.created if self.session.time is not None else None
        if created is not None and began is not None and created < began:
            # A fork copies messages with their times: they are older than their session.
            scribe.note("copied", True, on="message", subject=message.id)
        if message.role == "user":
            self._state_prompt(message, parts, scribe)
        elif message.role in ("assistant", ""):
            self._state_answer(message, parts, scribe)
        else:
            _state_entry(message, scribe)
        return scribe

    def _state_prompt(self, message: Message, parts: list[Part], scribe: Scribe) -> None:
        if any(part.type == "compaction" for part in parts):
            self.compacting = True
            automatic = any(part.auto for part in parts if part.type == "compaction")
            scribe.mark("compaction", {"trigger": "auto" if automatic else "manual"})
            return
        typed = [part.text for part in parts if is_typed(part)]
        synthetic = [part.text for part in parts if part.type == "text" and part.synthetic]
        tasks = [part.prompt for part in parts if part.type == "subtask"]
        text = "\n\n".join(filter(None, typed or tasks or synthetic))
        kind = "" if typed or tasks else "injected"
        scribe.message(
            id=message.id,
            role="user",
            text=text,
            typed=_unquoted(text) if not kind else None,
            kind=kind,
            mode=message.agent or "",
            withdrawn=self.reverted,
            edition=self.edition,
            attachments=tuple(_attached(part) for part in parts if part.type == "file"),
            extra={"context": synthetic} if typed and synthetic else None,
        )
        if not kind and text:
            scribe.note("title", title_of(_unquoted(text)), Rank.GUESS)

    def _state_answer(self, message: Message, parts: list[Part], scribe: Scribe) -> None:
        text, thinking = (
            "\n\n".join(part.text for part in parts if part.type == kind and part.text)
            for kind in ("text", "reasoning")
        )
        ended = message.time is not None and message.time.completed is not None
        summary = message.summary is True or (self.compacting and message.mode == "compaction")
        if summary:
            self.compacting = False
            scribe.message(id=message.id, role="user", text=text, kind="summary")
        else:
            error = _error_text(message.error)
            bare = bool(error) and not text and not any(part.type == "tool" for part in parts)
            scribe.message(
                id=message.id,
                role="assistant",
                text=error if bare else text,
                thinking=thinking,
                kind="error" if bare else "",
                model=message.modelID or "",
                stop=message.finish or "",
                status="" if ended or message.finish or bare else "interrupted",
                withdrawn=self.reverted,
                edition=self.edition,
                extra={"error": error} if error and not bare else None,
            )
            for part in parts:
                if part.type == "tool":
                    state_call(part, message.id, scribe)
                elif part.type == "patch":
                    scribe.mark("patch", {"files": part.files} if part.files else None)
                elif part.type not in _STEPS:
                    scribe.mark(part.type or "part")
        counts = message.tokens
        if counts is None or not (ended or counts.input or counts.output):
            return  # cut off: zeros are no counts
        cache = counts.cache or Cache()
        scribe.usage(
            on="call" if summary else "message",
            subject=message.id,
            model=message.modelID or "",
            prompt=all_input(counts.input, cache.read, cache.write),
            completion=all_input(counts.output, counts.reasoning),
            cached=cache.read,
            cache_write=cache.write,
            reasoning=counts.reasoning,
            cost_usd=message.cost or None,
        )


def _state_entry(entry: Message, scribe: Scribe) -> None:
    """What is no message, of 2.x."""
    kind = entry.role
    if kind == "compaction":
        scribe.mark("compaction", {"trigger": entry.reason} if entry.reason else None)
        text = entry.summary if isinstance(entry.summary, str) else ""
        scribe.message(id=entry.id, role="user", text=text, kind="summary")
    elif kind == "shell":
        scribe.shell(entry.id, entry.command or "", entry.output or "")
    elif kind == "system":
        scribe.message(id=entry.id, role="system", text=entry.text or "")
    elif kind == "model-switched" and entry.modelID:
        scribe.note("model", entry.modelID, on="following")
    else:
        scribe.mark(kind)


def state_call(part: Part, message: str, scribe: Scribe) -> None:
    state = part.state or State()
    arguments = bytes(state.input).decode("utf-8", "replace")
    name = part.tool or part.name
    unknown = False
    if name == "invalid":
        # A tool that does not exist: {"tool":"invalid","input":{"tool":"foo"}}.
        asked = field_of(value_of(state.input), "tool")
        unknown = isinstance(asked, str)
        name = asked if unknown else name
    call = part.callID or part.id
    took = state.time or Time()
    scribe.call(
        id=call,
        message=message,
        name=name,
        arguments=arguments if arguments != "null" else "",
        files=touched(_TOUCHES, name, arguments, "filePath"),
        time=parse_time(took.start) or scribe.time,
    )
    metadata = _metadata(state.metadata)
    child = metadata.get("sessionId") or metadata.get("sessionID")
    if isinstance(child, str):
        scribe.note("child_id", child, on="call", subject=call)
    if state.status not in ("completed", "error"):
        return
    error = _error_text(state.error)
    text = state.output
    if text is None and state.content is not None:
        text = "\n".join(str(item.get("text") or "") for item in state.content)
    failed = state.status == "error" or unknown or metadata.get("exit") not in (None, 0)
    details = {key: value for key, value in metadata.items() if value is not None and value != text}
    if took.compacted:  # later calls of the model were given less; the text is still here
        details["pruned"] = True
    scribe.returned(
        call=call,
        name=name,
        text=text if text is not None else error,
        failed=failed,
        status="denied" if error.startswith(_DENIED) else "",
        details=details or None,
        time=parse_time(took.end) or scribe.time,
    )


def _metadata(raw: Raw) -> dict[str, Any]:
    """What a tool tells of its run beside the output."""
    try:
        fields = _decode_fields(raw or b"null") or {}
    except UNREADABLE:  # no object
        return {}
    return {
        name: value_of(value) for name, value in fields.items() if name not in ("output", "preview")
    }


def value_of(text: Any) -> Any:
    """A JSON column or field, mended where it is odd; nothing where it cannot be read."""
    data = text.encode() if isinstance(text, str) else bytes(text or b"")
    try:
        return _decode(data)
    except UNREADABLE:
        return next(iter(read_json(data, recover=True).values), None)


def typed(shape: Shape[StructType], text: Any) -> StructType:
    """A JSON column or file in its struct: straight, or field by field where it is odd."""
    if isinstance(text, str | bytes) and len(text) < LONGEST_BYTES // 4:
        try:
            return shape.decode(text)
        except UNREADABLE:
            pass
    return shape.convert(value_of(text))


def is_typed(part: Part) -> bool:
    return part.type == "text" and not part.synthetic and not part.ignored and bool(part.text)


def _unquoted(text: str) -> str:
    """`opencode run hello you` keeps the words of the command line in quotes."""
    if len(text) > 2 and text[0] == text[-1] == '"' and " " in text:
        return text[1:-1].replace('\\"', '"')
    return text


def _attached(part: Part) -> Attachment:
    url = part.url or ""
    path = url.removeprefix("file://") if url.startswith("file://") else ""
    return Attachment(
        kind="file",
        name=part.filename or "",
        path=path,
        uri="" if path or url.startswith("data:") else url,
        media_type=part.mime or "",
    )


def _error_text(error: Any) -> str:
    # {"name":"APIError","data":{"message":"403 Forbidden"}}
    if isinstance(error, dict):
        data = error.get("data")
        inner = data.get("message") if isinstance(data, dict) else error.get("message")
        return inner if isinstance(inner, str) else str(error.get("name") or "")
    return error if isinstance(error, str) else ""
