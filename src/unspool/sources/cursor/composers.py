"""Composers: Cursor's name for a conversation; its head, its bubbles in their order, its orphans."""

import ntpath
import posixpath
from collections.abc import Iterator
from itertools import count
from typing import Any

from unspool.facts import ROOT, AnyFact, Key, Noted, Problem, UsageReported
from unspool.origins import Tally
from unspool.records import clean, sample
from unspool.sources.cursor.bubbles import RANK, Bubble, Chat, bubble_time, mode_name
from unspool.sources.cursor.edits import Changes
from unspool.sources.cursor.entries import rank_of
from unspool.sources.cursor.kv import Broken, Keys, parse_object
from unspool.sources.cursor.paths import clean_path
from unspool.sources.cursor.tools import decoded, kind_of
from unspool.times import format_time, parse_time

Composer = dict[str, Any]


def head_notes(composer: Composer) -> dict[str, Any]:
    """What a composer's head says about its conversation, in the trajectory's names."""
    used, limit = composer.get("contextTokensUsed"), composer.get("contextTokenLimit")
    percent = composer.get("contextUsagePercent")
    if (
        percent is None
        and isinstance(used, int | float)
        and isinstance(limit, int | float)
        and limit
    ):
        percent = round(100 * used / limit, 1)
    mode = composer.get("unifiedMode") or composer.get("forceMode")
    identifier = composer.get("workspaceIdentifier")
    parent = composer.get("subagentInfo")
    summary = composer.get("latestConversationSummary")
    while isinstance(summary, dict):
        summary = summary.get("summary")
    made: dict[str, Any] = {
        "title": composer.get("name") or composer.get("chatTitle"),
        "started_at": format_time(parse_time(composer.get("createdAt"))),
        "ended_at": format_time(
            parse_time(composer.get("lastUpdatedAt", composer.get("lastSendTime")))
        ),
        "composer_mode": mode_name(mode) or None,
        "composer_status": composer.get("status"),
        "context_usage": percent,
        "context_tokens": used,
        "context_limit": limit,
        "total_lines_added": composer.get("totalLinesAdded"),
        "total_lines_removed": composer.get("totalLinesRemoved"),
        "files_changed": composer.get("filesChangedCount"),
        "agent_backend": composer.get("agentBackend"),
        "is_archived": composer.get("isArchived") or None,
        "conversation_summary": summary if isinstance(summary, str) else None,
        "workspace.path": _workspace(identifier),
        "workspace.branch": _branch(composer.get("trackedGitRepos")),
    }
    if isinstance(parent, dict) and isinstance(parent.get("parentComposerId"), str):
        made["parent"] = {"conversation_id": parent["parentComposerId"]}
        if isinstance(parent.get("toolCallId"), str):
            made["parent"]["tool_call_id"] = parent["toolCallId"]
    return {name: value for name, value in made.items() if value not in (None, "")}


def _workspace(identifier: Any) -> str | None:
    uri = identifier.get("uri") if isinstance(identifier, dict) else None
    if isinstance(uri, dict):
        uri = uri.get("fsPath", uri.get("path"))
    return clean_path(uri) if isinstance(uri, str) and uri else None


def _branch(repositories: Any) -> str | None:
    first = repositories[0] if isinstance(repositories, list) and repositories else None
    listed = first.get("branches") if isinstance(first, dict) else None
    branch = listed[0] if isinstance(listed, list) and listed else None
    name = branch.get("branchName") if isinstance(branch, dict) else None
    return name if isinstance(name, str) else None


def model_of(composer: Composer) -> str:
    """The model that is set for the composer; `default` is whatever Cursor chose."""
    config = decoded(composer.get("modelConfig"))
    name = config.get("modelName") if isinstance(config, dict) else None
    if isinstance(name, str) and name and name != "default":
        return name
    usage = composer.get("usageData")
    models = [m for m in usage if m != "default"] if isinstance(usage, dict) else []
    if len(models) == 1:
        return str(models[0])
    return name if isinstance(name, str) else ""


def common_folder(composers: list[Composer]) -> str | None:
    """The folder that the changed files of several composers share, where nothing names it."""
    changed: list[dict[str, Any]] = []
    for composer in composers:
        blocks = composer.get("codeBlockData")
        if isinstance(blocks, dict) and blocks:
            changed.append(blocks)
    paths = [clean_path(str(uri)) for blocks in changed for uri in blocks]
    windows = [path for path in paths if path[1:3] == ":\\"]
    plain = [path for path in paths if path[:1] == "/"]
    module: Any = ntpath if len(windows) > len(plain) else posixpath
    absolute = windows if module is ntpath else plain
    if len(changed) < 2:
        return None
    try:
        found: str = module.commonpath(absolute)
    except ValueError:
        return None
    return found if len(found) > 3 else None


