"""Agent transcripts: what Cursor keeps of a conversation for the agent itself to read.

JSONL lines `{role, message: {content: […]}}`, or an older text form. Neither has ids, times, models
or tool results: the place of the file names the conversation.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import (
    AnyFact,
    Key,
    Marked,
    MessageSeen,
    Noted,
    Problem,
    ToolCalled,
    ToolReturned,
)
from unspool.io.compression import PACKED
from unspool.io.door import clean, read_json, sample
from unspool.io.origins import Head, Origin, Tally, iter_lines, open_origin
from unspool.prompts.shapes import arguments_text
from unspool.sources.cursor.entries import Entries, is_uuid, rank_of, sent_time, typed_words
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.tools import likeness, output_of, touches

RANK = 2
FOLDER = "agent-transcripts"
_TITLE = re.compile(r"(?:^|\n\n)(\*\*[A-Z][a-z]+ing\b[^*\n]*\*\*)\s*$")
"""A reasoning title behind the text (GPT models): all 45 of a real transcript begin so."""
REDACTED = "[REDACTED]"
_REDACTED_LAST = re.compile(r"(?:^|\n)\s*\[REDACTED\]\s*$")
"""Where reasoning was left out: alone, or behind the words of the same step."""


def claims(head: Head) -> bool:
    """In Cursor's folder, or lines with a role and a message but none of the ids of other agents."""
    if FOLDER in head.parts and head.name.endswith(".jsonl"):
        return True
    return any(_is_line(value) for value in head.objects[:20])


def _is_line(value: dict[str, object]) -> bool:
    message = value.get("message")
    return (
        value.get("role") in ("user", "assistant")
        and isinstance(message, dict)
        and isinstance(message.get("content"), list | str)
        and not value.keys() & {"type", "uuid", "sessionId", "session_id", "id"}
    )


def conversation(path: str) -> tuple[Key, str]:
    """The key that the file's place names, and its parent's id where it is a sub-agent's."""
    place = Path(path)
    name = place.name
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    stem = name.rpartition(".")[0] or name
    parent = place.parent.parent.name if place.parent.name == "subagents" else ""
    if FOLDER not in place.parts and not is_uuid(stem):
        # Any file may be called `session.jsonl`: its beginning tells it from the others.
        with open_origin(path) as file:
            stem = f"{stem}-{hashlib.sha256(file.readline().strip()).hexdigest()[:8]}"
    return ("cursor", stem), parent


def notes(origin: Origin, rank: int) -> Iterator[AnyFact]:
    """What the place of the file tells about the conversation."""
    key, parent = conversation(origin.path)
    told: dict[str, Any] = {"session_id": parent or key[1]}
    parts = Path(origin.path).parts
    if FOLDER in parts and parts.index(FOLDER) > 0:
        told["project_slug"] = parts[parts.index(FOLDER) - 1]
        told["workspace.path"] = trusted_folder(Path(*parts[: parts.index(FOLDER)]))
    if parent:
        told["parent"] = {"conversation_id": parent}
    for number, (name, value) in enumerate(told.items()):
        yield Noted(
            key=key, origin=origin.path, offset=0, number=90 + number, name=name, value=value,
            rank=rank_of(key, name, value, rank),
        )  # fmt: skip


