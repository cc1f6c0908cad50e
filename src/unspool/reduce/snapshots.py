"""Snapshots: overlapping message lists of one conversation become its messages.

The list with the most messages wins (counted after its answer is joined to it), then the later, then
the first seen. A list that begins from a conversation summary opens a new segment, and the winner of
every segment is kept. What only the losers know is merged into the winner.
"""

import json
from collections import defaultdict
from typing import Any

import msgspec

from unspool.facts import AnyFact, Key, ListSeen, Noted, PieceSeen, SnapshotSeen, View
from unspool.reduce.lists import Answer, Call, Listing, identity, read_lists
from unspool.reduce.order import Ordered
from unspool.reduce.reduction import Reduction
from unspool.reduce.totals import complete, number_turns
from unspool.shapes import to_messages
from unspool.times import format_time
from unspool.trajectory import Branch, Link, Mark, Message, Trajectory, Usage
from unspool.typed import context_kind, summary_of

INNER = frozenset(("session_model", "side", "telemetry_type", "utility"))
"""Notes that the choice of lists and models is made by; they land nowhere themselves."""

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


def decode_system(raw: bytes) -> str:
    """The text of `request.option.system`: JSON inside JSON, a string or text blocks."""
    if not raw:
        return ""
    try:
        value: Any = json.loads(raw, strict=False)
        while isinstance(value, str) and value[:1] in ('"', "["):
            value = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return value if isinstance(value, str) else ""
    made = to_messages({"role": "system", "content": value})
    return made[0].content if made else ""


def decode_tools(raw: bytes) -> list[dict[str, Any]] | None:
    try:
        value: Any = json.loads(raw, strict=False) if raw else None
        if isinstance(value, str):
            value = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list):
        return None
    return [tool for tool in value if isinstance(tool, dict)] or None


def reduce_lists(
    key: Key,
    facts: list[SnapshotSeen | ListSeen | PieceSeen],
    ordered: Ordered,
    merge_tool_metadata: bool = True,
) -> Reduction:
    """The conversation and its sub-agents, and how many records added nothing to them."""
    rest = [fact for record in ordered.records for fact in record.facts]
    lists, answers, problems = read_lists(key, facts)
    records = sum(len(listing.calls) for listing in lists) + len(answers)
    made: list[Trajectory] = []
    used = 0
    for side, group in sorted(_by_side(lists, answers, rest).items()):
        strand = Strand(*group)
        if side:
            trajectory = strand.reduce((key[0], f"{key[1]}/{side}"), [], merge_tool_metadata)
            trajectory.parent = Link(conversation_id=key[1])
        else:
            trajectory = strand.reduce(key, rest, merge_tool_metadata)
        made.append(trajectory)
        used += strand.used
    return Reduction(made, ordered.superseded + max(records - used, 0), problems)


def _by_side(
    lists: list[Listing], answers: list[Answer], rest: list[AnyFact]
) -> dict[str, tuple[list[Listing], list[Answer]]]:
    """Lists and answers apart by the sub-agent run that they belong to; utility calls left out."""
    sides = {
        fact.subject: str(fact.value)
        for fact in rest
        if isinstance(fact, Noted) and fact.on == "request" and fact.name == "side"
    }
    utility = {
        (fact.on, fact.subject)
        for fact in rest
        if isinstance(fact, Noted) and fact.name == "utility"
    }

    def side_of(view: View) -> str | None:
        if ("call", view.call) in utility or ("request", view.request) in utility:
            return None
        return view.side or sides.get(view.request, "")

    found: dict[str, tuple[list[Listing], list[Answer]]] = {"": ([], [])}
    for listing in lists:
        calls: dict[str, list[Call]] = defaultdict(list)
        for call in listing.calls:
            side = side_of(call.view)
            if side is not None:
                calls[side].append(call)
        for side, own in calls.items():
            size = max(call.count for call in own)
            part = Listing(listing.messages[:size], own, listing.missing)
            found.setdefault(side, ([], []))[0].append(part)
    for answer in answers:
        side = side_of(answer.view)
        if side is not None:
            found.setdefault(side, ([], []))[1].append(answer)
    return {side: group for side, group in found.items() if group[0] or group[1]}


