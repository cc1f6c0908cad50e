"""The rest of telemetry's rules once more, plainly: shapes, pieces, turns, modes, models, sub-agents.

Nothing here is shared with the program. Every call has its id: the other oracle knows those without.
"""

import itertools
import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.telemetry import Event

Place = tuple[str, int]
Properties = dict[str, Any]

CONTEXT_ONLY = re.compile(r"\s*<environment_info>.*</environment_info>\s*", re.DOTALL)
SUMMARY = re.compile(r"<conversation-summary>(.*)</conversation-summary>", re.DOTALL)
UTILITIES = ("title", "progressMessages")


class Word(NamedTuple):
    """One message, whatever shape it came in."""

    role: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()
    """(id, arguments)."""
    result: str = ""
    images: int = 0


@dataclass
class Call:
    ident: str
    request: str
    message: str
    time: str
    place: Place
    words: list[Word]
    asked: str
    turn_index: str
    kind: str
    answer: Word | None = None
    answered: str = ""

    @property
    def whole(self) -> list[Word]:
        return self.words if self.answer is None else [*self.words, self.answer]


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


class Events(NamedTuple):
    place: Place
    name: str
    time: str
    properties: Properties


def expect(events: list[tuple[Place, Event]]) -> tuple[dict[str, Expected], int]:
    """What must come out, by conversation, and how many calls served the program alone."""
    seen = [
        Events(
            place,
            event["name"].rsplit("/", 1)[1],
            event.get("time", ""),
            event["data"]["baseData"]["properties"],
        )
        for place, event in sorted(events, key=lambda item: item[0])
    ]
    calls = _calls(seen)
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
            made[name] = _conversation(_once(rivals), about if name == ident else [])
        if ident in made:
            made[ident].children = sorted(name for name in threads if name != ident)
    return made, sum(one.kind == "utility" for _, one in calls)


# --- calls


def _once(calls: list[Call]) -> list[Call]:
    """A call that both channels tell of is one call, known by the event that has it all."""
    made: dict[str, Call] = {}
    for one in calls:
        known = made.get(one.ident)
        if known is None or (len(one.words), bool(one.message)) > (
            len(known.words),
            bool(known.message),
        ):
            made[one.ident] = one
    return list(made.values())


def _calls(seen: list[Events]) -> list[tuple[str, Call]]:
    bodies = _pieces(seen, "model.message.added", "messageUuid", "messageJson")
    options = _pieces(seen, "model.request.options.added", "requestOptionsId", "requestOptionsJson")
    kinds: dict[str, str] = {}
    for one in seen:
        if one.name == "model.request.added":
            request = one.properties["headerRequestId"]
            if one.properties.get("subType") == "subagent":
                kinds[request] = "subagent"
            elif "mostRecentConversationHeaderRequestId" in one.properties:
                kinds[request] = "utility"
    made: list[tuple[str, Call]] = []
    answers: dict[str, tuple[Word, str]] = {}
    lists: dict[tuple[str, str], list[Events]] = {}
    for one in seen:
        p = one.properties
        if one.name == "engine.messages" and "baseModel" in p:
            (word,) = _words(json.loads(_whole(p, "messagesJson"))) or [Word("assistant", "")]
            answers[p["modelCallId"]] = (word, p["baseModel"])
        elif one.name == "engine.messages":
            words = _with_system(
                _words(json.loads(_whole(p, "messagesJson"))), _option(p, "system")
            )
            made.append((p["conversationId"], _call(one, words, _option(p, "model"), _kind(p))))
        elif one.name in ("model.modelCall.input", "model.modelCall.output"):
            lists.setdefault((p["modelCallId"], one.name), []).append(one)
    for (ident, name), pieces in lists.items():
        if len(pieces) < int(pieces[0].properties["totalChunks"]):
            continue
        first = min(pieces, key=lambda one: int(one.properties["chunkIndex"]))
        uuids = json.loads(_in_order(pieces, "messageUuids"))
        raw = [json.loads(bodies[uuid]) for uuid in uuids if uuid in bodies]
        if name.endswith("output"):
            (word,) = _words(raw) or [Word("assistant", "")]
            answers.setdefault(ident, (word, ""))
            continue
        chosen = json.loads(options.get(first.properties.get("requestOptionsId", ""), "{}"))
        words = _with_system(_words(raw), _option(chosen, "system"))
        kind = kinds.get(first.properties["headerRequestId"], "main")
        made.append(
            (
                first.properties["conversationId"],
                _call(first, words, _option(chosen, "model"), kind),
            )
        )
    for _, call in made:
        if call.ident in answers:
            word, model = answers[call.ident]
            call.answered = model
            if word.text or word.calls:
                call.answer = word
    return made


def _call(event: Events, words: list[Word], model: str, kind: str) -> Call:
    p = event.properties
    return Call(
        p["modelCallId"],
        p.get("headerRequestId", ""),
        p.get("messageId", ""),
        event.time,
        event.place,
        words,
        model,
        str(p.get("turnIndex", "")),
        kind,
    )


