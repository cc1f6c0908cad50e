"""Command-line and background chats: `chats/<workspace>/<id>/store.db`, and `meta.json` beside it."""

import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from unspool.databases import DAMAGE, MAGIC, Database, open_database
from unspool.facts import (
    NOBODY,
    AnyFact,
    Attachment,
    Key,
    Marked,
    MessageSeen,
    Noted,
    Problem,
    ToolCalled,
    ToolReturned,
)
from unspool.origins import Head, Origin, Tally, open_origin
from unspool.records import clean, sample
from unspool.shapes import arguments_text
from unspool.sources.cursor.blobs import BadWire, fields, message_of, references, walk
from unspool.sources.cursor.bubbles import mode_name
from unspool.sources.cursor.editor import log_start
from unspool.sources.cursor.entries import rank_of, sent_time, typed_words
from unspool.sources.cursor.paths import clean_path, is_cursor_folder
from unspool.sources.cursor.tools import likeness, output_of, touches
from unspool.times import format_time, parse_time

RANK = 0
_INJECTED = (
    "<user_info>", "<system_reminder>", "<rules>", "<git_status>", "<agent_transcripts>",
    "<project_layout>", "<open_and_recently_viewed_files>",
)  # fmt: skip


def claims(head: Head) -> bool:
    if head.name == "meta.json":
        return "chats" in head.parts and b'"createdAtMs"' in head.data
    if not head.data.startswith(MAGIC) or head.name != "store.db":
        return False
    schema = head.data if b"blobs" in head.data else log_start(head.path)
    return (b"blobs" in schema and b"meta" in schema) or is_cursor_folder(head.parts)


def read(origin: Origin, tally: Tally, recover: bool = False) -> Iterator[AnyFact]:
    if origin.path.endswith(".json"):
        yield from _read_meta(origin, tally)
        return
    chat = Chat(origin.path, tally)
    try:
        with open_database(origin.path) as database:
            if database.stale:
                tally.records += 1
                yield chat.problem("stale-database", "the log was too long to copy")
            yield from chat.read(database)
    except DAMAGE as error:
        tally.records += 1
        yield chat.problem("unreadable-database", str(error))


def _read_meta(origin: Origin, tally: Tally) -> Iterator[AnyFact]:
    """What stands beside the database: the folder that the chat was begun in, and its times."""
    tally.records += 1
    with open_origin(origin.path) as file:
        data = file.read()
    key: Key = ("cursor", Path(origin.path).parent.name)
    try:
        value = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tally.problems += 1
        yield Problem(
            key=key, origin=origin.path, offset=0, code="invalid-json", sample=sample(data)
        )
        return
    cwd = value.get("cwd")
    notes = {
        "session_id": key[1],
        "workspace.path": clean_path(cwd) if isinstance(cwd, str) and cwd else None,
        "started_at": format_time(parse_time(value.get("createdAtMs"))),
        "ended_at": format_time(parse_time(value.get("updatedAtMs"))),
        "title": value.get("title") or value.get("name"),
    }
    for number, (name, told) in enumerate(notes.items()):
        yield Noted(
            key=key, origin=origin.path, offset=0, number=number, entry=f"meta:{key[1]}", name=name,
            value=clean(told), rank=rank_of(key, name, told, RANK + 1),
        )  # fmt: skip


