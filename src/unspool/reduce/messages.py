"""Messages: the records of a thread folded into messages, tool calls, results and marks.

A message is all parts with its id; a result belongs to its call and stands right behind the message
that called. Nothing is paired by adjacency. A call or a text whose message nobody saw stands by
itself. An echo without an id is the k-th message of its role with its text.
"""

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.facts import (
    AnyFact,
    Attachment,
    Marked,
    MessageSeen,
    Noted,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.reduce.order import Record
from unspool.times import format_time
from unspool.trajectory import Mark, Message, ToolCall, ToolFunction, Usage


class Draft:
    """A message in the making."""

    __slots__ = ("calls", "id", "orphan", "parts", "place", "role", "time")

    def __init__(self, ident: str, role: str, place: int, time: int | None) -> None:
        self.id = ident
        self.role = role
        self.place = place
        self.time = time
        self.parts: list[MessageSeen] = []
        self.calls: list[CallDraft] = []
        self.orphan: CallDraft | None = None
        """Set on a result whose call nobody saw."""

    @property
    def text(self) -> str:
        typed = next((part.typed for part in self.parts if part.typed is not None), None)
        return typed if typed is not None else joined_text(self.parts)


class CallDraft:
    """A tool call in the making, with what came of it."""

    __slots__ = ("id", "place", "results", "seen")

    def __init__(self, ident: str, place: int) -> None:
        self.id = ident
        self.place = place
        self.seen: list[ToolCalled] = []
        self.results: list[ToolReturned] = []


class Assembly:
    """All drafts of one thread, and the facts that are settled later."""

    def __init__(self) -> None:
        self.drafts: dict[str, Draft] = {}
        self.calls: dict[str, CallDraft] = {}
        self.notes: list[Noted] = []
        self.usage: list[UsageReported] = []
        self.marks: list[tuple[int, Marked]] = []
        self.times: list[int] = []
        self._echoes: dict[tuple[int, str], list[tuple[int, MessageSeen]]] = defaultdict(list)
        self._nameless: list[tuple[int, ToolCalled | ToolReturned]] = []

    def take(self, records: Iterable[Record]) -> None:
        for place, record in enumerate(records):
            for fact in record.facts:
                self._take(place, record, fact)
        self._match_echoes()
        self._match_nameless()
        self._place_calls()

    def _take(self, place: int, record: Record, fact: AnyFact) -> None:
        if fact.time is not None:
            self.times.append(fact.time)
        if isinstance(fact, MessageSeen):
            if fact.rank and not fact.id:
                self._echoes[(fact.rank, fact.origin)].append((place, fact))
            else:
                self._part(place, fact, fact.id or f"{record.entry}#{fact.number}")
        elif isinstance(fact, ToolCalled):
            if fact.id:
                self._call(fact.id, place).seen.append(fact)
            else:
                self._nameless.append((place, fact))
        elif isinstance(fact, ToolReturned):
            if fact.call:
                self._call(fact.call, place).results.append(fact)
            else:
                self._nameless.append((place, fact))
        elif isinstance(fact, UsageReported):
            self.usage.append(fact)
        elif isinstance(fact, Noted):
            self.notes.append(fact)
        elif isinstance(fact, Marked):
            self.marks.append((place, fact))

    def _part(self, place: int, fact: MessageSeen, ident: str) -> None:
        draft = self.drafts.get(ident)
        if draft is None:
            draft = self.drafts[ident] = Draft(ident, fact.role, place, fact.time)
        elif fact.rank == 0 and all(part.rank for part in draft.parts):
            draft.place, draft.time = place, fact.time  # so far only echoes of it had been seen
        draft.parts.append(fact)

    def _call(self, ident: str, place: int) -> CallDraft:
        call = self.calls.get(ident)
        if call is None:
            call = self.calls[ident] = CallDraft(ident, place)
        return call

    def _match_echoes(self) -> None:
        for _, echoes in sorted(self._echoes.items()):
            by_text: dict[tuple[str, str], list[Draft]] = defaultdict(list)
            for draft in sorted(self.drafts.values(), key=lambda d: d.place):
                by_text[(draft.role, draft.text.strip())].append(draft)
            used: dict[tuple[str, str], int] = defaultdict(int)
            for place, fact in echoes:
                key = (fact.role, (fact.typed if fact.typed is not None else fact.text).strip())
                number = used[key]
                used[key] += 1
                if number < len(by_text[key]):
                    by_text[key][number].parts.append(fact)
                else:
                    entry = fact.entry or f"{fact.origin}:{fact.offset}"
                    self._part(place, fact, f"{entry}#{fact.number}")

    def _match_nameless(self) -> None:
        """Calls and results without an id: the k-th with the same name and arguments."""
        known: dict[tuple[str, str], list[CallDraft]] = defaultdict(list)
        for call in sorted(self.calls.values(), key=lambda c: c.place):
            if call.seen:
                known[_signature(call.seen[0])].append(call)
        used: dict[tuple[str, str, tuple[str, str]], int] = defaultdict(int)
        for place, fact in self._nameless:
            signature = _signature(fact)
            slot = (type(fact).__name__, fact.origin, signature)
            number = used[slot]
            used[slot] += 1
            calls = known[signature]
            if number >= len(calls):
                digest = hashlib.sha256(repr(signature).encode("utf-8", "replace")).hexdigest()[:12]
                calls.append(self._call(f"{digest}-{number}", place))
            if isinstance(fact, ToolCalled):
                calls[number].seen.append(fact)
            else:
                calls[number].results.append(fact)

    def _place_calls(self) -> None:
        """Every call goes to its message; a call whose message nobody saw makes one."""
        for call in sorted(self.calls.values(), key=lambda c: c.place):
            call.seen.sort(key=lambda fact: fact.rank)
            if not call.seen:
                orphan = Draft(f"result:{call.id}", "tool", call.place, call.results[0].time)
                orphan.orphan = call
                self.drafts[orphan.id] = orphan
                continue
            ident = next((fact.message for fact in call.seen if fact.message), "")
            draft = self.drafts.get(ident)
            if draft is None:
                first = call.seen[0]
                ident = ident or f"call:{call.id}"
                draft = self.drafts.setdefault(
                    ident, Draft(ident, "assistant", call.place, first.time)
                )
            draft.calls.append(call)

    def in_order(self) -> list[Draft]:
        return sorted(self.drafts.values(), key=lambda draft: draft.place)


def _signature(fact: ToolCalled | ToolReturned) -> tuple[str, str]:
    try:
        value = msgspec.json.decode(fact.arguments.encode("utf-8", "replace"))
        return fact.name, msgspec.json.encode(value, order="deterministic").decode()
    except (msgspec.DecodeError, RecursionError):
        return fact.name, fact.arguments


def joined_text(parts: list[MessageSeen]) -> str:
    """The text of the parts; a part that an other one goes on from is left out."""
    best = min((part.rank for part in parts), default=0)
    texts: list[str] = []
    for part in parts:
        if part.rank == best and part.text:
            if texts and part.text.startswith(texts[-1]):
                texts[-1] = part.text
            else:
                texts.append(part.text)
    return "\n\n".join(texts)


def _joined_thinking(parts: list[MessageSeen]) -> str | None:
    texts: list[str] = []
    for part in parts:
        if part.thinking and part.thinking not in texts:
            texts.append(part.thinking)
    return "\n\n".join(texts) or None


def _first(parts: list[MessageSeen], field: str) -> Any:
    for part in sorted(parts, key=lambda p: p.rank):
        value = getattr(part, field)
        if value:
            return value
    return None


def build_messages(drafts: list[Draft]) -> tuple[list[Message], list[int]]:
    """The messages of the drafts, each with the results of its calls behind it, and their places."""
    messages: list[Message] = []
    places: list[int] = []
    for draft in drafts:
        made = [build_result(draft.orphan, None)] if draft.orphan else build_message(draft)
        messages.extend(made)
        places.extend([draft.place] * len(made))
    return messages, places


def build_message(draft: Draft) -> list[Message]:
    parts = draft.parts
    extra: dict[str, Any] = {}
    for part in sorted(parts, key=lambda p: -p.rank):
        extra.update(part.extra or {})
    attachments: dict[bytes, Attachment] = {}
    for part in parts:
        for attachment in part.attachments:
            attachments.setdefault(msgspec.msgpack.encode(attachment), attachment)
    calls = sorted(enumerate(draft.calls), key=lambda item: _call_order(*item))
    message = Message(
        role=draft.role,  # type: ignore[arg-type]  # a draft takes its role from a fact
        content=joined_text(parts),
        mode=_first(parts, "mode"),
        model=_first(parts, "model"),
        tool_calls=[build_call(call) for _, call in calls] or None,
        id=draft.id if parts and parts[0].id else None,
        kind=_first(parts, "kind"),
        typed=next((p.typed for p in sorted(parts, key=_by_rank) if p.typed is not None), None),
        thinking=_joined_thinking(parts),
        timestamp=format_time(draft.time),
        request_id=_first(parts, "request"),
        stop_reason=next((p.stop for p in reversed(parts) if p.stop), None),
        status=_first(parts, "status"),
        attachments=list(attachments.values()) or None,
        extra=extra or None,
    )
    results = [build_result(call, call.seen[0].name) for _, call in calls if call.results]
    return [message, *(result for result in results if not _is_bare(result))]


def _by_rank(part: MessageSeen) -> int:
    return part.rank


def _call_order(number: int, call: CallDraft) -> tuple[int, int]:
    index = call.seen[0].index
    return (index if index is not None else number, number)


def _is_bare(result: Message) -> bool:
    """Only the end of the call is known, not what came of it: the call says so, no message does."""
    return not result.content and result.details is None and bool((result.extra or {}).get("bare"))


def build_call(call: CallDraft) -> ToolCall:
    first = call.seen[0]
    name = next((fact.name for fact in call.seen if fact.name), "")
    arguments = next((fact.arguments for fact in call.seen if fact.arguments), "")
    extra: dict[str, Any] = {}
    for fact in reversed(call.seen):
        extra.update(fact.extra or {})
    made = ToolCall(
        id=call.id,
        function=ToolFunction(name=name, arguments=arguments),
        started_at=format_time(first.time),
        by_user=any(fact.by_user for fact in call.seen),
        extra=extra or None,
    )
    if call.results:
        results = sorted(call.results, key=lambda fact: fact.rank)
        made.status = _call_status(results)
        made.duration_ms = next((r.duration_ms for r in results if r.duration_ms is not None), None)
        made.ended_at = format_time(results[0].time)
    return made


def _call_status(results: list[ToolReturned]) -> str:
    status = next((result.status for result in results if result.status), "")
    if status:
        return status
    failed = next((result.failed for result in results if result.failed is not None), None)
    return "failed" if failed else "completed"


def build_result(call: CallDraft, name: str | None) -> Message:
    """The tool message of a call: lowest rank first, then what was seen first."""
    results = sorted(call.results, key=lambda fact: fact.rank)
    text = next((result.text for result in results if result.text is not None), None)
    extra: dict[str, Any] = {}
    for result in reversed(results):
        extra.update(result.extra or {})
    if text is None and not any(result.details is not None for result in results):
        extra["bare"] = True
    failed = next((result.failed for result in results if result.failed is not None), None)
    return Message(
        role="tool",
        content=text or "",
        tool_call_id=call.id,
        timestamp=format_time(results[0].time),
        name=name or next((result.name for result in results if result.name), None),
        is_error=True if failed else None,
        details=next((result.details for result in results if result.details is not None), None),
        duration_ms=next((r.duration_ms for r in results if r.duration_ms is not None), None),
        status=next((result.status for result in results if result.status), None),
        attachments=[a for r in results[:1] for a in r.attachments] or None,
        extra=extra or None,
    )


def build_marks(marks: list[tuple[int, Marked]], places: list[int]) -> list[Mark]:
    """Marks at their index; an echo goes into the k-th mark of its kind and subject."""
    made: list[tuple[int, Mark]] = []
    known: dict[tuple[str, str], list[Mark]] = defaultdict(list)
    used: dict[tuple[str, str, str], int] = defaultdict(int)
    for place, fact in sorted(marks, key=lambda item: item[1].rank):
        key = (fact.kind, fact.subject)
        if fact.rank:
            slot = (*key, f"{fact.rank}:{fact.origin}")
            number = used[slot]
            used[slot] += 1
            if number < len(known[key]):
                mark = known[key][number]
                mark.data = {**(fact.data or {}), **(mark.data or {})} or None
                continue
        mark = Mark(
            kind=fact.kind,
            index=0,
            timestamp=format_time(fact.time),
            subject=fact.subject or None,
            data=dict(fact.data) if fact.data else None,
        )
        known[key].append(mark)
        made.append((place, mark))
    made.sort(key=lambda item: item[0])
    for place, mark in made:
        mark.index = bisect_left(places, place)
    return [mark for _, mark in made]


def settle_usage(reports: Iterable[UsageReported]) -> dict[tuple[str, str], UsageReported]:
    """Per subject (and model): the lowest rank, then the last in order."""
    best: dict[tuple[str, str], UsageReported] = {}
    for report in reports:
        key = (
            report.on,
            report.subject if report.on == "message" else f"{report.subject}\0{report.model}",
        )
        known = best.get(key)
        if known is None or report.rank <= known.rank:
            best[key] = report
    return best


def to_usage(report: UsageReported) -> Usage:
    return Usage(
        prompt_tokens=report.prompt,
        completion_tokens=report.completion,
        cached_tokens=report.cached,
        cache_write_tokens=report.cache_write,
        reasoning_tokens=report.reasoning,
        cost_usd=report.cost_usd,
        requests=report.requests,
        extra=report.extra,
    )
