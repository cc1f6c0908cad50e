"""Gemini CLI: chats as one JSON document (`.json`) or as a log that is appended to (`.jsonl`).

    {"sessionId":"851b…","projectHash":"7421…","startTime":"…","kind":"main"}
    {"id":"661c…","type":"gemini","content":"I look.","tokens":{…}}
    {"id":"661c…","type":"gemini","content":"I look.","tokens":{…},"toolCalls":[{…}]}
    {"$set":{"messages":[…]}}
    {"$rewindTo":"b281…"}

A message is appended again whenever it changes. A resume writes all messages once more, under the
same ids but without tokens, thoughts and calls: so each field keeps the best that any line said of it.
A compression that keeps the newest messages, and a history whose old outputs are masked, tell them
again under new ids.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import ROOT, AnyFact, Rank
from unspool.io.door import iter_json_lines
from unspool.io.origins import Head, Origin, Tally, open_origin
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.io.values import str_of
from unspool.sources.gemini_parts import (
    answer_of,
    arguments_of,
    images_of,
    responses_of,
    said_in,
    text_of,
    typed_of,
)
from unspool.sources.histories import read_history
from unspool.sources.scribe import Scribe, all_input, title_of, touched

NAME = "gemini-cli"

_HEADER = re.compile(rb'"(?:sessionId|projectHash)"\s*:')
_CONTEXT = "<session_context>"
_SNAPSHOT = "<state_snapshot>"
_MASKED = "<tool_output_masked>"
_TOUCHES = {
    "read_file": "read",
    "write_file": "create",
    "replace": "edit",
    "read_many_files": "read",
}
_STATUS = {"cancelled": "cancelled", "error": ""}


class Tokens(msgspec.Struct, gc=False):
    """`total = input + output + thoughts + tool`; what came from the cache is part of `input`."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    thoughts: int | None = None
    tool: int | None = None


class Thought(msgspec.Struct, gc=False):
    subject: str = ""
    description: str = ""


class Call(msgspec.Struct, gc=False):
    id: str = ""
    name: str = ""
    args: Any = None
    status: str = ""
    timestamp: str | None = None
    result: Any = None
    resultDisplay: Any = None
    agentId: str | None = None


class Entry(msgspec.Struct, gc=False):
    """A message, a header, or a change of either."""

    id: str | None = None
    timestamp: str | None = None
    type: str = ""
    content: Any = None
    displayContent: Any = None
    toolCalls: list[Call] | None = None
    thoughts: list[Thought] | None = None
    tokens: Tokens | None = None
    model: str | None = None
    # the header
    sessionId: str | None = None
    startTime: str | None = None
    kind: str | None = None
    summary: str | None = None
    directories: list[str] | None = None
    messages: list["Entry"] | None = None
    changed: "Entry | None" = msgspec.field(default=None, name="$set")
    rewind: str | None = msgspec.field(default=None, name="$rewindTo")


_ENTRY = Shape(Entry)
_CALL = Shape(Call)


def _is_beside(name: str, parts: tuple[str, ...]) -> bool:
    """Files that chats are read with: the project's folder, and results too long for a chat."""
    return name == ".project_root" or (name.endswith(".txt") and "tool-outputs" in parts[-2:])


def is_chat(head: Head) -> bool:
    if _is_beside(head.name, head.parts):
        return ".gemini" in head.parts
    if head.name == "logs.json":
        return b'"sessionId"' in head.data and b'"messageId"' in head.data
    if not head.name.endswith((".json", ".jsonl")) or "chats" not in head.parts:
        return False
    return len(set(_HEADER.findall(head.data[:4096]))) == 2


_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"\\]+)"')


def session_of(path: str) -> str | None:
    """The name of a chat's file holds only the beginning of the session's id; its header holds all."""
    head = Head(path, b"", True)
    if "chats" not in head.parts or not head.name.endswith((".json", ".jsonl")):
        return None
    try:
        with open_origin(path) as file:
            named = _SESSION.search(file.read(4096))
    except OSError:
        return None
    return named[1].decode("utf-8", "replace") if named else None


