"""Agent transcripts: what Cursor keeps of a conversation for the agent itself to read.

    projects/<slug>/agent-transcripts/<id>/<id>.jsonl
    {"role": "user", "message": {"content": [
        {"type": "text", "text": "<user_query>fix it</user_query>"}]}}

or an older text form, `user:` and `assistant:` with tools in square brackets. Neither has ids, times,
models or, as JSONL, tool results: the place of the file names the conversation.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, AnyStr

import msgspec

from unspool.facts import AnyFact, Key, Rank
from unspool.io.door import UNREADABLE, iter_json_lines
from unspool.io.origins import Head, Origin, Tally, open_origin, plain_name
from unspool.io.structs import Shape
from unspool.io.values import field_of
from unspool.sources.cursor.entries import (
    Entries,
    is_uuid,
    note_all,
    notifies,
    sent_time,
    typed_words,
)
from unspool.sources.cursor.paths import clean_path, is_absolute, parents_of
from unspool.sources.cursor.tools import called, decoded, output_of
from unspool.sources.scribe import Scribe

RANK = Rank.EXTRACT
FOLDER = "agent-transcripts"
_TITLE = re.compile(r"(?:^|\n\n)(\*\*[A-Z][a-z]+ing\b[^*\n]*\*\*)\s*$")
"""A reasoning title behind the text (GPT models): all 45 of a real transcript begin so."""
_REDACTED = "[REDACTED]"
_REDACTED_LAST = re.compile(r"(?:^|\n)\s*\[REDACTED\]\s*$")
"""Where reasoning was left out: alone, or behind the words of the same step."""
_SPEAKER = re.compile(rb"^(user|assistant):[ \t]*\r?$", re.MULTILINE)
_SECTION = re.compile(r"^\[(Thinking|Tool call|Tool result)\][ \t]?(.*)$", re.MULTILINE)
_FIELD = re.compile(r"^[ \t]+([A-Za-z_][\w.]*)[=:][ \t]?(.*)$")
_NOT_IN_SLUGS = re.compile(r"[^A-Za-z0-9]+")


class Part(msgspec.Struct):
    type: str | None = "text"
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None


class Message(msgspec.Struct):
    content: list[Part] | str | None = None


class Line(msgspec.Struct):
    role: str | None = None
    message: Message | None = None
    type: str | None = None
    status: Any = None
    error: Any = None

    @property
    def parts(self) -> list[Part]:
        content = self.message.content if self.message is not None else None
        return content if isinstance(content, list) else [Part(text=content)]


LINE = Shape(Line)


def claims(head: Head) -> bool:
    """In Cursor's folder, or lines with a role and a message but none of the ids of other agents; or
    text that begins with somebody speaking."""
    if head.name.endswith(".txt"):
        speakers = [match[1] for match in _SPEAKER.finditer(head.data)]
        if not speakers or _SPEAKER.match(head.data.lstrip(b"\xef\xbb\xbf \r\n")) is None:
            return False
        return FOLDER in head.parts or len(set(speakers)) == 2
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


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    transcript = Transcript(origin.path)
    if plain_name(origin.path).endswith(".txt"):
        yield from transcript.read_text(tally)
    else:
        for record in iter_json_lines(origin, LINE, tally, recover):
            yield from transcript.read_line(*record, tally)
    yield from transcript.notes()


def slug_of(path: str) -> str:
    """`/Users/me/my-app` is kept under `Users-me-my-app`."""
    return _NOT_IN_SLUGS.sub("-", path).strip("-").lower()


class Transcript:
    """One transcript, of either form."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        place = Path(origin)
        self.parent = place.parent.parent.name if place.parent.name == "subagents" else ""
        """The conversation that started this one, where it is a sub-agent's."""
        name = plain_name(origin)
        stem = name.rpartition(".")[0] or name
        if FOLDER not in place.parts and not is_uuid(stem):
            # Any file may be called `session.jsonl`: its beginning tells it from the others.
            with open_origin(origin) as file:
                stem = f"{stem}-{hashlib.sha256(file.readline().strip()).hexdigest()[:8]}"
        self.key: Key = ("cursor", stem)
        self._project = next((up.parent for up in place.parents if up.name == FOLDER), None)
        self._folder: str | None = None
        """The folder that the project's slug stands for, once a path in the transcript shows it."""
        self._entries = Entries(f"transcript:{stem}")
        self._behind = 1

    def notes(self) -> list[AnyFact]:
        """What the place of the file tells about the conversation."""
        scribe = Scribe(self.key, self.origin, self._behind)
        notes: dict[str, Any] = {"session_id": self.parent or self.key[1]}
        if self._project is not None:
            notes["project_slug"] = self._project.name
            notes["workspace.path"] = _trusted_folder(self._project)
        if self.parent:
            notes["parent"] = {"conversation_id": self.parent}
        note_all(scribe, notes, RANK)
        if self._folder:
            scribe.note("workspace.path", self._folder, RANK + 1)
        return scribe.facts

    def _scribe(self, offset: int, data: bytes) -> Scribe:
        self._behind = offset + 1
        return Scribe(self.key, self.origin, offset, entry=self._entries.of(data), rank=RANK)

    def read_line(self, offset: int, data: bytes, line: Line, tally: Tally) -> list[AnyFact]:
        scribe = self._scribe(offset, data)
        if line.role in ("user", "assistant") and line.message is not None:
            self._message(scribe, line.role, line.parts)
            tally.noise += not scribe.facts  # A line that says nothing (seen: an empty text).
        elif line.error is not None or line.type == "turn_ended":
            if line.error is not None:
                text = str(line.error)
                scribe.message(id=scribe.entry, role="assistant", kind="error", text=text)
            if line.type == "turn_ended":
                scribe.mark("turn_end", {"status": line.status}, rank=RANK)
        else:
            tally.unrecognise(line.type or "no role", self.origin, offset)
        return scribe.facts

    def _message(self, scribe: Scribe, role: str, parts: list[Part]) -> None:
        """Nothing where it says nothing."""
        text = "\n".join(p.text for p in parts if p.type == "text" and p.text is not None).strip()
        thoughts = [
            (part.thinking or part.text or "").strip()
            for part in parts
            if part.type in ("thinking", "reasoning")
        ]
        calls = [part for part in parts if part.type == "tool_use"]
        if role == "user":
            typed = typed_words(text)
            if text and typed != "":
                scribe.message(
                    id=scribe.entry, role="user", text=text, typed=typed, time=sent_time(text),
                    kind="notification" if notifies(text) else "",
                )  # fmt: skip
        else:
            text, titles, hidden = without_marks(text)
            thinking = "\n\n".join(thought for thought in (*thoughts, titles) if thought)
            if hidden and not (calls or text or thinking):
                thinking, hidden = _REDACTED, False  # all that the line says
            if text or thinking or calls or hidden:
                scribe.message(
                    id=scribe.entry, role="assistant", text=text, thinking=thinking,
                    extra={"reasoning_encrypted": True} if hidden else None,
                )  # fmt: skip
        for number, part in enumerate(calls):
            self._look_for_folder(part.input)
            asked = called(part.name or "", part.input)
            scribe.call(**asked, id=part.id or "", message=scribe.entry, index=number)
        for part in parts:
            if part.type == "tool_result":
                returned, details = output_of(part.content or None)
                call, name = part.tool_use_id or "", part.name or ""
                scribe.returned(call=call, name=name, text=returned, details=details)

    def _look_for_folder(self, given: Any) -> None:
        """The project by its slug: a folder above a file that a call names."""
        if self._project is not None and not self._folder and isinstance(given, dict):
            slug = slug_of(self._project.name)
            for value in given.values():
                path = clean_path(value) if isinstance(value, str) and len(value) < 1000 else ""
                if is_absolute(path) and slug_of(path).startswith(slug):
                    self._folder = next((p for p in parents_of(path) if slug_of(p) == slug), None)

    def read_text(self, tally: Tally) -> Iterator[AnyFact]:
        with open_origin(self.origin) as file:
            data = file.read()
        for match, body in _stretches(_SPEAKER, data):
            tally.records += 1
            scribe = self._scribe(match.start(), match[1] + b"\0" + body.strip())
            text = body.decode("utf-8", "replace").replace("\r\n", "\n").strip()
            role = match[1].decode()
            parts = [Part(text=text)] if role == "user" else _parts(text, scribe.entry)
            self._message(scribe, role, parts)
            tally.noise += not scribe.facts
            yield from scribe.facts


