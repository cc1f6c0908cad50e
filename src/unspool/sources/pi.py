"""Pi (`pi-coding-agent`): session files, and what `pi --mode json` prints.

A session is one file of entries that hang in a tree (`id`, `parentId`); its first line is the header:

    {"type":"session","version":3,"id":"01a1…","cwd":"/work/shop","parentSession":"…_00ff….jsonl"}
    {"type":"message","id":"6a5b7e99","parentId":"a95a7da7","message":{"role":"user","content":[…]}}

A fork is a new file that begins with copies of the old one's entries, under the same ids. The printed
stream has the same header and the same messages without their ids: a second copy of the session.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from unspool.facts import PREVIOUS, ROOT, AnyFact, Attachment, Problem, Rank
from unspool.io.door import iter_json_lines
from unspool.io.origins import Head, Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.prompts.shapes import binary
from unspool.sources.scribe import Scribe, all_input, title_of, touched

NAME = "pi"
RANGES = False  # an answer is printed piece by piece

_FILE = re.compile(r"(?:^|[/\\])\d{4}-\d\d-\d\dT[\d-]+Z_([^/\\]+)\.jsonl")
_FILES = re.compile(r'(?:<file name="[^"\n]*">.*?</file>\n)+', re.DOTALL)
"""Files named on the command line (`pi @notes.txt "What is this?"`) stand before the words."""
_FILE_NAME = re.compile(r'<file name="([^"\n]*)">')
_OMITTED = re.compile(r"\n\n\[Image omitted: [^\n]*\]\Z")
"""What stands behind the words instead of a picture that was too large."""
_TOUCHES = {"read": "read", "edit": "edit", "write": "create"}
_STATUS = {"aborted": "interrupted", "pending": "interrupted", "error": "failed"}
_MARKS = ("thinking_level_change", "context_edit", "label", "custom")
"""Entries between messages that are kept as they are."""
_BASE = ("type", "id", "parentId", "timestamp")
_PRINTED = re.compile("(?:agent|turn|message|tool_execution|queue|compaction|auto_retry|entry)_")
"""Events of the printed stream beside `message_end`: they repeat what it tells."""


class Block(msgspec.Struct, gc=False):
    """One part of a message's content."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    data: str = ""
    mimeType: str = ""
    id: str = ""
    name: str = ""
    arguments: Raw = Raw(b"")


class Usage(msgspec.Struct, gc=False):
    """`input` leaves out what came from the cache; `output` holds the reasoning."""

    input: int | None = None
    output: int | None = None
    cacheRead: int | None = None
    cacheWrite: int | None = None
    reasoning: int | None = None
    cost: dict[str, float] | None = None


class Message(msgspec.Struct, gc=False):
    role: str = ""
    content: str | list[Block] | None = None
    timestamp: int | float | None = None
    model: str = ""
    responseModel: str | None = None
    responseId: str | None = None
    usage: Usage | None = None
    stopReason: str | None = None
    errorMessage: str | None = None
    toolCallId: str = ""
    toolName: str = ""
    isError: bool | None = None
    details: Any = None
    sections: dict[str, str | None] | None = None
    toolsAdded: list[dict[str, Any]] | None = None
    command: str = ""
    output: str = ""
    exitCode: int | None = None
    cancelled: bool | None = None
    customType: str | None = None


class Piece(msgspec.Struct, gc=False):
    """A piece of an answer that is being printed."""

    type: str = ""
    delta: str = ""