def read_chat(origin: Origin, tally: Tally, recover: bool) -> Iterator[AnyFact]:
    head = Head(origin.path, b"", True)
    name = head.name
    if _is_beside(name, head.parts):
        tally.records += 1
        tally.noise += 1
        return
    if name == "logs.json":  # all that is left of a session whose chat is gone
        yield from read_history(origin, tally, recover, NAME)
        return
    chat = _Chat(origin)
    before = tally.records - tally.problems
    closing = recover or name.endswith(".json")
    for offset, _, entry in iter_json_lines(origin, _ENTRY, tally, closing, whole=True):
        chat.take(offset, entry)
    entries = tally.records - tally.problems - before
    tally.noise += min(chat.noise, max(entries - len(chat.messages), 0))
    yield from chat.facts()


def _merge(whole: Entry, entry: Entry) -> None:
    """What another line says of the same message."""
    for name in ("displayContent", "thoughts", "tokens", "model"):
        setattr(whole, name, getattr(entry, name) or getattr(whole, name))
    if isinstance(entry.content, str) or not whole.content:
        whole.content = entry.content or whole.content
    calls = {call.id: call for call in whole.toolCalls or ()}
    for call in entry.toolCalls or ():
        before = calls.get(call.id)
        if before is not None and (not call.result or _MASKED in str(call.result)):
            call.result = before.result or call.result  # masked later: the first holds it all
        calls[call.id] = call
    whole.toolCalls = list(calls.values()) or None


def _signs(messages: list[Entry]) -> list[tuple[str, ...] | None]:
    """What each message is known by where it is told again under another id; a result by nothing."""
    signs: list[tuple[str, ...] | None] = []
    snapshot = ""
    for entry in messages:
        text = text_of(entry.content)
        if entry.type == "gemini":
            text, _, asked = said_in(entry.content)
            calls = [call.id for call in entry.toolCalls or map(_CALL.convert, asked)]
            # What the program answers to a snapshot is the same each time.
            signs.append(("calls", *calls) if calls else (entry.type, text, snapshot))
        elif responses_of(entry.content) and not text:
            signs.append(None)
        else:
            # The first prompt stands in one message with the context when it is told again.
            signs.append((entry.type, _CONTEXT if text.startswith(_CONTEXT) else text))
        snapshot = text if text.startswith(_SNAPSHOT) else ""
    return signs


