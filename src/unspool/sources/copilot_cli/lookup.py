"""What an event needs from elsewhere in its file: the session's id, sub-agents, skills, attachments.

These are facts about the origin as a whole: they are the same whichever part of it is read, so a
log may still be cut into ranges. The file is searched only once something asks.
"""

import base64
import hashlib
import io
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePath
from typing import Any

import msgspec

from unspool.facts import Attachment
from unspool.io.door import read_json
from unspool.io.origins import open_origin, read_head
from unspool.io.values import dict_of, field_of, str_of
from unspool.sources.copilot_cli.texts import plain, whole_number

STATE = "session-state"
UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CHUNK_BYTES = 1 << 18
_TAIL_BYTES = 65536
_PACKED = (".gz", ".zst")


def folder_session(path: str) -> str | None:
    """The session that a path names: session-state/<id>/… or session-state/<id>.jsonl."""
    parts = PurePath(path).parts
    if STATE in parts[:-1]:
        at = len(parts) - 1 - parts[::-1].index(STATE)
        return _bare(parts[at + 1])
    return next((part for part in reversed(parts[:-1]) if UUID.fullmatch(part)), None)


def _bare(name: str) -> str:
    for suffix in (*_PACKED, ".jsonl"):
        name = name.removesuffix(suffix)
    return name


class Lookup:
    """The origin as a whole, as far as its events refer to it."""

    def __init__(self, path: str, from_start: bool = False) -> None:
        self.path = path
        self.resumed = False if from_start else None
        """Whether a resumption was read; unknown where the reading began in the middle."""
        self._agents: dict[str, str] = {}
        """Agent id → the call that started it first, as far as the log was searched."""
        self._calls: dict[str, str] = {}
        """The call that started a sub-agent → the child that it belongs to; likewise."""

    @cached_property
    def session(self) -> str:
        """From the path; else as the log itself says, at its head or its end; else made up.

        What is made up depends on the name and the first line alone: a copy, or a longer state of
        the same file, is the same session.
        """
        return self._named or f"{_bare(PurePath(self.path).name)}-{self._first()}"

    @property
    def is_named(self) -> bool:
        return bool(self._named)

    @cached_property
    def _named(self) -> str:
        named = folder_session(self.path)
        if named is not None and UUID.fullmatch(named):
            return named
        return self._told() or named or ""

    def _first(self) -> str:
        line = read_head(self.path).data.partition(b"\n")[0]
        return hashlib.sha256(line.strip()).hexdigest()[:12]

    def _told(self) -> str:
        head = read_head(self.path)
        for value in head.objects:
            data = value.get("data")
            if value.get("type") == "session.start" and isinstance(data, dict):
                return str(data.get("sessionId") or "")
        return _last_result(self.path) if head.whole or not self.path.endswith(_PACKED) else ""

    @cached_property
    def _starts(self) -> Iterator[dict[str, Any]]:
        """The starts of sub-agents, searched for as far as somebody asks."""
        starts = _search(self.path, b'agent.started"')
        return (event for event in starts if str(event.get("type")).endswith("agent.started"))

    def _started(self, name: str, known: dict[str, str]) -> str | None:
        """What the log's starts say of an agent or a call. The first that tells it counts: what is
        behind that one need not be searched."""
        while name not in known:
            event = next(self._starts, None)
            if event is None:
                return None
            agent, call = (
                str(event.get("agentId") or ""),
                str(event["data"].get("toolCallId") or ""),
            )
            if agent:
                self._agents.setdefault(agent, call)
            self._calls.setdefault(call, self._agents.get(agent, call))
        return known[name]

    def started(self, call: str) -> str | None:
        """The child that a call started, if it started one."""
        return self._started(call, self._calls)

    def child(self, agent: str, call: str) -> str:
        """The sub-agent that an event belongs to; empty for the session's own agent.

        Named by the call that started it, which every version tells; newer ones put an id of their
        own registry on the events.
        """
        if agent:
            told = self._started(agent, self._agents)
        else:
            told = self.started(call) if call else ""
        return (agent or call) if told is None else told

    def runs_on(self, entry: str) -> bool:
        """Whether the figures at the end of a run are of the session up to there: from 1.0.66 on (in
        1.0.64 of the run), though nothing says so before 1.0.85. No model's requests are fewer than
        before, and there are as many as the log has answers, not as the run has
        (test_accounts_that_run_on). Of the first run, both are the same."""
        return self.resumed is not False and entry in self._running_accounts

    @cached_property
    def _running_accounts(self) -> set[str]:
        running: set[str] = set()
        before: dict[str, int] = {}
        ever = run = 0
        resumed = runs_on = False
        last: Any = None
        with open_origin(self.path) as file:
            for line in file:
                if b'"assistant.message"' in line:
                    ever, run = ever + 1, run + 1
                elif b'"session.start"' in line or b'"session.resume"' in line:
                    resumed = resumed or b'"session.resume"' in line
                    run = 0
                elif b'"session.shutdown"' in line:
                    for event in read_json(line.strip(b"\0\r\n ")).values:
                        asked = _requests(event)
                        grew = all(asked.get(model, 0) >= count for model, count in before.items())
                        count = sum(asked.values())
                        nearer = abs(count - run) - abs(count - ever)
                        account = field_of(field_of(event, "data"), "modelMetrics")
                        # To the token what it was before: nothing was added (account_too_small).
                        again = bool(asked) and account == last
                        if resumed and grew and (again or nearer > 0 or (runs_on and not nearer)):
                            running.add(str(event.get("id")))
                            runs_on = True
                        before, last = asked, account
        return running

    @cached_property
    def _skills(self) -> dict[str, str]:
        skills: dict[str, str] = {}
        for event in _search(self.path, b'"skill.invoked"'):
            content = event["data"].get("content") if event.get("type") == "skill.invoked" else None
            if isinstance(content, str):
                skills[content_id(content)] = content
        return skills

    def skill(self, ident: str) -> str:
        """The text of a skill that a later event names by its hash."""
        return self._skills.get(ident.removeprefix("sha256:"), "")

    @cached_property
    def _assets(self) -> dict[str, dict[str, Any]]:
        return {
            str(event["data"].get("assetId")): event["data"]
            for event in _search(self.path, b'"session.binary_asset"')
            if event.get("type") == "session.binary_asset"
        }

    def attachments(self, value: Any) -> tuple[Attachment, ...]:
        """What came with a person's message, or back from a tool, beside its text."""
        items = value if isinstance(value, list) else ()
        return tuple(self._attachment(item) for item in items if isinstance(item, dict))

    def _attachment(self, item: dict[str, Any]) -> Attachment:
        """A file, a folder, a selection, a reference on GitHub, or bytes (by an asset's id, too)."""
        asset = self._assets.get(plain(item.get("assetId")), {}) if item.get("assetId") else {}
        selection = item.get("selection")
        lines = selection if isinstance(selection, dict) else item.get("lineRange")
        data = plain(item.get("data") or asset.get("data"))
        size, digest = whole_number(asset.get("byteLength")), ""
        try:
            content = base64.b64decode(data)
            size, digest = (
                (len(content), hashlib.sha256(content).hexdigest()) if data else (size, "")
            )
        except ValueError:
            size = None
        text = item.get("text") or item.get("content")
        rest = {name: part for name, part in item.items() if name not in _ATTACHMENT_FIELDS}
        return Attachment(
            kind=plain(item.get("type")) or "file",
            name=plain(item.get("displayName") or item.get("name") or item.get("title")),
            path=plain(item.get("path") or item.get("filePath")),
            uri=plain(item.get("url")),
            media_type=plain(item.get("mimeType") or asset.get("mimeType")),
            size_bytes=size,
            sha256=digest,
            text=str_of(text),
            data=data,
            start_line=_line(lines, "start"),
            end_line=_line(lines, "end"),
            extra=rest or None,
        )


