"""One request of a chat as facts: what the person said, the answer in its rounds, what came with it.

{"requestId": "request_1", "message": {"text": "fix it", "parts": […]}, "response": [… parts …],
 "result": {"metadata": {"toolCallRounds": […], "toolCallResults": {…}}}, "modelState": {"value": 1}}
"""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from unspool.facts import ROOT, AnyFact, Key
from unspool.io.times import parse_time
from unspool.io.values import dict_of, field_of, list_of, str_of
from unspool.sources.scribe import Scribe
from unspool.sources.vscode_chat import fields, prompts, tools
from unspool.sources.vscode_chat import parts as response_parts
from unspool.sources.vscode_chat.answers import Answer, Step
from unspool.sources.vscode_chat.attachments import attachment_of, entries_of
from unspool.sources.vscode_chat.model import Metadata, Request, Result, Thinking
from unspool.sources.vscode_chat.tools import unique
from unspool.sources.vscode_chat.uris import uri_of

_AGENT_MODES = {
    "github.copilot.default": "ask",
    "github.copilot.editsAgent": "agent",
    "github.copilot.editingSession": "edit",
    "github.copilot.editingSession2": "edit",
}
"""The mode by the participant, for the time before modes were stored."""
_COMPLETE = 1
_ABOUT_NOTHING = frozenset(
    ("response_id", "model_id", "details", "timings", "elapsed_ms", "waited_ms", "state",
     "error", "completed_at", *fields.METADATA)
)  # fmt: skip
"""What a request may tell about an answer that nobody gave."""
_PULL_REQUEST = (
    "title", "description", "author", "linkTag", "owner", "repo", "pullRequestNumber"
)  # fmt: skip
_LARGEST_COUNT = 2**60
_NUMBERS = (int, float)
_HOUR_MS = 3600 * 1000
_EPOCHS = 1e11
"""Waiting times above this are time stamps: a bug of the mutation log's writer."""


def _picker(names: dict[str, str], but: str = "") -> Callable[[Any], dict[str, Any]]:
    """Takes of a struct what it holds of these fields, by our names; all `but` one."""
    ours = [name for name in names if name != but]
    values_of = attrgetter(*(names[name] for name in ours))

    def pick(holder: Any) -> dict[str, Any]:
        values = zip(ours, values_of(holder), strict=True)
        return {name: v for name, v in values if v is not None and (v or v == 0)}

    return pick


_pick_user = _picker(fields.USER, "agent")
_pick_answer = _picker(fields.ANSWER, "vote_down_reason")
_pick_result = _picker(fields.RESULT)
_pick_metadata = _picker(fields.METADATA)
_pick_usage = _picker(fields.USAGE)
_pick_round = _picker(fields.ROUND, "retries")