class Chat:
    """One store."""

    def __init__(self, origin: str, tally: Tally) -> None:
        self.origin = origin
        self.tally = tally
        self.key: Key = NOBODY
        self._offsets = count()
        self._times: dict[str, int] = {}
        self._mode = ""
        self._model = ""

    def problem(self, code: str, data: bytes | str) -> Problem:
        self.tally.problems += 1
        return Problem(
            key=self.key, origin=self.origin, offset=next(self._offsets), number=99, code=code,
            sample=sample(data),
        )  # fmt: skip

    def read(self, database: Database) -> Iterator[AnyFact]:
        connection = database.connection
        meta = _meta(connection)
        ident = meta.get("agentId")
        self.key = ("cursor", str(ident or Path(self.origin).parent.name))
        self.tally.records += 1
        yield from self._notes(meta)
        root = _root(connection, meta)
        if root is not None:
            yield from self._workspace(_blob(connection, root) or b"")
        if root is None:
            messages = _by_row(connection)
        else:
            messages = walk(root, lambda name: _blob(connection, name))
        for name, data in messages:
            self.tally.records += 1
            value = message_of(data)
            if value is None:
                yield self.problem("invalid-json", data)
                continue
            made = list(self._message(clean(value), name))
            if not made:
                self.tally.noise += 1
            yield from made

    def _notes(self, meta: dict[str, Any]) -> Iterator[AnyFact]:
        self._mode = mode_name(meta.get("mode"))
        self._model = str(meta.get("lastUsedModel") or "")
        common: dict[str, Any] = {
            "key": self.key, "origin": self.origin, "offset": next(self._offsets),
            "entry": f"chat:{self.key[1]}",
        }  # fmt: skip
        notes = {
            "session_id": self.key[1],
            "title": meta.get("name"),
            "composer_mode": self._mode or None,
            "started_at": format_time(parse_time(meta.get("createdAt"))),
        }
        for number, (name, value) in enumerate(notes.items()):
            rank = rank_of(self.key, name, value, RANK)
            yield Noted(**common, number=number, name=name, value=clean(value), rank=rank)

    def _workspace(self, root: bytes) -> Iterator[AnyFact]:
        """Field 9 of a root, where there is one, is the folder that the chat works in."""
        try:
            found = [value for number, value in fields(root) if number == 9]
        except BadWire:
            return
        for value in found[:1]:
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
            if text.startswith(("/", "file://")) or text[1:3] == ":\\":
                yield Noted(
                    key=self.key, origin=self.origin, offset=next(self._offsets),
                    name="workspace.path", value=clean_path(text), rank=RANK + 1,
                )  # fmt: skip

    def _message(self, value: dict[str, Any], name: str) -> Iterator[AnyFact]:
        number = self._times[name] = self._times.get(name, 0) + 1
        # Two chats may hold the same words, and then the same blob: it is not the same message.
        ident = (
            f"{self.key[1]}:{name[:20]}" if number == 1 else f"{self.key[1]}:{name[:20]}:{number}"
        )
        content = value.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        blocks = [part for part in parts if isinstance(part, dict)]
        options = _options(value)
        text = _joined(blocks, "text")
        common: dict[str, Any] = {
            "key": self.key, "origin": self.origin, "offset": next(self._offsets),
            "entry": f"blob:{ident}", "time": sent_time(text),
        }  # fmt: skip
        role = value["role"]
        if role == "tool":
            yield from _results(blocks, common)
        elif role == "system":
            yield MessageSeen(**common, id=ident, role="system", text=text, rank=RANK)
        elif role == "user":
            yield from self._user(text, blocks, options, common, ident)
        elif role == "assistant":
            yield from self._assistant(text, blocks, options, common, ident)

    def _user(
        self, text: str, blocks: list[dict[str, Any]], options: dict[str, Any],
        common: dict[str, Any], ident: str,
    ) -> Iterator[AnyFact]:  # fmt: skip
        kind = ""
        typed = typed_words(text)
        if options.get("isSummary") is True:
            kind = "summary"
            yield Marked(**common, kind="compaction")
        elif typed is None and (text.startswith(_INJECTED) or _is_notebook(text)):
            kind = "injected"
        images = tuple(Attachment(kind="image") for b in blocks if b.get("type") == "image")
        if text or images:
            yield MessageSeen(
                **common, id=ident, role="user", text=text, typed=typed, kind=kind, rank=RANK,
                mode="" if kind else self._mode, attachments=images,
                request=str(options.get("requestId") or ""),
            )  # fmt: skip

    def _assistant(
        self, text: str, blocks: list[dict[str, Any]], options: dict[str, Any],
        common: dict[str, Any], ident: str,
    ) -> Iterator[AnyFact]:  # fmt: skip
        hidden = any(b.get("type") == "redacted-reasoning" for b in blocks)
        kind = "summary" if options.get("isSummary") is True else ""
        yield MessageSeen(
            **common, id=ident, role="assistant", text=text, kind=kind, rank=RANK,
            thinking=_joined(blocks, "reasoning"), request=str(options.get("requestId") or ""),
            model=str(options.get("modelName") or self._model),
            extra={"reasoning_encrypted": True} if hidden else None,
        )  # fmt: skip
        calls = [b for b in blocks if b.get("type") == "tool-call"]
        for number, part in enumerate(calls):
            name, given = str(part.get("toolName") or ""), part.get("args", part.get("input"))
            yield ToolCalled(
                **common, number=number, id=str(part.get("toolCallId") or ""), message=ident,
                name=name, arguments=arguments_text(given), index=number, rank=RANK,
                like=likeness(name, given), files=touches(name, given),
            )  # fmt: skip


