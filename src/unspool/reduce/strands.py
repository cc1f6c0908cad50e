"""Strands: what the message lists of a conversation tell becomes records of the one chain.

    list  [user "fix it", assistant "Done."]      →   record #0.0  user "fix it"
                                                      record #0.1  assistant "Done.", after #0.0

Of the lists that compete the winner of every segment is told, and what only the losers know is
merged into it (candidates.py, models.py). An answer that another one replaced is a branch. Each
record carries its message ready made. Where other records tell of the conversation too (`Listed`),
the list is one more channel: its messages are matched with theirs as echoes are, by id, by the ids of
their calls, or by role and words (the law of mixing in tests/test_laws.py).
"""

from typing import Any

import msgspec

from unspool.facts import (
    DECIDING_NOTES,
    AnyFact,
    Key,
    Marked,
    MessageSeen,
    Noted,
    Rank,
    ToolCalled,
    ToolReturned,
    UsageReported,
    View,
)
from unspool.io.times import format_time
from unspool.prompts.catalogue import active
from unspool.prompts.typed import summary_of, typed_text
from unspool.reduce.candidates import (
    Beside,
    Candidate,
    calls_by_beginning,
    join_answers,
    pick_winners,
)
from unspool.reduce.lists import (
    Answer,
    Listing,
    When,
    by_time,
    decode_tools,
    identity,
    is_empty,
    same_answer,
    when_of,
)
from unspool.reduce.messages import Provenance
from unspool.reduce.models import annotate, stamp, take_usage
from unspool.reduce.records import LIST, Listed, Record
from unspool.reduce.references import fill_gaps
from unspool.trajectory import Message

_NO_TOOLS = (b"", b'"[]"', b"[]")


