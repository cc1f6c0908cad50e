"""Composers: Cursor's name for a conversation; its head, its bubbles, and what lies beside them.

`composerData:<id>` is the head. Its `fullConversationHeadersOnly` names the bubbles in order, each a
row `bubbleId:<id>:<bubble>`; before 0.50 the bubbles stand in the head, as `conversation`.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec

from unspool.facts import ROOT, AnyFact, Rank
from unspool.io.door import UNREADABLE
from unspool.io.origins import Tally
from unspool.io.times import format_time, parse_time
from unspool.io.values import dict_of, dicts_of, field_of, list_of, str_of
from unspool.prompts.shapes import arguments_text
from unspool.sources.cursor.bubbles import (
    BUBBLE,
    RANK,
    Bubble,
    Count,
    attachments_of,
    decode_spoken,
    mode_name,
)
from unspool.sources.cursor.edits import Changes
from unspool.sources.cursor.entries import AUTO, Book, Steps, note_all
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
from unspool.sources.cursor.sent import SentOf
from unspool.sources.cursor.tables import Keys
from unspool.sources.cursor.tools import (
    TOOL,
    Tool,
    decoded,
    kind_of,
    likeness,
    of_editor,
    output_of,
    path_of,
    told_of,
)
from unspool.sources.scribe import Scribe

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
        self.tally.records += 1
        scribe = self.scribe(("cursor", ident), f"composer:{self.store}:{ident}")
        notes = {"session_id": ident, **head_notes(composer)}
        note_all(scribe, notes, RANK)
        if workspace := workspace or self._folder(composer):
            scribe.note("workspace.path", workspace, RANK + 1)
        if model := model_of(composer):
            scribe.note("model", model, RANK, on="following")
        below = (composer.get(name) for name in ("subagentComposerIds", "subComposerIds"))
        for child in filter(None, map(str_of, chain(*map(list_of, below)))):
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
        """The head and the bubbles of a composer, and what was sent to the model."""
        yield from self.head(ident, composer, workspace)
        sent = SentOf(self.rows, composer)
        yield from Conversation(self, ident, composer, sent.steps()).read()
        yield from sent.read(self, ("cursor", ident))


class Turn(msgspec.Struct):
    """A prompt and what was answered: one request."""

    prompt: str = ""
    words: str = ""
    request: str = ""
    sent: int | None = None
    ended: int | None = None
    model: str = ""
    withdrawn: bool = False
    """The prompt was edited, or sent again."""
    steps: Steps = msgspec.field(default_factory=Steps)


class Conversation:
    """The bubbles of one composer: by its headers, else as they stand in it, else by their time."""

    def __init__(
        self, reader: Reader, ident: str, composer: Composer, steps: dict[str, str]
    ) -> None:
        self.key = ("cursor", ident)
        self._steps = steps
        self._reader = reader
        self._rows = reader.rows
        self._generation = reader.generations.find
        self._composer = composer
        self._changes = Changes(ident, composer, self._fetch)
        self._mode = mode_name(composer.get("unifiedMode") or composer.get("forceMode"))
        inline = _by_id(composer.get("conversation"))
        self._order = _by_id(composer.get("fullConversationHeadersOnly")) or inline
        # The editor's memory of its bubbles, `{}` in nearly all composers that were written.
        self._inline = _by_id(list(dict_of(composer.get("conversationMap")).values())) | inline
        # Tools of the first agents: kept with the composer, by bubble, sometimes as JSON text.
        self._tools: dict[str, Any] = {}
        for capability in dicts_of(composer.get("capabilities")):
            if capability.get("type") == _TOOLS:
                self._tools |= dict_of(decoded(field_of(capability.get("data"), "bubbleDataMap")))
        self._notices: list[Bubble] = []
        self._runs: list[list[Bubble]] = []
        self._missing = 0
        """Headers whose bubble is not there."""
        self._last: int | None = None
        """The last moment that anything tells."""
        self._requests: set[str] = set()
        self._roots: list[str] = []
        """Folders that bubbles say they were asked in."""
        self._root_name = ""
        """What the folder is called, where its path is not told."""
        self._paths: set[str] = set()
        """Files that tools and context name."""

    def read(self) -> Iterator[AnyFact]:
        """The bubbles in order, and what was abandoned before what came instead of it."""
        orphans = self._orphans()
        listed: Iterable[Bubble] = orphans
        after = ROOT
        if self._order:
            listed = filter(None, map(self._load, self._order))
            self._notices = [bubble for bubble in orphans if bubble.is_notice]
            self._runs = self._abandoned([b for b in orphans if not b.is_notice])
        if self._runs:
            start = self._scribe("start:" + self.key[1], after=ROOT)
            start.link()  # what even the first bubble can be forked from
            yield from start.facts
            after = start.entry
        turn = Turn()
        for bubble, follower in pairwise(chain(listed, [Bubble()])):
            answer = Bubble() if follower.is_prompt else follower
            if bubble.is_prompt:
                yield from self._end(turn)
                request = bubble.request or answer.request
                sent = bubble.time or answer.sent or self._generation(request).time
                for run in self._runs_before(sent):
                    yield from self._abandon(run, after, bubble.words)
                turn = Turn(bubble.ident, bubble.words, request, sent, model=bubble.model)
                self._requests.add(request)
                self._last = sent or self._last
            answered = answer.type is not None
            after = yield from self._tell_all(turn, [bubble], after, answered)
        at_work = self._composer.get("status") not in ("completed", "aborted")
        for run in self._runs_before(None):
            if at_work and all((b.created or 0) > (self._last or 0) for b in run):
                after = yield from self._tell_all(turn, run, after)  # not yet listed
            else:
                yield from self._abandon(run, after, turn.words)
        yield from self._end(turn, last=True)
        if self._missing:
            text = f"{self._missing} that headers name"
            self._reader.problem("missing-bubbles", text, self.key)
        yield from self._times_and_place()

    def _fetch(self, key: str) -> bytes | None:
        return self._rows.get(key) if self._rows is not None else None

    def _scribe(self, entry: str = "", **place: Any) -> Scribe:
        return self._reader.scribe(self.key, entry, **place)

    def _load(self, ident: str) -> Bubble | None:
        """The row, over what the composer itself holds; None where there is neither."""
        inline = self._inline.get(ident)
        data = self._fetch(f"bubbleId:{self.key[1]}:{ident}")
        if data is None and inline is None:
            if ident in self._order:
                self._missing += 1
            else:  # a deleted row
                self._reader.tally.records += 1
                self._reader.tally.noise += 1
            return None
        row = self._reader.parse_object(data, self.key) if data is not None else None
        if row is None and inline is None:
            return None
        self._reader.tally.records += 1
        bubble = BUBBLE.convert({**self._order.get(ident, {}), **(inline or {}), **(row or {})})
        if bubble.call is None and ident in self._tools:
            bubble.toolFormerData = TOOL.convert(self._tools[ident])
        bubble.ident = ident
        return bubble

    def _orphans(self) -> list[Bubble]:
        """The rows that the headers do not name and that say something: by `createdAt` (a prompt
        before answers of its moment), else in the order of writing."""
        prefix = f"bubbleId:{self.key[1]}:"
        keys = self._rows.as_written(prefix) if self._rows is not None else []
        idents = (key.removeprefix(prefix) for key in keys)
        rows = [self._load(ident) for ident in idents if ident not in self._order]
        bubbles = list(filter(None, rows))
        orphans = [b for b in bubbles if b.is_notice or not b.is_empty]
        self._reader.tally.noise += len(bubbles) - len(orphans)
        return sorted(orphans, key=lambda bubble: bubble.place)

    def _abandoned(self, orphans: list[Bubble]) -> list[list[Bubble]]:
        """The runs that headers do not name, but for those of an earlier chain. Where the context was
        summarized or a checkpoint restored, Cursor writes the bubbles anew under new ids, and the old
        rows stay (test_rows_of_an_earlier_chain_say_nothing_again): the same call, or the same words
        in the same request or of the same moment. Answers of 3.7 name no request."""
        calls: set[str] = set()
        marks: dict[bytes, set[str | int | None]] = {}
        for ident in self._order if orphans else ():
            try:
                said = decode_spoken(self._fetch(f"bubbleId:{self.key[1]}:{ident}") or b"{}")
            except UNREADABLE:
                continue
            if said.toolFormerData is not None and said.toolFormerData.toolCallId:
                calls.add(said.toolFormerData.toolCallId)
            marks.setdefault(said.content, set()).update((said.request, said.created))

        def is_copy(bubble: Bubble) -> bool:
            known = marks.get(bubble.content, set())
            own = {bubble.request, bubble.created} - {"", None}
            return bool(known & own or (known and not bubble.is_prompt and not bubble.request))

        others = (b for b in orphans if not (b.call and b.call.toolCallId in calls))
        runs = [run for run in _runs(others) if not all(b.call is None and is_copy(b) for b in run)]
        self._reader.tally.noise += len(orphans) - sum(map(len, runs))
        return runs

    def _runs_before(self, sent: int | None) -> list[list[Bubble]]:
        """The runs that were sent before this moment, or all; they are gone then."""
        earlier = [run for run in self._runs if sent is None or (run[0].began or sent) < sent]
        self._runs = [run for run in self._runs if run not in earlier]
        return earlier

    def _abandon(self, run: list[Bubble], after: str, instead: str) -> Iterator[AnyFact]:
        """A prompt that was sent, and then edited or sent again. Only the run is left of it: the words
        are those of its generation, else those that were sent in its place."""
        first = run[0]
        request = next((bubble.request for bubble in run if bubble.request), "")
        turn = Turn(request=request, sent=first.began, withdrawn=True)
        if first.is_prompt:
            turn.model = first.model
        else:
            entry = f"bubble:{first.ident}:prompt"
            asked = self._scribe(entry, time=first.began, after=after, rank=RANK)
            asked.message(
                id=f"{first.ident}:prompt", role="user", request=request, withdrawn=True,
                text=self._generation(request).words or instead,
            )  # fmt: skip
            yield from asked.facts
            after = entry
        yield from self._tell_all(turn, run, after)

    def _end(self, turn: Turn, last: bool = False) -> Iterator[AnyFact]:
        """When the request was over, and Cursor's notices about it. These stand on bubbles outside
        the headers, as in `{"errorDetails": {"requestId": …}}` (test_a_notice_is_no_answer)."""
        request = turn.request
        due = [n for n in self._notices if last or (request and n.error[0] == request)]
        self._notices = [notice for notice in self._notices if notice not in due]
        for notice in due:
            yield from self._tell(turn, notice, after=None)
        if turn.prompt and turn.ended is not None:
            scribe = self._scribe(f"bubble:{turn.prompt}:end", time=turn.ended)
            data = {"duration_ms": (turn.ended - turn.sent) // 1000} if turn.sent else None
            scribe.mark("turn_end", data, subject=request, rank=RANK)
            yield from scribe.facts

    def _tell_all(
        self, turn: Turn, bubbles: list[Bubble], after: str, answered: bool = False
    ) -> Generator[AnyFact, None, str]:
        """What bubbles say, one after the other, and the record that the next one follows."""
        for bubble in bubbles:
            facts = self._tell(turn, bubble, after, answered)
            self._reader.tally.noise += not facts
            yield from facts
            after = facts[0].entry if facts else after
        return after

    def _tell(
        self, turn: Turn, bubble: Bubble, after: str | None, answered: bool = False
    ) -> list[AnyFact]:
        """The facts of a bubble; none where it says nothing."""
        ident = bubble.ident
        time = turn.sent if bubble.is_prompt else bubble.time
        scribe = self._scribe(f"bubble:{ident}", time=time, after=after, rank=RANK)
        tool, attachments = bubble.call, attachments_of(bubble)
        # Where the work is done, for composers that do not name their folder.
        self._roots += [
            clean_path(uri) for uri in map(str_of, list_of(bubble.workspaceUris)) if uri
        ]
        self._paths.update(a.path for a in attachments if a.kind in ("file", "selection"))
        thinking, text = bubble.thought, bubble.words
        if bubble.is_prompt:
            if text or attachments or answered:
                scribe.message(
                    id=ident, role="user", text=text, attachments=attachments,
                    mode=mode_name(bubble.unifiedMode) or self._mode, request=turn.request,
                    withdrawn=turn.withdrawn, extra=bubble.extra,
                    kind="notification" if bubble.is_notification else "",
                )  # fmt: skip
        else:
            # `timingInfo` stands on the first answer of a request, and tells the end of the whole.
            turn.ended = bubble.ended or turn.ended
            if bubble.turnDurationMs and turn.sent is not None:
                turn.ended = turn.sent + int(bubble.turnDurationMs * 1000)
            if not turn.withdrawn:
                moments = [at for at in (self._last, time, turn.ended) if at is not None]
                self._last = max(moments, default=None)
            if bubble.is_compaction:
                turn.steps.close()
                scribe.mark("compaction", rank=RANK)
            if thinking or text:
                group = bubble.modelCallId or ""
                step = turn.steps.part("thinking" if thinking else "text", ident, group)
                kind = "notification" if bubble.is_compaction else ""
                self._say(
                    scribe, turn, bubble, step,
                    text=text, thinking=thinking, kind=kind, extra=bubble.extra,
                )  # fmt: skip
            if bubble.is_compaction:
                turn.steps.close()
        if tool is not None:  # seen on bubbles of the person's too
            self._call(scribe, turn, bubble, tool)
        elif bubble.errorDetails and bubble.error[1]:
            scribe.message(
                id=f"{ident}:error", role="system", kind="error", text=bubble.error[1],
                request=bubble.error[0] or bubble.request or turn.request, after=None,
            )  # fmt: skip
        # The last bubble of a request has its count, all others 0, which is unknown. A second count
        # of the same request replaces the first: 13962/50, then 14192/218 (test_tokens_count_once).
        count = bubble.tokenCount or Count()
        given, taken = int(count.inputTokens or 0), int(count.outputTokens or 0)
        request, step = bubble.request or turn.request, turn.steps.step
        if (given or taken) and (request or step):
            scribe.usage(
                on="request" if request else "message", subject=request or step,
                prompt=given or None, completion=taken or None,
            )  # fmt: skip
        return [*scribe.facts, *self._tell_beside(bubble)] if scribe.facts else []

    def _say(self, scribe: Scribe, turn: Turn, bubble: Bubble, step: str, **fields: Any) -> None:
        scribe.message(
            id=step, role="assistant", model=bubble.model or turn.model,
            request=bubble.request or turn.request, withdrawn=turn.withdrawn, **fields,
        )  # fmt: skip

    def _call(self, scribe: Scribe, turn: Turn, bubble: Bubble, tool: Tool) -> None:
        name, call = tool.name or "", tool.toolCallId or f"{bubble.ident}:tool"
        self._paths.add(path_of(decoded(tool.params or tool.rawArgs)))
        group = self._steps.get(call) or tool.modelCallId or ""
        step = turn.steps.part("call", bubble.ident, group)
        self._say(scribe, turn, bubble, step)
        # `rawArgs` is what the model wrote, `params` what Cursor made of it. Since 3.7 the former is
        # empty for some tools; what was sent to the model (`agentKv`) then knows better than `params`,
        # and better than a result without words: `{"afterContentId": …}`, `{"contents": ""}`.
        given = "" if tool.rawArgs in (None, "", "{}") else arguments_text(tool.rawArgs)
        fields: dict[str, Any] = {
            "id": call, "message": step, "name": name,
            "like": likeness(name, tool.params or tool.rawArgs),
            "extra": {"user_decision": tool.userDecision} if tool.userDecision else None,
        }  # fmt: skip
        scribe.call(**fields, arguments=given)
        if not given and (tool.params or tool.rawArgs):
            instead = arguments_text(tool.params or tool.rawArgs)
            scribe.call(**fields, arguments=instead, rank=Rank.ECHO)
        if tool.status or tool.result or tool.error:
            returned = tool.result or tool.error or None
            text, details = told_of(returned)
            failed, status = of_editor(tool)
            scribe.returned(
                call=call, name=name, text=text or None, details=details, failed=failed, status=status,
                files=tuple(self._changes.of_tool(tool, name, bubble.ident)),
            )  # fmt: skip
            if not text and returned is not None:
                scribe.returned(call=call, text=output_of(returned)[0], rank=Rank.ECHO)
        if kind_of(name) == "task":
            child = str_of(field_of(tool.additionalData, "subagentComposerId"))
            child = child or str_of(field_of(decoded(tool.result), "agentId"))
            if not child and self._rows is not None and self._rows.has(f"bubbleId:task-{call}:"):
                child = f"task-{call}"  # the rows of a sub-agent are named after the call
            if child:
                scribe.note("child_id", child, RANK, on="call", subject=call)

    def _tell_beside(self, bubble: Bubble) -> list[AnyFact]:
        """Files that the bubble changed without a tool, by the code blocks of its text; and what the
        request was sent with: how many of each kind, and the root of the project as it was shown to the
        model: in some versions its name alone, which the paths of files may hold."""
        scribe = self._scribe(f"bubble:{bubble.ident}:beside")
        for touch in self._changes.of_bubble(bubble.codeBlocks):
            scribe.mark("file", touch, rank=RANK)
        data = self._fetch(f"messageRequestContext:{self.key[1]}:{bubble.ident}")
        context = self._reader.parse_object(data, self.key) if data is not None else None
        if context is None:
            return scribe.facts
        self._reader.tally.records += 1
        counts = {n: len(v) for n, v in context.items() if isinstance(v, list | dict) and v}
        scribe.note("request_context", counts, RANK, on="message", subject=bubble.ident)
        layouts = list_of(context.get("projectLayouts")) or [None]
        root = clean_path(str_of(field_of(decoded(layouts[0]), "rootPath")))
        if is_absolute(root):
            scribe.note("workspace.path", root, RANK + 1)
        else:
            self._root_name = root or self._root_name
        return scribe.facts

    def _times_and_place(self) -> list[AnyFact]:
        """`createdAt` is when the tab was opened, up to a day before the first prompt: it counts only
        where nothing else does. `lastUpdatedAt` is the last send or the last end."""
        scribe = self._scribe()
        if self._last is None:
            created = parse_time(self._composer.get("createdAt"))
            scribe.note("started_at", format_time(created), RANK)
        updated = parse_time(self._composer.get("lastUpdatedAt"))
        if updated or self._last:
            scribe.note("ended_at", format_time(max(updated or 0, self._last or 0)), RANK)
        if self._roots:
            scribe.note("workspace.path", self._roots[0], RANK + 1)
        folders = (self._generation(request).folder for request in sorted(self._requests))
        if folder := next(filter(None, folders), None):
            scribe.note("workspace.path", folder, RANK + 2)
        if shared := folder_of(sorted(self._paths - {""})):
            above = parents_of(shared) if self._root_name else []
            named = next((path for path in above if file_name(path) == self._root_name), shared)
            scribe.note("workspace.path", named, Rank.LAST_RESORT)
            scribe.note("common_folder", shared, Rank.LAST_RESORT)
        return scribe.facts


def _runs(orphans: Iterable[Bubble]) -> list[list[Bubble]]:
    """What was abandoned, run by run: each begins with a prompt, or with the first answer of a
    request, which has `timingInfo`."""
    runs: list[list[Bubble]] = []
    for bubble in orphans:
        goes_on = runs and not bubble.is_prompt
        is_answer = goes_on and len(runs[-1]) == 1 and runs[-1][0].is_prompt
        if is_answer or (goes_on and bubble.sent is None):
            runs[-1].append(bubble)
        else:
            runs.append([bubble])
    return runs


def _by_id(listed: Any) -> dict[str, dict[str, Any]]:
    bubbles: dict[str, dict[str, Any]] = {}
    for bubble in dicts_of(listed):
        if ident := str_of(bubble.get("bubbleId", bubble.get("id"))):
            bubbles.setdefault(ident, bubble)
    return bubbles


def head_notes(composer: Composer) -> dict[str, Any]:
    """What a composer's head says about its conversation as a whole, in the trajectory's names."""
    used, limit = composer.get("contextTokensUsed"), composer.get("contextTokenLimit")
    percent = composer.get("contextUsagePercent")
    if percent is None and isinstance(used, int | float) and isinstance(limit, int | float):
        percent = round(100 * used / limit, 1) if limit else None
    folder = uri_path(field_of(composer.get("workspaceIdentifier"), "uri"))
    summary = field_of(composer.get("latestConversationSummary"), "summary")
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
        "conversation_summary": str_of(field_of(summary, "summary") or summary),
        "workspace.path": folder if is_absolute(folder) else None,
    }
    above = dict_of(composer.get("subagentInfo"))
    if parent := str_of(above.get("parentComposerId")):
        tie = {"tool_call_id": above.get("toolCallId"), "name": above.get("subagentTypeName")}
        tie = {name: value for name, value in tie.items() if isinstance(value, str)}
        notes["parent"] = {"conversation_id": parent, **tie}
        notes["session_id"] = str_of(above.get("rootParentConversationId")) or parent
    return notes


def model_of(composer: Composer) -> str:
    """The model that is set for the composer, or the only one that it was billed for."""
    name = str_of(field_of(decoded(composer.get("modelConfig")), "modelName"))
    if name and name != AUTO:
        return name
    models = [str(model) for model in dict_of(composer.get("usageData")) if model != AUTO]
    return models[0] if len(models) == 1 else ""
