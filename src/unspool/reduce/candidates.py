"""Candidates: message lists with their answers joined, that compete to be the conversation.

    [system, user "fix it", assistant "Done."]                         list of one engine call
    [system, user "fix it", assistant "Done.", user "thanks"]          longer: this one wins
    [system, user "<conversation-summary>…"]                           begins from a summary: a segment

The list with the most messages wins (counted after its answer is joined to it), then the later, then
the first seen (cases/copilot_telemetry/two_rounds, summary_opens_segment). Calls that serve the
program are left out, those of sub-agents are told apart (subagent_calls).
"""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from unspool.facts import (
    DECIDING_NOTES,
    AnyFact,
    MessageSeen,
    Noted,
    Rank,
    ToolCalled,
    ToolReturned,
    View,
)
from unspool.prompts.catalogue import Catalogue
from unspool.prompts.typed import opens_from, summary_of
from unspool.reduce.lists import (
    Answer,
    Call,
    Listing,
    by_time,
    decode_system,
    identity,
    is_empty,
    same_answer,
)
from unspool.trajectory import Message


class Beside:
    """What other records tell of a conversation that has message lists, by what it is for."""

    __slots__ = ("best", "deciding", "notes", "spoken", "times")

    def __init__(self, facts: Iterable[AnyFact]) -> None:
        self.notes: list[Noted] = []
        self.deciding: dict[str, list[Noted]] = {name: [] for name in DECIDING_NOTES}
        """Those of the notes that tell which lists are the conversation's, by name."""
        self.spoken: list[MessageSeen] = []
        self.best: int = Rank.LAST_RESORT
        """How well the best of those knows who tell what was said, called or returned."""
        self.times: list[int] = []
        for fact in facts:
            if fact.time is not None:
                self.times.append(fact.time)
            if type(fact) is Noted:
                self.notes.append(fact)
                if fact.name in DECIDING_NOTES:
                    self.deciding[fact.name].append(fact)
            elif type(fact) is MessageSeen:
                self.spoken.append(fact)
                self.best = min(self.best, fact.rank)
            elif type(fact) is ToolCalled or type(fact) is ToolReturned:
                self.best = min(self.best, fact.rank)


Beginnings = dict[int, list[tuple[Listing, Call]]]
"""The hash of what calls saw → the calls, and the list that each stands with."""


def calls_by_beginning(lists: list[Listing]) -> Beginnings:
    beginnings: Beginnings = {}
    for listing in lists if len(lists) > 1 else ():
        for call in listing.calls:
            beginnings.setdefault(listing.chain[call.count], []).append((listing, call))
    return beginnings


class Candidate:
    """A list with its answer joined: what competes to be the conversation."""

    def __init__(self, listing: Listing, beginnings: Beginnings, catalogue: Catalogue) -> None:
        self.listing = listing
        self.messages = list(listing.messages)
        if listing.shared:
            self.messages = [msgspec.structs.replace(message) for message in self.messages]
        # Calls that saw a beginning of this list may stand with another.
        shared = [
            call
            for link in (listing.chain if beginnings else ())
            for owner, call in beginnings.get(link, ())
            if owner is not listing
        ]
        self.calls = sorted([*listing.calls, *shared], key=by_time)
        self.retries: list[Message] = []
        self.lead = 0
        """How many messages stand before those of the list."""
        self._join_answers()
        self._lead_with_system()
        self.segment: str | None = None
        """The summary that the list begins from."""
        for message in self.messages:
            if message.role == "user":
                message.kind, summary = opens_from(message.content, catalogue)
                self.segment = self.segment if summary is None else summary
        self.first, self.last = self.calls[0], self.calls[-1]
        self.winner = max(
            listing.final, key=lambda call: (bool(call.view.message), call.when), default=self.last
        )

    @property
    def rank(self) -> tuple[int, int]:
        time = self.winner.view.time
        return (len(self.messages), time if time is not None else -1)

    def _join_answers(self) -> None:
        size = len(self.listing.messages)
        for call in self.calls:
            answer = call.answer
            if call.count != size or answer is None or is_empty(answer.message):
                continue
            message = msgspec.structs.replace(answer.message)
            if (
                size
                and self.messages[size - 1].role == "assistant"
                and same_answer(self.messages[size - 1], message)
            ):
                continue
            if len(self.messages) > size:
                replaced = self.messages.pop()
                if not same_answer(replaced, message):
                    self.retries.append(replaced)
            self.messages.append(message)

    def _lead_with_system(self) -> None:
        """The system prompt where it is sent apart from the list."""
        for message in self.messages:
            if message.role == "system":
                return
        for raw in dict.fromkeys(call.view.system for call in reversed(self.calls)):
            text = decode_system(raw)
            if text:
                self.messages.insert(0, Message("system", text))
                self.lead = 1
                return