class Strand:
    """The lists and answers of one conversation or of one sub-agent's run."""

    def __init__(
        self, key: Key, lists: list[Listing], answers: list[Answer], served: list[Noted]
    ) -> None:
        self.key = key
        join_answers(lists, answers, served)
        self.lists = fill_gaps(lists)
        self.answers = answers
        beginnings = calls_by_beginning(self.lists)
        catalogue = active()
        self.candidates = [Candidate(listing, beginnings, catalogue) for listing in self.lists]
        self.winners = pick_winners(self.candidates)
        self.used = sum(1 for answer in answers if answer.used) + sum(
            len(winner.messages) > 0 for winner in self.winners
        )
        self.views = [
            call.view for candidate in self.candidates for call in candidate.listing.calls
        ]
        self.all_views = [*self.views, *(answer.view for answer in answers)]
        self.last_view = (
            self.winners[-1].winner.view
            if self.winners
            else max(self.all_views, key=lambda view: (view.time or -1, view.offset))
        )
        """The call that the conversation is described by."""
        self.records: list[Record] = []
        self.branches: list[tuple[str, list[Record]]] = []
        """What was answered otherwise: (the record that it follows, its records)."""
        self.notes: list[Noted] = []
        self.partial: list[str] = []
        self.times = [view.time for view in self.all_views if view.time is not None]
        self.provenance: Provenance | None = None
        self.alone = True
        """Whether nobody else tells of the conversation, but as a last resort."""
        self.rank = Rank.ITSELF
        """A store of the conversation knows better than its lists, an echo of it does not."""

    def tools(self) -> list[dict[str, Any]] | None:
        """The tools of the last call that names any."""
        last: dict[bytes, tuple[int, str, int]] = {}
        for view in self.all_views:
            if view.tools not in _NO_TOOLS:
                when = (view.time or -1, view.origin, view.offset)
                last[view.tools] = max(when, last.get(view.tools, when))
        latest_first = sorted(last, key=lambda raw: last[raw], reverse=True)
        return next(filter(None, map(decode_tools, latest_first)), None)

    def tell(self, beside: Beside, merge_tools: bool, provenance: Provenance | None = None) -> None:
        """Make the records; `beside` is what all other records of the conversation state."""
        self.provenance = provenance
        self.alone = beside.best >= Rank.LAST_RESORT
        self.rank = Rank.COPY if beside.best < Rank.ECHO else Rank.ITSELF
        if self.alone:
            self.times += beside.times
        identities: set[tuple[Any, ...]] = set()
        last: Message | None = None
        for winner in self.winners:
            if last is not None:
                _mark_copied(winner.messages, identities)
                _meet(last, winner.messages)
            if len(self.winners) > 1:
                identities.update(map(identity, winner.messages))
            last = winner.messages[-1] if winner.messages else last
        more = _by_message(self.views, beside.notes)
        expected = beside.deciding["expected_model"]
        expected = [*expected, *[note for note in more if note.name == "expected_model"]]
        notes = [*beside.notes, *more]
        notes = annotate(self.winners, self.candidates, notes, expected, merge_tools)
        self.notes = [note for note in notes if note.name not in DECIDING_NOTES]
        for number, winner in enumerate(self.winners):
            if number:
                self.records.append(self._compaction(f"{LIST}{number}", winner.first.view))
            fork = f"{LIST}{number}.{len(winner.messages) - 2}"
            if self.alone:
                self._tell_ready(number, winner, fork)
            else:
                views = _first_views(winner)
                pending: list[ToolCalled] = []
                for index, message in enumerate(winner.messages):
                    entry = f"{LIST}{number}.{index}"
                    self.records.append(self._record(entry, message, views[index], pending))
            for index, retry in enumerate(winner.retries):
                record = self._record(f"{LIST}{number}.retry{index}", retry, None, [])
                self.branches.append((fork, [record]))
        self._add_leftovers(beside)
        if any(winner.listing.missing for winner in self.winners):
            self.partial.append("messages-missing")

    def _tell_ready(self, number: int, winner: Candidate, fork: str) -> None:
        """A list that nobody else tells of is one record, or two where its last answer was given
        again: the first answer is a branch, and it follows the first record."""
        if self.provenance is not None:
            for index, view in enumerate(_first_views(winner)):
                if view is not None:
                    entry, message = f"{LIST}{number}.{index}", winner.messages[index]
                    self.provenance.note_listed(self.key, entry, message, view)
        kept = len(winner.messages) - (1 if winner.retries else 0)
        for entry, messages in (
            (fork, winner.messages[:kept]),
            (f"{LIST}{number}.{kept}", winner.messages[kept:]),
        ):
            if messages:
                self.records.append(Record(entry, self.last_view.origin, 0, ready=messages))

    def _compaction(self, entry: str, view: View) -> Record:
        record = Record(entry, view.origin, view.offset)
        record.add(
            Marked(
                key=self.key,
                origin=view.origin,
                offset=view.offset,
                time=view.time,
                kind="compaction",
                rank=self.rank,
            )
        )
        return record

    def _record(
        self,
        entry: str,
        message: Message,
        seen: View | MessageSeen | None,
        pending: list[ToolCalled],
    ) -> Record:
        """One message of a list as a record, and who told it first. `pending` are the calls that
        wait for their result."""
        record = Record(entry, self.last_view.origin, 0)
        if seen is not None:
            record.time = seen.time
            if self.provenance is not None:
                self.provenance.note_listed(self.key, entry, message, seen)
        if self.alone:
            record.ready = [message]
            return record
        place: dict[str, Any] = {
            "key": self.key, "origin": LIST, "offset": 0, "entry": entry, "rank": self.rank,
        }  # fmt: skip
        if message.role == "tool":
            record.facts.append(_result(place, message, pending))
            return record
        if message.role == "assistant":
            pending.clear()
        usage, message.usage = message.usage, None
        calls = message.tool_calls or []
        record.facts.append(
            Listed(
                **place,
                id=message.id or "",
                role=message.role,
                text=message.content,
                typed=typed_text(message.content) if message.role == "user" else None,
                thinking=message.thinking or "",
                kind=message.kind or "",
                attachments=tuple(message.attachments or ()),
                ready=message,
            )
        )
        for number, call in enumerate(calls):
            called = ToolCalled(
                **place,
                number=number,
                id=call.id,
                message=message.id or f"{entry}#0",
                name=call.name,
                arguments=call.arguments,
                index=number,
            )
            record.facts.append(called)
            pending.append(called)
        if usage is not None:
            record.facts.append(
                UsageReported(
                    **place,
                    subject=message.id or f"{entry}#0",
                    prompt=usage.prompt_tokens,
                    completion=usage.completion_tokens,
                    cached=usage.cached_tokens,
                )
            )
        return record

    def _add_leftovers(self, beside: Beside) -> None:
        """Answers whose call was never logged, and, where nobody else tells of the conversation, the
        words of other events that no list holds."""
        last = max((made.last.when for made in self.winners), default=(-1, "", 0))
        late = self._late_answers(last)
        self.used += len(late)
        if self.alone:
            last = max((made.last.when for made in self.winners), default=(-2, "", 0))
            messages = [message for winner in self.winners for message in winner.messages]
            left = _left_over(messages, self.views, last, late, beside)
        else:
            left = [(answer.view, answer.message) for answer in late]
        for number, (seen, message) in enumerate(left):
            self.records.append(self._record(f"{LIST}late.{number}", message, seen, []))
        if left and self.alone:
            self.partial.append("input-missing")

    def _late_answers(self, last: When) -> list[Answer]:
        """Answers whose call was never logged, where they are later than all that was
        (cases/copilot_telemetry/answer_without_input)."""
        late = [
            answer
            for answer in self.answers
            if not answer.used and answer.when > last and not is_empty(answer.message)
        ]
        if late:
            late.sort(key=by_time)
            words = {m.content.rstrip() for winner in self.winners for m in winner.messages}
            late = [answer for answer in late if answer.message.content.rstrip() not in words]
        for answer in late:
            message = answer.message
            message.call_id = answer.view.call or None
            message.request_id = answer.view.request or None
            message.timestamp = format_time(answer.view.time)
            stamp(message, answer.view.answered, answer.view.requested)
            take_usage(message, answer.view)
        return late