def trusted_folder(project: Path) -> str | None:
    """The folder that a project's slug stands for, where the person was asked to trust it."""
    try:
        value = msgspec.json.decode((project / ".workspace-trusted").read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    path = value.get("workspacePath") if isinstance(value, dict) else None
    return clean_path(path) if isinstance(path, str) and path else None


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    transcript = Transcript(origin.path)
    yield from notes(origin, RANK)
    for offset, line in iter_lines(origin):
        tally.records += 1
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            found = read_json(line, recover)
            value = found.values[0] if len(found.values) == 1 else None
            if value is None or found.code not in ("", "invalid-utf8"):
                tally.problems += value is None or found.lost
                tally.records += value is not None and found.lost
                yield Problem(
                    key=transcript.key, origin=origin.path, offset=offset,
                    code=found.code or "invalid-json", sample=sample(line), number=99,
                )  # fmt: skip
                if value is None:
                    continue
        if not isinstance(value, dict):
            tally.unrecognise(type(value).__name__, origin.path, offset)
            continue
        yield from transcript.read(clean(value), offset, line, tally)


class Transcript:
    """One JSONL transcript."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.key = conversation(origin)[0]
        self._entries = Entries(f"transcript:{self.key[1]}")

    def read(
        self, value: dict[str, Any], offset: int, line: bytes, tally: Tally
    ) -> Iterator[AnyFact]:
        common: dict[str, Any] = {
            "key": self.key, "origin": self.origin, "offset": offset,
            "entry": self._entries.of(line),
        }  # fmt: skip
        message = value.get("message")
        if value.get("role") in ("user", "assistant") and isinstance(message, dict):
            made = list(read_message(common, value["role"], message.get("content"), RANK))
            if not made:
                tally.noise += 1  # A line that says nothing (seen: an empty text).
            yield from made
        elif "error" in value:
            text = value["error"] if isinstance(value["error"], str) else str(value["error"])
            yield MessageSeen(
                **common, id=common["entry"], role="assistant", kind="error", text=text, rank=RANK
            )
        elif value.get("type") == "turn_ended":
            yield Marked(**common, kind="turn_end", data={"status": value.get("status")}, rank=RANK)
        else:
            tally.unrecognise(str(value.get("type") or "no role"), self.origin, offset)


def read_message(common: dict[str, Any], role: str, content: Any, rank: int) -> Iterator[AnyFact]:
    """A message whose content is text or blocks; nothing where it says nothing."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    blocks = [part for part in parts if isinstance(part, dict)]
    text = "\n".join(
        part["text"]
        for part in blocks
        if part.get("type", "text") == "text" and isinstance(part.get("text"), str)
    ).strip()
    thinking = [_thought(part) for part in blocks if part.get("type") in ("thinking", "reasoning")]
    calls = [part for part in blocks if part.get("type") == "tool_use"]
    if role == "user":
        yield from _user(common, text, rank)
    else:
        text, titles, hidden = without_marks(text)
        said = "\n\n".join(t for t in (*thinking, titles) if t)
        if text or said or calls or hidden:
            yield answer(common, text, said, hidden, alone=not calls, rank=rank)
    for number, part in enumerate(calls):
        name, given = str(part.get("name") or ""), part.get("input")
        yield ToolCalled(
            **common, number=number, id=str(part.get("id") or ""), message=common["entry"],
            name=name, arguments=arguments_text(given), index=number, rank=rank,
            like=likeness(name, given), files=touches(name, given),
        )  # fmt: skip
    for number, part in enumerate(p for p in blocks if p.get("type") == "tool_result"):
        returned, details = output_of(part.get("content"))
        yield ToolReturned(
            **common, number=number, call=str(part.get("tool_use_id") or ""), text=returned,
            details=details, rank=rank,
        )  # fmt: skip


def _user(common: dict[str, Any], text: str, rank: int) -> Iterator[AnyFact]:
    typed = typed_words(text)
    if text and typed != "":
        yield MessageSeen(
            **common, id=common["entry"], role="user", text=text, typed=typed, rank=rank,
            time=sent_time(text),
        )  # fmt: skip


def _thought(part: dict[str, Any]) -> str:
    found = part.get("thinking", part.get("text"))
    return found.strip() if isinstance(found, str) else ""


def answer(
    common: dict[str, Any], text: str, thinking: str, hidden: bool, alone: bool, rank: int
) -> MessageSeen:
    """A step of the model; that its reasoning was left out is all that some say."""
    if hidden and alone and not text and not thinking:
        thinking, hidden = REDACTED, False
    return MessageSeen(
        **common, id=common["entry"], role="assistant", text=text, thinking=thinking, rank=rank,
        extra={"reasoning_encrypted": True} if hidden else None,
    )  # fmt: skip


def without_marks(text: str) -> tuple[str, str, bool]:
    """(the answer, the titles of the reasoning that the transcript put behind it, whether reasoning
    was left out there)."""
    titles: list[str] = []
    hidden = False
    while True:
        if match := _REDACTED_LAST.search(text):
            hidden = True
        elif match := _TITLE.search(text):
            titles.insert(0, match[1])
        else:
            return text, "\n\n".join(titles), hidden
        text = text[: match.start()].rstrip()
