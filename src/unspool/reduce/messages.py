"""Messages: drafts become messages, tool calls, results and marks.

    call c1, call c2, words, result of c2, result of c1    →    message with c1 and c2, result of c1,
                                                               result of c2, words

The results of a message's calls stand right behind it (cases/claude_code/parallel_tools). A second
result of a call in the same channel says nothing (cases/copilot_cli/second_result).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from unspool.facts import AnyFact, Attachment, Key, Marked, MessageSeen, Rank, ToolReturned, View
from unspool.io.times import format_time, parse_time
from unspool.reduce.drafts import ENDS, CallDraft, Draft
from unspool.reduce.echoes import joined_text
from unspool.reduce.lists import fill_missing
from unspool.reduce.records import Listed, Record
from unspool.reduce.totals import is_turn
from unspool.trajectory import Mark, Message, ToolCall, ToolFunction

Statement = AnyFact | View
"""Who told of a message: both know the place of their record."""


class Provenance:
    """Which statements every message was made from, for whoever wants to know it."""

    def __init__(self) -> None:
        self._statements: dict[int, tuple[Message, list[Statement]]] = {}
        """By the message itself, which is kept: no other one can have its number."""
        self._listed: dict[tuple[Key, str], Statement] = {}
        """Record of a message list → who logged the list."""

    def of(self, message: Message) -> list[Statement]:
        return self._statements[id(message)][1] if id(message) in self._statements else []

    def note_listed(self, key: Key, entry: str, message: Message, seen: Statement) -> None:
        self._listed[key, entry] = seen
        self._statements[id(message)] = (message, [seen])

    def note_built(self, draft: Draft, built: list[Message]) -> None:
        """A message is made of its parts and its calls; a result behind it of what came of its call."""
        calls = [draft.orphan] if draft.orphan is not None else draft.calls
        results = {call.id: call.results for call in calls}
        whole: list[AnyFact] = [*draft.parts, *(fact for call in calls for fact in call.seen)]
        for message in built:
            facts = results.get(message.tool_call_id or "", ()) if message.role == "tool" else whole
            told = [self._listed.get((fact.key, fact.entry), fact) for fact in facts]
            self._statements[id(message)] = (message, told)


def build_messages(
    drafts: list[Draft],
    listed: Sequence[tuple[float, list[Message]]] = (),
    provenance: Provenance | None = None,
) -> tuple[list[Message], list[float]]:
    """The messages of the drafts, each with the results of its calls behind it, and their places.

    Those that lists told alone are ready, and stand before them.
    """
    messages = [message for _, ready in listed for message in ready]
    places = [place for place, ready in listed for _ in ready]
    ranks = [_best_rank(draft) for draft in drafts]
    whole = 0 in ranks
    for draft, rank in zip(drafts, ranks, strict=True):
        if draft.orphan is None:
            built = build_message(draft)
        else:
            built = [build_result(draft.orphan.id, "", merge_results(draft.orphan.results))]
        # A hook log tells of a call that the session's own file does not hold: perhaps a sub-agent
        # made it, and linking has to know (cases/claude_code/hooks_and_subagent).
        if whole and rank >= Rank.ECHO:
            built[0].extra = {**(built[0].extra or {}), "echo_only": True}
        if provenance is not None:
            provenance.note_built(draft, built)
        messages.extend(built)
        places.extend([draft.place] * len(built))
    return messages, places


def _best_rank(draft: Draft) -> int:
    if draft.parts and draft.parts[0].rank == 0:  # as nearly always
        return 0
    ranks = [part.rank for part in draft.parts]
    for call in [draft.orphan] if draft.orphan else draft.calls:
        ranks += [fact.rank for fact in call.seen]
        ranks += [fact.rank for fact in call.results]
    return min(ranks, default=0)


def build_message(draft: Draft) -> list[Message]:
    parts = draft.parts
    listed = [part.ready for part in parts if type(part) is Listed]
    if listed and len(parts) == 1 and not draft.calls:
        return listed
    message = _build_joined(draft, parts)
    built = [message]
    if draft.calls:
        message.tool_calls = []
        # As the records of the message stand, each of which may number its calls from 0.
        ordered = [
            (call.place, number if (index := call.seen[0].index) is None else index, number, call)
            for number, call in enumerate(draft.calls)
        ]
        ordered.sort()
        for *_, call in ordered:
            result = merge_results(call.results) if call.results else None
            message.tool_calls.append(build_call(call, result))
            if result is not None and not (result.text is None and result.details is None):
                # (Else only the end of the call is known: the call says so, no message does.)
                built.append(build_result(call.id, call.seen[0].name, result))
    for ready in listed:
        fill_missing(message, ready)
    return built


def _build_joined(draft: Draft, parts: list[MessageSeen]) -> Message:
    """One message of its parts: each field from the part that knows best."""
    thoughts: dict[str, int] = {}
    attachments: list[Attachment] = []
    told: list[MessageSeen] = []
    stop = ""
    for part in parts:
        if part.extra:
            told.append(part)
        if part.thinking:
            thoughts[part.thinking] = min(part.rank, thoughts.get(part.thinking, part.rank))
        if part.attachments:
            attachments += [a for a in part.attachments if a not in attachments]
        stop = part.stop or stop
    best = min(thoughts.values()) if thoughts else 0
    mode = model = request = kind = status = ""
    typed = renamed = None
    ranked = sorted(parts, key=_by_rank) if len(parts) > 1 else parts
    for part in ranked:
        mode, model, request = mode or part.mode, model or part.model, request or part.request
        if part.rank == ranked[0].rank:
            # Kind and status come from the best rank alone: a hook that repeats a summary as an
            # ordinary prompt does not make it one.
            kind, status = kind or part.kind, status or part.status
        typed = part.typed if typed is None else typed
        if part.shown and renamed is None:
            renamed = part.typed
    extra: dict[str, Any] = {}
    for part in sorted(told, key=_by_rank, reverse=True) if told else ():
        extra.update(part.extra or {})
    return Message(
        role=draft.role,  # type: ignore[arg-type]  # a draft takes its role from a fact
        content=joined_text(parts),
        mode=mode or None,
        model=model or None,
        id=draft.id if parts and parts[0].id else None,
        kind=kind or None,
        # Of a command that is kept under another name, the one that was typed (queued_command).
        typed=typed if renamed is None else renamed,
        thinking="\n\n".join([t for t, rank in thoughts.items() if rank == best]) or None,
        timestamp=format_time(draft.time),
        request_id=request or None,
        stop_reason=stop or None,
        status=status or None,
        attachments=attachments or None,
        extra=extra or None,
    )


_by_rank = attrgetter("rank")


def build_call(call: CallDraft, result: ToolReturned | None) -> ToolCall:
    first = call.seen[0]
    name, arguments, by_user = first.name, first.arguments, first.by_user
    extra = dict(first.extra) if first.extra else {}
    for fact in call.seen[1:]:
        name, arguments = name or fact.name, arguments or fact.arguments
        by_user = by_user or fact.by_user
        if fact.extra:
            extra = {**fact.extra, **extra}
    tool_call = ToolCall(
        id=call.id,
        type="function",
        function=ToolFunction(name, arguments),
        started_at=format_time(_begun(call)),
        by_user=by_user,
        extra=extra or None,
    )
    if result is not None:
        tool_call.status = result.status or ("failed" if result.failed else "completed")
        tool_call.duration_ms = result.duration_ms
        tool_call.ended_at = format_time(result.time)
    return tool_call


def _begun(call: CallDraft) -> int | None:
    """When the call was run, where a record of that stands beside the message that asked for it."""
    if len(call.seen) == 1:
        return call.seen[0].time
    run = [fact.time for fact in call.seen if not fact.message and fact.time is not None]
    if run:
        ends = [result.time for result in call.results if result.time is not None]
        begun = min(run)
        if not ends or begun < min(ends):
            return begun
    return call.seen[0].time


def merge_results(results: list[ToolReturned]) -> ToolReturned:
    """What the results of a call say together: each field from the first, by rank, that tells it. A
    second answer in the same channel says nothing: the first one stands."""
    if len(results) == 1:
        return results[0]
    standing: list[ToolReturned] = []
    answered: set[int] = set()
    for result in sorted(results, key=_by_rank):
        if result.text is None or result.rank not in answered:
            standing.append(result)
        if result.text is not None:
            answered.add(result.rank)
    extra: dict[str, Any] = {}
    for result in reversed(standing):
        extra.update(result.extra or {})
    return msgspec.structs.replace(
        standing[0],
        extra=extra,
        name=next((result.name for result in standing if result.name), ""),
        status=next((result.status for result in standing if result.status), ""),
        **{
            field: next((v for r in standing if (v := getattr(r, field)) is not None), None)
            for field in ("text", "details", "failed", "duration_ms")
        },
    )


def build_result(call: str, name: str, result: ToolReturned) -> Message:
    """The tool message of a call."""
    extra = dict(result.extra) if result.extra else {}
    if result.text is None and result.details is None:
        extra["bare"] = True
    return Message(
        role="tool",
        content=result.text or "",
        tool_call_id=call,
        timestamp=format_time(result.time),
        name=name or result.name or None,
        is_error=True if result.failed else None,
        details=result.details,
        duration_ms=result.duration_ms,
        status=result.status or None,
        attachments=list(result.attachments) or None,
        extra=extra or None,
    )


def build_marks(
    marks: list[tuple[float, Marked]],
    places: list[float],
    messages: list[Message],
    adrift: Container[str] = (),
) -> list[Mark]:
    """Marks at their index; an echo goes into the k-th mark of its kind and subject, and the end
    of a turn into that of the same turn (unless nothing tells where its origin, adrift, belongs).

    A mark stands before the messages of its record, or right behind the message that it names.
    """
    if not marks:
        return []
    behind = _ends(messages)
    asked = [p for p, m in zip(places, messages, strict=True) if is_turn(m)]
    built: list[tuple[float, Marked, Mark]] = []
    by_kind: dict[tuple[str, str, int], list[Mark]] = defaultdict(list)
    used: dict[tuple[str, str, int, str], int] = defaultdict(int)
    for place, fact in sorted(marks, key=lambda item: item[1].rank):
        by_turn = fact.kind == "turn_end" and fact.origin not in adrift
        turn = bisect_right(asked, place) if by_turn else -1
        # What two marks of a kind are the same by: a touch of a file by its path, others by
        # subject.
        named = (fact.data or {}).get("path") if fact.kind == "file" else None
        key = (fact.kind, (str(named) if named else fact.subject), turn)
        if fact.rank:
            slot = (*key, f"{fact.rank}:{fact.origin}")
            number = used[slot]
            used[slot] += 1
            if number < len(by_kind[key]):
                mark = by_kind[key][number]
                mark.data = {**(fact.data or {}), **(mark.data or {})} or None
                continue
        mark = Mark(
            kind=fact.kind,
            index=0,
            timestamp=format_time(fact.time),
            subject=fact.subject or None,
            data=dict(fact.data) if fact.data else None,
        )
        by_kind[key].append(mark)
        built.append((place, fact, mark))
    built.sort(key=lambda item: item[0])
    for place, fact, mark in built:
        index = behind.get(mark.subject or "")
        find = bisect_right if mark.kind in ENDS else bisect_left
        mark.index = index if index is not None else find(places, place)
        if fact.rank and fact.kind in ENDS and fact.origin not in adrift:
            mark.index = _answered(mark.index, fact.time, messages)
    return _ends_last([mark for *_, mark in built])


SECOND = 1_000_000


def _answered(index: int, time: int | None, messages: list[Message]) -> int:
    """Behind what was still answered when a log told of an end without a time, or by a clock that
    shows no more than seconds."""
    if time is not None and time % SECOND:
        return index
    for at in range(index, len(messages)):
        message = messages[at]
        if message.role == "user" and message.kind not in ("injected", "summary"):
            break
        if time is not None and (parse_time(message.timestamp) or time + SECOND) >= time + SECOND:
            break
        if message.role in ("assistant", "tool"):
            index = at + 1
    return index


def _ends_last(marks: list[Mark]) -> list[Mark]:
    """No turn ends behind the end of its session, though another channel told of it."""
    for at in range(len(marks) - 1, 0, -1):
        first, second = marks[at - 1], marks[at]
        if (first.kind, second.kind) == ("end", "turn_end") and first.index == second.index:
            marks[at - 1], marks[at] = second, first
    return marks


def count_preserved(marks: list[Mark] | None, records: list[Record], places: list[float]) -> None:
    """How many messages a compaction left, where it names the first and the last record of them;
    its summary counts too."""
    for mark in marks or ():
        if mark.kind != "compaction":
            continue
        data = mark.data or {}
        ends = (data.get("preserved_from"), data.get("preserved_to"))
        if "messages_after" not in data and None not in ends:
            entries = [record.entry for record in records]
            first, last = (entries.index(end) if end in entries else None for end in ends)
            if first is not None and last is not None and first <= last:
                kept = bisect_right(places, last) - bisect_left(places, first)
                mark.data = {**data, "messages_after": kept + 1}


def _ends(messages: list[Message]) -> dict[str, int]:
    """Message id → the number of messages up to it and the results of its calls."""
    ends: dict[str, int] = {}
    last = ""
    for index, message in enumerate(messages):
        if message.role != "tool":
            last = message.id or ""
        if last:
            ends[last] = index + 1
    return ends