class _Chat:
    """A chat as its lines leave it, with what a rewind took back."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.header = Entry()
        self.messages: dict[str, Entry] = {}
        """All that any line said of each message."""
        self.places: dict[str, tuple[int, str]] = {}
        """Message → its offset, and the message that it follows."""
        self.chain: dict[str, None] = {}
        """The ids of the messages that count, in order."""
        self.again: dict[str, str] = {}
        """The id under which a message is told again → its own."""
        self.retold: int | None = None
        """Where in the chain a history began that is told again, line by line."""
        self.results: dict[str, tuple[str, Any]] = {}
        """Call → (time, what the model got) of results that stand in messages."""
        self.callers: dict[str, str] = {}
        """Call → the message that its result stands behind."""
        self.noise = 0
        self.compressed = False
        """Whether the message before stands for history that was compressed."""
        self.outputs: dict[str, Path] = {}
        """Call → the file that holds its result, where that is too long for the chat."""

    def take(self, offset: int, entry: Entry) -> None:
        # The program asks in this order.
        if entry.rewind is not None:
            target = self.again.get(entry.rewind, entry.rewind)
            kept = takewhile(lambda ident: ident != target, self.chain)
            self.chain = dict.fromkeys(kept) if target in self.chain else {}
        elif entry.id is not None:
            if entry.tokens is not None:
                self.retold = None
            elif self.chain and text_of(entry.content).startswith(_CONTEXT):
                self.retold = len(self.chain)
            self._add(offset, entry)
        elif entry.changed is not None:
            self._describe(entry.changed)
            self._replace(offset, entry.changed.messages or [])
        else:
            self._describe(entry)
            self._replace(offset, entry.messages or [])

    def _describe(self, entry: Entry) -> None:
        header = self.header
        header.startTime = header.startTime or entry.startTime
        for name in ("sessionId", "kind", "summary", "directories"):
            setattr(header, name, getattr(entry, name) or getattr(header, name))
        self.noise += 1

    def _add(self, offset: int, entry: Entry) -> None:
        ident = self._own(entry)
        responses = responses_of(entry.content) if entry.type == "user" else []
        if responses and not text_of(entry.content):
            for response in responses:
                call = str(response.get("id") or "")
                self.results.setdefault(call, (entry.timestamp or "", response))
                self.callers.setdefault(call, next(reversed(self.chain), ""))
            self.noise += 1
            return
        if ident in self.messages:
            _merge(self.messages[ident], entry)
            self.noise += 1
        else:
            self.messages[ident] = entry
            self.places[ident] = (offset, next(reversed(self.chain), ROOT))
        self.chain[ident] = None

    def _replace(self, offset: int, messages: list[Entry]) -> None:
        """`$set.messages`: a resume repeats them; a compression puts a snapshot in their place.

        {"$set":{"messages":[{…"<session_context>"},{…"<state_snapshot>…"},{…"Understood."}]}}
        """
        self._recognise(messages)
        for number, entry in enumerate(messages):
            message = self.messages.get(self._own(entry))
            if message is None:
                self._add(offset + number, entry)  # each its own place, in order, within the line
            elif entry.type == message.type:  # results repeat the id of the answer
                _merge(message, entry)

    def _own(self, entry: Entry) -> str:
        return self.again.get(entry.id or "", entry.id or "")

    def _recognise(self, messages: list[Entry]) -> None:
        """Finds what is told again under new ids (cases/gemini_cli/compressed_in_a_turn, masked).

        A masked history comes line by line first, from its context on, and then as `$set.messages`.
        """
        if messages and self.retold is not None:
            listed = {entry.id for entry in messages}
            for ident in [ident for ident in [*self.chain][self.retold :] if ident in listed]:
                del self.messages[ident], self.places[ident], self.chain[ident]
                self.noise += 1
            self.retold = None
        if all(self._own(entry) in self.messages for entry in messages):
            return
        history = [*self.chain]
        places = {ident: place for place, ident in enumerate(history)}
        known = _signs([self.messages[ident] for ident in history])
        end = len(history)
        for entry, sign in zip(reversed(messages), reversed(_signs(messages)), strict=True):
            place = places.get(self._own(entry))
            if place is None and sign is not None:
                place = next((n for n in range(end - 1, -1, -1) if known[n] == sign), None)
                if place is not None:
                    self.again[entry.id or ""] = history[place]
            end = end if place is None else place

    def _add_refused(self) -> None:
        """A call that a sub-agent may not make is known by its result alone (case `refused_call`):

        {"type":"gemini","id":"m2","content":"I write it."}
        {"type":"user","content":[{"functionResponse":{"id":"w1","name":"write","response":{"error":…}}}]}
        """
        told = {call.id for entry in self.messages.values() for call in entry.toolCalls or ()}
        for call in [call for call in self.callers if call and call not in told]:
            entry = self.messages.get(self.callers[call])
            if entry is not None and entry.type == "gemini":
                calls = entry.toolCalls or [*map(_CALL.convert, said_in(entry.content)[2])]
                if all(other.id != call for other in calls):
                    name = str_of(self.results[call][1].get("name"))
                    entry.toolCalls = [*calls, Call(id=call, name=name, status="error")]

    # what it states

    def facts(self) -> Iterator[AnyFact]:
        path, header = Path(self.origin.path), self.header
        session = header.sessionId or path.name.split(".")[0]
        key = (NAME, session)
        scribe = Scribe(key, self.origin.path, -1, time=parse_time(header.startTime))
        is_child = header.kind == "subagent"  # chats/<session of the parent>/<id>.jsonl
        root = _read_text(path.parents[2 if is_child else 1] / ".project_root")
        folder = (header.directories or [root])[0] or root
        scribe.notes({"agent": "Gemini CLI", "workspace.path": folder})
        if is_child:
            scribe.parent(path.parent.name)
        elif header.summary:
            scribe.note("title", title_of(header.summary), Rank.EXTRACT)
        yield from scribe.facts
        outputs = path.parent.parent / "tool-outputs" / f"session-{session}"
        if outputs.is_dir():
            self.outputs = {file.stem: file for file in outputs.iterdir() if file.suffix == ".txt"}
        self._add_refused()
        for ident, entry in self.messages.items():
            offset, after = self.places[ident]
            time = parse_time(entry.timestamp)
            scribe = Scribe(key, self.origin.path, offset, time=time, entry=ident, after=after)
            self._state(entry, scribe)
            self.compressed = text_of(entry.content).startswith(_SNAPSHOT)
            yield from scribe.facts

    def _state(self, entry: Entry, scribe: Scribe) -> None:
        if entry.type == "gemini":
            self._state_answer(entry, scribe)
            return
        text, shown = text_of(entry.content), text_of(entry.displayContent)
        if entry.type == "user":
            kind = "injected" if text.startswith(_CONTEXT) else ""
            if text.startswith(_SNAPSHOT):
                scribe.mark("compaction")
                kind = "summary"
            typed = shown or typed_of(text)
            if typed.startswith(("/", "?")) and not kind:
                kind = "command"
            is_prompt = kind in ("", "command")
            if is_prompt:
                scribe.note("title", title_of(typed), Rank.GUESS)
            scribe.message(
                id=scribe.entry,
                role="user",
                text=text,
                typed=typed if is_prompt else None,
                kind=kind,
                withdrawn=scribe.entry not in self.chain,
                attachments=tuple(images_of(entry.content)),
            )
        elif entry.type == "error":
            gone = scribe.entry not in self.chain
            scribe.message(
                id=scribe.entry, role="assistant", text=text, kind="error", withdrawn=gone
            )
        else:
            scribe.mark(entry.type or "entry", {"text": text})

    def _state_answer(self, entry: Entry, scribe: Scribe) -> None:
        text, _, asked = said_in(entry.content)
        thoughts = [
            "\n".join(filter(None, (thought.subject, thought.description)))
            for thought in entry.thoughts or ()
        ]
        # The answer to a snapshot is the program's own, not the model's.
        scribe.message(
            id=scribe.entry,
            role="assistant",
            text=text,
            thinking="\n\n".join(thoughts),
            model=entry.model or "",
            kind="injected" if self.compressed and entry.tokens is None else "",
            withdrawn=scribe.entry not in self.chain,
        )
        # Calls of a message whose own record is lost: a resume repeats them as parts.
        for call in entry.toolCalls or map(_CALL.convert, asked):
            scribe.call(
                id=call.id,
                message=scribe.entry,
                name=call.name,
                arguments=arguments_of(call.args),
                files=touched(_TOUCHES, call.name, call.args, "file_path", "path"),
            )
            if call.agentId:
                scribe.note("child_id", call.agentId, on="call", subject=call.id)
            time, response = self.results.get(call.id, ("", None))
            # Messages that are set again hold in each call what all calls beside it gave
            # (cases/gemini_cli/results_together).
            responses = responses_of(call.result)
            own = [one for one in responses if one.get("id") == call.id] or responses
            given = own[0] if own else response
            if given is None and call.status not in ("success", "error", "cancelled"):
                continue
            output, refused = answer_of(given)
            failed = refused or call.status == "error"
            details: dict[str, Any] = {}
            if call.resultDisplay not in (None, "", output):
                details["display"] = call.resultDisplay
            file = self.outputs.get(call.id.rpartition("/")[2])
            whole = _read_text(file) if file is not None else ""
            if whole:
                details["full_output"] = whole
            scribe.returned(
                call=call.id,
                name=call.name,
                text=output,
                failed=failed,
                status=_STATUS.get(call.status, ""),
                details=details or None,
                time=parse_time(call.timestamp or time or None),
            )
        tokens = entry.tokens
        if tokens is not None:
            scribe.usage(
                subject=scribe.entry,
                model=entry.model or "",
                prompt=all_input(tokens.input, tokens.tool),
                completion=all_input(tokens.output, tokens.thoughts),
                cached=tokens.cached,
                reasoning=tokens.thoughts,
            )


def _read_text(path: Path) -> str:
    try:
        with open_origin(str(path)) as file:
            return file.read().decode("utf-8", "replace").strip("\ufeff").rstrip("\n")
    except OSError:
        return ""
