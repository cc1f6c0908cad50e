"""Messages: drafts become messages, tool calls, results and marks.

    call c1, call c2, words, result of c2, result of c1    →    message with c1 and c2, result of c1,
                                                               result of c2, words

The results of a message's calls stand right behind it (cases/claude_code/parallel_tools). A second
result of a call in the same channel says nothing (cases/copilot_cli/second_result).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Sequence
from typing import Any

from unspool.facts import Attachment, Marked, MessageSeen, Rank, ToolReturned
from unspool.io.times import format_time, parse_time
from unspool.reduce.drafts import ENDS, CallDraft, Draft
from unspool.reduce.echoes import joined_text
from unspool.reduce.records import Listed, Record
from unspool.trajectory import Mark, Message, ToolCall, ToolFunction


def _first(ranked: list[MessageSeen], field: str) -> Any:
    for part in ranked:
        value = getattr(part, field)
        if value:
            return value
    return None


def build_messages(
    drafts: list[Draft], listed: Sequence[tuple[float, Message]] = ()
) -> tuple[list[Message], list[float]]:
    """The messages of the drafts, each with the results of its calls behind it, and their places.

    Those that lists told alone are ready, and stand before them.
    """
    messages = [message for _, message in listed]
    places = [place for place, _ in listed]
    ranks = [_best_rank(draft) for draft in drafts]
    whole = 0 in ranks
    for draft, rank in zip(drafts, ranks, strict=True):
        built = [build_result(draft.orphan, None)] if draft.orphan else build_message(draft)
        # A hook log tells of a call that the session's own file does not hold: perhaps a sub-agent
        # made it, and linking has to know (cases/claude_code/hooks_and_subagent).
        if whole and rank >= Rank.ECHO:
            built[0].extra = {**(built[0].extra or {}), "echo_only": True}
        messages.extend(built)
        places.extend([draft.place] * len(built))
    return messages, places


def _best_rank(draft: Draft) -> int:
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
    calls = draft.calls
    if len(calls) > 1:
        calls = [call for _, call in sorted(enumerate(calls), key=lambda item: _call_order(*item))]
    if len(parts) == 1:
        message = Message(
            role=draft.role,  # type: ignore[arg-type]  # a draft takes its role from a fact
            content=parts[0].text,
            mode=parts[0].mode or None,
            model=parts[0].model or None,
            id=draft.id if parts[0].id else None,
            kind=parts[0].kind or None,
            typed=parts[0].typed,
            thinking=parts[0].thinking or None,
            timestamp=format_time(draft.time),
            request_id=parts[0].request or None,
            stop_reason=parts[0].stop or None,
            status=parts[0].status or None,
            attachments=list(parts[0].attachments) or None,
            extra=dict(parts[0].extra) if parts[0].extra else None,
        )
    else:
        message = _build_joined(draft, parts)
    message.tool_calls = [build_call(call) for call in calls] or None
    for ready in listed:
        fill_missing(message, ready)
    if not calls:
        return [message]
    results = [build_result(call, call.seen[0].name) for call in calls if call.results]
    return [message, *(result for result in results if not _is_bare(result))]


def _build_joined(draft: Draft, parts: list[MessageSeen]) -> Message:
    """One message of its parts: each field from the part that knows best."""
    ranked = sorted(parts, key=_by_rank)
    extra: dict[str, Any] = {}
    for part in sorted([part for part in parts if part.extra], key=lambda p: -p.rank):
        extra.update(part.extra or {})
    attachments: list[Attachment] = []
    for part in parts:
        attachments += [a for a in part.attachments if a not in attachments]
    # Kind and status come from the best rank alone: a hook that repeats a summary as an ordinary
    # prompt does not make it one.
    least = ranked[0].rank if ranked else 0
    best = [part for part in ranked if part.rank == least]
    # Of a command that is kept under another name, the one that was typed (queued_command).
    renamed = [part for part in ranked if part.shown]
    texts: list[str] = []
    for part in parts:
        if texts and part.thinking.startswith(texts[-1]):
            texts[-1] = part.thinking  # "I look" and then "I look at the file": one thought, grown
        elif part.thinking and part.thinking not in texts:
            texts.append(part.thinking)
    return Message(
        role=draft.role,  # type: ignore[arg-type]  # a draft takes its role from a fact
        content=joined_text(parts),
        mode=_first(ranked, "mode"),
        model=_first(ranked, "model"),
        id=draft.id if parts and parts[0].id else None,
        kind=_first(best, "kind"),
        typed=next((p.typed for p in (*renamed, *ranked) if p.typed is not None), None),
        thinking=("\n\n".join(texts) or None),
        timestamp=format_time(draft.time),
        request_id=_first(ranked, "request"),
        stop_reason=next((p.stop for p in reversed(parts) if p.stop), None),
        status=_first(best, "status"),
        attachments=attachments or None,
        extra=extra or None,
    )


_OF_A_LIST = ("mode", "request_id", "call_id", "timestamp", "stop_reason", "model_conflict")


def fill_missing(message: Message, other: Message) -> None:
    """What is known of a message where another channel has it too."""
    if message.model is None and other.model is not None:
        message.model, message.model_source = other.model, other.model_source
    for name in _OF_A_LIST:
        if getattr(message, name) is None:
            setattr(message, name, getattr(other, name))


def _by_rank(part: MessageSeen) -> int:
    return part.rank


def _call_order(number: int, call: CallDraft) -> tuple[float, int, int]:
    """As the records of the message stand, each of which may number its calls from 0."""
    index = call.seen[0].index
    return (call.place, index if index is not None else number, number)


def _is_bare(result: Message) -> bool:
    """Only the end of the call is known, not what came of it: the call says so, no message does."""
    return not result.content and result.details is None and bool((result.extra or {}).get("bare"))


def build_call(call: CallDraft) -> ToolCall:
    first = call.seen[0]
    name = first.name or next((fact.name for fact in call.seen if fact.name), "")
    arguments = first.arguments or next((f.arguments for f in call.seen if f.arguments), "")
    extra: dict[str, Any] = {}
    for fact in reversed(call.seen):
        if fact.extra:
            extra.update(fact.extra)
    tool_call = ToolCall(
        id=call.id,
        function=ToolFunction(name=name, arguments=arguments),
        started_at=format_time(_begun(call)),
        by_user=any(fact.by_user for fact in call.seen),
        extra=extra or None,
    )
    if call.results:
        results = _standing(call.results)
        tool_call.status = _call_status(results)
        tool_call.duration_ms = _first_told(results, "duration_ms")
        tool_call.ended_at = format_time(results[0].time)
    return tool_call


def _first_told(results: list[ToolReturned], field: str) -> Any:
    """What the first of the results that tells it says."""
    for result in results:
        value = getattr(result, field)
        if value is not None:
            return value
    return None


def _begun(call: CallDraft) -> int | None:
    """When the call was run, where a record of that stands beside the message that asked for it."""
    ended = min((r.time for r in call.results if r.time is not None), default=None)
    run = [
        fact.time
        for fact in call.seen
        if not fact.message and fact.time is not None and (ended is None or fact.time < ended)
    ]
    return min(run) if run else call.seen[0].time


def _standing(results: list[ToolReturned]) -> list[ToolReturned]:
    """Lowest rank first; a second answer in the same channel says nothing: the first one stands."""
    if len(results) == 1:
        return results
    standing: list[ToolReturned] = []
    answered: set[int] = set()
    for result in sorted(results, key=lambda fact: fact.rank):
        if result.text is None or result.rank not in answered:
            standing.append(result)
        if result.text is not None:
            answered.add(result.rank)
    return standing


def _call_status(results: list[ToolReturned]) -> str:
    status = results[0].status or next((result.status for result in results if result.status), "")
    return status or ("failed" if _first_told(results, "failed") else "completed")


def build_result(call: CallDraft, name: str | None) -> Message:
    """The tool message of a call."""
    results = _standing(call.results)
    text, details = _first_told(results, "text"), _first_told(results, "details")
    extra: dict[str, Any] = {}
    for result in reversed(results):
        if result.extra:
            extra.update(result.extra)
    if text is None and details is None:
        extra["bare"] = True
    return Message(
        role="tool",
        content=text or "",
        tool_call_id=call.id,
        timestamp=format_time(results[0].time),
        name=name or next((result.name for result in results if result.name), None),
        is_error=True if _first_told(results, "failed") else None,
        details=details,
        duration_ms=_first_told(results, "duration_ms"),
        status=results[0].status or next((r.status for r in results if r.status), None),
        attachments=list(results[0].attachments) or None,
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
    asked = [p for p, m in zip(places, messages, strict=True) if _is_asked(m)]
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


def _is_asked(message: Message) -> bool:
    """Whether a person said something that begins a turn."""
    return message.role == "user" and message.kind in (None, "command", "shell")


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
