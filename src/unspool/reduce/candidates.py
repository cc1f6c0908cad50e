"""Candidates: message lists with their answers joined, that compete to be the conversation."""

from collections import defaultdict

import msgspec

from unspool.prompts.typed import context_kind, summary_of
from unspool.reduce.listing import Answer, Call, Listing, is_empty
from unspool.reduce.prompts import decode_system
from unspool.trajectory import Message

CONTINUE = "Please continue."
"""What the sender puts at the end of a list that would not end in a user message."""


class Candidate:
    """A list with its answer joined: what competes to be the conversation."""

    def __init__(self, listing: Listing, beginnings: "Beginnings") -> None:
        self.listing = listing
        self.messages = [msgspec.structs.replace(m) for m in listing.messages]
        self.calls = [*listing.calls, *beginnings.shared(listing)]
        self.retries: list[Message] = []
        self.lead = 0
        """How many messages stand before those of the list."""
        self._join_answers()
        self._lead_with_system()
        self._mark_injected()
        self.last = max(self.calls, key=lambda call: call.when)
        self.first = min(self.calls, key=lambda call: call.when)
        whole = sorted(listing.final, key=lambda call: (bool(call.view.message), call.when))
        self.winner = whole[-1] if whole else self.last
        self.segment = self._find_segment()
        """The summary that the list begins from."""

    def _find_segment(self) -> str | None:
        for message in reversed(self.messages):
            if message.role == "user" and (found := summary_of(message.content)) is not None:
                return found
        return None

    @property
    def rank(self) -> tuple[int, int]:
        time = self.winner.view.time
        return (len(self.messages), time if time is not None else -1)

    def _join_answers(self) -> None:
        size = len(self.listing.messages)
        for call in sorted(self.calls, key=lambda made: made.when):
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
                known = self.messages.pop()
                if not same_answer(known, message):
                    self.retries.append(known)
            self.messages.append(message)

    def _lead_with_system(self) -> None:
        """The system prompt where it is sent apart from the list."""
        if any(message.role == "system" for message in self.messages):
            return
        for call in sorted(self.calls, key=lambda made: made.when, reverse=True):
            text = decode_system(call.view.system)
            if text:
                self.messages.insert(0, Message("system", text))
                self.lead = 1
                return

    def _mark_injected(self) -> None:
        for message in self.messages:
            if message.role == "user":
                injected = message.content == CONTINUE
                message.kind = "injected" if injected else context_kind(message.content)


class Beginnings:
    """The calls of a conversation by what they saw."""

    def __init__(self, lists: list[Listing]) -> None:
        self._calls: dict[int, list[tuple[Listing, Call]]] = defaultdict(list)
        for listing in lists:
            for call in listing.calls:
                self._calls[listing.chain[call.count]].append((listing, call))

    def shared(self, listing: Listing) -> list[Call]:
        """Calls that saw a beginning of this list although they stand with another."""
        return [
            call
            for link in listing.chain
            for owner, call in self._calls.get(link, ())
            if owner is not listing
        ]


def same_answer(a: Message, b: Message) -> bool:
    """An answer and its place in a later list; the sender trims texts and may leave calls out."""
    return a.role == b.role and a.content.rstrip() == b.content.rstrip()


def join_answers(lists: list[Listing], answers: list[Answer]) -> None:
    """Give every call its answer: by call id, else by request, the next in time."""
    calls, copies = _with_copies(lists)
    asked = {call.view.call for call in calls if call.view.call}
    by_call: dict[str, Answer] = {}
    by_request: dict[str, list[Answer]] = defaultdict(list)
    for answer in by_time(answers):
        view = answer.view
        if view.call in asked:
            known = by_call.get(view.call)
            if known is None or is_empty(known.message):
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
    found = [(listing.chain[call.count], call) for listing in lists for call in listing.calls]
    for seen, call in sorted(found, key=lambda item: item[1].when):
        view = call.view
        moment = view.time if view.time is not None else call.place
        known = first.setdefault((view.call, view.request, moment, seen), call)
        if known is not call:
            copies.append((call, known))
    return list(first.values()), copies


def pair(calls: list[Call], answers: list[Answer]) -> None:
    """Every answer to the last call before it that waits: one before that got none."""
    waiting: list[Call] = []
    late: list[Answer] = []
    events: list[Call | Answer] = [*calls, *answers]
    for event in sorted(events, key=lambda made: made.when):
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


def by_time(answers: list[Answer]) -> list[Answer]:
    return sorted(answers, key=lambda answer: answer.when)


def pick_winners(candidates: list[Candidate]) -> list[Candidate]:
    """The winner of every segment, in order of time."""
    segments: dict[str | None, Candidate] = {}
    for candidate in sorted(candidates, key=lambda made: made.winner.place):
        known = segments.get(candidate.segment)
        if known is None or candidate.rank > known.rank:
            segments[candidate.segment] = candidate
    return sorted(segments.values(), key=lambda made: made.first.when)
