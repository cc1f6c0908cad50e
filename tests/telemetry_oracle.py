"""The rules of telemetry once more, plainly: parse everything, join answers, pick winners.

Nothing here is shared with the program, and nothing is quick. It knows the OpenAI shape only.
"""

import json
import re
from typing import NamedTuple

from tests.telemetry import Event

Words = tuple[str, str, tuple[str, ...]]
Place = tuple[str, int]


class Asked(NamedTuple):
    words: list[Words]
    time: str
    place: Place
    call: str
    request: str
    model: str


class Answered(NamedTuple):
    words: Words
    time: str
    place: Place
    call: str
    request: str
    model: str


class Whole(NamedTuple):
    """A list with its answer: what competes."""

    asked: Asked
    words: list[Words]


class Expected(NamedTuple):
    words: list[Words]
    models: list[tuple[str | None, str | None]]
    """(model, source) of the answers, in order."""
    segments: int


def expect(events: list[tuple[Place, Event]]) -> dict[str, Expected]:
    """What must come out, by conversation."""
    groups: dict[str, list[tuple[Place, dict[str, str], str]]] = {}
    for place, event in events:
        properties = event["data"]["baseData"]["properties"]
        if event["name"].endswith("/engine.messages"):
            found = groups.setdefault(properties["conversationId"], [])
            found.append((place, properties, event.get("time", "")))
    return {ident: _conversation(found) for ident, found in groups.items()}


def _conversation(found: list[tuple[Place, dict[str, str], str]]) -> Expected:
    asked: list[Asked] = []
    answered: list[Answered] = []
    for place, properties, time in sorted(found, key=lambda item: item[0]):
        words = _words(properties)
        ids = (properties.get("modelCallId", ""), properties.get("headerRequestId", ""))
        if "baseModel" in properties:
            made = words[0] if words else ("assistant", "", ())
            answered.append(Answered(made, time, place, *ids, properties["baseModel"]))
        else:
            model = json.loads(_either(properties, "request.option.model"))
            asked.append(Asked(words, time, place, *ids, model))
    pairs = _pairs(asked, answered)
    candidates = [Whole(one, _joined(one, pairs.get(one.place))) for one in asked]
    winners = _winners(candidates)
    words = [word for winner in winners for word in winner.words]
    models = [
        _model(winner.words, number, asked, pairs)
        for winner in winners
        for number, word in enumerate(winner.words)
        if word[0] == "assistant"
    ]
    used = {(pair.call, pair.request, pair.words) for pair in pairs.values()}
    seen = [c.asked for c in candidates if any(_begins(c, winner) for winner in winners)]
    last = max(((one.time, one.place) for one in seen), default=("", ("", -1)))
    texts = {word[1] for word in words}
    for one in sorted(answered, key=lambda item: (item.time, item.place)):
        known = (one.call, one.request, one.words) in used
        late = not known and (one.time, one.place) > last
        if late and one.words[1] and one.words[1] not in texts:
            words.append(one.words)
            models.append((one.model, "engine"))
            texts.add(one.words[1])
    return Expected(words, models, len(winners))


def _either(properties: dict[str, str], name: str) -> str:
    return properties.get(name) or properties.get(name.replace(".", "_"), "")


def _whole(properties: dict[str, str], name: str) -> str:
    """Pieces put together, and surrogate pairs that were cut in two."""
    text = properties.get(name, "")
    for number in range(2, 200):
        text += properties.get(f"{name}_{number:02d}", "")
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def _words(properties: dict[str, str]) -> list[Words]:
    made: list[Words] = []
    for message in json.loads(_whole(properties, "messagesJson")):
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "\n".join(part["text"] for part in content if "text" in part)
        calls = tuple(call["id"] for call in message.get("tool_calls", ()))
        if content.strip() or calls or message["role"] == "tool":
            made.append((message["role"], content, calls))
    name = "request.option.system"
    system = _whole(properties, name) or _whole(properties, name.replace(".", "_"))
    if system and made[:1] and made[0][0] != "system":
        made.insert(0, ("system", json.loads(system), ()))
    return made


def _pairs(asked: list[Asked], answered: list[Answered]) -> dict[Place, Answered]:
    """The place of a call → its answer."""
    made: dict[Place, Answered] = {}
    rest: list[Answered] = []
    ids = {one.call for one in asked if one.call}
    for answer in sorted(answered, key=lambda one: (one.time, one.place)):
        if answer.call in ids:
            for one in asked:
                known = made.get(one.place)
                if one.call == answer.call and (known is None or not known.words[1]):
                    made[one.place] = answer
        elif not any((r.request, r.time, r.words) == (answer.request, answer.time, answer.words)
                     for r in rest if r.request):  # fmt: skip
            rest.append(answer)
    for answer in rest:
        before = [
            one
            for one in asked
            if one.request == answer.request
            and one.request
            and one.place not in made
            and (one.time, one.place) < (answer.time, answer.place)
            and not (one.call and answer.call)
        ]
        if before:
            call = max(before, key=lambda one: (one.time, one.place))
            for one in asked:  # and its copies
                if (one.request, one.time, one.words) == (call.request, call.time, call.words):
                    made[one.place] = answer
    return made


def _joined(asked: Asked, answer: Answered | None) -> list[Words]:
    if answer is None or not answer.words[1]:
        return asked.words
    return [*asked.words, answer.words]


def _winners(candidates: list[Whole]) -> list[Whole]:
    segments: dict[str | None, list[Whole]] = {}
    for candidate in candidates:
        segments.setdefault(_summary(candidate.words), []).append(candidate)
    best: list[tuple[tuple[str, Place], Whole]] = []
    for rivals in segments.values():
        most = max((len(one.words), one.asked.time) for one in rivals)
        winner = next(one for one in rivals if (len(one.words), one.asked.time) == most)
        first = min((one.asked.time, one.asked.place) for one in rivals if _begins(one, winner))
        best.append((first, winner))
    return [winner for _, winner in sorted(best, key=lambda item: item[0])]


def _begins(one: Whole, winner: Whole) -> bool:
    return winner.words[: len(one.asked.words)] == one.asked.words


def _summary(words: list[Words]) -> str | None:
    found = None
    for role, text, _ in words:
        match = re.search(r"<conversation-summary>(.*)</conversation-summary>", text, re.DOTALL)
        if role == "user" and match:
            found = match[1]
    return found


def _model(
    words: list[Words], number: int, asked: list[Asked], pairs: dict[Place, Answered]
) -> tuple[str | None, str | None]:
    """The model of the call that made a message: the one that saw just what stands before it."""
    calls = sorted(
        (one for one in asked if one.words == words[:number]), key=lambda one: (one.time, one.place)
    )
    answers = [pairs[one.place] for one in calls if one.place in pairs]
    answers.sort(key=lambda answer: answer.words[1] != words[number][1])
    if answers:
        return answers[0].model, "engine"
    return (calls[0].model, "engine-request") if calls else (None, None)