class Turn:
    """What is worked out once about a request, before it is told as facts."""

    def __init__(
        self, request: Request, ident: str, edition: int = 0, withdrawn: bool = False
    ) -> None:
        self.request = request
        self.id = ident
        self.edition = edition
        self.withdrawn = withdrawn
        """The chat no longer holds it."""
        self.result = request.result or Result()
        self.metadata = self.result.metadata or Metadata()
        self.parts = response_parts.Parts(request.response)
        self.response_id = request.responseId or f"{ident}/response"
        self.time = parse_time(request.timestamp)
        self.ended, self.duration_ms = self._end()
        removed = request.shouldBeRemovedOnSend
        undone = field_of(removed, "afterUndoStop")
        self.answer = Answer(
            self.parts, self.metadata.toolCallRounds, ident, self.response_id, undone
        )
        self.steps = self.answer.steps
        """The messages of the answer."""
        self.outcomes: dict[str, str] = {}
        """Path → what became of this request's edit of it."""
        named = (request.modelId or "").removeprefix("copilot/")
        self.model = self.metadata.resolvedModel or self.parts.model or named
        self.error = self.result.errorDetails or request.responseErrorDetails or {}
        self.error_text = str_of(self.error.get("message"))
        self.removed = ""
        """Whether the request was hidden or undone."""
        if removed is not None and not undone:
            self.removed = "undone"
        elif True in (
            request.isHidden, request.hiddenFromTranscript, request.requestHiddenFromTranscript
        ):  # fmt: skip
            self.removed = "hidden"
        state = request.modelState.value if request.modelState is not None else None
        self.state = state if isinstance(state, int) else 2 if request.isCanceled else None
        self.status = ""
        """cancelled, failed; pending and needs-input are neither (states)."""
        if self.error.get("code") == "canceled":
            self.status = "cancelled"
        elif self.state not in (None, _COMPLETE):
            self.status = fields.STATES.get(self.state or 0, "")
        elif self.error:
            self.status = "failed"

    def _end(self) -> tuple[int | None, float | None]:
        """When the answer was complete, and how long it took.

        A chat that was imported or restored is stamped as complete at that moment: where the time
        that the agent measured is shorter by more than an hour, the stamp is not believed.
        """
        state = self.request.modelState
        end = parse_time(state.completedAt) if state is not None else None
        measured = (self.result.timings or {}).get("totalElapsed")
        measured = float(measured) if isinstance(measured, int | float) and measured >= 0 else None
        if self.time is None:
            return end, measured
        if end is not None and end >= self.time:
            took = (end - self.time) / 1000
            if measured is None or took - measured < _HOUR_MS:
                return end, took
        if measured is not None:
            return self.time + int(measured * 1000), measured
        return None, None

    @property
    def calls(self) -> Iterator[tools.Joined]:
        return (call for step in self.steps for call in step.calls)

    def tell_apart(self, answers: set[str], calls: set[str]) -> list[str]:
        """Give another id to messages and calls whose own the chat repeats; what was wrong."""
        codes: dict[str, None] = {}
        for step in self.steps:
            ident, step.id = step.id, unique(step.id, answers, f"{self.id}/")
            if step.id != ident:
                codes["repeated-answer-id"] = None
        for call in self.calls:
            ident, call.id = call.id, unique(call.id, calls, f"{self.id}/")
            if call.id != ident:
                codes["repeated-call-id"] = None
        return list(codes)

    @property
    def touches(self) -> Iterator[dict[str, Any]]:
        """The files that the answer changed."""
        return (t for step in self.steps for edit in step.edits for t in edit.touches)

    @property
    def last_id(self) -> str:
        """The id of the last assistant message."""
        return self.steps[-1].id

    @property
    def mode(self) -> str:
        info = self.request.modeInfo
        if info is not None and isinstance(info.get("kind"), str):
            return str(info["kind"])
        agent = self.request.agent or {}
        modes = list_of(agent.get("modes"))
        only = str_of(modes[0]) if len(modes) == 1 else ""
        return _AGENT_MODES.get(str_of(agent.get("id"))) or only


def write_request(turn: Turn, scribe: Scribe) -> None:
    """Everything that one request states, but for the runs of sub-agents."""
    text, images = prompts.rendered(turn.metadata.renderedGlobalContext)
    if text:
        scribe.message(
            id=f"{turn.id}/context", role="user", kind="injected", text=text, time=turn.time,
            request=turn.id, attachments=tuple(images),
        )  # fmt: skip
    answered = turn.answer.by_rounds or len(turn.steps) > 1 or _has_answer(turn)
    request = turn.request
    typed = prompts.typed_text(request.message)
    sent, images = prompts.rendered(turn.metadata.renderedUserMessage)
    extra = _pick_user(request)
    if (given := request.agent) is not None:
        agent = {name: given[name] for name in fields.AGENT if name in given} | given
        told = {n: v for n, v in agent.items() if v is not None and n not in fields.PARTICIPANT}
        extra = {"agent": told, **extra}
    if request.rest:
        extra[fields.NATIVE] = {"request": request.rest}
    if mentions := prompts.mentions(request.message):
        extra["mentions"] = mentions
    if request.isSystemInitiated:
        extra["system_initiated"] = True
        if sent and typed and sent != typed:
            extra["shown"] = typed
    attached = [attachment_of(entry) for entry in entries_of(request.variableData)]
    # An attached image is in the rendered message again.
    hashes = {attachment.sha256 for attachment in attached if attachment.sha256}
    attached += [i for i in images if not i.sha256 or i.sha256 not in hashes]
    scribe.message(
        id=turn.id, role="user", text=sent or typed, time=turn.time,
        typed=None if request.isSystemInitiated else typed,
        kind="notification" if request.isSystemInitiated else "",
        mode=turn.mode, request=turn.id,
        # Where nobody answered it is the question that was cancelled, or failed.
        status=turn.removed or ("" if answered else turn.status),
        attachments=tuple(attached), extra=extra or None,
        withdrawn=turn.withdrawn, edition=turn.edition,
    )  # fmt: skip
    for number, step in enumerate(turn.steps if answered else ()):
        _write_step(turn, step, scribe, number)
    if turn.duration_ms is not None:
        scribe.note("duration_ms", turn.duration_ms, on="message", subject=turn.last_id)
    tools.write_orphans(scribe, turn.metadata.toolCallResults, turn.calls)
    if usage := _usage(turn):
        scribe.usage(on="message", subject=turn.last_id, model=turn.model, time=turn.ended, **usage)
    _write_marks(turn, scribe)


