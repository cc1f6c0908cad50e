"""Steps: the messages of a trajectory as ATIF steps, one per model call.

An assistant message with the results of its calls is one agent step. A result whose call nobody saw
is a system step with that one observation. Where the context was compacted stands a system step by
ATIF's context-management convention, with the summary as its observation: a message of its own, or
what the mark says.
"""

import math
from collections import defaultdict
from typing import Any

from unspool.io.values import parse_object
from unspool.prompts.outcomes import exit_code
from unspool.sinks.atif import model
from unspool.sinks.atif.extras import CALL_WORDS, RESULT_WORDS, USAGE_WORDS, gather, residue_of, utc
from unspool.sinks.atif.media import Files, to_content
from unspool.sinks.atif.model import FOREIGN, NAMELESS, OURS, TOTALS, Ref
from unspool.trajectory import Mark, Message, ToolCall, Trajectory, Usage

MANAGING = "context_management"
MANAGED = {
    "compaction": {"type": "compaction", "boundary": "replace"},
    "truncation": {"type": "pruning", "boundary": "truncate"},
    "microcompaction": {"type": "pruning", "boundary": "truncate"},
}
"""Kinds of mark that change the model's context, in the words of the convention."""

INHERITED = "agent-default"
"""Where a message has its model from when its step named none: from the document's agent."""

SOURCES: dict[str, model.Source] = {"system": "system", "user": "user", "assistant": "agent"}

_PLACED = frozenset(
    {"role", "content", "tool_calls", "timestamp", "turn", "segment", "copied", "attachments"}
)
_AGENT_PLACED = _PLACED | {"model", "thinking", "usage"}
_RESULT_PLACED = _PLACED - {"tool_calls", "timestamp"} | {"tool_call_id"}
_CALL_PLACED = frozenset({"id", "function"})


