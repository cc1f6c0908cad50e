"""What an event needs from elsewhere in its file: the session's id, sub-agents, skills, attachments.

These are facts about the origin as a whole: they are the same whichever part of it is read, so a
log may still be cut into ranges. The file is searched only once something asks.
"""

import hashlib
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePath
from typing import Any

import msgspec

from unspool.facts import Attachment
from unspool.io.door import read_json
from unspool.io.origins import open_origin, plain_name, read_head
from unspool.io.values import dict_of, dicts_of, field_of, str_of
from unspool.prompts.shapes import digest_base64
from unspool.sources.copilot_cli.texts import plain, whole_number

STATE = "session-state"
UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def folder_session(path: str) -> str | None:
    """The session that a path names: session-state/<id>/… or session-state/<id>.jsonl."""
    parts = PurePath(path).parts
    if STATE in parts[:-1]:
        at = len(parts) - 1 - parts[::-1].index(STATE)
        return plain_name(parts[at + 1]).removesuffix(".jsonl")
    return next((part for part in reversed(parts[:-1]) if UUID.fullmatch(part)), None)


class Torn(msgspec.Struct, gc=False):
    """Reasoning of an answer that was never finished: where it begins, and the answer's id."""

    entry: str
    message: str
    text: str = ""


class Lookup:
    """The origin as a whole, as far as its events refer to it."""

    def __init__(self, path: str, from_start: bool = False) -> None:
        self.path = path
        self.resumed = False if from_start else None
        """Whether a resumption was read; unknown where the reading began in the middle."""

    @cached_property
    def named(self) -> str:
        """The session: from the path; else as the log itself says, at its head or its end."""
        by_path = folder_session(self.path) or ""
        if UUID.fullmatch(by_path):
            return by_path
        for event in read_head(self.path).objects:
            if event.get("type") == "session.start":
                return plain(field_of(event.get("data"), "sessionId"))
        ends = [event for event in _search(self.path, b'"sessionId"') if event["type"] == "result"]
        return plain(ends[-1]["sessionId"]) if ends else by_path

    @cached_property
    def session(self) -> str:
        """What is made up where nothing names it depends on the name and the first line alone: a copy,
        or a longer state of the same file, is the same session."""
        first = read_head(self.path).data.partition(b"\n")[0].strip()
        name = plain_name(self.path).removesuffix(".jsonl")
        return self.named or f"{name}-{hashlib.sha256(first).hexdigest()[:12]}"

    @cached_property
    def _starts(self) -> tuple[dict[str, str], dict[str, str]]:
        """Of sub-agents: agent id → the call that started it first, and call → the child that it
        belongs to."""
        agents: dict[str, str] = {}
        calls: dict[str, str] = {}
        for event in _search(self.path, b'agent.started"'):
            if str(event["type"]).endswith("agent.started"):
                agent, call = plain(event.get("agentId")), plain(event["data"].get("toolCallId"))
                if agent:
                    agents.setdefault(agent, call)
                calls.setdefault(call, agents.get(agent, call))
        return agents, calls

    def started(self, call: str) -> str | None:
        """The child that a call started, if it started one."""
        return self._starts[1].get(call)

    def child(self, agent: str, call: str) -> str:
        """The sub-agent that an event belongs to; empty for the session's own agent.

        Named by the call that started it, which every version tells; newer ones put an id of their
        own registry on the events.
        """
        agents, calls = self._starts
        return agents.get(agent, agent) if agent else calls.get(call, call)

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
                    for event in _events(line):
                        account = dict_of(event["data"].get("modelMetrics"))
                        asked = {model: _requests(metrics) for model, metrics in account.items()}
                        grew = all(asked.get(model, 0) >= count for model, count in before.items())
                        count = sum(asked.values())
                        nearer = abs(count - run) - abs(count - ever)
                        # To the token what it was before: nothing was added (account_too_small).
                        again = bool(asked) and account == last
                        if resumed and grew and (again or nearer > 0 or (runs_on and not nearer)):
                            running.add(str(event.get("id")))
                            runs_on = True
                        before, last = asked, account
        return running

    @cached_property
    def _torn(self) -> dict[str, Torn]:
        """What was streamed behind the last whole answer."""
        torn: dict[str, Torn] = {}
        for event in _search(self.path, b'"assistant.'):
            kind, data = event["type"], event["data"]
            if kind == "assistant.message":
                torn.clear()
            elif kind == "assistant.reasoning_delta":
                ident = plain(data.get("reasoningId"))
                reasoning = torn.setdefault(ident, Torn(str(event.get("id")), ident))
                reasoning.text += plain(data.get("deltaContent"))
            elif kind == "assistant.message_delta" and torn:
                torn[next(reversed(torn))].message = plain(data.get("messageId"))
        return torn

    def torn(self, reasoning: str) -> Torn | None:
        return self._torn.get(reasoning)

    @cached_property
    def _skills(self) -> dict[str, str]:
        skills: dict[str, str] = {}
        for event in _search(self.path, b'"skill.invoked"'):
            content = event["data"].get("content")
            if event["type"] == "skill.invoked" and isinstance(content, str):
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
            if event["type"] == "session.binary_asset"
        }

    def attachments(self, value: Any) -> tuple[Attachment, ...]:
        """What came with a person's message, or back from a tool, beside its text."""
        return tuple(self._attachment(item) for item in dicts_of(value))

    def _attachment(self, item: dict[str, Any]) -> Attachment:
        """A file, a folder, a selection, a reference on GitHub, or bytes (by an asset's id, too)."""
        asset = self._assets.get(plain(item.get("assetId")), {}) if item.get("assetId") else {}
        selection = item.get("selection")
        lines = selection if isinstance(selection, dict) else item.get("lineRange")
        data = plain(item.get("data") or asset.get("data"))
        size, digest = whole_number(asset.get("byteLength")), ""
        if data:
            size, digest = digest_base64(data) or (None, "")
        rest = {name: part for name, part in item.items() if name not in _ATTACHMENT_FIELDS}
        return Attachment(
            kind=plain(item.get("type")) or "file",
            name=plain(item.get("displayName") or item.get("name") or item.get("title")),
            path=plain(item.get("path") or item.get("filePath")),
            uri=plain(item.get("url")),
            media_type=plain(item.get("mimeType") or asset.get("mimeType")),
            size_bytes=size,
            sha256=digest,
            text=str_of(item.get("text") or item.get("content")),
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


def _requests(metrics: Any) -> int:
    """How many requests to a model the end of a run counts."""
    return whole_number(field_of(field_of(metrics, "requests"), "count")) or 0


def content_id(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()


_BLOCK_BYTES = 1 << 17


def _search(path: str, word: bytes) -> Iterator[dict[str, Any]]:
    """The events of the log on whose lines the word stands."""
    with open_origin(path) as file:
        while block := file.read(_BLOCK_BYTES) + file.readline():  # many lines at a time
            at = 0
            while (at := block.find(word, at)) >= 0:
                start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
                at = end if end >= 0 else len(block)
                yield from _events(block[start:at])


def _events(line: bytes) -> Iterator[dict[str, Any]]:
    for value in dicts_of(read_json(line.strip(b"\0\r\n ")).values):
        if isinstance(value.get("type"), str):
            yield {**value, "data": dict_of(value.get("data"))}