def _write_step(turn: Turn, step: Step, scribe: Scribe, number: int) -> None:
    """One message of the answer, and its calls."""
    round_, text = step.round, step.text
    last = step is turn.steps[-1]
    extra = _last_extra(turn) if last else {}
    extra |= step.extra()
    extra |= _pick_round(round_)
    if round_.toolInputRetry:
        extra["retries"] = round_.toolInputRetry
    if round_.rest:
        extra.setdefault(fields.NATIVE, {})["round"] = round_.rest
    # The id of a round's thinking, where nothing that was shown has it.
    thinking_id = round_.thinking.id if isinstance(round_.thinking, Thinking) else None
    if thinking_id and not fields.MADE_THINKING.fullmatch(thinking_id):
        thoughts = extra.get("thoughts", [])
        if all(thought.get("id") != thinking_id for thought in thoughts):
            extra["thoughts"] = [*thoughts, {"id": thinking_id}]
    tail = turn.answer.tail  # all behind it was undone, where the request stays
    status = "undone" if tail is not None and number > tail else turn.removed
    stop = kind = ""
    time = parse_time(round_.timestamp)
    if last:
        status = status or turn.status
        stop = str_of(turn.error.get("code"))
        if not stop and turn.metadata.maxToolCallsExceeded is True:
            stop = "max_tool_calls"
        if turn.error_text and not text and not step.calls:
            text, kind = turn.error_text, "error"
        time = time or turn.ended or parse_time(turn.request.responseTimestamp)
    scribe.message(
        id=step.id, role="assistant", text=text,
        thinking=step.own_thinking or "\n\n".join(step.thinking), time=time,
        model=turn.model, request=turn.id, extra=extra or None,
        status=status, stop=stop, kind=kind,
    )  # fmt: skip
    tools.write_calls(scribe, step.calls, step.id, turn.metadata.toolCallResults)


def _has_answer(turn: Turn) -> bool:
    """Without a word it may still be an error, or have been voted on or counted."""
    step = turn.steps[0]
    extra = _last_extra(turn) | step.extra()
    told = step.text or step.thinking or step.calls or turn.error_text
    voted = turn.request.vote is not None
    return bool(told or extra.keys() - _ABOUT_NOTHING or voted or _usage(turn))


def _last_extra(turn: Turn) -> dict[str, Any]:
    """What is told once about the whole answer."""
    request, result, metadata = turn.request, turn.result, turn.metadata
    extra = _pick_answer(request) | _pick_result(result) | _pick_metadata(metadata)
    if turn.error:
        extra["error"] = turn.error
    if extra.get("waited_ms", 0) > _EPOCHS or not extra.get("waited_ms", 1):
        del extra["waited_ms"]
    if turn.state not in (None, _COMPLETE):
        extra["state"] = fields.STATES.get(turn.state or 0, str(turn.state))
    stamp = request.modelState.completedAt if request.modelState is not None else None
    if stamp is not None and parse_time(stamp) != turn.ended:
        extra["completed_at"] = stamp  # not believed, or not needed: as it is
    if turn.parts.vulnerabilities:
        extra["vulnerabilities"] = turn.parts.vulnerabilities
    if turn.parts.cleared:
        extra["cleared"] = turn.parts.cleared
    native = {k: v for k, v in (("result", result.rest), ("metadata", metadata.rest)) if v}
    if native:
        extra[fields.NATIVE] = native
    return extra


def _usage(turn: Turn) -> dict[str, Any]:
    """Tokens of the whole turn where they are told, else of its last model call."""
    request = turn.request
    old = turn.result.usage or {}  # around 1.109
    prompt = _count(request.promptTokens, old.get("promptTokens"), turn.metadata.promptTokens)
    completion = _count(
        request.completionTokens, old.get("completionTokens"), turn.metadata.outputTokens
    )
    extra = _pick_usage(request)
    if old.get("promptTokenDetails"):
        extra.setdefault("prompt_token_details", old["promptTokenDetails"])
    cached = None
    if totals := request.modelTotals:
        if prompt is not None:
            extra["last_prompt_tokens"] = prompt
        counts = {
            name: [count for total in totals if (count := _count(total.get(name))) is not None]
            for name in ("inputTokens", "outputTokens", "cachedTokens")
        }
        prompt, completion, cached = (sum(some) if some else None for some in counts.values())
    if prompt is None and completion is None and not extra:
        return {}
    return {"prompt": prompt, "completion": completion, "cached": cached, "extra": extra or None}


