"""Messages: the steps of a document back into messages, tool calls, results and marks."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from unspool.facts import Attachment
from unspool.sinks.atif.calls import CALL_WORDS, exit_code
from unspool.sinks.atif.extras import KeptRefs, keep_residue, parted, residue_of, utc
from unspool.sinks.atif.media import FROM_PART, from_content
from unspool.sinks.atif.metrics import LISTS, WORDS
from unspool.sinks.atif.model import OURS, Content, Document, Metrics, Ref, Result, Step
from unspool.sinks.atif.model import ToolCall as AtifCall
from unspool.sinks.atif.steps import (
    INHERITED,
    MANAGED,
    MANAGING,
    RESULT_WORDS,
    managed_kind,
)
from unspool.trajectory import Link, Mark, Message, ToolCall, ToolFunction, Usage

ROLES = {"system": "system", "user": "user", "agent": "assistant"}

Resolve = Callable[[Ref], tuple[str, bool]]
"""A reference → the id of the conversation that it means, and whether that is embedded."""


class MessageReader:
    """Builds the messages of one document."""

    def __init__(self, document: Document, resolve: Resolve) -> None:
        self.document = document
        self.resolve = resolve
        ours = (document.extra or {}).get(OURS)
        # By ATIF a step without a model has the agent's; our own documents leave out what is unknown.
        self.is_ours = isinstance(ours, dict) and "source" in ours
        self.default_model = None if self.is_ours else document.agent.model_name
        self.messages: list[Message] = []
        self.marks: list[Mark] = []
        self.links: list[Link] = []
        self.places: list[int | None] = []
        """For every step the message that stands for it."""

    def build(self) -> None:
        for step in self.document.steps:
            at = len(self.messages)
            self._step(step)
            self.places.append(at if len(self.messages) > at else None)

    def _step(self, step: Step) -> None:
        extra, _, rest = parted(step.extra, {})
        managed = (extra or {}).get(MANAGING)
        if isinstance(managed, dict):
            self._mark(step, managed, rest)
            if isinstance(rest.pop("mark", None), str):
                return
            if managed in MANAGED.values():
                extra = {k: v for k, v in (extra or {}).items() if k != MANAGING}
        results = step.observation.results if step.observation else []
        if rest.pop("result", None) is True and len(results) == 1:
            self._result(results[0], step, {})
            return
        if isinstance(managed, dict) and self._is_summary(step, managed):
            first, *others = results
            text, attachments, layout = self._content(first.content, rest)
            message = Message(
                role=rest.pop("role", "user"),
                content=text,
                kind="summary",
                timestamp=utc(step.timestamp),
                copied=bool(step.is_copied_context),
                attachments=attachments or None,
                extra=_with(extra or None, layout),
            )
            self.messages.append(_fill(message, rest))
            for result in others:
                self._result(result, step, {})
            return
        if managed in MANAGED.values():
            extra = {**(extra or {}), MANAGING: managed}
        calls = [_call(call) for call in step.tool_calls or ()]
        message = self._message(step, extra, rest, calls)
        self.messages.append(message)
        by_id = {
            written.tool_call_id: call
            for written, call in zip(step.tool_calls or (), calls, strict=True)
        }
        for result in results:
            self._result(result, step, by_id)

    def _mark(self, step: Step, managed: dict[str, Any], rest: dict[str, Any]) -> None:
        named = rest.get("mark")
        kind = named if isinstance(named, str) else managed_kind(managed)
        at, end = rest.get("index"), len(self.messages)
        if kind is not None and rest.get("mark") is not False:
            place = at if isinstance(at, int) and isinstance(named, str) and 0 <= at < end else end
            self.marks.append(Mark(kind, place, utc(step.timestamp)))

    def _message(
        self, step: Step, extra: dict[str, Any] | None, rest: dict[str, Any], calls: list[ToolCall]
    ) -> Message:
        text, attachments, layout = self._content(step.message, rest)
        message = Message(
            role=ROLES[step.source],  # type: ignore[arg-type]  # one of the four, by the table
            content=text,
            tool_calls=calls or None,
            timestamp=utc(step.timestamp),
            copied=bool(step.is_copied_context),
            attachments=attachments or None,
            extra=_with(extra, layout),
        )
        if step.source == "agent":
            message.model = step.model_name
            if step.model_name is None and step.llm_call_count != 0 and self.default_model:
                message.model, message.model_source = self.default_model, INHERITED
            message.thinking = step.reasoning_content
            if step.reasoning_effort is not None:
                message.extra = {**(message.extra or {}), "reasoning_effort": step.reasoning_effort}
            message.usage = _usage(step.metrics, step.llm_call_count)
        return _fill(message, rest)

    def _is_summary(self, step: Step, managed: dict[str, Any]) -> bool:
        """By the convention, a replacing compaction has the new context as its observation."""
        results = step.observation.results if step.observation else []
        return (
            step.source == "system"
            and managed.get("type") == "compaction"
            and managed.get("boundary") == "replace"
            and bool(results)
            and (bool(results[0].content) or (self.is_ours and results[0].content is not None))
            and not results[0].subagent_trajectory_ref
        )

    def _result(self, result: Result, step: Step, calls: dict[str, ToolCall]) -> None:
        extra, words, rest = parted(result.extra, RESULT_WORDS)
        call = calls.get(result.source_call_id or "")
        text, attachments, layout = self._content(result.content, rest)
        odd = _refs(rest)
        message = Message(
            role="tool",
            content=text,
            tool_call_id=call.id if call is not None else result.source_call_id,
            copied=bool(step.is_copied_context),
            attachments=attachments or None,
            extra=_with(extra or None, layout),
        )
        fields = {{"tool_name": "name"}.get(word, word): value for word, value in words.items()}
        message = _fill(_fill(message, fields), rest)
        code = exit_code(message)
        if code is not None and message.extra and message.extra.get("exit_code") == code:
            message.extra = {k: v for k, v in message.extra.items() if k != "exit_code"} or None
        kept: KeptRefs = []
        for ref in [*(result.subagent_trajectory_ref or ()), *odd]:
            child, embedded = self.resolve(ref)
            if not child:
                kept.append(("", ref))
                continue
            self.links.append(Link(child, tool_call_id=call.id if call is not None else None))
            if call is not None:
                call.child_id = call.child_id or child
            if call is None or not embedded:
                kept.append((child, None if embedded else ref))
        if kept:
            message.extra = keep_residue(message.extra, refs=kept)
        if self.is_ours and call is not None and result.content is None and not result.extra:
            # A result that only told of a sub-agent is none: the call has no result.
            refs = residue_of(message.extra).refs
            caller = next(m for m in reversed(self.messages) if call in (m.tool_calls or ()))
            if refs:
                lone = {**residue_of(caller.extra).lone, call.id: refs}
                caller.extra = keep_residue(caller.extra, lone=lone)
            return
        self.messages.append(message)

    def _content(
        self, content: Content | None, rest: dict[str, Any]
    ) -> tuple[str, list[Attachment], list[Any] | None]:
        """Text, attachments (their bytes are loaded later), and an unusual layout."""
        text, media, layout = from_content(content if content is not None else "")
        parts = {attachment.path or attachment.uri: attachment for attachment in media}
        attachments: list[Attachment] = []
        for described in _list(rest.pop("attachments", None)):
            file = described.pop("file", "")
            try:
                attachment = msgspec.convert(described, Attachment)
            except msgspec.ValidationError:
                continue
            parts.pop(file or attachment.uri, None)
            if file:
                extra = {**(attachment.extra or {}), FROM_PART: file}
                attachment = msgspec.structs.replace(attachment, extra=extra)
            attachments.append(attachment)
        return text, [*attachments, *parts.values()], layout


def _refs(rest: dict[str, Any]) -> list[Ref]:
    """References that ATIF would not take, as we wrote them; else they are what they are."""
    try:
        refs = msgspec.convert(rest.get("refs", []), list[Ref])
    except msgspec.ValidationError:
        return []
    rest.pop("refs", None)
    return refs


def _list(value: Any) -> list[dict[str, Any]]:
    return (
        [dict(item) for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    )


def _with(extra: dict[str, Any] | None, layout: list[Any] | None) -> dict[str, Any] | None:
    return extra if layout is None else keep_residue(extra, layout=layout)


_Filled = TypeVar("_Filled", Message, ToolCall, Usage)


def _fill(struct: _Filled, fields: dict[str, Any]) -> _Filled:
    """The struct with those fields; what does not fit goes to its `extra` as it is."""
    if not fields:
        return struct
    strays: dict[str, Any] = {}
    types = {field.name: field.type for field in msgspec.structs.fields(struct)}
    for name, value in fields.items():
        try:
            setattr(struct, name, msgspec.convert(value, types[name]))
        except (KeyError, msgspec.ValidationError):
            strays[name] = value
    if strays:
        struct.extra = {**(struct.extra or {}), OURS: strays}
    return struct


def _call(call: AtifCall) -> ToolCall:
    extra, words, rest = parted(call.extra, CALL_WORDS)
    name = rest.pop("name", call.function_name)
    if rest.pop("raw", None) is True and isinstance(call.arguments.get("raw"), str):
        arguments = call.arguments["raw"]
    else:
        arguments = msgspec.json.encode(call.arguments).decode()
    ident = rest.pop("id", call.tool_call_id)
    tool_call = ToolCall(
        id=ident if isinstance(ident, str) else call.tool_call_id,
        function=ToolFunction(name if isinstance(name, str) else call.function_name, arguments),
        extra=extra,
    )
    return _fill(_fill(tool_call, words), rest)


def _usage(metrics: Metrics | None, count: int | None) -> Usage | None:
    if metrics is None:
        return None
    extra, words, rest = parted(metrics.extra, dict.fromkeys(WORDS.values(), int))
    for name in LISTS:
        if getattr(metrics, name) is not None:
            extra = {**(extra or {}), name: getattr(metrics, name)}
    usage = Usage(
        prompt_tokens=metrics.prompt_tokens,
        completion_tokens=metrics.completion_tokens,
        cached_tokens=metrics.cached_tokens,
        cost_usd=metrics.cost_usd,
        requests=count if count is not None and count > 1 else None,
        extra=extra,
    )
    ours = {word: name for name, word in WORDS.items()}
    usage = _fill(_fill(usage, {ours[word]: value for word, value in words.items()}), rest)
    return usage if usage != Usage() else None
