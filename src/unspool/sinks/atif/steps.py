"""Steps: the messages of a trajectory as ATIF steps, one per model call.

An assistant message with the results of its calls is one agent step. A result whose call nobody saw
is a system step with that one observation. Where the context was compacted stands a system step by
ATIF's context-management convention, with the summary as its observation: a message of its own, or
what the mark says.
"""

import math
from collections import defaultdict
from typing import Any

import msgspec

from unspool.io.values import parse_object
from unspool.prompts.outcomes import exit_code
from unspool.sinks.atif.extras import NUMBER, Words, keep_residue, leftover, merged, residue_of, utc
from unspool.sinks.atif.media import Files, to_content
from unspool.sinks.atif.model import (
    Content,
    FinalMetrics,
    Metrics,
    Observation,
    Ref,
    Result,
    Source,
    Step,
)
from unspool.sinks.atif.model import ToolCall as AtifCall
from unspool.trajectory import Link, Mark, Message, ToolCall, Trajectory, Usage

MANAGING = "context_management"
MANAGED = {
    "compaction": {"type": "compaction", "boundary": "replace"},
    "truncation": {"type": "pruning", "boundary": "truncate"},
    "microcompaction": {"type": "pruning", "boundary": "truncate"},
}
"""Kinds of mark that change the model's context, in the words of the convention."""

INHERITED = "agent-default"
"""Where a message has its model from when its step named none: from the document's agent."""

RESULT_WORDS: Words = {
    "tool_call_id": str,
    "tool_name": str,
    "is_error": bool,
    "status": str,
    "duration_ms": NUMBER,
    "timestamp": str,
    "details": object,
}

SOURCES: dict[str, Source] = {"system": "system", "user": "user", "assistant": "agent"}

_PLACED = {"role", "content", "tool_calls", "timestamp", "copied", "attachments", "extra"}
_AGENT_PLACED = _PLACED | {"model", "thinking", "usage"}
_RESULT_PLACED = {
    *("role", "content", "tool_call_id", "timestamp", "name", "is_error", "details"),
    *("duration_ms", "status", "copied", "attachments", "extra"),
}


class Refs:
    """The references of one document: to its own sub-agents, and to what lies elsewhere."""

    def __init__(self, trajectory: Trajectory, embedded: bool) -> None:
        self.embedded = embedded
        self.own: dict[str, Ref] = {}
        """Sub-agents that go out with the document."""
        self.calls: dict[str, list[str]] = {}
        """Tool call → the sub-agents that it started, until their result is written."""
        self.referred = {
            child
            for message in trajectory.messages
            for result in (message, *lone_results(message))
            for child, _ in residue_of(result.extra).refs
        }
        """Children that results refer to by what a document said."""
        self.placed: list[Link] = []
        """The ties that the written references tell."""

    def add(self, child: str, call: str | None, ref: Ref) -> None:
        self.own[child] = ref
        if call is not None:
            self.calls.setdefault(call, []).append(child)

    def tells(self, call: str, child: str) -> bool:
        """Whether some reference will tell that this call started that child."""
        return child in self.referred or child in self.calls.get(call, ())

    def of_call(self, call: str) -> list[Ref]:
        """The references of a call, once."""
        children = self.calls.pop(call, [])
        self.placed += [Link(child, tool_call_id=call) for child in children]
        return [self.own[child] for child in children]

    def of_message(self, message: Message, own: list[Ref]) -> tuple[list[Ref], list[Ref]]:
        """With the references that the result had; and those that ATIF does not take as they are."""
        odd: list[Ref] = []
        for child, given in residue_of(message.extra).refs:
            self.placed.append(Link(child, tool_call_id=message.tool_call_id))
            if child in self.own:
                if self.own[child] not in own:
                    own.append(self.own[child])
            elif given:
                # A path may lead anywhere; by an id alone only embedded trajectories are found.
                by_id = self.embedded and given.trajectory_id is not None
                (own if by_id or given.trajectory_path is not None else odd).append(given)
        return own, odd


CALL_WORDS: Words = {"status": str, "duration_ms": NUMBER, "started_at": str, "ended_at": str}
_CALL_PLACED = {"id", "type", "function", "child_id", "extra", *CALL_WORDS}