class Entry(msgspec.Struct, gc=False):
    """A line of a session file or of the printed stream."""

    type: str = ""
    id: str = ""
    parentId: str | None = None
    timestamp: str | None = None
    message: Message | None = None
    assistantMessageEvent: Piece | None = None
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
    session = session_of(origin.path) or ""
    answer, begun = Message(), Scribe((NAME, session), origin.path, 0)
    for line in iter_json_lines(origin, _ENTRY, tally, recover):
        if isinstance(line, Problem):
            yield line
            continue
        offset, data, entry = line
        kind, message = entry.type, entry.message or Message()
        session = entry.id if kind == "session" else session
        # Only entries hang in the tree; those of format 1 have no ids and follow one another.
        in_tree = bool(entry.id) and kind != "session"
        scribe = Scribe(
            (NAME, session),
            origin.path,
            offset,
            time=parse_time(entry.timestamp or message.timestamp),
            entry=entry.id if in_tree else "",
            after=(entry.parentId or ROOT) if in_tree else PREVIOUS,
            rank=Rank.COPY if kind.startswith("message_") else Rank.ITSELF,
        )
        if kind in ("message", "message_end"):
            answer = Message()
            _read_message(message, scribe)
        elif kind == "message_start":
            answer, begun = message if message.role == "assistant" else Message(), scribe
            tally.noise += 1
        elif _PRINTED.match(kind):
            if kind == "message_update" and entry.assistantMessageEvent is not None:
                _go_on(answer, entry.assistantMessageEvent)
            tally.noise += 1
        elif not _read_entry(entry, scribe):
            if kind not in _MARKS:
                tally.unrecognise(kind or "no type", origin.path, offset)
            fields = msgspec.json.decode(data) if data.startswith(b"{") else {}
            scribe.mark(kind or "entry", {n: v for n, v in fields.items() if n not in _BASE})
        yield from scribe.facts
    if answer.content:  # Pi was killed in the middle of it, and keeps no other trace (case killed)
        tally.noise -= 1
        _read_answer(answer, begun)
        yield from begun.facts


def _go_on(answer: Message, piece: Piece) -> None:
    # {"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"I lo"}}
    kind = piece.type.removesuffix("_delta")
    if answer.role and kind in ("text", "thinking"):
        blocks = answer.content if isinstance(answer.content, list) else []
        block = blocks[-1] if blocks and blocks[-1].type == kind else Block(type=kind)
        setattr(block, kind, getattr(block, kind) + piece.delta)
        answer.content = [*(other for other in blocks if other is not block), block]
        answer.usage = None  # zeros until it ends


def _read_entry(entry: Entry, scribe: Scribe) -> bool:
    """Whether it is known what the entry states."""
    if entry.type == "session":
        scribe.note("agent", NAME)
        if entry.cwd:
            scribe.note("workspace.path", entry.cwd)
        parent = session_of(entry.parentSession or "")
        if parent:
            scribe.note("parent", {"conversation_id": parent, "kind": "fork"})
    elif entry.type == "compaction":
        # {"type":"compaction","id":"94bf","parentId":"c6c3","summary":"…","firstKeptEntryId":"fc78"}:
        # the model goes on with the summary and the entries from fc78 to c6c3 (case compaction).
        data: dict[str, Any] = {"tokens_before": entry.tokensBefore}
        if entry.firstKeptEntryId not in (None, entry.id):
            data |= {"preserved_from": entry.firstKeptEntryId, "preserved_to": entry.parentId}
        scribe.mark(
            "compaction", {name: value for name, value in data.items() if value is not None}
        )
        scribe.message(id=entry.id, role="user", text=entry.summary, kind="summary")
        _report(entry.usage, scribe)
    elif entry.type == "branch_summary":
        _read_injected(entry.summary, entry.type, scribe)
        _report(entry.usage, scribe)
    elif entry.type == "custom_message":
        _read_injected(entry.content, entry.customType or "", scribe)
    elif entry.type == "model_change":
        scribe.note("model", entry.modelId, on="following")
    elif entry.type == "session_info":
        scribe.note("title", entry.name)
    elif entry.type == "usage":
        _report(entry.usage, scribe, model=entry.model)
    else:
        return False
    return True