def _stretches(
    pattern: re.Pattern[AnyStr], text: AnyStr
) -> Iterator[tuple[re.Match[AnyStr], AnyStr]]:
    """Each match, and what stands between it and the next one."""
    matches = list(pattern.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    for match, end in zip(matches, ends, strict=False):
        yield match, text[match.end() : end]


def _parts(text: str, entry: str) -> list[Part]:
    """What stands before the first bracket is said; then thoughts, calls and results."""
    words = [_SECTION.split(text, maxsplit=1)[0]]
    parts: list[Part] = []
    calls = results = 0
    for match, body in _stretches(_SECTION, text):
        head = match[2].strip()
        if match[1] == "Thinking":
            thought, _, rest = f"{match[2]}{body}".strip().partition("\n\n")
            parts.append(Part("thinking", thinking=thought))
            words.append(rest)
        elif match[1] == "Tool call":
            # What is not indented behind the arguments is said again.
            lines = body.strip("\n").split("\n")
            plain = (i for i, line in enumerate(lines) if line and line[:1] not in " \t")
            last = next(plain, len(lines))
            given = parse_arguments("\n".join(lines[:last]))
            parts.append(Part("tool_use", id=f"{entry}:{calls}", name=head, input=given))
            words.append("\n".join(lines[last:]))
            calls += 1
        else:
            call = f"{entry}:{min(results, calls - 1)}" if calls else ""
            parts.append(Part("tool_result", tool_use_id=call, name=head, content=body.strip()))
            results += 1
    return [Part(text="\n\n".join(s.strip() for s in words if s.strip())), *parts]


def _trusted_folder(project: Path) -> str | None:
    """The folder that a project's slug stands for, where the person was asked to trust it."""
    try:
        value = msgspec.json.decode((project / ".workspace-trusted").read_bytes())
    except (OSError, *UNREADABLE):
        return None
    path = field_of(value, "workspacePath")
    return clean_path(path) if isinstance(path, str) and path else None


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


def parse_arguments(text: str) -> Any:
    """Indented `k=v` lines as an object; JSON as its value; a patch or anything else as text."""
    plain = text.strip()
    value = decoded(plain)
    if not isinstance(value, str):
        return value
    fields: dict[str, Any] = {}
    name = ""
    for line in text.split("\n"):
        match = _FIELD.match(line)
        if match:
            name = match[1]
            fields[name] = match[2]
        elif name:
            fields[name] += "\n" + line.strip()
        elif line.strip():
            return plain
    return {field: decoded(value) for field, value in fields.items()} if fields else plain
