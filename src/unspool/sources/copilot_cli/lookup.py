"""What an event needs from elsewhere in its file: the session's id, sub-agents, skills, attachments.

These are facts about the origin as a whole: they are the same whichever part of it is read, so a
log may still be cut into ranges. The file is searched only once something asks.
"""

import base64
import hashlib
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
_CHUNK_BYTES = 1 << 20
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

    def __init__(self, path: str) -> None:
        self.path = path

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
    def _agents(self) -> dict[str, str]:
        """Agent id → the call that started it first."""
        agents: dict[str, str] = {}
        for event in self._started:
            agents.setdefault(str(event.get("agentId") or ""), _call(event))
        agents.pop("", None)
        return agents

    @cached_property
    def _started(self) -> list[dict[str, Any]]:
        started = _search(self.path, b'agent.started"')
        return [event for event in started if str(event.get("type")).endswith("agent.started")]

    @cached_property
    def started(self) -> dict[str, str]:
        """The call that started a sub-agent → the child that it belongs to."""
        calls: dict[str, str] = {}
        for event in self._started:
            agent = str(event.get("agentId") or "")
            calls.setdefault(_call(event), self._agents.get(agent, _call(event)))
        return calls

    def child(self, agent: str, call: str) -> str:
        """The sub-agent that an event belongs to; empty for the session's own agent.

        Named by the call that started it, which every version tells; newer ones put an id of their
        own registry on the events.
        """
        if agent:
            return self._agents.get(agent, agent)
        return self.started.get(call, call) if call else ""

    @cached_property
    def running_accounts(self) -> set[str]:
        """Ends of runs whose figures are of the session up to there: from 1.0.66 on (in 1.0.64 of the
        run), though nothing says so before 1.0.85. No model's requests are fewer than before, and
        there are as many as the log has answers, not as the run has (test_accounts_that_run_on)."""
        running: set[str] = set()
        before: dict[str, int] = {}
        ever = run = 0
        if next(_search(self.path, b'"session.resume"'), None) is None:
            return running  # of one run, both are the same
        with open_origin(self.path) as file:
            for line in file:
                if b'"assistant.message"' in line:
                    ever, run = ever + 1, run + 1
                elif b'"session.start"' in line or b'"session.resume"' in line:
                    run = 0
                elif b'"session.shutdown"' in line:
                    for event in read_json(line.strip(b"\0\r\n ")).values:
                        asked = _requests(event)
                        grew = all(asked.get(model, 0) >= count for model, count in before.items())
                        count = sum(asked.values())
                        if grew and abs(count - ever) < abs(count - run):
                            running.add(str(event.get("id")))
                        before = asked
        return running

    @cached_property
    def _skills(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for event in _search(self.path, b'"skill.invoked"'):
            content = event["data"].get("content") if event.get("type") == "skill.invoked" else None
            if isinstance(content, str):
                found[content_id(content)] = content
        return found

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
    for model, told in dict_of(models).items():
        requests = field_of(told, "requests")
        if isinstance(requests, dict):
            asked[model] = whole_number(requests.get("count")) or 0
    return asked


def content_id(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()


def _call(event: dict[str, Any]) -> str:
    return str(event["data"].get("toolCallId") or "")


def _search(path: str, word: bytes) -> Iterator[dict[str, Any]]:
    """The events of the log on whose lines the word stands."""
    with open_origin(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            chunk += file.readline()
            at = chunk.find(word)
            while at >= 0:
                start, end = chunk.rfind(b"\n", 0, at) + 1, chunk.find(b"\n", at)
                end = end if end >= 0 else len(chunk)
                for value in read_json(chunk[start:end].strip(b"\0\r ")).values:
                    if isinstance(value, dict) and isinstance(value.get("data"), dict):
                        yield value
                at = chunk.find(word, end)


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
