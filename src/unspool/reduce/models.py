"""Models: which call made which message, and what another channel says where no call was logged.

    call "c1" saw 2 messages, asked for "gpt-5"       its answer, the third one, is gpt-5's
    note on request "r1": model "gpt-5-mini"          a conflict: the call is believed

(cases/copilot_telemetry/session_models)
"""

from itertools import takewhile
from typing import Any

import msgspec

from unspool.facts import Noted, View
from unspool.io.times import format_time
from unspool.reduce.candidates import Candidate
from unspool.reduce.lists import Call, by_time, fill_missing, identity, same_answer
from unspool.reduce.totals import is_turn, number_turns
from unspool.trajectory import Message, Usage

Expected = dict[str, tuple[str, str]]
"""Request → the model that another channel names for it, and what that channel is called."""


def annotate(
    winners: list[Candidate],
    candidates: list[Candidate],
    notes: list[Noted],
    expected: list[Noted],
    merge_tools: bool,
) -> list[Noted]:
    """Requests, models and usage per message; then what only the losers know: with `merge_tools` a
    message's calls, and the call that a result is of, too. The notes come back, those on turns
    numbered as the messages are. `expected`: those that name a request's model."""
    session = expected_models(expected)
    for candidate in candidates:
        number_turns(candidate.messages)
        annotate_candidate(candidate, session)
    for winner in winners:
        for other in sorted(candidates, key=lambda made: made.winner.place):
            aligned = not (other.listing.gaps or winner.listing.gaps)
            if other is not winner and aligned and other.segment == winner.segment:
                merge_missing(winner.messages, other.messages, merge_tools)
                _stamp_by_index(winner, other, session)
    messages = [message for winner in winners for message in winner.messages]
    if len(winners) > 1:
        # A list that was summarised within a turn does not show the words that opened it.
        for message in messages:
            message.turn = None
        number_turns(messages)
    gaps = any(winner.listing.gaps for winner in winners)
    notes = _count_from_list(notes, messages, gaps)
    # Messages whose call nobody logged: the model that another channel names for their request.
    # Events name requests too, for turns of which no call was logged at all (`requests_by_turn`); where
    # the person went back and asked otherwise, they may be several, and no telling which.
    requests_by_turn: dict[int, list[str]] | None = None
    requests: dict[int, str] = {}
    own = [message for message in within_turns(messages) if not message.copied]
    for message in own:
        if message.turn is not None and message.request_id is not None:
            requests.setdefault(message.turn, message.request_id)
    for message in own:
        if message.turn is not None:
            message.request_id = message.request_id or requests.get(message.turn)
        if message.model:
            continue
        if message.request_id:
            if message.request_id in session:
                message.model, message.model_source = session[message.request_id]
        elif message.turn is not None:
            if requests_by_turn is None:
                requests_by_turn = _requests_told(notes)
            asked = requests_by_turn.get(message.turn, [])
            models = {session[request] for request in asked if request in session}
            if len({model for model, _ in models}) == 1:
                message.model, message.model_source = min(models)
    _fill_copies(messages)
    return notes


def _fill_copies(messages: list[Message]) -> None:
    """A message that a later segment repeats has the model, mode and request of the first one
    (cases/copilot_telemetry/summary_opens_segment)."""
    if not any(message.copied for message in messages):
        return
    originals: dict[tuple[Any, ...], Message] = {}
    for message in messages:
        first = originals.setdefault(identity(message), message)
        if first is not message and message.copied:
            fill_missing(message, first, is_same=False)


def _stamp_by_index(winner: Candidate, other: Candidate, session: Expected) -> None:
    """A call of a list that lost made the message at its end, if the roles before it agree."""
    roles = [message.role for message in winner.messages]
    pairs = zip(roles, other.messages, strict=False)
    agreeing = len(list(takewhile(lambda pair: pair[0] == pair[1].role, pairs)))
    for call in sorted(other.listing.calls, key=by_time):
        count = call.count + other.lead
        if count >= len(roles) or roles[count] != "assistant" or winner.messages[count].model:
            continue
        if count > agreeing:
            continue
        answer = winner.messages[count]
        if call.answer is None or same_answer(answer, call.answer.message):
            engine = _stamp_answer(answer, call)
            if call.answer is not None:  # else its own list tells it on the message that it saw
                _note_conflict(answer, engine, session.get(call.view.request))


def expected_models(notes: list[Noted]) -> Expected:
    """Request → the model that another channel names for it: by rank, then the latest."""
    best: dict[str, tuple[int, int, str, str]] = {}
    for note in notes:
        if note.on == "request":
            rank = (-note.rank, note.time if note.time is not None else -1)
            earlier = best.get(note.subject)
            if earlier is None or rank >= earlier[:2]:
                best[note.subject] = (*rank, str(note.value["model"]), str(note.value["source"]))
    return {request: entry[2:] for request, entry in best.items()}