def _count(*values: Any) -> int | None:
    """The first of the values that is a count."""
    for value in values:
        if type(value) in _NUMBERS and 0 <= value < _LARGEST_COUNT:
            return int(value)
    return None


def _write_marks(turn: Turn, scribe: Scribe) -> None:
    """Edited files, answers that a person gave, pull requests: as they stand in the messages."""
    edited: set[str] = set()
    for step in turn.steps:
        for edit in step.edits:
            subject = edit.call.id if edit.call is not None else step.id
            for touch in edit.touches:
                edited.add(touch["path"])
                if touch["path"] in turn.outcomes:
                    touch["outcome"] = turn.outcomes[touch["path"]]
                elif edit.undone or turn.removed == "undone":
                    touch["outcome"] = "undone"
                scribe.mark("file", touch, subject, time=turn.ended)
    for part in (part for step in turn.steps for part in step.parts):
        if part.get("kind") == "pullRequest":
            scribe.note("references", _pull_request(part))
        elif (answer := response_parts.answer_of(part)) is not None:
            scribe.mark("answer", answer, turn.last_id, time=turn.ended)
    for path, outcome in turn.outcomes.items():
        if path not in edited:
            touch = {"path": path, "operation": "edit", "outcome": outcome}
            scribe.mark("file", touch, turn.id, time=turn.time)
    # History that was compacted while this request ran; the same summary is kept in two places.
    summaries = [*(turn.metadata.summaries or ()), turn.metadata.summary]
    for step in turn.steps:
        if step.round.summary:
            summaries.append({"toolCallRoundId": step.id, "text": step.round.summary})
    compacted: set[str] = set()
    for summary in summaries:
        if isinstance(summary, dict) and isinstance(summary.get("text"), str):
            round_id = summary.get("toolCallRoundId")
            if str(round_id) not in compacted:
                compacted.add(str(round_id))
                subject = round_id if isinstance(round_id, str) else turn.id
                scribe.mark("compaction", summary, subject, time=turn.time)


def _pull_request(part: dict[str, Any]) -> dict[str, Any]:
    reference = {name: part[name] for name in _PULL_REQUEST if part.get(name) not in (None, "")}
    uri = uri_of(part.get("uri"))
    return {"kind": "pull_request", **reference, **({"uri": uri} if uri else {})}


def run_facts(turn: Turn, key: Key, origin: str, offset: int) -> Iterator[AnyFact]:
    """The runs of sub-agents: the parts that were made in one are a conversation of its own."""
    for run, parts in turn.parts.runs.items():
        starter = _starter(turn, run)
        specific = dict_of(starter.part.get("toolSpecificData")) if starter is not None else {}
        texts = {name: value for name, value in specific.items() if isinstance(value, str)}
        child = (key[0], f"{key[1]}/{run}")
        scribe = Scribe(child, origin, offset, entry=f"{turn.id}/{run}", after=ROOT)
        call = starter.id if starter is not None else ""
        scribe.parent(key[1], "", call=call, name=texts.get("agentName"))
        scribe.note("title", texts.get("description") or None)
        if texts.get("prompt"):
            scribe.message(
                id=f"{run}/prompt", role="user", text=texts["prompt"], time=turn.time,
                request=turn.id,
            )  # fmt: skip
        words = "".join(parts.texts).strip("\n")
        result = texts.get("result", "")
        text = words if result in words else f"{words}\n\n{result}".lstrip("\n")
        scribe.message(
            id=f"{run}/answer", role="assistant", text=text, time=turn.ended,
            model=texts.get("modelName", ""), request=turn.id,
        )  # fmt: skip
        calls = [tools.from_part(tool, f"{run}/part.{n}") for n, tool in enumerate(parts.tools)]
        seen: set[str] = set()
        for inner in calls:
            inner.id = unique(inner.id, seen, f"{run}/")
        tools.write_calls(
            scribe, calls, f"{run}/answer", turn.metadata.toolCallResults, inside=True
        )
        yield from scribe.facts


def _starter(turn: Turn, run: str) -> tools.Joined | None:
    """The call that started the run: by one of its ids, else the only one that there is."""
    calls = list(turn.calls)
    started = [call for call in calls if response_parts.is_sub_agent(call.part)]
    for call in [*started, *calls]:
        named = (call.part.get(n) for n in ("subAgentInvocationId", "toolCallId", "uiCallId"))
        if run in {fields.bare_call_id(n) for n in (call.native, *named) if isinstance(n, str)}:
            return call
    return started[0] if len(started) == len(turn.parts.runs) == 1 else None
