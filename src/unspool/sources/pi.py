"""Pi (`pi-coding-agent`): session files, and what `pi --mode json` prints.

A session is one file of entries that hang in a tree (`id`, `parentId`); its first line is the header:

    {"type":"session","version":3,"id":"01a1…","cwd":"/work/shop","parentSession":"…_00ff….jsonl"}
    {"type":"message","id":"6a5b7e99","parentId":"a95a7da7","message":{"role":"user","content":[…]}}

A fork is a new file that begins with copies of the old one's entries, under the same ids. The printed
stream has the same header and the same messages without their ids: a second copy of the session.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Raw

from unspool.facts import PREVIOUS, ROOT, AnyFact, Attachment, Problem, Rank
from unspool.io.door import iter_json_lines
from unspool.io.origins import Head, Origin, Tally, read_head
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.prompts.shapes import binary
from unspool.sources.scribe import Scribe, all_input, title_of, touched

NAME = "pi"
RANGES = True

_FILE = re.compile(r"(?:^|[/\\])\d{4}-\d\d-\d\dT[\d-]+Z_([^/\\]+)\.jsonl")
_FILES = re.compile(r'(?:<file name="[^"\n]*">.*?</file>\n)+', re.DOTALL)
"""Files named on the command line (`pi @notes.txt "What is this?"`) stand before the words."""
_FILE_NAME = re.compile(r'<file name="([^"\n]*)">')
_TOUCHES = {"read": "read", "edit": "edit", "write": "create"}


class Block(msgspec.Struct, gc=False):
    """One part of a message's content."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    redacted: bool | None = None
    data: str = ""
    mimeType: str = ""
    id: str = ""
    name: str = ""
    arguments: Raw = Raw(b"")


class Cost(msgspec.Struct, gc=False):
    total: float | None = None


class Usage(msgspec.Struct, gc=False):
    """`input` leaves out what came from the cache; `output` holds the reasoning."""

    input: int | None = None
    output: int | None = None
    cacheRead: int | None = None
    cacheWrite: int | None = None
    reasoning: int | None = None
    cost: Cost | None = None


class Message(msgspec.Struct, gc=False):
    role: str = ""
    content: str | list[Block] | None = None
    timestamp: int | float | None = None
    # assistant
    model: str = ""
    responseModel: str | None = None
    responseId: str | None = None
    usage: Usage | None = None
    stopReason: str | None = None
    errorMessage: str | None = None
    # toolResult
    toolCallId: str = ""
    toolName: str = ""
    isError: bool | None = None
    details: Any = None
    # system
    sections: dict[str, str | None] | None = None
    toolsAdded: list[dict[str, Any]] | None = None
    # bashExecution: a command that the person ran
    command: str = ""
    output: str = ""
    exitCode: int | None = None
    cancelled: bool | None = None
    # custom: put there by an extension
    customType: str | None = None


class Entry(msgspec.Struct, gc=False):
    """A line of a session file or of the printed stream."""

    type: str = ""
    id: str = ""
    parentId: str | None = None
    timestamp: str | None = None
    message: Message | None = None
    cwd: str | None = None
    parentSession: str | None = None
    modelId: str | None = None
    model: str = ""
    usage: Usage | None = None
    summary: str = ""
    firstKeptEntryId: str | None = None
    tokensBefore: int | None = None
    name: str | None = None
    customType: str | None = None
    content: str | list[Block] | None = None


_ENTRY = Shape(Entry)


def claims(head: Head) -> bool:
    """The first line is a session's header."""
    first = head.objects[0] if head.objects else {}
    return first.get("type") == "session" and "cwd" in first and isinstance(first.get("id"), str)


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    folder = env.get("PI_CODING_AGENT_SESSION_DIR")
    root = env.get("PI_CODING_AGENT_DIR")
    return [Path(folder) if folder else (Path(root) if root else home / ".pi/agent") / "sessions"]