class Strand:
    """The lists and answers of one conversation or of one sub-agent's run."""

    def __init__(self, lists: list[Listing], answers: list[Answer]) -> None:
        self.lists = lists
        self.answers = answers
        join_answers(lists, answers)
        self.candidates = [Candidate(listing, lists) for listing in lists]
        self.winners = pick_winners(self.candidates)
        self.used = sum(1 for answer in answers if answer.used) + sum(
            len(winner.messages) > 0 for winner in self.winners
        )

    def reduce(self, key: Key, rest: list[AnyFact], merge_tool_metadata: bool) -> Trajectory:
        messages, marks = _string_together(self.winners)
        partial: list[str] = []
        for answer in self._late_answers():
            messages.append(answer.message)
            partial = ["input-missing"]
        if any(made.listing.missing for made in self.winners):
            partial.append("messages-missing")
        trajectory = Trajectory(conversation_id=key[1], messages=messages, source=key[0])
        trajectory.marks = marks or None
        trajectory.partial = partial or None
        trajectory.branches = [
            Branch(index=len(made.messages) - 1, messages=made.retries, reason="retry")
            for made in self.winners
            if made.retries
        ] or None
        views = [call.view for made in self.candidates for call in made.listing.calls]
        _describe(trajectory, self.winners, views + [a.view for a in self.answers], rest)
        annotate(self.winners, self.candidates, rest, merge_tool_metadata)
        complete(trajectory, [n for n in rest if isinstance(n, Noted) and n.name not in INNER])
        return trajectory

    def _late_answers(self) -> list[Answer]:
        """Answers whose call was never logged, where they are later than all that was."""
        known = {message.content.rstrip() for made in self.winners for message in made.messages}
        last = max((made.last.when for made in self.winners), default=(-1, "", 0))
        late: list[Answer] = []
        for answer in _by_time(self.answers):
            when = (answer.view.time or -1, answer.view.origin, answer.view.offset)
            if not answer.used and when > last and answer.message.content.rstrip() not in known:
                message = answer.message
                message.call_id = answer.view.call or None
                message.request_id = answer.view.request or None
                message.timestamp = format_time(answer.view.time)
                _stamp(message, answer.view.answered, answer.view.requested)
                _take_usage(message, answer.view)
                late.append(answer)
        return late


def join_answers(lists: list[Listing], answers: list[Answer]) -> None:
    """Give every call its answer: by call id, else by request, the next in time."""
    by_call: dict[str, Answer] = {}
    by_request: dict[str, list[Answer]] = defaultdict(list)
    for answer in _by_time(answers):
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


def _by_time(answers: list[Answer]) -> list[Answer]:
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


def _string_together(winners: list[Candidate]) -> tuple[list[Message], list[Mark]]:
    messages: list[Message] = []
    marks: list[Mark] = []
    known: set[tuple[Any, ...]] = set()
    for number, winner in enumerate(winners):
        if number:
            time = format_time(winner.first.view.time)
            marks.append(Mark("compaction", len(messages), time))
            for message in winner.messages:
                # History that the new segment carries over: said once, counted once.
                message.copied = identity(message) in known
            _meet(messages[-1], winner.messages)
        messages += winner.messages
        known.update(identity(message) for message in winner.messages)
    return messages, marks


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


def annotate(
    winners: list[Candidate],
    candidates: list[Candidate],
    rest: list[AnyFact],
    merge_tool_metadata: bool,
) -> None:
    """Requests, models and usage per message; then what only the losers know."""
    session = session_models(rest)
    for candidate in candidates:
        number_turns(candidate.messages)
        annotate_candidate(candidate, session)
    for winner in winners:
        for other in sorted(candidates, key=lambda made: made.winner.place):
            if other is not winner and other.segment == winner.segment:
                merge_missing(winner.messages, other.messages, merge_tool_metadata)
                _stamp_by_index(winner, other)
        fill_from_session(winner.messages, session)


def _stamp_by_index(winner: Candidate, other: Candidate) -> None:
    """A call of a list that lost made the message at its end, if the roles before it agree."""
    roles = [message.role for message in winner.messages]
    for call in sorted(other.listing.calls, key=lambda made: made.when):
        count = call.count + other.lead
        if count >= len(roles) or roles[count] != "assistant" or winner.messages[count].model:
            continue
        if roles[:count] != [message.role for message in other.messages[:count]]:
            continue
        made = winner.messages[count]
        if call.answer is None or same_answer(made, call.answer.message):
            _stamp_answer(made, call)


