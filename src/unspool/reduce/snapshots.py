"""Snapshots: overlapping message lists of one conversation become its messages.

The list with the most messages wins (counted after its answer is joined to it), then the later, then
the first seen. A list that begins from a conversation summary opens a new segment, and the winner of
every segment is kept. What only the losers know is merged into the winner.
"""

from typing import Any

import msgspec

from unspool.facts import AnyFact, Key, ListSeen, Marked, Noted, PieceSeen, SnapshotSeen, View
from unspool.io.times import format_time
from unspool.prompts.typed import summary_of
from unspool.reduce.candidates import (
    Beginnings,
    Candidate,
    by_time,
    join_answers,
    pick_winners,
    same_answer,
)
from unspool.reduce.gaps import fill_gaps
from unspool.reduce.leftovers import Known, left_over
from unspool.reduce.listing import Answer, Listing, identity, is_empty
from unspool.reduce.lists import read_lists
from unspool.reduce.models import annotate, stamp, take_usage
from unspool.reduce.numbering import count_from_list
from unspool.reduce.order import Ordered
from unspool.reduce.prompts import decode_tools
from unspool.reduce.reduction import Reduction
from unspool.reduce.sides import by_side
from unspool.reduce.totals import complete
from unspool.trajectory import Branch, Link, Mark, Message, Trajectory

INNER = frozenset(("served", "session_model", "side", "telemetry_type", "utility"))
"""Notes that the choice of lists and models is made by; they land nowhere themselves."""


def reduce_lists(
    key: Key,
    facts: list[SnapshotSeen | ListSeen | PieceSeen],
    ordered: Ordered,
    merge_tool_metadata: bool = True,
    long: bool = False,
) -> Reduction:
    """The conversation and its sub-agents, and how many records added nothing to them."""
    rest = [fact for record in ordered.records for fact in record.facts]
    lists, answers, problems = read_lists(key, facts, long)
    records = sum(len(listing.calls) for listing in lists) + len(answers)
    made: list[Trajectory] = []
    used = 0
    for side, group in sorted(by_side(lists, answers, rest).items()):
        strand = Strand(*group)
        if side:
            trajectory = strand.reduce((key[0], f"{key[1]}/{side}"), [], merge_tool_metadata)
            trajectory.parent = Link(conversation_id=key[1])
        else:
            trajectory = strand.reduce(key, rest, merge_tool_metadata)
        made.append(trajectory)
        used += strand.used
    return Reduction(made, ordered.superseded + max(records - used, 0), problems)


class Strand:
    """The lists and answers of one conversation or of one sub-agent's run."""

    def __init__(self, lists: list[Listing], answers: list[Answer]) -> None:
        join_answers(lists, answers)
        lists = fill_gaps(lists)
        self.lists = lists
        self.answers = answers
        beginnings = Beginnings(lists)
        self.candidates = [Candidate(listing, beginnings) for listing in lists]
        self.winners = pick_winners(self.candidates)
        self.used = sum(1 for answer in answers if answer.used) + sum(
            len(winner.messages) > 0 for winner in self.winners
        )

    def reduce(self, key: Key, rest: list[AnyFact], merge_tool_metadata: bool) -> Trajectory:
        messages, marks = _string_together(self.winners)
        views = [call.view for made in self.candidates for call in made.listing.calls]
        late = self._late_answers()
        self.used += len(late)
        last = max((made.last.when for made in self.winners), default=(-2, "", 0))
        left = left_over(Known(messages, views, last), late, rest)
        messages = [*messages, *left]
        partial = ["input-missing"] if left else []
        if any(made.listing.missing for made in self.winners):
            partial.append("messages-missing")
        trajectory = Trajectory(conversation_id=key[1], messages=messages, source=key[0])
        marks += _marks_on_calls(rest, messages)
        trajectory.marks = sorted(marks, key=lambda mark: mark.index) or None
        trajectory.partial = partial or None
        trajectory.branches = [
            Branch(index=len(made.messages) - 1, messages=made.retries, reason="retry")
            for made in self.winners
            if made.retries
        ] or None
        rest = [*rest, *_by_message(views, rest)]
        _describe(trajectory, self.winners, views + [a.view for a in self.answers], rest)
        annotate(self.winners, self.candidates, rest, merge_tool_metadata)
        notes = [n for n in rest if isinstance(n, Noted) and n.name not in INNER]
        gaps = any(made.listing.gaps for made in self.winners)
        complete(trajectory, count_from_list(notes, messages, gaps))
        return trajectory

    def _late_answers(self) -> list[Answer]:
        """Answers whose call was never logged, where they are later than all that was."""
        last = max((made.last.when for made in self.winners), default=(-1, "", 0))
        late = [
            answer
            for answer in by_time(self.answers)
            if answer.when > last and not answer.used and not is_empty(answer.message)
        ]
        if late:
            known = {m.content.rstrip() for made in self.winners for m in made.messages}
            late = [answer for answer in late if answer.message.content.rstrip() not in known]
        for answer in late:
            message = answer.message
            message.call_id = answer.view.call or None
            message.request_id = answer.view.request or None
            message.timestamp = format_time(answer.view.time)
            stamp(message, answer.view.answered, answer.view.requested)
            take_usage(message, answer.view)
        return late