def session_of(path: str) -> str | None:
    """The session that a file is of: its name ends in the session's id."""
    named = _FILE.search(path)
    return named[1] if named else None


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    # A byte range of the file does not hold the header, which alone names the session.
    first = read_head(origin.path).objects[:1]
    session = str(first[0].get("id") or "") if first else session_of(origin.path) or ""
    for line in iter_json_lines(origin, _ENTRY, tally, recover):
        if isinstance(line, Problem):
            yield line
            continue
        offset, data, entry = line
        if entry.type in _STREAM_NOISE:
            tally.noise += 1
            continue
        printed = entry.type == "message_end"
        time = entry.message.timestamp if printed and entry.message else entry.timestamp
        # Only entries hang in the tree; those of format 1 have no ids and follow one another.
        in_tree = bool(entry.id) and entry.type != "session"
        scribe = Scribe(
            (NAME, session),
            origin.path,
            offset,
            time=parse_time(time),
            entry=entry.id,
            after=(entry.parentId or ROOT) if in_tree else PREVIOUS,
            rank=Rank.COPY if printed else Rank.ITSELF,
        )
        reader = _READERS.get(entry.type)
        if reader is not None:
            reader(entry, scribe)
        else:
            if entry.type not in _MARKS:
                tally.unrecognise(entry.type or "no type", origin.path, offset)
            fields = msgspec.json.decode(data) if data.startswith(b"{") else {}
            rest = {name: value for name, value in fields.items() if name not in _BASE}
            scribe.mark(entry.type or "entry", rest)
        yield from scribe.facts


def _read_header(entry: Entry, scribe: Scribe) -> None:
    scribe.note("agent", NAME)
    if entry.cwd:
        scribe.note("workspace.path", entry.cwd)
    parent = session_of(entry.parentSession) if entry.parentSession else None
    if parent:
        scribe.note("parent", {"conversation_id": parent, "kind": "fork"})


def _read_message(entry: Entry, scribe: Scribe) -> None:
    message = entry.message or Message()
    text, thinking, calls, attachments = _parts(message.content)
    if message.role == "user":
        # Prompts have no id in the stream, but the same moment in milliseconds in both.
        ident = f"user-{message.timestamp}" if message.timestamp else entry.id
        files = _FILES.match(text)
        typed = text[files.end() :] if files else text
        named = _FILE_NAME.findall(files[0]) if files else []
        attachments += tuple(Attachment(kind="file", path=path) for path in named)
        scribe.message(id=ident, role="user", text=text, typed=typed, attachments=attachments)
        if typed:
            scribe.note("title", title_of(typed), Rank.GUESS)
    elif message.role == "assistant":
        _read_answer(message, entry, scribe, text, thinking, calls)
    elif message.role == "toolResult":
        scribe.returned(
            call=message.toolCallId,
            name=message.toolName,
            text=text,
            failed=bool(message.isError),
            details=message.details or None,
            attachments=attachments,
        )
        _report(message.usage, scribe, entry.id)
    elif message.role == "system":
        # {"role":"system","content":"","sections":{"preamble":"…","tools":"…"},"toolsAdded":[…]}
        sections = [part for part in (message.sections or {}).values() if part]
        scribe.message(
            id=entry.id, role="system", text="\n\n".join(filter(None, [text, *sections]))
        )
        if message.toolsAdded:
            scribe.note("tool_definitions", message.toolsAdded)
    elif message.role == "bashExecution":
        arguments = msgspec.json.encode({"command": message.command}).decode()
        scribe.message(id=entry.id, role="user", text=message.command, kind="shell")
        scribe.call(id=entry.id, message=entry.id, name="bash", arguments=arguments, by_user=True)
        status = "cancelled" if message.cancelled else ""
        failed = message.exitCode not in (0, None)
        scribe.returned(call=entry.id, text=message.output, failed=failed, status=status)
    else:
        _read_injected(text, message.customType or message.role, scribe, attachments)


def _read_answer(
    message: Message, entry: Entry, scribe: Scribe, text: str, thinking: str, calls: list[Block]
) -> None:
    # An answer has the same response id in the session file and in the printed stream.
    ident = message.responseId or entry.id
    failed = message.stopReason == "error"
    bare = failed and not text and not calls
    scribe.message(
        id=ident,
        role="assistant",
        text=message.errorMessage or "" if bare else text,
        thinking=thinking,
        kind="error" if bare else "",
        model=message.responseModel or message.model,
        stop=message.stopReason or "",
        status="interrupted" if message.stopReason == "aborted" else "failed" if failed else "",
        extra={"error": message.errorMessage} if message.errorMessage and not bare else None,
    )
    for block in calls:
        arguments = bytes(block.arguments)
        scribe.call(
            id=block.id,
            message=ident,
            name=block.name,
            arguments=arguments.decode("utf-8", "replace"),
            files=touched(_TOUCHES, block.name, arguments, "path"),
        )
    _report(message.usage, scribe, ident, "message")


