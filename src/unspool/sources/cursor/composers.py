"""Composers: Cursor's name for a conversation; its head, its bubbles, and what lies beside them.

`composerData:<id>` is the head. Its `fullConversationHeadersOnly` names the bubbles in order, each a
row `bubbleId:<id>:<bubble>`; before 0.50 the bubbles stand in the head, as `conversation`.
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from unspool.facts import ROOT, AnyFact, Key, Problem, Rank
from unspool.io.door import Flaw
from unspool.io.origins import Tally
from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, dicts_of, field_of, list_of
from unspool.sources.cursor.bubbles import AUTO, BUBBLE, RANK, TOOL, Bubble, Chat, mode_name
from unspool.sources.cursor.edits import Changes
from unspool.sources.cursor.entries import Book, note_all
from unspool.sources.cursor.generations import Generations
from unspool.sources.cursor.paths import (
    clean_path,
    file_name,
    folder_of,
    is_absolute,
    parents_of,
    uri_path,
    workspace_folder,
)
from unspool.sources.cursor.sent import RANK as SENT_RANK
from unspool.sources.cursor.sent import Sent, read_sent, root_of
from unspool.sources.cursor.tables import Broken, Keys, parse_object
from unspool.sources.cursor.tools import decoded, kind_of

Composer = dict[str, Any]
_TOOLS = 15
"""The capability under which composers before 0.50 keep the calls of their bubbles."""


class Reader(Book):
    """Reads composers of one origin."""

    def __init__(self, origin: str, tally: Tally, store: str) -> None:
        super().__init__(origin, tally)
        self.store = store
        self.rows: Keys | None = None
        self.generations = Generations()

    def head(self, ident: str, composer: Composer, workspace: str | None = None) -> list[AnyFact]:
        """Notes on a conversation; told by a record of this store's own."""
        scribe = self.scribe(("cursor", ident), f"composer:{self.store}:{ident}")
        notes = {"session_id": ident, **head_notes(composer)}
        note_all(scribe, notes, RANK)
        if workspace := workspace or self._folder(composer):
            scribe.note("workspace.path", workspace, RANK + 1)
        if model := model_of(composer):
            scribe.note("model", model, RANK, on="following")
        for child in list_of(composer.get("subagentComposerIds")):
            if isinstance(child, str) and child:
                scribe.note("children", {"conversation_id": child}, RANK)
                scribe.note("session_id", notes["session_id"], RANK + 1, key=("cursor", child))
        for model, spent in dict_of(composer.get("usageData")).items():
            cents = field_of(spent, "costInCents")
            if isinstance(cents, int | float) and cents:
                amount = spent.get("amount")
                scribe.usage(
                    on="conversation", model=str(model), rank=RANK, cost_usd=cents / 100,
                    requests=amount if isinstance(amount, int) else None,
                )  # fmt: skip
        return scribe.facts

    def _folder(self, composer: Composer) -> str | None:
        """The project of the workspace that a head names by its folder in `workspaceStorage`."""
        named = composer.get("workspaceIdentifier")
        ident = named.get("id") if isinstance(named, dict) else composer.get("workspaceId")
        if not isinstance(ident, str) or not ident.isalnum():
            return None
        place = Path(self.origin).parent.parent / "workspaceStorage" / ident
        return workspace_folder(str(place / "state.vscdb"))

    def read(
        self, ident: str, composer: Composer, workspace: str | None = None
    ) -> Iterator[AnyFact]:
        """The head and the bubbles of a composer."""
        self.tally.records += 1
        yield from self.head(ident, composer, workspace)
        fetch = self.rows.get if self.rows is not None else lambda key: None
        changes = Changes(ident, composer, fetch)
        mode = mode_name(composer.get("unifiedMode") or composer.get("forceMode"))
        chat = Chat(("cursor", ident), self.origin, changes, mode)
        bubbles = Bubbles(self, chat.key, composer)
        requests: set[str] = set()
        yield from self._conversation(chat, bubbles, requests)
        yield from bubbles.problems
        if bubbles.missing:
            self.tally.records += 1
            yield self.problem(chat.key, "missing-bubbles", f"{bubbles.missing} that headers name")
        yield from self._times_and_place(chat, composer, requests)
        root = root_of(composer)
        sent = Sent(chat.key, self.origin, SENT_RANK, self.offsets)
        for facts in read_sent(self.rows, root, sent) if self.rows and root else ():
            self.tally.records += 1
            self.tally.noise += not facts
            yield from facts

    def _conversation(
        self, chat: Chat, bubbles: "Bubbles", requests: set[str]
    ) -> Iterator[AnyFact]:
        """The bubbles in order, and what was abandoned before what came instead of it."""
        after = ROOT
        if bubbles.runs:
            start = self.scribe(chat.key, f"start:{chat.key[1]}", after=ROOT)
            start.link()  # what even the first bubble can be forked from
            yield from start.facts
            after = start.entry
        prompt, asked = "", Bubble()
        for ident, bubble, answer in bubbles.in_order():
            if bubble.is_prompt:
                yield from self._end_turn(chat, bubbles, prompt)
                request = bubble.request or (answer.request if answer else "")
                sent = bubble.time or (answer.sent if answer else None)
                sent = sent or self.generations.time(request)
                requests.add(request)
                for run in bubbles.runs_before(sent):
                    yield from self._abandoned(chat, bubbles, run, after, bubble.words)
                chat.ask(bubble, request, sent)
                prompt, asked = ident, bubble
            after = yield from self._bubble(chat, bubble, ident, after, answer is not None)
        for run in bubbles.runs_before(None):
            if bubbles.at_work and all((b.created or 0) > (chat.last or 0) for _, b in run):
                for ident, _ in run:  # not yet listed
                    bubble = bubbles.fetch(ident) or Bubble()
                    after = yield from self._bubble(chat, bubble, ident, after)
            else:
                yield from self._abandoned(chat, bubbles, run, after, asked.words)
        yield from self._end_turn(chat, bubbles, prompt, last=True)

    def _bubble(
        self, chat: Chat, bubble: Bubble, ident: str, after: str, answered: bool = False
    ) -> Generator[AnyFact, None, str]:
        """What a bubble says, and the record that the next one follows."""
        facts = chat.read(bubble, ident, next(self.offsets), after, answered)
        if not facts:
            self.tally.noise += 1
            return after
        yield from facts
        yield from self._beside(chat, bubble, ident)
        return f"bubble:{ident}"

    def _end_turn(
        self, chat: Chat, bubbles: "Bubbles", prompt: str, last: bool = False
    ) -> Iterator[AnyFact]:
        """When the request was over, and Cursor's notices about it. These stand on bubbles outside
        the headers, as in `{"errorDetails": {"requestId": …}}` (test_a_notice_is_no_answer)."""
        for ident in bubbles.notices(chat.request, last):
            yield from chat.read(
                bubbles.fetch(ident) or Bubble(), ident, next(self.offsets), after=None
            )
        if prompt and chat.ended is not None:
            scribe = self.scribe(chat.key, f"bubble:{prompt}:end", time=chat.ended)
            data = {"duration_ms": (chat.ended - chat.sent) // 1000} if chat.sent else None
            scribe.mark("turn_end", data, subject=chat.request, rank=RANK)
            yield from scribe.facts

    def _abandoned(
        self, chat: Chat, bubbles: "Bubbles", run: list["Orphan"], after: str, instead: str
    ) -> Iterator[AnyFact]:
        """A prompt that was sent, and then edited or sent again. Only the run is left of it: the words
        are those of its generation, else those that were sent in its place."""
        aside = chat.aside()
        first, bubble = run[0]
        request = next((bubble.request for _, bubble in run if bubble.request), "")
        if not bubble.is_prompt:
            aside.ask(Bubble(), request, bubble.began)
            asked = self.scribe(
                chat.key, f"bubble:{first}:prompt", time=bubble.began, after=after, rank=RANK
            )
            asked.message(
                id=f"{first}:prompt", role="user", request=request, withdrawn=True,
                text=self.generations.words(request) or instead,
            )  # fmt: skip
            yield from asked.facts
            after = asked.entry
        for ident, _ in run:
            bubble = bubbles.fetch(ident) or Bubble()
            if bubble.is_prompt:
                aside.ask(bubble, request, bubble.began)
            after = yield from self._bubble(aside, bubble, ident, after)

    def _beside(self, chat: Chat, bubble: Bubble, ident: str) -> Iterator[AnyFact]:
        """What other rows hold about a bubble."""
        if bubble.codeBlocks:
            yield from chat.files(bubble, ident, next(self.offsets))
        if self.rows is None:
            return
        tool = bubble.call
        if tool is not None and kind_of(tool.name or "") == "task":
            call = tool.toolCallId or ""
            child = field_of(decoded(tool.result), "agentId")
            if not child and call and self.rows.has(f"bubbleId:task-{call}:"):
                child = f"task-{call}"  # the rows of a sub-agent are named after the call
            if isinstance(child, str) and child:
                scribe = self.scribe(chat.key, f"bubble:{ident}:child")
                scribe.note("child_id", child, RANK, on="call", subject=call)
                yield from scribe.facts
        data = self.rows.get(f"messageRequestContext:{chat.key[1]}:{ident}")
        if data is not None:
            self.tally.records += 1
            try:
                yield from self._context(chat, parse_object(data), ident)
            except Broken as broken:
                yield self.problem(chat.key, broken.code, broken.data)

    def _context(self, chat: Chat, context: dict[str, Any], ident: str) -> list[AnyFact]:
        """What a request was sent with: how many of each kind, and the root of the project as it was
        shown to the model: in some versions its name alone, which the paths of files may hold."""
        scribe = self.scribe(chat.key, f"bubble:{ident}:context")
        counts = {n: len(v) for n, v in context.items() if isinstance(v, list | dict) and v}
        scribe.note("request_context", counts, RANK, on="message", subject=ident)
        listed = context.get("projectLayouts")
        layout = decoded(listed[0]) if isinstance(listed, list) and listed else None
        root = field_of(layout, "rootPath")
        if isinstance(root, str) and is_absolute(clean_path(root)):
            scribe.note("workspace.path", clean_path(root), RANK + 1)
        elif isinstance(root, str):
            chat.root_name = root
        return scribe.facts

    def _times_and_place(self, chat: Chat, composer: Composer, requests: set[str]) -> list[AnyFact]:
        """`createdAt` is when the tab was opened, up to a day before the first prompt: it counts only
        where nothing else does. `lastUpdatedAt` is the last send or the last end."""
        scribe = self.scribe(chat.key)
        if chat.last is None:
            scribe.note("started_at", format_time(parse_time(composer.get("createdAt"))), RANK)
        updated = parse_time(composer.get("lastUpdatedAt"))
        if updated or chat.last:
            scribe.note("ended_at", format_time(max(updated or 0, chat.last or 0)), RANK)
        if chat.roots:
            scribe.note("workspace.path", chat.roots[0], RANK + 1)
        folder = self.generations.folder(requests)
        if folder:
            scribe.note("workspace.path", folder, RANK + 2)
        shared = folder_of(sorted(path for path in chat.paths if path))
        if shared:
            above = parents_of(shared) if chat.root_name else []
            named = next((path for path in above if file_name(path) == chat.root_name), shared)
            scribe.note("workspace.path", named, Rank.LAST_RESORT)
            scribe.note("common_folder", shared, Rank.LAST_RESORT)
        return scribe.facts


Orphan = tuple[str, Bubble]
"""(id, bubble) that the headers do not name."""


class Bubbles:
    """The bubbles of one composer: by its headers, else as they stand in it, else by their time."""

    def __init__(self, reader: Reader, key: Key, composer: Composer) -> None:
        self._reader = reader
        self._key = key
        self._inline = _by_id(composer.get("conversation"))
        headers = _by_id(composer.get("fullConversationHeadersOnly"))
        self._order = list(headers or self._inline)
        # Tools of the first agents: kept with the composer, by bubble, sometimes as JSON text.
        self._tools: dict[str, dict[str, Any]] = {}
        for capability in dicts_of(composer.get("capabilities")):
            if capability.get("type") == _TOOLS:
                by_bubble = decoded(field_of(capability.get("data"), "bubbleDataMap"))
                for ident, tool in dict_of(by_bubble).items():
                    if isinstance(tool, dict):
                        self._tools[str(ident)] = tool
        self.problems: list[Problem] = []
        self.missing = 0
        """Headers whose bubble is not there."""
        orphans = self._orphans()
        if not self._order:
            self._order = [ident for ident, _ in orphans]
            orphans = []
        self._notices = {ident: b.error[0] for ident, b in orphans if b.is_notice}
        self.runs = _runs([orphan for orphan in orphans if not orphan[1].is_notice])
        self.at_work = composer.get("status") not in ("completed", "aborted")

    def in_order(self) -> Iterator[tuple[str, Bubble, Bubble | None]]:
        """(id, bubble, the answer that follows it where it is a prompt)."""
        waiting: tuple[str, Bubble] | None = None
        for ident in self._order:
            bubble = self.fetch(ident)
            if bubble is None:
                self.missing += 1
                continue
            if waiting is not None:
                yield *waiting, None if bubble.is_prompt or not waiting[1].is_prompt else bubble
            waiting = (ident, bubble)
        if waiting is not None:
            yield *waiting, None

    def runs_before(self, sent: int | None) -> list[list[Orphan]]:
        """The runs that were sent before this moment, or all; they are gone then."""
        earlier = [run for run in self.runs if sent is None or (run[0][1].began or sent) < sent]
        self.runs = [run for run in self.runs if run not in earlier]
        return earlier

    def notices(self, request: str, last: bool) -> list[str]:
        """The notices about a request, or all that are left; they are gone then."""
        due = [i for i, about in self._notices.items() if last or (about and about == request)]
        for ident in due:
            del self._notices[ident]
        return due

    def fetch(self, ident: str) -> Bubble | None:
        """The row, over what the composer itself holds; None where there is neither."""
        reader, rows, inline = self._reader, self._reader.rows, self._inline.get(ident)
        data = rows.get(f"bubbleId:{self._key[1]}:{ident}") if rows is not None else None
        if data is None and inline is None:
            return None
        reader.tally.records += 1
        flaws: list[Flaw] = []
        try:
            row = parse_object(data, flaws) if data is not None else {}
        except Broken as broken:
            row = {}
            self.problems.append(reader.problem(self._key, broken.code, broken.data))
        for flaw in flaws:
            self.problems.append(reader.problem(self._key, flaw.code, flaw.sample, lost=False))
        bubble = BUBBLE.convert({**inline, **row} if inline else row)
        if bubble.call is None and ident in self._tools:
            bubble.toolFormerData = TOOL.convert(self._tools[ident])
        return bubble

    def _orphans(self) -> list[Orphan]:
        """By `createdAt` (a prompt before answers of its moment), else in the order of writing."""
        rows, tally = self._reader.rows, self._reader.tally
        if rows is None:
            return []
        prefix = f"bubbleId:{self._key[1]}:"
        listed = set(self._order)
        orphans: list[tuple[int, Orphan]] = []
        for key in rows.keys(prefix):
            ident = key[len(prefix) :]
            if ident in listed:
                continue
            row, data = rows.row(key)
            try:
                bubble = BUBBLE.convert(parse_object(data or b"{}"))
            except Broken as broken:
                tally.records += 1
                self.problems.append(self._reader.problem(self._key, broken.code, broken.data))
                continue
            if bubble.is_empty and not bubble.is_notice:
                tally.records += 1
                tally.noise += 1
            else:
                orphans.append((row, (ident, bubble)))

        def place(orphan: tuple[int, Orphan]) -> tuple[bool, int, bool, int]:
            row, (_, bubble) = orphan
            has_time = bubble.created is not None
            return not has_time, bubble.created or 0, has_time and not bubble.is_prompt, row

        return [orphan for _, orphan in sorted(orphans, key=place)]


def _runs(orphans: list[Orphan]) -> list[list[Orphan]]:
    """What was abandoned, run by run: each begins with a prompt, or with the first answer of a
    request, which has `timingInfo`."""
    runs: list[list[Orphan]] = []
    for ident, bubble in orphans:
        goes_on = runs and not bubble.is_prompt
        is_answer = goes_on and len(runs[-1]) == 1 and runs[-1][0][1].is_prompt
        if is_answer or (goes_on and bubble.sent is None):
            runs[-1].append((ident, bubble))
        else:
            runs.append([(ident, bubble)])
    return runs


def _by_id(listed: Any) -> dict[str, dict[str, Any]]:
    bubbles: dict[str, dict[str, Any]] = {}
    for bubble in dicts_of(listed):
        ident = bubble.get("bubbleId", bubble.get("id"))
        if isinstance(ident, str) and ident:
            bubbles.setdefault(ident, bubble)
    return bubbles


def head_notes(composer: Composer) -> dict[str, Any]:
    """What a composer's head says about its conversation as a whole, in the trajectory's names."""
    used, limit = composer.get("contextTokensUsed"), composer.get("contextTokenLimit")
    percent = composer.get("contextUsagePercent")
    if percent is None and isinstance(used, int | float) and isinstance(limit, int | float):
        percent = round(100 * used / limit, 1) if limit else None
    folder = uri_path(field_of(composer.get("workspaceIdentifier"), "uri"))
    parent = composer.get("subagentInfo")
    summary = composer.get("latestConversationSummary")
    while isinstance(summary, dict):
        summary = summary.get("summary")
    notes: dict[str, Any] = {
        "title": composer.get("name"),
        "composer_mode": mode_name(composer.get("unifiedMode") or composer.get("forceMode")),
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
        "workspace.path": folder if is_absolute(folder) else None,
    }
    if isinstance(parent, dict) and isinstance(parent.get("parentComposerId"), str):
        tie = {"tool_call_id": parent.get("toolCallId"), "name": parent.get("subagentTypeName")}
        tie = {name: value for name, value in tie.items() if isinstance(value, str)}
        notes["parent"] = {"conversation_id": parent["parentComposerId"], **tie}
        top = parent.get("rootParentConversationId")
        notes["session_id"] = top if isinstance(top, str) and top else parent["parentComposerId"]
    return notes


def model_of(composer: Composer) -> str:
    """The model that is set for the composer, or the only one that it was billed for."""
    name = field_of(decoded(composer.get("modelConfig")), "modelName")
    if isinstance(name, str) and name and name != AUTO:
        return name
    models = [str(model) for model in dict_of(composer.get("usageData")) if model != AUTO]
    return models[0] if len(models) == 1 else ""