def _by_message(views: list[View], rest: list[AnyFact]) -> list[Noted]:
    """Notes on a request by the id of the message that it was made for, where that is another."""
    requests = {v.message: v.request for v in views if v.message and v.message != v.request}
    return [
        msgspec.structs.replace(fact, subject=requests[fact.subject], rank=fact.rank + 1)
        for fact in rest
        if isinstance(fact, Noted) and fact.on == "request" and requests.get(fact.subject)
    ]


def _string_together(winners: list[Candidate]) -> tuple[list[Message], list[Mark]]:
    messages: list[Message] = []
    marks: list[Mark] = []
    known: set[tuple[Any, ...]] = set()
    for number, winner in enumerate(winners):
        if number:
            time = format_time(winner.first.view.time)
            marks.append(Mark("compaction", len(messages), time))
            _mark_copied(winner.messages, known)
            _meet(messages[-1], winner.messages)
        messages += winner.messages
        known.update(identity(message) for message in winner.messages)
    return messages, marks


def _marks_on_calls(rest: list[AnyFact], messages: list[Message]) -> list[Mark]:
    """Marks by the call that they name: lists tell nothing of what was between their messages."""
    behind = {c.id: n + 1 for n, message in enumerate(messages) for c in message.tool_calls or ()}
    return [
        Mark(fact.kind, behind[fact.subject], format_time(fact.time), fact.subject, fact.data)
        for fact in rest
        if isinstance(fact, Marked) and fact.subject in behind
    ]


def _mark_copied(messages: list[Message], known: set[tuple[Any, ...]]) -> None:
    """History that a new segment carries over is said once and counted once.

    It ends where something new is said: the same words behind that were said again.
    """
    for message in messages:
        if identity(message) in known:
            message.copied = True
        elif message.role != "system" and message.kind is None and not _summarises(message):
            return


def _summarises(message: Message) -> bool:
    return message.role == "user" and summary_of(message.content) is not None


def _meet(last: Message, following: list[Message]) -> None:
    """The answer that ended a segment may stand in the next one, there with the calls it made."""
    if last.role != "assistant" or last.tool_calls:
        return
    for message in following:
        if message.role == "assistant" and same_answer(last, message):
            last.tool_calls = message.tool_calls
            message.copied = True
            return


def _describe(
    trajectory: Trajectory, winners: list[Candidate], views: list[View], rest: list[AnyFact]
) -> None:
    view = (
        winners[-1].winner.view if winners else max(views, key=lambda v: (v.time or -1, v.offset))
    )
    for name, value in (
        ("timestamp", view.stamp or None),
        ("turnIndex", view.turn),
        ("messageId", view.message or None),
    ):
        if value is not None:
            trajectory.metadata[name] = value
    trajectory.telemetry_type = view.kind or None
    trajectory.file_path = view.origin
    origins = {made.origin for made in views} | {fact.origin for fact in rest}
    trajectory.origins = sorted(origins - {view.origin}) or None
    times = [made.time for made in views if made.time is not None]
    times += [fact.time for fact in rest if fact.time is not None]
    if times:
        trajectory.started_at = format_time(min(times))
        trajectory.ended_at = format_time(max(times))
    for made in sorted(views, key=lambda v: (v.time or -1, v.origin, v.offset), reverse=True):
        tools = decode_tools(made.tools)
        if tools:
            trajectory.tool_definitions = tools
            break