class Called:
    """The calls of one message, each under an id of its own, and what answers to which."""

    def __init__(self, calls: list[ToolCall], refs: Refs) -> None:
        self.calls: list[AtifCall] = []
        self._open: dict[str, list[str]] = defaultdict(list)
        for number, call in enumerate(calls, 1):
            ident = base = call.id or f"call-{number}"
            count = 2
            while any(ident == earlier.tool_call_id for earlier in self.calls):
                ident = f"{base}#{count}"
                count += 1
            self._open[call.id].append(ident)
            words = {w: value for w in CALL_WORDS if (value := getattr(call, w)) not in (None, "")}
            rest = leftover(call, _CALL_PLACED)
            if call.type != "function":
                rest["type"] = call.type
            if ident != call.id:
                rest["id"] = call.id
            if not call.name:
                rest["name"] = ""
            if call.child_id and not refs.tells(call.id, call.child_id):
                rest["child_id"] = call.child_id
            arguments = parse_arguments(call.arguments)
            if arguments is None:
                arguments = {"raw": call.arguments}
                rest["raw"] = True
            extra = merged(call.extra, words, rest)
            self.calls.append(AtifCall(ident, call.name or "unknown", arguments, extra))

    def answered(self, ident: str | None) -> str | None:
        """The id that a result goes by: the k-th result with an id answers the k-th call with it.

        None for one too many: it stands in the step, and tells its call in `extra`.
        """
        waiting = self._open.get(ident) if ident is not None else None
        return waiting.pop(0) if waiting else None