class Reader:
    """Reads composers of one origin; every record gets the next offset."""

    def __init__(self, origin: str, tally: Tally, store: str, rows: Keys | None = None) -> None:
        self.origin = origin
        self.tally = tally
        self.store = store
        self.rows = rows
        self.offsets = count()
        self.unanswered: dict[str, Key] = {}
        """Calls whose result the bubbles do not hold → their conversation."""

    def problem(self, key: Key, code: str, data: bytes | str) -> Problem:
        self.tally.problems += 1
        return Problem(
            key=key, origin=self.origin, offset=next(self.offsets), number=99, code=code,
            sample=sample(data),
        )  # fmt: skip

    def head(
        self, ident: str, composer: Composer, workspace: str | None = None
    ) -> Iterator[AnyFact]:
        """Notes on a conversation; told by a record of this store's own."""
        common: dict[str, Any] = {
            "key": ("cursor", ident), "origin": self.origin, "offset": next(self.offsets),
            "entry": f"composer:{self.store}:{ident}",
        }  # fmt: skip
        notes = {"session_id": ident, **head_notes(composer)}
        for number, (name, value) in enumerate(notes.items()):
            rank = rank_of(("cursor", ident), name, value, RANK)
            yield Noted(**common, number=number, name=name, value=clean(value), rank=rank)
        model = model_of(composer)
        if model:
            yield Noted(
                **common, number=61, on="following", name="model", value=model, rank=RANK
            )  # fmt: skip
        if workspace:
            yield Noted(**common, number=60, name="workspace.path", value=workspace, rank=RANK + 1)
        yield from _costs(composer, common)

    def read(
        self, ident: str, composer: Composer, workspace: str | None = None
    ) -> Iterator[AnyFact]:
        """The head and the bubbles of a composer."""
        self.tally.records += 1
        yield from self.head(ident, composer, workspace)
        mode = mode_name(composer.get("unifiedMode") or composer.get("forceMode"))
        fetch = self.rows.get if self.rows is not None else _nothing
        changes = Changes({"composerId": ident, **composer}, fetch)
        chat = Chat(("cursor", ident), self.origin, changes, mode)
        order = Order(self, ident, composer)
        after: str = ROOT
        for bubble_id, bubble, fork in order.bubbles(chat.key):
            if isinstance(bubble, Problem):
                yield bubble
                continue
            facts = chat.read(bubble, bubble_id, next(self.offsets), fork or after)
            if not facts:
                self.tally.noise += 1
                continue
            yield from facts
            yield from self._beside(chat, bubble, bubble_id)
            if fork is None:
                after = f"bubble:{bubble_id}"
        yield from order.problems
        for call in chat.calls:
            self.unanswered.setdefault(call, chat.key)

    def _beside(self, chat: Chat, bubble: Bubble, ident: str) -> Iterator[AnyFact]:
        """What other rows hold about a bubble."""
        yield from chat.files(bubble, ident, next(self.offsets))
        if self.rows is None:
            return
        tool = bubble.get("toolFormerData")
        if isinstance(tool, dict) and kind_of(str(tool.get("name"))) == "task":
            call = str(tool.get("toolCallId") or "")
            child = self._child(call, decoded(tool.get("result")))
            if child:
                yield Noted(
                    key=chat.key, origin=self.origin, offset=next(self.offsets), on="call",
                    entry=f"bubble:{ident}:child", subject=call, name="child_id", value=child,
                    rank=RANK,
                )  # fmt: skip
        data = self.rows.get(f"messageRequestContext:{chat.key[1]}:{ident}")
        if data is not None:
            self.tally.records += 1
            try:
                context = clean(parse_object(data))
                yield chat.context(context, ident, next(self.offsets))
                yield from self._layout(chat.key, context)
            except Broken as broken:
                yield self.problem(chat.key, broken.code, broken.data)

    def _child(self, call: str, result: Any) -> str:
        """The conversation that a task call started: named in its result, or after the call."""
        named = result.get("agentId") if isinstance(result, dict) else None
        if isinstance(named, str) and named:
            return named
        found = call and self.rows is not None and self.rows.has(f"bubbleId:task-{call}:")
        return f"task-{call}" if found else ""

    def _layout(self, key: Key, context: dict[str, Any]) -> Iterator[AnyFact]:
        """The root of the project as it was shown to the model."""
        listed = context.get("projectLayouts")
        layout = decoded(listed[0]) if isinstance(listed, list) and listed else None
        root = layout.get("rootPath") if isinstance(layout, dict) else None
        if isinstance(root, str) and root:
            yield Noted(
                key=key, origin=self.origin, offset=next(self.offsets), name="workspace.path",
                value=clean_path(root), rank=RANK + 1,
            )  # fmt: skip


def _nothing(key: str) -> bytes | None:
    return None


def _costs(composer: Composer, common: dict[str, Any]) -> Iterator[AnyFact]:
    usage = composer.get("usageData")
    for number, (model, spent) in enumerate(usage.items() if isinstance(usage, dict) else ()):
        cents = spent.get("costInCents") if isinstance(spent, dict) else None
        if isinstance(cents, int | float) and cents:
            amount = spent.get("amount")
            yield UsageReported(
                **common, number=number, on="conversation", model=str(model), rank=RANK,
                cost_usd=cents / 100, requests=amount if isinstance(amount, int) else None,
            )  # fmt: skip