def _read_message(message: Message, scribe: Scribe) -> None:
    text, attachments = _text(message.content), _images(message.content)
    if message.role == "user":
        # Prompts have no id in the stream, but the same moment in milliseconds in both.
        ident = f"user-{message.timestamp}" if message.timestamp else scribe.entry
        files = _FILES.match(text)
        typed = _OMITTED.sub("", text[files.end() :] if files else text)
        named = _FILE_NAME.findall(files[0]) if files else []
        attachments += tuple(Attachment(kind="file", path=path) for path in named)
        scribe.message(id=ident, role="user", text=text, typed=typed, attachments=attachments)
        if typed:
            scribe.note("title", title_of(typed), Rank.GUESS)
    elif message.role == "assistant":
        _read_answer(message, scribe)
    elif message.role == "toolResult":
        scribe.returned(
            call=message.toolCallId,
            name=message.toolName,
            text=text,
            failed=bool(message.isError),
            details=message.details or None,
            attachments=attachments,
        )
        _report(message.usage, scribe)
    elif message.role == "system":
        # {"role":"system","content":"","sections":{"preamble":"…","tools":"…"},"toolsAdded":[…]}
        sections = filter(None, [text, *(message.sections or {}).values()])
        scribe.message(id=scribe.entry, role="system", text="\n\n".join(sections))
        if message.toolsAdded:
            scribe.note("tool_definitions", message.toolsAdded)
    elif message.role == "bashExecution":  # a command that the person ran
        ident, arguments = scribe.entry, msgspec.json.encode({"command": message.command}).decode()
        scribe.message(id=ident, role="user", text=message.command, kind="shell")
        scribe.call(id=ident, message=ident, name="bash", arguments=arguments, by_user=True)
        status = "cancelled" if message.cancelled else ""
        failed = message.exitCode not in (0, None)
        scribe.returned(call=ident, text=message.output, failed=failed, status=status)
    else:
        _read_injected(message.content, message.customType or message.role, scribe)


def _read_answer(message: Message, scribe: Scribe) -> None:
    # An answer has the same response id in the session file and in the printed stream.
    ident, stop = message.responseId or scribe.entry, message.stopReason or ""
    blocks = message.content if isinstance(message.content, list) else []
    calls = [block for block in blocks if block.type == "toolCall"]
    text, error = _text(message.content), message.errorMessage or ""
    bare = stop == "error" and not text and not calls
    scribe.message(
        id=ident,
        role="assistant",
        text=error if bare else text,
        thinking="\n\n".join(block.thinking for block in blocks if block.thinking),
        kind="error" if bare else "",
        model=message.responseModel or message.model,
        stop=stop,
        status=_STATUS.get(stop, ""),
        extra={"error": error} if error and not bare else None,
    )
    for block in calls:
        arguments = bytes(block.arguments).decode("utf-8", "replace")
        scribe.call(
            id=block.id,
            message=ident,
            name=block.name,
            arguments=arguments,
            files=touched(_TOUCHES, block.name, arguments, "path"),
        )
    _report(message.usage, scribe, on="message", subject=ident)


def _read_injected(content: str | list[Block] | None, by: str, scribe: Scribe) -> None:
    scribe.message(
        id=scribe.entry,
        role="user",
        text=_text(content),
        kind="injected",
        attachments=_images(content),
        extra={"injected_by": by},
    )


def _text(content: str | list[Block] | None) -> str:
    if not isinstance(content, list):
        return content or ""
    return "\n\n".join(block.text for block in content if block.type == "text" and block.text)


def _images(content: str | list[Block] | None) -> tuple[Attachment, ...]:
    blocks = content if isinstance(content, list) else []
    return tuple(binary("image", b.data, b.mimeType) for b in blocks if b.type == "image")


def _report(usage: Usage | None, scribe: Scribe, **fields: Any) -> None:
    """Tokens of an answer, or of a model call beside the answers (a summary, a warmed cache)."""
    if usage is not None:
        scribe.usage(
            **{"on": "call", "subject": scribe.entry, **fields},
            prompt=all_input(usage.input, usage.cacheRead, usage.cacheWrite),
            completion=usage.output,
            cached=usage.cacheRead,
            cache_write=usage.cacheWrite,
            reasoning=usage.reasoning,
            cost_usd=(usage.cost or {}).get("total"),
        )
