"""Steps: the messages of a trajectory as ATIF steps, one per model call.

An assistant message with the results of its calls is one agent step. A result whose call nobody saw
is a system step with that one observation. Where the context was compacted stands a system step by
ATIF's context-management convention, with the summary as its observation: a message of its own, or
what the mark says.
"""

from collections import defaultdict
from typing import Any

import msgspec

from unspool.sinks.atif.calls import Called, exit_code
from unspool.sinks.atif.extras import NUMBER, Words, leftover, merged, residue_of, utc
from unspool.sinks.atif.family import Refs, lone_results
from unspool.sinks.atif.media import Files, to_content
from unspool.sinks.atif.metrics import build_metrics, call_count
from unspool.sinks.atif.model import Content, Observation, Result, Source, Step
from unspool.trajectory import Mark, Message, Trajectory

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


class StepWriter:
    """Builds the steps of one trajectory."""

    def __init__(self, trajectory: Trajectory, refs: Refs, files: Files) -> None:
        self.trajectory = trajectory
        self.files = files
        self.refs = refs
        self.told: list[Mark] = []
        """The marks that the steps tell of."""
        self.steps: list[Step] = []
        self.places: list[int | None] = []
        """For every step the message that it was made from."""

    def build(self) -> list[Step]:
        messages = self.trajectory.messages
        marked = {m.index for m in self.trajectory.marks or () if m.kind == "compaction"}
        marks = self._context_marks()
        results = find_results(messages)
        for index, message in enumerate(messages):
            for mark in marks.pop(index, ()):
                self._add(None, self._boundary(mark, index))
            if message.role != "tool":
                for kind in MANAGED:
                    if self._tells(index, kind):
                        self.told.append(Mark(kind, index, utc(message.timestamp)))
                self._add(index, self._step(message, results.get(index, []), index in marked))
            elif index in results:  # its own home: no call and no message to stand with
                self._add(index, self._orphan(message))
        for left in sorted(marks):
            for mark in marks[left]:
                self._add(None, self._boundary(mark, len(messages)))
        return self.steps

    def _add(self, place: int | None, step: Step) -> None:
        step.step_id = len(self.steps) + 1
        self.steps.append(step)
        self.places.append(place)

    def _context_marks(self) -> dict[int, list[Mark]]:
        """Marks that need a step of their own: no summary stands where they are."""
        messages = self.trajectory.messages
        marks: dict[int, list[Mark]] = defaultdict(list)
        for mark in self.trajectory.marks or ():
            index = min(max(mark.index, 0), len(messages))
            if mark.kind in MANAGED and not self._tells(index, mark.kind):
                marks[index].append(mark)
        return marks

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
        self.told.append(Mark(mark.kind, index, utc(mark.timestamp)))
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
        step.tool_calls = called.made or None
        observed = [self._result(result, called, message.copied) for result in results]
        # A sub-agent whose call has no result yet is still told of.
        kept = {result.tool_call_id: result for result in lone_results(message)}
        for call in message.tool_calls or () if called.made else ():
            refs = self.refs.of_call(call.id)
            if call.id in kept:
                refs, _ = self.refs.of_message(kept[call.id], refs)
            if refs:
                observed.append(Result(called.answered(call.id), None, refs))
        if observed:
            step.observation = Observation(observed)
        step.extra = merged(extra, {}, rest)
        return step

    def _orphan(self, message: Message) -> Step:
        return Step(
            step_id=0,
            source="system",
            message="",
            timestamp=utc(message.timestamp),
            observation=Observation([self._result(message, None, message.copied)]),
            is_copied_context=message.copied or None,
            extra=merged(None, {}, {"result": True}),
        )

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