class Order:
    """The bubbles of a composer: by its headers, else as they stand in it, else by their time."""

    def __init__(self, reader: Reader, ident: str, composer: Composer) -> None:
        self._reader = reader
        self._ident = ident
        self._inline = _by_id(composer.get("conversation"))
        kept = composer.get("conversationMap")
        for name, bubble in kept.items() if isinstance(kept, dict) else ():
            if isinstance(bubble, dict):
                self._inline.setdefault(str(name), bubble)
        headers = decoded(composer.get("fullConversationHeadersOnly"))
        self._headers = list(_by_id(headers)) or list(_by_id(composer.get("conversation")))
        self._old_tools = _old_tools(composer)
        self.problems: list[Problem] = []

    def bubbles(self, key: Key) -> Iterator[tuple[str, Bubble, str | None]]:
        """(id, bubble, the entry that it forks from where it was abandoned)."""
        orphans = self._orphans(key)
        if not self._headers:
            for _, ident in sorted(orphans):
                if (bubble := self._bubble(ident, key)) is not None:
                    yield ident, bubble, None
            return
        known: list[tuple[int, str]] = []
        last = ""
        for ident in self._headers:
            bubble = self._bubble(ident, key)
            if bubble is None:
                continue
            time = bubble_time(bubble)
            # What was abandoned stands before what came after it, so that the end of the thread
            # is the end of the headers.
            while time is not None and orphans and orphans[0][0] < time:
                yield from self._orphan(orphans.pop(0), f"bubble:{last}" if last else None, key)
            if time is not None:
                known.append((time, ident))
            yield ident, bubble, None
            last = ident
        for made, ident in orphans:
            if made and known and made > known[-1][0]:
                # Newer than all that the headers know: written, but not yet listed.
                if (bubble := self._bubble(ident, key)) is not None:
                    yield ident, bubble, None
            else:
                self._reader.tally.records += 1
                self._reader.tally.noise += 1

    def _orphan(
        self, orphan: tuple[int, str], fork: str | None, key: Key
    ) -> Iterator[tuple[str, Bubble, str | None]]:
        bubble = self._bubble(orphan[1], key)
        if bubble is not None and fork and orphan[0]:
            yield orphan[1], bubble, fork
        elif bubble is not None:
            self._reader.tally.noise += 1

    def _orphans(self, key: Key) -> list[tuple[int, str]]:
        """(time or 0, id) of the rows that no header names, by time."""
        rows = self._reader.rows
        if rows is None:
            return []
        prefix = f"bubbleId:{self._ident}:"
        listed = set(self._headers)
        found: list[tuple[int, str]] = []
        for row in rows.keys(prefix):
            ident = row[len(prefix) :]
            if ident in listed:
                continue
            try:
                bubble = parse_object(rows.get(row) or b"{}")
            except Broken:
                bubble = {}
            found.append((bubble_time(bubble) or 0, ident))
        return sorted(found)

    def _bubble(self, ident: str, key: Key) -> Bubble | None:
        """The row, over what the composer itself holds; None where there is neither."""
        reader = self._reader
        inline = self._inline.get(ident)
        data = reader.rows.get(f"bubbleId:{self._ident}:{ident}") if reader.rows else None
        if data is None and inline is None:
            return None
        reader.tally.records += 1
        row: Bubble = {}
        try:
            row = parse_object(data) if data is not None else {}
        except Broken as broken:
            self.problems.append(reader.problem(key, broken.code, broken.data))
            if inline is None:
                return None
        merged = {**(inline or {}), **row}
        old = self._old_tools.get(ident)
        if old is not None and not isinstance(merged.get("toolFormerData"), dict):
            merged["toolFormerData"] = old
        return merged


def _by_id(listed: Any) -> dict[str, Bubble]:
    found: dict[str, Bubble] = {}
    for bubble in listed if isinstance(listed, list) else ():
        if isinstance(bubble, dict):
            ident = bubble.get("bubbleId", bubble.get("id"))
            if isinstance(ident, str) and ident:
                found.setdefault(ident, bubble)
    return found


def _old_tools(composer: Composer) -> dict[str, dict[str, Any]]:
    """Tools of the first agents: kept with the composer, by bubble, sometimes as JSON text."""
    found: dict[str, dict[str, Any]] = {}
    listed = composer.get("capabilities")
    for capability in listed if isinstance(listed, list) else ():
        data = capability.get("data") if isinstance(capability, dict) else None
        kept = decoded(data.get("bubbleDataMap")) if isinstance(data, dict) else None
        if capability.get("type") == 15 if isinstance(capability, dict) else False:
            for ident, tool in kept.items() if isinstance(kept, dict) else ():
                if isinstance(tool, dict):
                    found[str(ident)] = tool
    return found
