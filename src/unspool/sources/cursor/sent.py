"""What was sent to the model, message by message: the leaves of a command-line chat, and of what the
editor keeps under `agentKv:blob:<hash>`.

    {"role": "assistant", "content": [{"type": "text", "text": "Listing."},
     {"type": "tool-call", "toolCallId": "c1", "toolName": "Shell", "args": {"command": "ls"}}],
     "providerOptions": {"cursor": {"requestId": …, "modelName": …}}}
"""

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from unspool.facts import AnyFact, Attachment, Key, Rank
from unspool.io.structs import Shape
from unspool.io.values import dict_of, field_of, str_of
from unspool.sources.cursor.blobs import message_of, messages_under
from unspool.sources.cursor.entries import (
    AUTO,
    Book,
    notifies,
    number_of,
    request_id,
    sent_time,
    typed_words,
)
from unspool.sources.cursor.tables import Keys
from unspool.sources.cursor.tools import (
    called,
    counted,
    kind_of,
    of_message,
    output_of,
    result_body,
)
from unspool.sources.scribe import Scribe

RANK = Rank.EXTRACT
"""Of what the editor keeps: the bubbles are what the person saw of it, and know better."""
_PREFIX = "agentKv:blob:"
_TAG = re.compile(r"<[a-z][a-z_-]*>")
_INJECTED = (
    "<user_info>", "<system_reminder>", "<rules>", "<git_status>", "<agent_transcripts>",
    "<project_layout>", "<open_and_recently_viewed_files>",
)  # fmt: skip


class Told(msgspec.Struct):
    """What Cursor adds to a message, or to a part of one, stands in its options."""

    providerOptions: Any = None

    @property
    def own(self) -> dict[str, Any]:
        return dict_of(field_of(self.providerOptions, "cursor"))

    @property
    def model(self) -> str:
        name = str_of(self.own.get("modelName"))
        return name if name != AUTO else ""


class Part(Told):
    type: str | None = "text"
    text: str | None = None
    toolCallId: str | None = None
    toolName: str | None = None
    args: Any = None
    input: Any = None
    result: Any = None
    output: Any = None
    isError: bool | None = None


class Message(Told):
    role: str | None = None
    content: list[Part] | str | None = None

    @property
    def parts(self) -> list[Part]:
        return self.content if isinstance(self.content, list) else [Part(text=self.content)]


MESSAGE = Shape(Message)


class Sent:
    """The messages of one conversation, in the order in which they are read."""

    def __init__(self, book: Book, key: Key, rank: int, mode: str = "", model: str = "") -> None:
        self._book = book
        self.key = key
        self._rank = rank
        self._mode = mode
        self._model = model if model != AUTO else ""
        self._times: Counter[str] = Counter()

    def entry(self, name: str) -> str:
        """The id of the next record under a name: a record of one store is none of another, which
        knows less."""
        return f"{'sent' if self._rank else 'blob'}:{self._ident(name)}"

    def _ident(self, name: str) -> str:
        """A message that is listed twice was said twice; two chats may hold the same words, and then
        the same blob: that is not the same message."""
        earlier = self._times[name]
        return f"{self.key[1]}:{name[:20]}" + (f":{earlier + 1}" if earlier else "")

    def read(self, value: Any, name: str, after: str | None = None) -> list[AnyFact]:
        """The facts of the message under a name; `after` where its place in a tree is known."""
        ident, entry = self._ident(name), self.entry(name)
        self._times[name] += 1
        message = MESSAGE.convert(value)
        text = _joined(message.parts, "text")
        typed = typed_words(text)
        role, request = message.role or "", request_id(message.own.get("requestId"))
        kind = "summary" if message.own.get("isSummary") is True else ""
        time = sent_time(text)
        scribe = self._book.scribe(self.key, entry, after=after, time=time, rank=self._rank)
        if role == "tool":
            self._read_results(scribe, message)
        elif role == "system":
            scribe.message(id=ident, role="system", text=text)
        elif role == "user":
            if kind:
                scribe.mark("compaction", rank=self._rank)
            elif typed is None and _is_injected(text, request):
                kind = "injected"
            elif notifies(text):
                kind = "notification"
            images = tuple(
                Attachment(kind="image") for part in message.parts if part.type == "image"
            )
            if text or images:
                scribe.message(
                    id=ident, role="user", text=text, typed=typed, kind=kind, request=request,
                    mode="" if kind else self._mode, attachments=images,
                )  # fmt: skip
        elif role == "assistant":
            parts = message.parts
            hidden = any(part.type == "redacted-reasoning" for part in parts)
            # The reasoning tells the model of each step, the message only sometimes.
            models = (message.model, *(part.model for part in parts), self._model)
            scribe.message(
                id=ident, role="assistant", text=text, thinking=_joined(parts, "reasoning"),
                kind=kind, request=request, model=next(filter(None, models), ""),
                extra={"reasoning_encrypted": True} if hidden else None,
            )  # fmt: skip
            for number, part in enumerate(part for part in parts if part.type == "tool-call"):
                name, given = part.toolName or "", part.input if part.args is None else part.args
                call = part.toolCallId or ""
                scribe.call(**called(name, given), id=call, message=ident, index=number)
        return scribe.facts

    def _read_results(self, scribe: Scribe, message: Message) -> None:
        outcome = message.own.get("highLevelToolCallResult")
        results = [part for part in message.parts if part.type == "tool-result"]
        _, body = result_body(outcome) if len(results) == 1 else ("", {})
        for part in results:
            given = part.output if part.result is None else part.result
            text, details = output_of(given)
            call, name = part.toolCallId or "", part.toolName or ""
            failed, status = of_message(outcome, name, text or "")
            scribe.returned(
                call=call, text=text, name=name, status=status,
                details=details if details is not None else _beside(body, text or ""),
                failed=True if part.isError is True else failed,
                duration_ms=number_of(body, "executionTime", "durationMs"), files=counted(name, body),
            )  # fmt: skip
            if kind_of(name) == "task" and (child := str_of(body.get("agentId"))):
                scribe.note("child_id", child, self._rank, on="call", subject=call)