class StepWriter:
    """Builds the steps of one trajectory."""

    def __init__(
        self,
        trajectory: Trajectory,
        files: Files,
        refs: dict[str, Ref],
        started: dict[str, list[str]],
        embedded: bool,
    ) -> None:
        self.trajectory = trajectory
        self.is_foreign = trajectory.source == FOREIGN
        self.files = files
        self.refs = refs
        """Sub-agents that go out with the document."""
        self.started = started
        """Tool call → the sub-agents that it started, until their result is written."""
        self.embedded = embedded
        self.referred: set[str] = set()
        """The sub-agents that results refer to."""
        self.steps: list[model.Step] = []
        self.places: list[int | None] = []
        """For every step the message that it was made from."""

    def build(self) -> None:
        messages = self.trajectory.messages
        # Marks that need a step of their own: no message that tells of them stands where they are.
        marks: dict[int, list[Mark]] = defaultdict(list)
        for mark in self.trajectory.marks or ():
            index = min(max(mark.index, 0), len(messages))
            if mark.kind in MANAGED and not _tells(messages[index : index + 1], mark.kind):
                marks[index].append(mark)
        results = find_results(messages)
        for index, message in enumerate(messages):
            for mark in marks[index]:
                self._add(None, _boundary(mark))
            if message.role != "tool":
                self._add(index, self._step(message, results[index]))
            elif results[index]:  # its own home: no call and no message to stand with
                step = model.Step(
                    source="system",
                    timestamp=utc(message.timestamp),
                    observation=model.Observation([self._result(message, {}, message.copied)]),
                    is_copied_context=message.copied or None,
                    extra={OURS: {"result": True}},
                )
                self._add(index, step)
        for mark in marks[len(messages)]:
            self._add(None, _boundary(mark))

    def _add(self, place: int | None, step: model.Step) -> None:
        step.step_id = len(self.steps) + 1
        self.steps.append(step)
        self.places.append(place)

    def _step(self, message: Message, results: list[Message]) -> model.Step:
        content, more = to_content(message, self.files, self.is_foreign)
        step = model.Step(
            source=SOURCES[message.role],
            message=content,
            timestamp=utc(message.timestamp),
            is_copied_context=message.copied or None,
        )
        extra = dict(message.extra or {})
        called: dict[str, list[str]] = defaultdict(list)
        observed: list[model.Result] = []
        if is_summary(message):
            step.source, step.message = "system", ""
            extra = {MANAGING: MANAGED["compaction"], **extra}
            if message.role != "user":
                more["role"] = message.role
            observed.append(model.Result(content=content))
            placed = _PLACED | {"kind"}
        elif message.role == "assistant":
            placed = _AGENT_PLACED
            if message.model_source == INHERITED:
                placed |= {"model_source"}
            else:
                step.model_name = message.model
            step.reasoning_content = message.thinking
            if type(extra.get("reasoning_effort")) in (str, int, float):
                step.reasoning_effort = extra.pop("reasoning_effort")
            step.metrics = build_metrics(message.usage)
            step.llm_call_count = call_count(message)
            step.tool_calls = self._calls(message.tool_calls or [], called) or None
        else:
            placed = _PLACED - {"tool_calls"}
        if self.is_foreign:
            placed |= {"typed", "kind"}  # which we find out, and no document says
        step.extra = gather(message, extra, placed, **more)
        observed += [self._result(result, called, message.copied) for result in results]
        # A sub-agent whose call has no result yet is still told of.
        for ident, waiting in called.items():
            if waiting and (refs := self._started_by(ident)):
                observed.append(model.Result(waiting[0], subagent_trajectory_ref=refs))
        if observed:
            step.observation = model.Observation(observed)
        return step

    def _calls(self, calls: list[ToolCall], called: dict[str, list[str]]) -> list[model.ToolCall]:
        """The calls, each under an id of its own: `called` gets them by the id that results name."""
        placed = _CALL_PLACED | {"child_id"} if self.is_foreign else _CALL_PLACED
        made: dict[str, model.ToolCall] = {}
        for number, call in enumerate(calls, 1):
            ident = base = call.id or f"call-{number}"
            count = 2
            while ident in made:
                ident, count = f"{base}#{count}", count + 1
            called[call.id].append(ident)
            more: dict[str, Any] = {}
            if ident != call.id:
                more["id"] = call.id
            if not call.name:
                more["name"] = ""
            arguments = parse_object(call.arguments) if call.arguments.strip() else {}
            if arguments is None:
                arguments, more["raw"] = {"raw": call.arguments}, True
            extra = gather(call, call.extra, placed, CALL_WORDS, **more)
            made[ident] = model.ToolCall(ident, call.name or NAMELESS, arguments, extra)
        return list(made.values())

    def _result(self, message: Message, called: dict[str, list[str]], copied: bool) -> model.Result:
        """A result; `called` are the calls of its step, `copied` is what the step says.

        The k-th result with an id answers the k-th call with it. One too many stands in the step
        without an id, and tells its call in `extra`.
        """
        content, more = to_content(message, self.files, self.is_foreign)
        call = message.tool_call_id
        ident = called[call].pop(0) if call is not None and called.get(call) else None
        refs = self._started_by(call) if call is not None and ident is not None else []
        for child, given in residue_of(message.extra).refs:
            self.referred.add(child)
            own = self.refs.get(child)
            # A path may lead anywhere; by an id alone only embedded trajectories are found.
            if own is None and (self.embedded or given.trajectory_path is not None):
                refs.append(given)
            elif own is not None and own not in refs:
                refs.append(own)
        extra = dict(message.extra or {})
        if (code := exit_code(message)) is not None:
            extra.setdefault("exit_code", code)
        if message.copied != copied:
            more["copied"] = message.copied
        placed, words = _RESULT_PLACED, RESULT_WORDS
        if ident is not None:
            words = {word: name for word, name in words.items() if word != "tool_call_id"}
        only_ended = not content and extra.get("bare")  # it is not known with what
        return model.Result(
            source_call_id=ident,
            content=None if only_ended else content,
            subagent_trajectory_ref=refs or None,
            extra=gather(message, extra, placed, words, **more),
        )

    def _started_by(self, call: str) -> list[Ref]:
        """The references to the sub-agents that a call started, once."""
        children = self.started.pop(call, [])
        self.referred.update(children)
        return [self.refs[child] for child in children]


def _tells(messages: list[Message], kind: str) -> bool:
    """Whether the message behind a mark becomes a step that tells of it."""
    for message in messages:
        if message.role != "tool":
            managed = (message.extra or {}).get(MANAGING)
            return managed_kind(managed) == kind or (kind == "compaction" and is_summary(message))
    return False


def _boundary(mark: Mark) -> model.Step:
    text = next((t for n in ("summary", "text") if (t := (mark.data or {}).get(n))), None)
    return model.Step(
        source="system",
        timestamp=utc(mark.timestamp),
        observation=model.Observation([model.Result(content=text)])
        if isinstance(text, str)
        else None,
        extra={MANAGING: MANAGED[mark.kind], OURS: {"mark": mark.kind}},
    )


def has_steps(trajectory: Trajectory) -> bool:
    """Whether there is anything to show: a document without steps is none."""
    return bool(trajectory.messages) or any(m.kind in MANAGED for m in trajectory.marks or ())


def is_summary(message: Message) -> bool:
    return message.kind == "summary" and message.role != "tool" and not message.tool_calls