def session_models(rest: list[AnyFact]) -> dict[str, str]:
    """Request → the model that the interactive session names: response first, then latest."""
    best: dict[str, tuple[int, int, str]] = {}
    for fact in rest:
        if isinstance(fact, Noted) and fact.on == "request" and fact.name == "session_model":
            rank = (-fact.rank, fact.time if fact.time is not None else -1)
            known = best.get(fact.subject)
            if known is None or rank >= known[:2]:
                best[fact.subject] = (*rank, str(fact.value))
    return {request: found[2] for request, found in best.items()}


def annotate_candidate(candidate: Candidate, session: dict[str, str]) -> None:
    messages = candidate.messages
    requests: dict[int, str] = {}
    for call in sorted(candidate.calls, key=lambda made: made.when):
        count = call.count + candidate.lead
        _stamp_call(messages, call, count, session)
        if call.view.request and 0 < count <= len(messages):
            turn = messages[count - 1].turn
            if turn is not None:
                requests[turn] = call.view.request
    for message in messages:
        if message.turn is not None:
            message.request_id = message.request_id or requests.get(message.turn)


def fill_from_session(messages: list[Message], session: dict[str, str]) -> None:
    """Messages whose call nobody logged: the session's model of their own turn's request."""
    requests: dict[int, str] = {}
    for message in messages:
        if message.turn is not None and message.request_id is not None:
            requests.setdefault(message.turn, message.request_id)
    for message in messages:
        if message.turn is None:
            continue
        message.request_id = message.request_id or requests.get(message.turn)
        model = session.get(message.request_id or "")
        if model and not message.model:
            message.model, message.model_source = model, "interactiveSession"


def _stamp_call(messages: list[Message], call: Call, count: int, session: dict[str, str]) -> None:
    """The model of a call stands on the last message that it saw and on its answer."""
    view = call.view
    engine: str | None = None
    at: Message | None = None
    if 0 < count <= len(messages):
        last = messages[count - 1]
        if last.role == "assistant":
            engine, at = _stamp(last, view.answered, view.requested), last
            _take_usage(last, view)
        elif view.requested and last.model is None:
            engine, at = _stamp(last, "", view.requested), last
    if count < len(messages) and messages[count].role == "assistant":
        made = messages[count]
        stamped = _stamp_answer(made, call)
        if stamped:
            engine, at = stamped, made
    expected = session.get(view.request)
    if at is not None and engine and expected and expected != engine:
        at.model_conflict = True


def _stamp_answer(made: Message, call: Call) -> str | None:
    """The model, usage and time of the answer, which may stand in a longer list already."""
    answer = call.answer
    made.call_id = made.call_id or call.view.call or None
    if answer is not None:
        _take_usage(made, answer.view)
        made.timestamp = made.timestamp or format_time(answer.view.time)
    return _stamp(made, answer.view.answered if answer else "", call.view.requested)


def _stamp(message: Message, answered: str, requested: str) -> str | None:
    model, source = (answered, "engine") if answered else (requested, "engine-request")
    if not model:
        return None
    if message.model is None or (message.model_source != "engine" and source == "engine"):
        message.model, message.model_source = model, source
    return message.model


def _take_usage(message: Message, view: View) -> None:
    if message.usage is None and (view.prompt is not None or view.completion is not None):
        message.usage = Usage(prompt_tokens=view.prompt, completion_tokens=view.completion)


def merge_missing(winner: list[Message], loser: list[Message], tool_metadata: bool) -> None:
    """Per message at the same index and role: what the winner lacks."""
    for own, other in zip(winner, loser, strict=False):
        if own.role != other.role:
            continue
        if own.model is None and other.model is not None:
            own.model, own.model_source = other.model, other.model_source
        own.mode = own.mode or other.mode
        own.request_id = own.request_id or other.request_id
        own.model_conflict = own.model_conflict or other.model_conflict
        if not tool_metadata:
            continue
        if own.role == "assistant" and not own.tool_calls and other.tool_calls:
            own.tool_calls = other.tool_calls
        if own.role == "tool" and own.tool_call_id is None:
            own.tool_call_id = other.tool_call_id