class StepWriter:
    """Builds the steps of one trajectory."""

    def __init__(self, trajectory: Trajectory, refs: Refs, files: Files) -> None:
        self.trajectory = trajectory
        self.files = files
        self.refs = refs
        self.marks_told: list[Mark] = []
        """The marks that the steps tell of."""
        self.steps: list[Step] = []
        self.places: list[int | None] = []
        """For every step the message that it was made from."""

    def build(self) -> list[Step]:
        messages = self.trajectory.messages
        marked = {m.index for m in self.trajectory.marks or () if m.kind == "compaction"}
        # Those that need a step of their own: no summary stands where they are.
        marks: dict[int, list[Mark]] = defaultdict(list)
        for mark in self.trajectory.marks or ():
            index = min(max(mark.index, 0), len(messages))
            if mark.kind in MANAGED and not self._tells(index, mark.kind):
                marks[index].append(mark)
        results = find_results(messages)
        for index, message in enumerate(messages):
            for mark in marks.pop(index, ()):
                self._add(None, self._boundary(mark, index))
            if message.role != "tool":
                for kind in MANAGED:
                    if self._tells(index, kind):
                        self.marks_told.append(Mark(kind, index, utc(message.timestamp)))
                self._add(index, self._step(message, results.get(index, []), index in marked))
            elif index in results:  # its own home: no call and no message to stand with
                step = Step(
                    step_id=0,
                    source="system",
                    message="",
                    timestamp=utc(message.timestamp),
                    observation=Observation([self._result(message, None, message.copied)]),
                    is_copied_context=message.copied or None,
                    extra=merged(None, {}, {"result": True}),
                )
                self._add(index, step)
        for left in sorted(marks):
            for mark in marks[left]:
                self._add(None, self._boundary(mark, len(messages)))
        return self.steps

    def _add(self, place: int | None, step: Step) -> None:
        step.step_id = len(self.steps) + 1
        self.steps.append(step)
        self.places.append(place)

    def _tells(self, index: int, kind: str) -> bool:
        """Whether the message there becomes a step that tells of the mark."""
        if index >= len(self.trajectory.messages):
            return False
        message = self.trajectory.messages[index]
        if message.role == "tool":
            return False
        managed = (message.extra or {}).get(MANAGING)
        return managed_kind(managed) == kind or (kind == "compaction" and is_summary(message))

    def _boundary(self, mark: Mark, index: int) -> Step:
        self.marks_told.append(Mark(mark.kind, index, utc(mark.timestamp)))
        text = next((t for n in ("summary", "text") if (t := (mark.data or {}).get(n))), None)
        rest: dict[str, Any] = {"mark": mark.kind}
        if self.trajectory.messages[index:] and self.trajectory.messages[index].role == "tool":
            rest["index"] = index  # between a call and its result, which stand in one step
        return Step(
            step_id=0,
            source="system",
            message="",
            timestamp=utc(mark.timestamp),
            observation=Observation([Result(content=text)]) if isinstance(text, str) else None,
            extra=merged({MANAGING: MANAGED[mark.kind]}, {}, rest),
        )

    def _step(self, message: Message, results: list[Message], marked: bool) -> Step:
        if is_summary(message):
            content, rest = self._content(message)
            rest = {**leftover(message, {*_PLACED, "kind"}), **rest}
            if message.role != "user":
                rest["role"] = message.role
            if not marked:
                rest["mark"] = False
            observed = [Result(content=content)]
            observed += [self._result(result, None, message.copied) for result in results]
            extra = {MANAGING: MANAGED["compaction"], **(message.extra or {})}
            return Step(
                step_id=0,
                source="system",
                message="",
                timestamp=self._time(message, rest),
                observation=Observation(observed),
                is_copied_context=message.copied or None,
                extra=merged(extra, {}, rest),
            )
        agent = message.role == "assistant"
        content, rest = self._content(message)
        rest = {**leftover(message, _AGENT_PLACED if agent else _PLACED), **rest}
        if message.model_source == INHERITED:
            rest.pop("model_source")
        step = Step(
            step_id=0,
            source=SOURCES[message.role],
            message=content,
            timestamp=self._time(message, rest),
            is_copied_context=message.copied or None,
        )
        extra = dict(message.extra or {})
        if agent:
            if message.model_source != INHERITED:
                step.model_name = message.model
            step.reasoning_content = message.thinking
            effort = extra.get("reasoning_effort")
            if isinstance(effort, str | int | float) and not isinstance(effort, bool):
                step.reasoning_effort = extra.pop("reasoning_effort")
            step.metrics = build_metrics(message.usage)
            step.llm_call_count = call_count(message)
        elif message.tool_calls:
            rest["tool_calls"] = leftover(message, set())["tool_calls"]
        called = Called((message.tool_calls or []) if agent else [], self.refs)
        step.tool_calls = called.calls or None
        observed = [self._result(result, called, message.copied) for result in results]
        # A sub-agent whose call has no result yet is still told of.
        kept = {result.tool_call_id: result for result in lone_results(message)}
        for call in message.tool_calls or () if called.calls else ():
            refs = self.refs.of_call(call.id)
            if call.id in kept:
                refs, _ = self.refs.of_message(kept[call.id], refs)
            if refs:
                observed.append(Result(called.answered(call.id), None, refs))
        if observed:
            step.observation = Observation(observed)
        step.extra = merged(extra, {}, rest)
        return step

    def _content(self, message: Message) -> tuple[Content, dict[str, Any]]:
        layout = residue_of(message.extra).layout
        content, described = to_content(
            message.content, message.attachments or [], self.files, layout
        )
        return content, {"attachments": described} if described else {}

    def _time(self, message: Message, rest: dict[str, Any]) -> str | None:
        time = utc(message.timestamp)
        if message.timestamp and time is None:
            rest["timestamp"] = message.timestamp
        return time

    def _result(self, message: Message, called: Called | None, copied: bool) -> Result:
        """A result; `called` are the calls of its step, `copied` is what the step says."""
        content: Content | None
        content, described = self._content(message)
        rest = {**leftover(message, _RESULT_PLACED), **described}
        ident = called.answered(message.tool_call_id) if called is not None else None
        words: dict[str, Any] = {
            "tool_call_id": message.tool_call_id if ident is None else None,
            "tool_name": message.name,
            "is_error": message.is_error,
            "status": message.status,
            "duration_ms": message.duration_ms,
            "timestamp": self._time(message, rest),
            "details": message.details,
        }
        if message.copied != copied:
            rest["copied"] = message.copied
        code = exit_code(message)
        if code is not None and "exit_code" not in (message.extra or {}):
            words["exit_code"] = code
        words = {word: value for word, value in words.items() if value is not None}
        if not content and (message.extra or {}).get("bare"):
            content = None  # only that the call ended is known, not with what
        refs = self.refs.of_call(message.tool_call_id or "") if ident is not None else []
        refs, odd = self.refs.of_message(message, refs)
        if odd:
            rest["refs"] = msgspec.to_builtins(odd)
        return Result(ident, content, refs or None, merged(message.extra, words, rest))


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


def lone_results(message: Message) -> list[Message]:
    """Results that did nothing but refer to the sub-agents of calls which have no result."""
    return [
        Message("tool", "", tool_call_id=call, extra=keep_residue(None, refs=refs))
        for call, refs in residue_of(message.extra).lone.items()
    ]


def parse_arguments(text: str) -> dict[str, Any] | None:
    """The arguments as an object; None where the text is not one."""
    return parse_object(text) if text.strip() else {}