def join_answers(lists: list[Listing], answers: list[Answer], served: list[Noted]) -> None:
    """Give every call its answer: by call id, else by request, the next in time. Calls that were
    `served` take theirs away: they have no id, and are not the conversation's."""
    calls, copies = _with_copies(lists)
    for note in {(note.subject, note.time): note for note in served}.values():
        view = View(0, note.origin, note.offset, note.time, request=note.subject)
        calls.append(Call(view, 0))
    asked = {call.view.call for call in calls if call.view.call}
    by_call: dict[str, Answer] = {}
    by_request: dict[str, list[Answer]] = defaultdict(list)
    for answer in sorted(answers, key=by_time):
        view = answer.view
        if view.call in asked:
            earlier = by_call.get(view.call)
            if earlier is None or is_empty(earlier.message):
                by_call[view.call] = answer
        elif view.request:
            by_request[view.request].append(answer)
    waiting: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.view.call in by_call:
            call.take(by_call[call.view.call])
        elif call.view.request in by_request:
            waiting[call.view.request].append(call)
    for request, unanswered in waiting.items():
        pair(unanswered, by_request[request])
    for copy, call in copies:
        copy.answer = call.answer


def _with_copies(lists: list[Listing]) -> tuple[list[Call], list[tuple[Call, Call]]]:
    """The calls in order of time, and those that are another one's copy (two files, two channels)."""
    first: dict[object, Call] = {}
    copies: list[tuple[Call, Call]] = []
    # What a call saw: of one list a number of messages, of several the messages themselves.
    seen_by: list[tuple[int, Call]] = [
        (listing.chain[call.count] if len(lists) > 1 else call.count, call)
        for listing in lists
        for call in listing.calls
    ]
    for seen, call in sorted(seen_by, key=lambda item: item[1].when):
        view = call.view
        moment = view.time if view.time is not None else call.place
        original = first.setdefault((view.call, view.request, moment, seen), call)
        if original is not call:
            copies.append((call, original))
    return list(first.values()), copies


def pair(calls: list[Call], answers: list[Answer]) -> None:
    """Every answer to the last call before it that waits: one before that got none."""
    waiting: list[Call] = []
    late: list[Answer] = []
    events: list[Call | Answer] = [*calls, *answers]
    for event in sorted(events, key=by_time):
        if isinstance(event, Call):
            waiting.append(event)
        elif waiting and _may_answer(event, waiting[-1]):
            waiting.pop().take(event)
        else:
            late.append(event)
    for answer in late:  # times are equal, or unknown: the order of files says nothing
        for number, call in enumerate(waiting):
            if _may_answer(answer, call):
                waiting.pop(number).take(answer)
                break


def _may_answer(answer: Answer, call: Call) -> bool:
    if answer.view.call and call.view.call:
        return False
    asked, answered = call.view.time, answer.view.time
    return asked is None or answered is None or answered >= asked