def managed_kind(managed: Any) -> str | None:
    """The kind of mark that a step's context management stands for."""
    if not isinstance(managed, dict):
        return None
    return next((kind for kind, m in MANAGED.items() if m["type"] == managed.get("type")), None)


def find_results(messages: list[Message]) -> dict[int, list[Message]]:
    """Message → its results: those of its calls wherever they stand, and those without an id that
    stand behind it. A result that belongs to no message is its own."""
    homes: dict[str, list[int]] = defaultdict(list)
    for index, message in enumerate(messages):
        if message.role == "assistant":
            for call in message.tool_calls or ():
                homes[call.id].append(index)
    results: dict[int, list[Message]] = defaultdict(list)
    behind: int | None = None
    for index, message in enumerate(messages):
        if message.role != "tool":
            behind = index
            continue
        home: int | None = None
        if message.tool_call_id is None:
            home = behind
        elif message.tool_call_id in homes:
            called = homes[message.tool_call_id]
            home = max((place for place in called if place < index), default=called[0])
        results[index if home is None else home].append(message)
    return results


def to_definition(definition: dict[str, Any]) -> dict[str, Any]:
    """A tool in the shape of OpenAI's function calling: Anthropic's `{name, input_schema}` and the
    flat `{type, name, parameters}` are wrapped."""
    if not isinstance(definition.get("name"), str) or "function" in definition:
        return definition
    if definition.get("type", "function") not in ("function", "custom"):
        return definition  # a tool that the provider runs itself has no schema to show
    function = {key: value for key, value in definition.items() if key != "type"}
    if "input_schema" in function:
        function["parameters"] = function.pop("input_schema")
    return {"type": "function", "function": function}


LISTS = ("prompt_token_ids", "completion_token_ids", "logprobs")


def build_metrics(usage: Usage | None) -> model.Metrics | None:
    """A step's metrics. A figure that cannot be true stays out of them, and in `extra`."""
    if usage is None:
        return None
    metrics = model.Metrics()
    untrue: dict[str, Any] = {}
    for name in TOTALS.values():
        value = getattr(usage, name)
        if value is not None and value >= 0:
            setattr(metrics, name, value)
        elif value is not None:
            untrue[name] = value
    cached, prompt = metrics.cached_tokens, metrics.prompt_tokens
    if cached is not None and prompt is not None and cached > prompt:
        untrue["cached_tokens"], metrics.cached_tokens = cached, None
    extra = dict(usage.extra or {})
    for name in LISTS:
        if isinstance(extra.get(name), list):
            setattr(metrics, name, extra.pop(name))
    metrics.extra = gather(usage, extra, frozenset(TOTALS.values()), USAGE_WORDS, **untrue)
    return metrics if metrics != model.Metrics() else None


def call_count(message: Message) -> int | None:
    """How many inferences the message stands for; None where nobody can tell."""
    if message.usage is not None:
        requests = message.usage.requests
        return requests if requests is not None and requests > 0 else 1
    calls = message.tool_calls or []
    if calls and all(call.by_user for call in calls) and not message.content:
        return None if message.thinking is not None else 0
    return None if message.kind is not None else 1


def total(
    steps: list[model.Step], reported: Usage | None, below: float | None
) -> model.FinalMetrics:
    """The sums of the steps that are not copied; what no step tells, as it was reported.

    `below` is the cost of the sub-agents, which ATIF counts into the total.
    """
    own = [step.metrics for step in steps if step.metrics and not step.is_copied_context]
    final = model.FinalMetrics(total_steps=len(steps))
    disagreeing: dict[str, Any] = {}
    for total_name, name in TOTALS.items():
        values = [value for metrics in own if (value := getattr(metrics, name)) is not None]
        figure = getattr(reported, name, None)
        if values:
            setattr(final, total_name, sum(values))
            if figure is not None and not math.isclose(figure, sum(values), rel_tol=1e-9):
                disagreeing[name] = figure
        elif figure is not None and figure >= 0:
            setattr(final, total_name, figure)
    if below is not None:
        final.total_cost_usd = (final.total_cost_usd or 0) + below
    # Cached tokens are part of the prompt: a report that says otherwise is only told.
    cached, prompt = final.total_cached_tokens, final.total_prompt_tokens
    if cached is not None and prompt is not None and cached > prompt:
        disagreeing["cached_tokens"], final.total_cached_tokens = cached, None
    calls = sum(len(step.tool_calls or ()) for step in steps if not step.is_copied_context)
    extra: dict[str, Any] = {"total_tool_calls": calls} if calls else {}
    if disagreeing:
        extra["reported"] = disagreeing
    final.extra = extra or None
    return final