def to_definitions(definitions: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return [_definition(definition) for definition in definitions or ()]


def flat_schema_key(definitions: list[dict[str, Any]] | None) -> str | None:
    """The key of the schemas, where all definitions are `{name, parameters}`, all `{name,
    input_schema}` or all `{type, name, parameters}`, without a wrapper: such can be unwrapped again."""
    wrapped = to_definitions(definitions)
    for key in ("parameters", "input_schema", "type+parameters") if wrapped else ():
        if unwrap_definitions(wrapped, key) == definitions:
            return key
    return None


def unwrap_definitions(definitions: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    typed, _, key = key.rpartition("+")
    unwrapped = []
    for definition in definitions:
        function = definition.get("function")
        flat = function if isinstance(function, dict) else definition
        renamed = {key if name == "parameters" else name: flat[name] for name in flat}
        unwrapped.append({"type": "function", **renamed} if typed else renamed)
    return unwrapped


def _definition(definition: dict[str, Any]) -> dict[str, Any]:
    """Anthropic's `{name, input_schema}` and the flat `{type, name, parameters}` are wrapped."""
    if not isinstance(definition.get("name"), str) or "function" in definition:
        return definition
    if definition.get("type", "function") not in ("function", "custom"):
        return definition  # a tool that the provider runs itself has no schema to show
    function = {key: value for key, value in definition.items() if key != "type"}
    if "input_schema" in function:
        function["parameters"] = function.pop("input_schema")
    return {"type": "function", "function": function}


LISTS = ("prompt_token_ids", "completion_token_ids", "logprobs")
WORDS = {
    "cache_write_tokens": "cache_creation_input_tokens",
    "reasoning_tokens": "reasoning_tokens",
}
"""Our word → the one that ATIF's providers use in `metrics.extra`."""

TOTALS = tuple(
    (f"total_{name}", name)
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
)
"""Figure of the document → that of its steps."""
_USAGE_PLACED = {*WORDS, *(name for _, name in TOTALS), "extra"}


def build_metrics(usage: Usage | None) -> Metrics | None:
    """A step's metrics. A figure that cannot be true stays out of them, and in `extra`."""
    if usage is None:
        return None
    rest: dict[str, Any] = leftover(usage, _USAGE_PLACED)
    metrics = Metrics()
    for _, name in TOTALS:
        value = getattr(usage, name)
        if value is None:
            continue
        if math.isfinite(value) and value >= 0:
            setattr(metrics, name, value)
        elif math.isfinite(value):
            rest[name] = value
    cached, prompt = metrics.cached_tokens, metrics.prompt_tokens
    if cached is not None and prompt is not None and cached > prompt:
        rest["cached_tokens"], metrics.cached_tokens = cached, None
    extra = dict(usage.extra or {})
    for name in LISTS:
        if isinstance(extra.get(name), list):
            setattr(metrics, name, extra.pop(name))
    words = {
        word: value for name, word in WORDS.items() if (value := getattr(usage, name)) is not None
    }
    metrics.extra = merged(extra, words, rest)
    return metrics if metrics != Metrics() else None


def call_count(message: Message) -> int | None:
    """How many inferences the message stands for; None where nobody can tell."""
    if message.usage is not None:
        requests = message.usage.requests
        return requests if requests is not None and requests > 0 else 1
    calls = message.tool_calls or []
    if calls and all(call.by_user for call in calls) and not message.content:
        return None if message.thinking is not None else 0
    return None if message.kind is not None else 1


def total(steps: list[Step], reported: Usage | None, below: float | None) -> FinalMetrics:
    """The sums of the steps that are not copied; what no step tells, as it was reported.

    `below` is the cost of the sub-agents, which ATIF counts into the total.
    """
    own = [step.metrics for step in steps if step.metrics and not step.is_copied_context]
    final = FinalMetrics(total_steps=len(steps))
    disagreeing: dict[str, Any] = {}
    for total_name, name in TOTALS:
        values = [value for metrics in own if (value := getattr(metrics, name)) is not None]
        figure = getattr(reported, name) if reported is not None else None
        if figure is not None and (not math.isfinite(figure) or figure < 0):
            figure = None
        if values:
            setattr(final, total_name, sum(values))
            if figure is not None and not math.isclose(figure, sum(values), rel_tol=1e-9):
                disagreeing[name] = figure
        elif figure is not None:
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