def pick_winners(candidates: list[Candidate]) -> list[Candidate]:
    """The winner of every segment, in order of time."""
    segments: dict[str | None, Candidate] = {}
    for candidate in sorted(candidates, key=lambda one: one.winner.place):
        best = segments.get(candidate.segment)
        if best is None or candidate.rank > best.rank:
            segments[candidate.segment] = candidate
    return sorted(segments.values(), key=lambda one: one.first.when)


Group = tuple[list[Listing], list[Answer]]


class Sides:
    """What the records say about whose a call is: themselves, their call id, their request."""

    def __init__(self, lists: list[Listing], beside: Beside) -> None:
        self._utility = {(note.on, note.subject) for note in beside.deciding["utility"]}
        self._by_request = {
            note.subject: str(note.value)
            for note in beside.deciding["side"]
            if note.on == "request"
        }
        self._by_call: dict[str, str] = {}
        main: set[str] = set()
        for listing in lists:
            for call in listing.calls:
                view = call.view
                if view.size:
                    self._by_call[view.call] = view.side
                    if not view.side:
                        main.add(view.request)
        self._by_call.pop("", None)
        # A request that both use says nothing about whose a call is.
        self._shared = main & self._by_request.keys()

    def of(self, view: View, is_answer: bool) -> str | None:
        """Empty for the conversation itself; None for a call that serves the program."""
        if self._utility and not self._utility.isdisjoint(
            (("call", view.call), ("request", view.request))
        ):
            return None
        if view.side or (view.size and not is_answer):
            return view.side  # a list that was logged whole says itself whose it is
        if view.call in self._by_call:
            return self._by_call[view.call]
        return "" if view.request in self._shared else self._by_request.get(view.request, "")


def by_side(lists: list[Listing], answers: list[Answer], beside: Beside) -> dict[str, Group]:
    """Lists and answers apart by the sub-agent run that they belong to; utility calls left out."""
    sides = Sides(lists, beside)
    found: dict[str, Group] = {"": ([], [])}
    for listing in lists:
        calls: dict[str, list[Call]] = defaultdict(list)
        for call in listing.calls:
            side = sides.of(call.view, is_answer=False)
            if side is not None:
                calls[side].append(call)
        for side, own in calls.items():
            size = max([call.count for call in own])
            whole = size == len(listing.messages)
            part = listing
            if not whole or len(own) < len(listing.calls):
                shared = listing.shared or len(calls) > 1
                seen = listing.messages[:size]
                part = Listing(seen, own, listing.missing, listing.gaps, shared=shared)
            found.setdefault(side, ([], []))[0].append(part)
    for answer in answers:
        side = sides.of(answer.view, is_answer=True)
        if side is not None:
            found.setdefault(side, ([], []))[1].append(answer)
    runs: dict[str, Group] = {}
    for side, group in found.items():
        runs.update(_by_task(side, group) if side else {"": group})
    return {side: group for side, group in runs.items() if group[0] or group[1]}


def _by_task(side: str, group: Group) -> dict[str, Group]:
    """Several runs that share an id (their parent's) are told apart by what they were asked."""
    runs: dict[object, Group] = {}
    lists = sorted(group[0], key=lambda listing: min(call.when for call in listing.calls))
    for listing in lists:
        task = next((m for m in listing.messages if m.role == "user"), None)
        opens = task is not None and summary_of(task.content) is None
        # [system, user "<conversation-summary>…"] does not show what the run was asked: it goes on
        # with the run before it.
        key = identity(task) if task is not None and opens else next(reversed(runs), None)
        runs.setdefault(key, ([], []))[0].append(listing)
    if len(runs) < 2:
        return {side: group}
    named = {
        side if number == 1 else f"{side}/{number}": run
        for number, run in enumerate(runs.values(), 1)
    }
    owners = {
        c.view.call: run for run in named.values() for made_list in run[0] for c in made_list.calls
    }
    for answer in group[1]:
        owners.get(answer.view.call, named[side])[1].append(answer)
    return named
