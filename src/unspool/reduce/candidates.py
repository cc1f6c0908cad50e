"""Candidates: message lists with their answers joined, that compete to be the conversation."""

from collections import defaultdict

import msgspec

from unspool.reduce.lists import Answer, Call, Listing
from unspool.reduce.prompts import decode_system
from unspool.trajectory import Message
from unspool.typed import context_kind, summary_of

CONTINUE = "Please continue."
"""What the sender puts at the end of a list that would not end in a user message."""


class Candidate:
    """A list with its answer joined: what competes to be the conversation."""

    def __init__(self, listing: Listing, others: list[Listing]) -> None:
        self.listing = listing
        self.messages = [msgspec.structs.replace(m) for m in listing.messages]
        self.calls = [*listing.calls, *_shared_calls(listing, others)]
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

    @property
    def segment(self) -> str | None:
        """The summary that the list begins from."""
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
            if call.count != size or answer is None:
                continue
            answer.used = True
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


def _shared_calls(listing: Listing, others: list[Listing]) -> list[Call]:
    """Calls that saw a beginning of this list although they stand with another."""
    found: list[Call] = []
    for other in others:
        if other is not listing:
            for call in other.calls:
                if other.identity[: call.count] == listing.identity[: call.count]:
                    found.append(call)
    return found


def same_answer(a: Message, b: Message) -> bool:
    """An answer and its place in a later list; the sender trims texts and may leave calls out."""
    return a.role == b.role and a.content.rstrip() == b.content.rstrip()


def join_answers(lists: list[Listing], answers: list[Answer]) -> None:
    """Give every call its answer: by call id, else by request, the next in time."""
    by_call: dict[str, Answer] = {}
    by_request: dict[str, list[Answer]] = defaultdict(list)
    for answer in by_time(answers):
        if answer.view.call:
            by_call.setdefault(answer.view.call, answer)
        elif answer.view.request:
            by_request[answer.view.request].append(answer)
    calls = sorted((c for made in lists for c in made.calls), key=lambda call: call.when)
    taken: set[int] = set()
    for call in calls:
        view = call.view
        if view.call and view.call in by_call:
            call.answer = by_call[view.call]
            call.answer.used = True
            continue
        for answer in by_request.get(view.request, ()):
            late = answer.view.time is None or view.time is None or answer.view.time >= view.time
            if late and id(answer) not in taken:
                taken.add(id(answer))
                call.answer = answer
                answer.used = True
                break


def by_time(answers: list[Answer]) -> list[Answer]:
    return sorted(
        answers,
        key=lambda a: (
            a.view.time if a.view.time is not None else -1,
            a.view.origin,
            a.view.offset,
        ),
    )


def pick_winners(candidates: list[Candidate]) -> list[Candidate]:
    """The winner of every segment, in order of time."""
    segments: dict[str | None, Candidate] = {}
    for candidate in sorted(candidates, key=lambda made: made.winner.place):
        known = segments.get(candidate.segment)
        if known is None or candidate.rank > known.rank:
            segments[candidate.segment] = candidate
    return sorted(segments.values(), key=lambda made: made.first.when)
