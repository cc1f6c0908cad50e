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

from unspool.facts import PREVIOUS, ROOT, AnyFact, Attachment, Rank
from unspool.io.door import iter_json_lines
from unspool.io.origins import Head, Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.sources.blocks import Block, Content, images_of, tell_answer, text_of
from unspool.sources.scribe import Scribe, all_input, chosen, title_of

NAME = "pi"
RANGES = False  # an answer is printed piece by piece

_FILE = re.compile(r"(?:^|[/\\])\d{4}-\d\d-\d\dT[\d-]+Z_([^/\\]+)\.jsonl")
_NAMED = re.compile(r'<file name="([^"\n]*)">.*?</file>\n', re.DOTALL)
"""Files named on the command line (`pi @notes.txt "What is this?"`) stand before the words."""
_OMITTED = re.compile(r"\n\n\[Image omitted: [^\n]*\]\Z")
"""What stands behind the words instead of a picture that was too large."""
_TOUCHES = {"read": "read", "edit": "edit", "write": "create"}
_STATUS = {"aborted": "interrupted", "pending": "interrupted", "error": "failed"}
_SAID = ("message", "message_end", "custom_message", "branch_summary")
"""Entries and printed events that hold a message, or are one."""
_REPEATS = re.compile("(?:agent|turn|message|tool_execution|queue|compaction|auto_retry|entry)_")
"""Events of the printed stream beside `message_end`: they repeat what it tells."""
_MARKS = ("thinking_level_change", "context_edit", "label", "custom")
"""Entries between messages that are kept as they are."""
_BASE = ("type", "id", "parentId", "timestamp")


class Usage(msgspec.Struct, gc=False):
    """`input` leaves out what came from the cache; `output` holds the reasoning."""

    input: int | None = None
    output: int | None = None
    cacheRead: int | None = None
    cacheWrite: int | None = None
    reasoning: int | None = None
    cost: dict[str, float] | None = None


class Entry(msgspec.Struct, gc=False):
    """A line of a session file or of the printed stream. It holds a message, or is one itself."""

    type: str = ""
    id: str = ""
    parentId: str | None = None
    timestamp: str | int | float | None = None
    message: "Entry | None" = None
    assistantMessageEvent: Block | None = None
    # of messages
    role: str = ""
    content: Content = None
    model: str = ""
    responseModel: str | None = None
    responseId: str | None = None
    usage: Usage | None = None
    stopReason: str = ""
    errorMessage: str | None = None
    toolCallId: str = ""
    toolName: str = ""
    isError: bool = False
    details: Any = None
    sections: dict[str, str | None] = {}
    toolsAdded: list[dict[str, Any]] = []
    command: str = ""
    output: str = ""
    exitCode: int | None = None
    cancelled: bool = False
    customType: str | None = None
    # of other entries
    cwd: str | None = None
    parentSession: str = ""
    modelId: str | None = None
    summary: str = ""
    firstKeptEntryId: str | None = None
    tokensBefore: int | None = None
    name: str | None = None


_ENTRY = Shape(Entry)


def claims(head: Head) -> bool:
    """The first line is a session's header."""
    first = head.objects[0] if head.objects else {}
    return first.get("type") == "session" and "cwd" in first and isinstance(first.get("id"), str)


def places(home: Path, env: Mapping[str, str], platform: str) -> list[Path]:
    folder = env.get("PI_CODING_AGENT_SESSION_DIR")
    root = Path(env.get("PI_CODING_AGENT_DIR") or home / ".pi/agent")
    return [Path(folder) if folder else root / "sessions"]


def session_of(path: str) -> str | None:
    """The session that a file is of: its name ends in the session's id."""
    named = _FILE.search(path)
    return named[1] if named else None


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    session = session_of(origin.path) or ""
    said, thought = Block("text"), Block("thinking")  # what was printed of an answer so far
    for offset, data, entry in iter_json_lines(origin, _ENTRY, tally, recover):
        kind, message = entry.type, entry.message or entry
        session = entry.id if kind == "session" else session
        time = parse_time(entry.timestamp or message.timestamp)
        # Only entries hang in the tree; those of format 1 have no ids and follow one another.
        in_tree = bool(entry.id) and kind != "session"
        ident, after = (entry.id, entry.parentId or ROOT) if in_tree else ("", PREVIOUS)
        rank = Rank.COPY if kind.startswith("message_") else Rank.ITSELF
        scribe = Scribe((NAME, session), origin.path, offset, time, ident, after, rank)
        if kind in ("message_start", "message_end"):
            answer, begun, said, thought = message, scribe, Block("text"), Block("thinking")
        elif (piece := entry.assistantMessageEvent) is not None:
            said.text += piece.delta if piece.type == "text_delta" else ""
            thought.thinking += piece.delta if piece.type == "thinking_delta" else ""
        if kind in _SAID:
            _read_message(message, scribe)
        elif _REPEATS.match(kind):
            tally.noise += 1
            continue
        elif not _read_entry(entry, scribe):
            if kind not in _MARKS:
                tally.unrecognise(kind or "no type", origin.path, offset)
            fields = msgspec.json.decode(data)
            scribe.mark(kind or "entry", {n: v for n, v in fields.items() if n not in _BASE})
        _report(message, scribe)
        yield from scribe.facts
    if said.text or thought.thinking:
        # Pi was killed in the middle, and keeps no other trace (case killed).
        tally.noise -= 1
        answer.content = [thought, said]
        _read_message(answer, begun)
        yield from begun.facts