def _kind(properties: Properties) -> str:
    if properties.get("subType") == "subagent":
        return "subagent"
    return "utility" if properties.get("messageSource") in UTILITIES else "main"


def _pieces(seen: list[Events], name: str, ident: str, body: str) -> dict[str, str]:
    found: dict[str, list[Events]] = {}
    for one in seen:
        if one.name == name:
            found.setdefault(one.properties[ident], []).append(one)
    return {
        key: _in_order(pieces, body)
        for key, pieces in found.items()
        if len({p.properties["chunkIndex"] for p in pieces})
        == int(pieces[0].properties["totalChunks"])
    }


def _in_order(pieces: list[Events], body: str) -> str:
    parts = {int(one.properties["chunkIndex"]): one.properties[body] for one in pieces}
    return "".join(parts[number] for number in sorted(parts))


def _whole(properties: Properties, name: str) -> str:
    return str(properties.get(name, "")) + "".join(
        properties.get(f"{name}_{number:02d}", "") for number in range(2, 101)
    )


def _option(properties: Properties, name: str) -> Any:
    for key in (f"request.option.{name}", f"request_option_{name}"):
        if key in properties:
            text = _whole(properties, key)
            return None if text == "undefined" else json.loads(text)
    return None


# --- shapes


def _with_system(words: list[Word], system: Any) -> list[Word]:
    if not system or (words and words[0].role == "system"):
        return words
    text = system if isinstance(system, str) else "\n".join(part["text"] for part in system)
    return [Word("system", text), *words]


def _words(items: list[dict[str, Any]]) -> list[Word]:
    made: list[Word] = []
    for item in items:
        if item.get("type") == "function_call":
            call = (item["call_id"], item["arguments"])
            if made and made[-1].role == "assistant":
                made[-1] = made[-1]._replace(calls=(*made[-1].calls, call))
            else:
                made.append(Word("assistant", "", (call,)))
        elif item.get("type") == "function_call_output":
            made.append(Word("tool", item["output"], (), item["call_id"]))
        elif item.get("type") != "reasoning":
            made += _message(item)
    return [
        word
        for word in made
        if word.text.strip() or word.calls or word.images or word.role == "tool"
    ]


def _message(item: dict[str, Any]) -> list[Word]:
    calls = [(one["id"], one["function"]["arguments"]) for one in item.get("tool_calls", ())]
    results: list[Word] = []
    texts: list[str] = []
    images = 0
    content = item.get("content") or ""
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        match part["type"]:
            case "text" | "input_text" | "output_text":
                texts.append(part["text"])
            case "image" | "image_url" | "input_image":
                images += 1
            case "tool_use":
                calls.append((part["id"], json.dumps(part["input"], separators=(",", ":"))))
            case "tool_result":
                given = part["content"]
                text = given if isinstance(given, str) else "\n".join(p["text"] for p in given)
                results.append(Word("tool", text, (), part["tool_use_id"]))
    word = Word(item["role"], "\n".join(texts), tuple(calls), item.get("tool_call_id", ""), images)
    if results and not word.text:
        return results
    return [*results, word]


# --- conversations


def _conversation(calls: list[Call], about: list[Events]) -> Expected:
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


def _mode(
    turn: int, shift: int, requests: dict[int, list[Call]], about: list[Events]
) -> str | None:
    users = _user_events(about)
    for p in users:
        if p.get("mode") and _is_of(p, turn, requests):
            return str(p["mode"])
    for p in users:
        if p.get("mode") and str(p.get("turnIndex", "")) == str(turn + shift):
            return str(p["mode"])
    return None


def _left_over(said: list[Said], turn: int, calls: list[Call], about: list[Events]) -> list[Said]:
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


def _shift(winners: list[Call], requests: dict[int, list[Call]], about: list[Events]) -> int:
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


def _user_events(about: list[Events]) -> list[Properties]:
    return [
        one.properties
        for one in about
        if one.name.endswith(".messageText") and one.properties.get("source") == "user"
    ]


def _is_of(properties: Properties, turn: int, requests: dict[int, list[Call]]) -> bool:
    """Whether the user's event names the request of the turn."""
    ids = {i for call in requests.get(turn, ()) for i in (call.request, call.message) if i}
    return bool(ids & {properties.get("headerRequestId"), properties.get("messageId")})


def _told(turn: int, about: list[Events]) -> list[str]:
    """The requests that the user's events about a turn name, where no call of it was logged."""
    users = [p for p in _user_events(about) if str(p.get("turnIndex", "")) == str(turn)]
    return [p[name] for p in users for name in ("headerRequestId", "messageId") if p.get(name)]


def _session(request: str, about: list[Events]) -> str | None:
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
    about: list[Events],
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


def _metadata(winner: Call, said: list[Said], about: list[Events]) -> dict[str, str]:
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