def _is_injected(text: str, request: str) -> bool:
    """What a person asks has a request; context has none, and most of it stands in a tag."""
    is_notebook = text[:1] == "{" and '"nbformat"' in text and '"cells"' in text
    if text.startswith(_INJECTED) or is_notebook:
        return True
    return not request and _TAG.match(text) is not None


def _beside(body: dict[str, Any], text: str) -> dict[str, Any] | None:
    """What the tool returned that the model was not told word for word."""
    kept = {
        name: value
        for name, value in body.items()
        if value not in (None, "", [], {})
        and not (isinstance(value, str) and value.strip() in text)
    }
    return kept or None


def _joined(parts: list[Part], kind: str) -> str:
    return "\n\n".join(part.text for part in parts if part.type == kind and part.text)


class SentOf:
    """What was sent of a composer, as far as the editor's database holds it. Its `conversationState`
    is the root: `~` and base64 of a protobuf node whose field 1 repeats the ids of the messages, in
    order. `~` alone is empty."""

    def __init__(self, rows: Keys | None, composer: dict[str, Any]) -> None:
        self._rows = rows
        self._names: list[str] = []
        if rows is not None:
            with suppress(ValueError):
                state = str_of(composer.get("conversationState")).removeprefix("~")
                self._names = messages_under(b64decode(state + "=="), self._fetch)

    def _fetch(self, name: str) -> bytes | None:
        """A blob; the first versions wrote its hexadecimal digits."""
        data = self._rows.get(_PREFIX + name) if self._rows is not None else None
        if data is None or not data.isalnum():
            return data
        try:
            return bytes.fromhex(data.decode("ascii"))
        except ValueError:
            return data

    def steps(self) -> dict[str, str]:
        """Call → the message that asked for it. The bubbles of 3.7 do not tell which calls one answer
        of the model made: their `modelCallId` is that of the call, or empty."""
        steps: dict[str, str] = {}
        for name in self._names:
            data = self._fetch(name) or b""
            for part in MESSAGE.convert(message_of(data)).parts if b'"tool-call"' in data else ():
                if part.type == "tool-call" and part.toolCallId:
                    steps[part.toolCallId] = name
        return steps

    def read(self, book: Book, key: Key) -> Iterator[AnyFact]:
        sent = Sent(book, key, RANK)
        for name in self._names:
            value = message_of(self._fetch(name))
            facts = sent.read(value, name) if value is not None else []
            book.tally.records += 1
            book.tally.noise += not facts
            yield from facts
