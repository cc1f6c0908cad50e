"""Calls of telemetry read once more, plainly: shapes, pieces, options, who made them.

Nothing here is shared with the program. Every call has its id: the other oracle knows those without.
"""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

Place = tuple[str, int]
Properties = dict[str, Any]

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


class Seen(NamedTuple):
    place: Place
    name: str
    time: str
    properties: Properties


def once(calls: list[Call]) -> list[Call]:
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


def read_calls(seen: list[Seen]) -> list[tuple[str, Call]]:
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
    lists: dict[tuple[str, str], list[Seen]] = {}
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


def _call(event: Seen, words: list[Word], model: str, kind: str) -> Call:
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


def _pieces(seen: list[Seen], name: str, ident: str, body: str) -> dict[str, str]:
    found: dict[str, list[Seen]] = {}
    for one in seen:
        if one.name == name:
            found.setdefault(one.properties[ident], []).append(one)
    return {
        key: _in_order(pieces, body)
        for key, pieces in found.items()
        if len({p.properties["chunkIndex"] for p in pieces})
        == int(pieces[0].properties["totalChunks"])
    }


def _in_order(pieces: list[Seen], body: str) -> str:
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
