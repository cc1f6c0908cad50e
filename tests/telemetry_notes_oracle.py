"""The rest of telemetry's rules once more, plainly: turns, modes, models, segments, sub-agents.

Nothing here is shared with the program.
"""

import itertools
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.telemetry import Event
from tests.telemetry_calls import Call, Place, Properties, Seen, Word, once, read_calls

CONTEXT_ONLY = re.compile(r"\s*<environment_info>.*</environment_info>\s*", re.DOTALL)
SUMMARY = re.compile(r"<conversation-summary>(.*)</conversation-summary>", re.DOTALL)


class Said(NamedTuple):
    """One message as it must come out."""

    word: Word
    turn: int | None
    mode: str | None
    model: str | None
    source: str | None
    conflict: bool | None


@dataclass
class Expected:
    said: list[Said]
    segments: int = 1
    metadata: dict[str, str] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)


def expect(events: list[tuple[Place, Event]]) -> tuple[dict[str, Expected], int]:
    """What must come out, by conversation, and how many calls served the program alone."""
    seen = [
        Seen(
            place,
            event["name"].rsplit("/", 1)[1],
            event.get("time", ""),
            event["data"]["baseData"]["properties"],
        )
        for place, event in sorted(events, key=lambda item: item[0])
    ]
    calls = read_calls(seen)
    made: dict[str, Expected] = {}
    for ident in dict.fromkeys(conversation for conversation, _ in calls):
        mine = [one for conversation, one in calls if conversation == ident]
        threads: dict[str, list[Call]] = {}
        for one in mine:
            if one.kind != "utility":
                name = f"{ident}/{one.request}" if one.kind == "subagent" else ident
                threads.setdefault(name, []).append(one)
        about = [
            e
            for e in seen
            if ident in (e.properties.get("conversationId"), e.properties.get("sessionId"))
        ]
        for name, rivals in threads.items():
            # What a person typed or chose is nothing of a sub-agent's.
            made[name] = _conversation(once(rivals), about if name == ident else [])
        if ident in made:
            made[ident].children = sorted(name for name in threads if name != ident)
    return made, sum(one.kind == "utility" for _, one in calls)


def _conversation(calls: list[Call], about: list[Seen]) -> Expected:
    winners = _winners(calls)
    _complete(winners)
    said: list[Said] = []
    turn = -1
    numbered: list[tuple[Call, int, int]] = []  # winner, index within it, turn
    for winner in winners:
        for number, word in enumerate(winner.whole):
            turn += _opens_a_turn(word)
            numbered.append((winner, number, turn))
    requests: dict[int, list[Call]] = {}
    headless: dict[str, list[Call]] = {}
    for call in sorted(calls, key=lambda one: one.time):
        for winner in winners:
            if _saw(call, winner, len(call.words)):
                last = len(call.words) - 1
                own = next(t for w, n, t in numbered if w is winner and n == last)
                if any(map(_opens_a_turn, call.words)):
                    requests.setdefault(own, []).append(call)
                else:  # summarised within a turn: nobody may have seen the words that opened it
                    headless.setdefault(winner.ident, []).insert(0, call)
    known: dict[Word, tuple[Call, Said]] = {}
    shift = _shift(winners, requests, about)
    for winner, number, own in numbered:
        word = winner.whole[number]
        begun = any(map(_opens_a_turn, winner.whole[: number + 1]))
        turns = (
            requests.get(own, []) if begun else headless.get(winner.ident, requests.get(own, []))
        )
        told = [] if turns or own < 0 else _told(own + shift, about)
        model, source, conflict = _model(winner, number, calls, turns, told, about)
        first = known.get(word)
        copied = first and first[0] is not winner and word.role in ("assistant", "tool")
        if first and copied and source in (None, "interactiveSession"):
            model, source, conflict = first[1][3:]
        mode = _mode(own, shift, requests, about) if _opens_a_turn(word) else None
        system = word.role == "system" or own < 0
        said.append(Said(word, None if system else own, mode, model, source, conflict))
        known.setdefault(word, (winner, said[-1]))
    said += _left_over(said, turn, calls, about)
    best = max(winners, key=lambda one: (one.time, one.place)) if winners else None
    return Expected(said, len(winners), _metadata(best, said, about) if best else {})


def _complete(winners: list[Call]) -> None:
    """An answer that is told without its tool calls has those that the next segment's copy has."""
    for winner, later in itertools.pairwise(winners):
        if winner.answer and not winner.answer.calls:
            for word in later.words:
                if word.role == "assistant" and word.text == winner.answer.text and word.calls:
                    winner.answer = winner.answer._replace(calls=word.calls)


def _opens_a_turn(word: Word) -> bool:
    return (
        word.role == "user"
        and not CONTEXT_ONLY.fullmatch(word.text)
        and not SUMMARY.search(word.text)
        and word.text != "Please continue."
    )


def _leads_in(words: list[Word], number: int) -> bool:
    """Context that stands before the words that it was sent with."""
    if _opens_a_turn(words[number]):
        return False
    while number < len(words) and words[number].role == "user":
        if _opens_a_turn(words[number]):
            return True
        number += 1
    return False


def _saw(call: Call, winner: Call, count: int) -> bool:
    """Whether the call saw so many messages of the same history: by their roles, since another model
    has another system prompt, and old words may be sent otherwise later."""
    roles = [word.role for word in winner.whole[:count]]
    return [word.role for word in call.words] == roles and _summary(call.words) == _summary(
        winner.words
    )