_ATTACHMENT_FIELDS = frozenset(("type", "displayName", "name", "path", "filePath", "url", "data",
                                "mimeType", "text", "content", "selection", "lineRange"))  # fmt: skip


def _line(lines: Any, name: str) -> int | None:
    value = field_of(lines, name)
    return whole_number(value.get("line") if isinstance(value, dict) else value)


def _requests(event: Any) -> dict[str, int]:
    """How many requests the end of a run counts, by model."""
    models = field_of(field_of(event, "data"), "modelMetrics")
    asked: dict[str, int] = {}
    for model, metrics in dict_of(models).items():
        requests = field_of(metrics, "requests")
        if isinstance(requests, dict):
            asked[model] = whole_number(requests.get("count")) or 0
    return asked


def content_id(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()


def _search(path: str, word: bytes) -> Iterator[dict[str, Any]]:
    """The events of the log on whose lines the word stands."""
    with open_origin(path) as searched, open_origin(path) as file:
        for at in _places(searched, word):
            file.seek(at)
            for value in read_json(file.readline().strip(b"\0\r\n ")).values:
                if isinstance(value, dict) and isinstance(value.get("data"), dict):
                    yield value


def _places(file: io.BufferedReader, word: bytes) -> Iterator[int]:
    """Where the lines begin on which the word stands. Every log is searched so: through one buffer that
    fits into the processor's cache, which is twice as fast as through bytes of their own."""
    buffer = bytearray(_CHUNK_BYTES)
    view = memoryview(buffer)
    last_place = -1
    begun = offset = held = (
        0  # where the last line began; where the buffer begins; bytes kept in it
    )
    while size := file.readinto1(view[held:]):
        size += held
        at = buffer.find(word, 0, size)
        while at >= 0:
            start = buffer.rfind(b"\n", 0, at)
            place = offset + start + 1 if start >= 0 else begun
            if place != last_place:
                yield place
            last_place = place
            end = buffer.find(b"\n", at, size)
            at = buffer.find(word, end, size) if end >= 0 else -1
        last = buffer.rfind(b"\n", 0, size)
        if last >= 0:
            begun = offset + last + 1
        held = min(len(word) - 1, size)
        view[:held] = view[size - held : size]
        offset += size - held


def _last_result(path: str) -> str:
    """The last line of a stdout stream names the session."""
    with open_origin(path) as file:
        if not path.endswith(_PACKED):
            file.seek(0, 2)
            file.seek(max(file.tell() - _TAIL_BYTES, 0))
        lines = file.read().split(b"\n")
    for line in reversed(lines):
        if b'"sessionId"' not in line:
            continue
        try:
            value = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and value.get("type") == "result":
            return str(value.get("sessionId") or "")
    return ""