def _result(place: dict[str, Any], message: Message, pending: list[ToolCalled]) -> AnyFact:
    """A tool message: the result of the call that it names, else of the first that waits for one."""
    named = [call for call in pending if call.id == message.tool_call_id]
    call = named[0] if named else pending[0] if pending and not message.tool_call_id else None
    if call is not None:
        pending.remove(call)
    return ToolReturned(
        **place,
        call=message.tool_call_id or (call.id if call else ""),
        name=message.name or (call.name if call else ""),
        arguments=call.arguments if call else "",
        text=message.content,
        failed=message.is_error,
        attachments=tuple(message.attachments or ()),
    )


def _first_views(winner: Candidate) -> list[View | None]:
    """Per message the first call, by its time, that saw it, or the call that gave it."""
    views: list[View | None] = [None] * len(winner.messages)
    for call in winner.calls:
        at = call.count + winner.lead - 1
        if 0 <= at < len(views) and _is_earlier(call.view, views[at]):
            views[at] = call.view
        if call.answer is not None and at + 1 < len(views):
            behind = views[at + 1]
            if behind is None or behind.time is None:
                views[at + 1] = call.answer.view
    first: View | None = None
    for at in range(len(views) - 1, -1, -1):
        view = views[at]
        if view is not None and _is_earlier(view, first):
            first = view
        views[at] = first
    return views


def _is_earlier(view: View, other: View | None) -> bool:
    if other is None or other.time is None:
        return other is None or view.time is not None
    return view.time is not None and view.time < other.time


def _by_message(views: list[View], notes: list[Noted]) -> list[Noted]:
    """Notes on a request by the id of the message that it was made for, where that is another."""
    requests = {v.message: v.request for v in views if v.message and v.message != v.request}
    if not requests:
        return []
    return [
        msgspec.structs.replace(note, subject=requests[note.subject], rank=note.rank + 1)
        for note in notes
        if note.on == "request" and requests.get(note.subject)
    ]


def _mark_copied(messages: list[Message], identities: set[tuple[Any, ...]]) -> None:
    """History that a new segment carries over is said once and counted once.

    It ends where something new is said: the same words behind that were said again.
    """
    for message in messages:
        if identity(message) in identities:
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


Left = tuple[View | MessageSeen, Message]


def _left_over(
    messages: list[Message],
    views: list[View],
    last: When,
    answers: list[Answer],
    beside: Beside,
) -> list[Left]:
    """The answers, among the words of other events that no list holds, in order.

    Large records get lost on their way sooner than small ones: of a turn the answers may be left, and
    the events that tell what the person typed and what was replied
    (cases/copilot_telemetry/answer_without_input).
    """
    asked = {ident for view in views for ident in (view.request, view.message) if ident}
    spoken = [fact for fact in beside.spoken if fact.request not in asked]
    if spoken:  # by the other ids that events give to the requests whose calls were logged
        requests: dict[tuple[str, int], set[str]] = {}
        for note in beside.notes:
            if note.on == "request":
                requests.setdefault((note.origin, note.offset), set()).add(note.subject)
        asked = asked.union(*(ids for ids in requests.values() if ids & asked))
    elif not answers:
        return []
    placed: list[tuple[tuple[When, int], Left]] = [
        ((answer.when, 1), (answer.view, answer.message)) for answer in answers
    ]
    first: dict[str, When] = {}
    for answer in reversed(answers):
        first[answer.view.request] = answer.when
    for fact in spoken:
        when = when_of(fact)
        # An event with the words of a prompt, and no request: it may be a prompt that the lists hold
        # in another spelling, so it counts only where no list was logged.
        tells = bool(asked and fact.request) and when > last
        if fact.request in asked or (messages and not tells):
            continue
        if any(fact.text.strip() in message.content for message in messages):
            continue
        made = Message(
            fact.role,
            fact.text,
            request_id=fact.request or None,
            timestamp=format_time(fact.time),
            mode=fact.mode or None,
        )
        if fact.role == "user":  # the event of a prompt is sent when its turn is over
            placed.append(((first.get(fact.request, when), 0), (fact, made)))
        elif fact.request not in first:
            placed.append(((when, 2), (fact, made)))
    return [left for _, left in sorted(placed, key=lambda item: item[0])]