def _summary(words: list[Word]) -> str | None:
    found = [SUMMARY.search(word.text) for word in words if word.role == "user"]
    return next((match[1] for match in reversed(found) if match), None)


def _winners(calls: list[Call]) -> list[Call]:
    segments: dict[str | None, list[Call]] = {}
    for call in calls:
        segments.setdefault(_summary(call.words), []).append(call)
    made: list[tuple[str, Call]] = []
    for rivals in segments.values():
        first = min(one.time for one in rivals)
        most = max((len(one.whole), one.time) for one in rivals)
        made.append((first, next(one for one in rivals if (len(one.whole), one.time) == most)))
    return [winner for _, winner in sorted(made, key=lambda item: item[0])]


def _mode(turn: int, shift: int, requests: dict[int, list[Call]], about: list[Seen]) -> str | None:
    users = _user_events(about)
    for p in users:
        if p.get("mode") and _is_of(p, turn, requests):
            return str(p["mode"])
    for p in users:
        if p.get("mode") and str(p.get("turnIndex", "")) == str(turn + shift):
            return str(p["mode"])
    return None


def _left_over(said: list[Said], turn: int, calls: list[Call], about: list[Seen]) -> list[Said]:
    """The person's words after the last call that was logged, where their own was not."""
    asked = {i for call in calls for i in (call.request, call.message) if i}
    last = max(((call.time, call.place) for call in calls), default=("", ("", 0)))
    made: list[Said] = []
    for one in sorted(about, key=lambda event: (event.time, event.place)):
        p = one.properties
        if p not in _user_events([one]) or not p.get("messageId") or p["messageId"] in asked:
            continue
        known = any(p["messageText"] in word.word.text for word in said)
        if not known and (one.time, one.place) > last:
            word = Word("user", p["messageText"])
            made.append(Said(word, turn + len(made) + 1, p["mode"], None, None, None))
    return made


def _shift(winners: list[Call], requests: dict[int, list[Call]], about: list[Seen]) -> int:
    """How many turns went before, where all that is left begins from a summary: events that name a
    request and a turn show it, if they agree."""
    first = winners[0].whole
    opened = next((n for n, word in enumerate(first) if _opens_a_turn(word)), len(first))
    if _summary(first[:opened]) is None:
        return 0
    apart = {
        int(p["turnIndex"]) - known
        for p in _user_events(about)
        for known in requests
        if "turnIndex" in p and _is_of(p, known, requests)
    }
    return apart.pop() if len(apart) == 1 else 0


def _user_events(about: list[Seen]) -> list[Properties]:
    return [
        one.properties
        for one in about
        if one.name.endswith(".messageText") and one.properties.get("source") == "user"
    ]


def _is_of(properties: Properties, turn: int, requests: dict[int, list[Call]]) -> bool:
    """Whether the user's event names the request of the turn."""
    ids = {i for call in requests.get(turn, ()) for i in (call.request, call.message) if i}
    return bool(ids & {properties.get("headerRequestId"), properties.get("messageId")})


def _told(turn: int, about: list[Seen]) -> list[str]:
    """The requests that the user's events about a turn name, where no call of it was logged."""
    users = [p for p in _user_events(about) if str(p.get("turnIndex", "")) == str(turn)]
    return [p[name] for p in users for name in ("headerRequestId", "messageId") if p.get(name)]


def _session(request: str, about: list[Seen]) -> str | None:
    for name in ("interactiveSessionResponse", "interactiveSessionMessage"):
        found = [
            (one.time, one.place, model)
            for one in about
            if one.name == name and one.properties["requestId"] == request
            for model in [one.properties.get("baseModel") or one.properties.get("model")]
            if model and model != "auto"
        ]
        if found:
            return str(max(found)[2])
    return None


def _model(
    winner: Call,
    number: int,
    calls: list[Call],
    turn: list[Call],
    told: list[str],
    about: list[Seen],
) -> tuple[str | None, str | None, bool | None]:
    words = winner.whole
    word = words[number]
    if word.role == "assistant":
        makers = [one for one in calls if _saw(one, winner, number)]
        makers.sort(key=lambda one: (not one.answered, one.time))
        if makers:
            one = makers[0]
            model = one.answered or one.asked
            session = _session(one.request, about)
            conflict = True if session and model and session != model else None
            return model, "engine" if one.answered else "engine-request", conflict
    else:
        seers = [one for one in calls if one.asked and _saw(one, winner, number + 1)]
        if seers:
            one = min(seers, key=lambda one: one.time)
            session = _session(one.request, about)
            last = all(one.answer is None for one in seers) and number == len(words) - 1
            return (
                one.asked,
                "engine-request",
                True if last and session and session != one.asked else None,
            )
    if word.role != "system" and not _leads_in(words, number):
        requests = [one.request for one in turn[:1]] or told
        models = {_session(request, about) for request in requests} - {None}
        if len(models) == 1:
            return models.pop(), "interactiveSession", None
    return None, None, None


def _metadata(winner: Call, said: list[Said], about: list[Seen]) -> dict[str, str]:
    made = {"timestamp": winner.time, "turnIndex": winner.turn_index, "messageId": winner.message}
    modes = [one.mode for one in said if one.mode]
    if modes:
        made["mode"] = modes[0]
    for one in about:
        if one.name == "interactiveSessionMessage":
            for key in ("intent", "detectedIntent"):
                if key in one.properties:
                    made.setdefault(key, one.properties[key])
    for one in about:
        if one.name.endswith(".messageText") and one.properties.get("suggestion"):
            made.setdefault("intent", one.properties["suggestion"])
    return {key: value for key, value in made.items() if value}