def _read_entry(entry: Entry, scribe: Scribe) -> bool:
    """Whether it is known what the entry states."""
    if entry.type == "session":
        scribe.notes({"agent": NAME, "workspace.path": entry.cwd})
        if parent := session_of(entry.parentSession):
            scribe.parent(parent, "fork")
    elif entry.type == "compaction":
        # {"type":"compaction","id":"94bf","parentId":"c6c3","summary":"…","firstKeptEntryId":"fc78"}:
        # the model goes on with the summary and the entries from fc78 to c6c3 (case compaction).
        data: dict[str, Any] = {"tokens_before": entry.tokensBefore}
        if entry.firstKeptEntryId != entry.id:
            data |= {"preserved_from": entry.firstKeptEntryId, "preserved_to": entry.parentId}
        scribe.mark("compaction", chosen(data, data))
        scribe.message(id=entry.id, role="user", text=entry.summary, kind="summary")
    elif entry.type == "model_change":
        scribe.note("model", entry.modelId, on="following")
    elif entry.type == "session_info":
        scribe.note("title", entry.name)
    elif entry.type != "usage":
        return False
    return True


def _read_message(message: Entry, scribe: Scribe) -> None:
    text, attachments = text_of(message.content), images_of(message.content)
    if message.role == "user":
        # Prompts have no id in the stream, but the same moment in milliseconds in both.
        ident = f"user-{message.timestamp}" if message.timestamp else scribe.entry
        words = text
        while named := _NAMED.match(words):
            attachments += (Attachment(kind="file", path=named[1]),)
            words = words[named.end() :]
        typed = _OMITTED.sub("", words)
        scribe.message(id=ident, role="user", text=text, typed=typed, attachments=attachments)
        scribe.notes({"title": title_of(typed)}, Rank.GUESS)
    elif message.role == "assistant":
        # An answer has the same response id in the session file and in the printed stream.
        stop, model = message.stopReason, message.responseModel or message.model
        fields: dict[str, Any] = {"stop": stop, "status": _STATUS.get(stop, "")}
        if stop == "error" and not message.content:
            fields |= {"text": message.errorMessage or "", "kind": "error"}
        elif message.errorMessage:
            fields["extra"] = {"error": message.errorMessage}
        ident = message.responseId or scribe.entry
        tell_answer(message.content, ident, scribe, _TOUCHES, model=model, **fields)
    elif message.role == "toolResult":
        scribe.returned(
            call=message.toolCallId,
            name=message.toolName,
            text=text,
            failed=message.isError,
            details=message.details or None,
            attachments=attachments,
        )
    elif message.role == "system":
        # {"role":"system","content":"","sections":{"preamble":"…","tools":"…"},"toolsAdded":[…]}
        sections = filter(None, [text, *message.sections.values()])
        scribe.message(id=scribe.entry, role="system", text="\n\n".join(sections))
        scribe.notes({"tool_definitions": message.toolsAdded})
    elif message.role == "bashExecution":  # a command that the person ran
        failed, status = bool(message.exitCode), "cancelled" if message.cancelled else ""
        scribe.shell(scribe.entry, message.command, message.output, failed, status)
    else:  # by an extension, or what is left of another branch
        by = message.customType or message.role or "branch_summary"
        scribe.message(
            id=scribe.entry,
            role="user",
            text=text or message.summary,
            kind="injected",
            attachments=attachments,
            extra={"injected_by": by},
        )


def _report(told: Entry, scribe: Scribe) -> None:
    """Tokens of an answer, or of a model call beside the answers (a summary, a warmed cache)."""
    if (usage := told.usage) is not None:
        scribe.usage(
            on="message" if told.role == "assistant" else "call",
            subject=told.responseId or scribe.entry,
            model=told.model,
            prompt=all_input(usage.input, usage.cacheRead, usage.cacheWrite),
            completion=usage.output,
            cached=usage.cacheRead,
            cache_write=usage.cacheWrite,
            reasoning=usage.reasoning,
            cost_usd=(usage.cost or {}).get("total"),
        )