def annotate_candidate(candidate: Candidate, session: Expected) -> None:
    messages = candidate.messages
    requests: dict[int | None, str] = {}
    others: list[Call] = []
    for call in candidate.calls:
        count = call.count + candidate.lead
        request = call.view.request or call.view.message
        if request and 0 < count <= len(messages):
            requests[messages[count - 1].turn] = request
        # Of the calls that saw the same, the one whose answer stands here made it, not one before it.
        answer = call.answer
        if answer and count < len(messages) and same_answer(messages[count], answer.message):
            _stamp_call(messages, call, count, True, session)
        else:
            others.append(call)
    for call in others:
        _stamp_call(messages, call, call.count + candidate.lead, False, session)
    for message in within_turns(messages):
        message.request_id = message.request_id or requests.get(message.turn)


def within_turns(messages: list[Message]) -> list[Message]:
    """All but the system prompt, and context that stands before the words that it was sent with:
    what is true of the turn before is not of that."""
    inside: list[Message] = []
    opens = False
    for message in reversed(messages):
        role = message.role
        if role == "user":
            turn = is_turn(message)
            opens = opens or turn
            if turn or not opens:
                inside.append(message)
        else:
            opens = False
            if role != "system":
                inside.append(message)
    inside.reverse()
    return inside


def _stamp_call(
    messages: list[Message], call: Call, count: int, stands: bool, session: Expected
) -> None:
    """The model of a call stands on the last message that it saw and on its answer. `stands`: the
    answer that it got is what stands behind that message."""
    view = call.view
    engine: str | None = None
    at: Message | None = None
    if 0 < count <= len(messages):
        last = messages[count - 1]
        if last.role == "assistant":
            engine, at = stamp(last, view.answered, view.requested), last
            take_usage(last, view)
        elif view.requested and last.model is None:
            engine, at = stamp(last, "", view.requested), last
    if count < len(messages) and messages[count].role == "assistant":
        behind = messages[count]
        if stands or call.answer is None or behind.model_source != "engine":
            stamped = _stamp_answer(behind, call)
            if stamped:
                engine, at = stamped, behind
    if at is not None and view.request in session:
        _note_conflict(at, engine, session[view.request])


def _note_conflict(message: Message, engine: str | None, expected: tuple[str, str] | None) -> None:
    """The call itself is believed; that another channel says otherwise is told."""
    if engine and expected and expected[0] != engine:
        message.model_conflict = True


def _stamp_answer(message: Message, call: Call) -> str | None:
    """The model, usage and time of the answer, which may stand in a longer list already."""
    answer = call.answer
    message.call_id = message.call_id or call.view.call or None
    if answer is not None:
        take_usage(message, answer.view)
        message.timestamp = message.timestamp or format_time(answer.view.time)
    return stamp(message, answer.view.answered if answer else "", call.view.requested)


def stamp(message: Message, answered: str, requested: str) -> str | None:
    model, source = (answered, "engine") if answered else (requested, "engine-request")
    if not model:
        return None
    if message.model is None or (message.model_source != "engine" and source == "engine"):
        message.model, message.model_source = model, source
    return message.model


def take_usage(message: Message, view: View) -> None:
    if message.usage is None and (view.prompt is not None or view.completion is not None):
        message.usage = Usage(view.prompt, view.completion, view.cached)


def merge_missing(winner: list[Message], loser: list[Message], merge_tools: bool) -> None:
    """Per message at the same index and role: what the winner lacks
    (cases/copilot_telemetry/merge_tool_metadata)."""
    for own, other in zip(winner, loser, strict=False):
        if own.role != other.role:
            continue
        # Another model means another system prompt, and so another list, of the same history.
        fill_missing(own, other, is_same=same_answer(own, other))
        if not merge_tools:
            continue
        if own.role == "assistant" and not own.tool_calls and other.tool_calls:
            own.tool_calls = other.tool_calls
        if own.role == "tool" and own.tool_call_id is None:
            own.tool_call_id = other.tool_call_id


def _count_from_list(notes: list[Noted], messages: list[Message], gaps: bool) -> list[Noted]:
    """The notes, those on turns numbered as the messages are.

    Where all that is left begins from a summary, or messages are missing between others, events that
    name a request and a turn show how many turns went before, if they agree.
    """
    before = takewhile(lambda message: not is_turn(message), messages)
    if not gaps and not any(message.kind == "summary" for message in before):
        return notes
    turns = {
        request: turn for turn, requests in _requests_told(notes).items() for request in requests
    }
    apart = {
        turns[message.request_id] - message.turn
        for message in messages
        if message.turn is not None and is_turn(message) and message.request_id in turns
    }
    if gaps and len(apart) != 1:
        # Bodies of messages were lost, so "turn 3" of an event may be any turn of the list.
        return [note for note in notes if note.on != "turn"]
    if len(apart) != 1 or apart == {0}:
        return notes
    (shift,) = apart
    return [
        msgspec.structs.replace(note, subject=str(int(note.subject) - shift))
        if note.on == "turn"
        else note
        for note in notes
    ]


def _requests_told(notes: list[Noted]) -> dict[int, list[str]]:
    """Turn → the requests that events about it name."""
    places = {(note.origin, note.offset): int(note.subject) for note in notes if note.on == "turn"}
    requests: dict[int, list[str]] = {}
    for note in notes:
        turn = places.get((note.origin, note.offset))
        if note.on == "request" and turn is not None:
            requests.setdefault(turn, []).append(note.subject)
    return requests