def _results(blocks: list[dict[str, Any]], common: dict[str, Any]) -> Iterator[AnyFact]:
    for number, part in enumerate(b for b in blocks if b.get("type") == "tool-result"):
        text, details = output_of(part.get("result", part.get("output")))
        yield ToolReturned(
            **common, number=number, call=str(part.get("toolCallId") or ""), text=text,
            name=str(part.get("toolName") or ""), details=details, rank=RANK,
            failed=True if part.get("isError") is True else None,
        )  # fmt: skip


def _joined(blocks: list[dict[str, Any]], kind: str) -> str:
    texts = [b["text"] for b in blocks if b.get("type", "text") == kind and b.get("text")]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _options(value: dict[str, Any]) -> dict[str, Any]:
    options = value.get("providerOptions")
    own = options.get("cursor") if isinstance(options, dict) else None
    return own if isinstance(own, dict) else {}


def _is_notebook(text: str) -> bool:
    return text[:1] == "{" and '"nbformat"' in text and '"cells"' in text


def _meta(connection: sqlite3.Connection) -> dict[str, Any]:
    """Row '0' of `meta`: the hexadecimal digits of a JSON object; or a row for each of its fields."""
    rows: dict[str, Any] = {}
    for key, value in connection.execute("SELECT key, value FROM meta ORDER BY key"):
        data = value if isinstance(value, bytes) else str(value or "").encode()
        for candidate in (data, _unhexed(data)):
            try:
                return msgspec.json.decode(candidate, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
        rows[str(key)] = value
    return rows


def _unhexed(data: bytes) -> bytes:
    try:
        return bytes.fromhex(data.decode("ascii"))
    except ValueError:
        return b""


def _blob(connection: sqlite3.Connection, name: str) -> bytes | None:
    row = connection.execute("SELECT data FROM blobs WHERE id = ?", (name,)).fetchone()
    if row is None or row[0] is None:
        return None
    return row[0] if isinstance(row[0], bytes) else str(row[0]).encode()


def _root(connection: sqlite3.Connection, meta: dict[str, Any]) -> str | None:
    """The root that is named, else the node with the most references; None without any."""
    named = meta.get("latestRootBlobId")
    if isinstance(named, str) and _blob(connection, named) is not None:
        return named
    best, most = None, 0
    for name, data in connection.execute("SELECT id, data FROM blobs ORDER BY rowid"):
        if isinstance(data, bytes) and data[:1] != b"{" and len(references(data)) > most:
            best, most = str(name), len(references(data))
    return best


def _by_row(connection: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
    for name, data in connection.execute("SELECT id, data FROM blobs ORDER BY rowid"):
        if isinstance(data, bytes) and message_of(data) is not None:
            yield str(name), data