def _read_injected(
    text: str, origin: str, scribe: Scribe, attachments: tuple[Attachment, ...] = ()
) -> None:
    scribe.message(
        id=scribe.entry,
        role="user",
        text=text,
        kind="injected",
        attachments=attachments,
        extra={"injected_by": origin},
    )


def _read_compaction(entry: Entry, scribe: Scribe) -> None:
    # {"type":"compaction","id":"94bf","parentId":"c6c3","summary":"…","firstKeptEntryId":"fc78"}:
    # the model goes on with the summary and the entries from fc78 to c6c3 (case compaction).
    data: dict[str, Any] = {"tokens_before": entry.tokensBefore}
    if entry.firstKeptEntryId not in (None, entry.id):
        data |= {"preserved_from": entry.firstKeptEntryId, "preserved_to": entry.parentId}
    known = {name: value for name, value in data.items() if value is not None}
    scribe.mark("compaction", known)
    scribe.message(id=entry.id, role="user", text=entry.summary, kind="summary")
    _report(entry.usage, scribe, entry.id)


def _read_branch_summary(entry: Entry, scribe: Scribe) -> None:
    _read_injected(entry.summary, entry.type, scribe)
    _report(entry.usage, scribe, entry.id)


def _read_custom_message(entry: Entry, scribe: Scribe) -> None:
    text, _, _, attachments = _parts(entry.content)
    _read_injected(text, entry.customType or "", scribe, attachments)


_READERS: dict[str, Callable[[Entry, Scribe], None]] = {
    "session": _read_header,
    "message": _read_message,
    "message_end": _read_message,
    "compaction": _read_compaction,
    "branch_summary": _read_branch_summary,
    "custom_message": _read_custom_message,
    "model_change": lambda entry, scribe: scribe.note("model", entry.modelId, on="following"),
    "usage": lambda entry, scribe: _report(entry.usage, scribe, entry.id, model=entry.model),
    "session_info": lambda entry, scribe: scribe.note("title", entry.name),
}
_MARKS = frozenset(("thinking_level_change", "context_edit", "label", "custom"))
"""Entries between messages that are kept as they are."""
_BASE = frozenset(("type", "id", "parentId", "timestamp"))
_STREAM_NOISE = frozenset((
    "agent_start", "agent_end", "agent_settled", "entry_appended", "turn_start", "turn_end",
    "message_start",
    "message_update", "tool_execution_start", "tool_execution_update", "tool_execution_end",
    "queue_update", "compaction_start", "compaction_end", "auto_retry_start", "auto_retry_end",
))  # fmt: skip
"""Events of the printed stream that repeat what `message_end` tells."""


def _parts(
    content: str | list[Block] | None,
) -> tuple[str, str, list[Block], tuple[Attachment, ...]]:
    """Words, reasoning, calls and images of a message."""
    if not isinstance(content, list):
        return content or "", "", [], ()
    text = "\n\n".join(block.text for block in content if block.type == "text" and block.text)
    thinking = "\n\n".join(block.thinking for block in content if block.thinking)
    calls = [block for block in content if block.type == "toolCall"]
    images = [block for block in content if block.type == "image"]
    return text, thinking, calls, tuple(binary("image", b.data, b.mimeType) for b in images)


def _report(
    usage: Usage | None,
    scribe: Scribe,
    subject: str,
    on: Literal["message", "call"] = "call",
    model: str = "",
) -> None:
    """Tokens of an answer, or of a model call beside the answers (a summary, a warmed cache)."""
    if usage is None:
        return
    scribe.usage(
        on=on,
        subject=subject,
        model=model,
        prompt=all_input(usage.input, usage.cacheRead, usage.cacheWrite),
        completion=usage.output,
        cached=usage.cacheRead,
        cache_write=usage.cacheWrite,
        reasoning=usage.reasoning,
        cost_usd=usage.cost.total if usage.cost else None,
    )
