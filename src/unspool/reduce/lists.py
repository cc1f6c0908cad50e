"""Lists: the message lists that engine calls logged, decoded once each."""

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from unspool.facts import Key, ListSeen, PieceSeen, Problem, SnapshotSeen, View
from unspool.joining import join
from unspool.records import clean, recover_json
from unspool.shapes import list_to_messages
from unspool.trajectory import Message


class Call:
    """One engine call: the list it saw (the first `count` messages) and what is known of it."""

    __slots__ = ("answer", "count", "view")

    def __init__(self, view: View, count: int) -> None:
        self.view = view
        self.count = count
        self.answer: Answer | None = None

    @property
    def place(self) -> tuple[str, int]:
        return (self.view.origin, self.view.offset)

    @property
    def when(self) -> tuple[int, str, int]:
        time = self.view.time
        return (time if time is not None else -1, self.view.origin, self.view.offset)


class Answer:
    """The message that a call was answered with."""

    __slots__ = ("message", "used", "view")

    def __init__(self, view: View, message: Message) -> None:
        self.view = view
        self.message = message
        self.used = False


class Listing:
    """A message list and the calls that saw a beginning of it."""

    __slots__ = ("calls", "identity", "messages", "missing", "trouble")

    def __init__(self, messages: list[Message], calls: list[Call], missing: bool = False) -> None:
        self.messages = messages
        self.calls = calls
        self.missing = missing
        self.trouble = ""
        """The code of the problem that showed when the list was decoded."""
        self.identity = [identity(message) for message in messages]

    @property
    def final(self) -> list[Call]:
        """The calls that saw the whole list, in order of time."""
        whole = [call for call in self.calls if call.count == len(self.messages)]
        return sorted(whole, key=lambda call: call.when)


def identity(message: Message) -> tuple[Any, ...]:
    """What makes two messages of a list the same one."""
    calls = tuple(call.id for call in message.tool_calls or ())
    return (message.role, message.content, calls, message.tool_call_id)


def is_empty(message: Message) -> bool:
    """Neither words nor calls: such a message says nothing (an empty tool result does)."""
    return not (
        message.content.strip()
        or message.tool_calls
        or message.attachments
        or message.thinking
        or message.extra
        or message.role == "tool"
    )


def elements(values: Iterable[Any]) -> list[Message]:
    return [message for message in list_to_messages(values) if not is_empty(message)]


def decode_array(text: bytes, escaped: bool) -> list[Any]:
    """The elements of `[…]`; raises ValueError where it is no clean array."""
    if escaped:
        try:
            inner = msgspec.json.decode(b'"' + text + b'"', type=str)
        except msgspec.DecodeError:  # lone surrogates: real where a pair was cut in two
            inner = json.loads(b'"' + text + b'"', strict=False)
            inner = inner.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        text = inner.encode()
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = clean(json.loads(text, strict=False))
    if not isinstance(value, list):
        raise ValueError("not an array")
    return value


def read_snapshot(fact: SnapshotSeen) -> Listing | None:
    """The list of a snapshot, decoded piece by piece between the ends that calls saw."""
    if fact.broken:
        return _read_broken(fact)
    counts: dict[int, int] = {}
    messages: list[Message] = []
    at = 0
    for size in sorted({*(view.size for view in fact.views), len(fact.text)}):
        piece = fact.text[at:size]
        if piece.strip() not in (b"", b"["):
            try:
                messages += elements(decode_array(b"[" + piece[1:] + b"]", fact.escaped))
            except (ValueError, RecursionError):
                return _read_broken(fact)
        counts[size] = len(messages)
        at = size
    return Listing(messages, [Call(view, counts[view.size]) for view in fact.views])


def _read_broken(fact: SnapshotSeen) -> Listing | None:
    """What stands before the break: all whole messages, and the cut-off one as far as it goes."""
    trouble = ""
    try:
        text = fact.text.decode("utf-8")
    except UnicodeDecodeError:
        text = fact.text.decode("utf-8", "replace")
        trouble = "invalid-utf8"
    try:
        if fact.escaped:
            text = json.loads(f'"{_close_escape(text)}"', strict=False)
    except (ValueError, RecursionError):
        return None
    whole = None if fact.broken else _whole_list(text + "]")
    value = whole or (recover_json(text) if text.startswith("[") else None)
    if not isinstance(value, list):
        return None
    messages = elements(value)
    calls = [Call(view, len(messages)) for view in fact.views]
    listing = Listing(messages, calls, missing=whole is None)
    listing.trouble = trouble or ("" if fact.broken else "messages-cut-off")
    return listing


def _whole_list(text: str) -> list[Any] | None:
    try:
        value = clean(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _close_escape(text: str) -> str:
    """The text without an escape that was cut in two at its end."""
    tail = len(text) - len(text.rstrip("\\"))
    return text[:-1] if tail % 2 else text


def read_references(facts: Iterable[ListSeen | PieceSeen]) -> tuple[list[Listing], list[Listing]]:
    """Lists by reference: (inputs, answers), with the bodies looked up wherever they were seen."""
    bodies: dict[tuple[str, str], dict[int, PieceSeen]] = defaultdict(dict)
    lists: dict[tuple[str, bool], dict[int, ListSeen]] = defaultdict(dict)
    for fact in sorted(facts, key=lambda f: f.place):
        if isinstance(fact, PieceSeen):
            bodies[(fact.what, fact.id)].setdefault(fact.piece, fact)
        else:
            lists[(fact.call or fact.request, fact.answer)].setdefault(fact.piece, fact)
    options = {i: _options(pieces) for (what, i), pieces in bodies.items() if what == "options"}
    inputs: list[Listing] = []
    answers: list[Listing] = []
    for (_, answer), pieces in lists.items():
        listing = _reference(pieces, bodies, options)
        if listing is not None:
            (answers if answer else inputs).append(listing)
    return inputs, answers


def _joined(pieces: dict[int, Any], field: str) -> bytes | None:
    """All pieces one after the other; None where one is missing."""
    whole = next(iter(pieces.values())).pieces
    if any(number not in pieces for number in range(whole)):
        return None
    return b"".join(getattr(pieces[number], field) for number in range(whole))


def _unescape(body: bytes) -> Any:
    """The value of a JSON text that stood inside a JSON string."""
    return decode_array(b"[" + body + b"]", escaped=True)[0]


def _options(pieces: dict[int, PieceSeen]) -> dict[str, Any]:
    body = _joined(pieces, "body")
    try:
        value = _unescape(body) if body else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _reference(
    pieces: dict[int, ListSeen],
    bodies: dict[tuple[str, str], dict[int, PieceSeen]],
    options: dict[str, dict[str, Any]],
) -> Listing | None:
    text = _joined(pieces, "ids")
    try:
        ids = _unescape(text) if text else []
    except (ValueError, RecursionError):
        ids = []
    messages: list[Message] = []
    missing = text is None
    for ident in ids if isinstance(ids, list) else ():
        found = bodies.get(("message", str(ident)))
        body = _joined(found, "body") if found else None
        try:
            made = elements([_unescape(body)]) if body else []
        except (ValueError, RecursionError):
            made = []
        missing = missing or not body
        for message in made:
            message.id = str(ident)
        messages += made
    first = pieces[min(pieces)]
    if first.view is None or not messages:
        return None
    view = _with_options(first.view, options.get(first.options, {}))
    listing = Listing(messages, [Call(view, len(messages))], missing)
    listing.trouble = "message-body-missing" if missing else ""
    return listing


def _with_options(view: View, options: dict[str, Any]) -> View:
    def option(name: str) -> Any:
        value = options.get(f"request.option.{name}", options.get(f"request_option_{name}"))
        try:
            return json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            return None

    model = option("model")
    system = option("system")
    tools = option("tools")
    return msgspec.structs.replace(
        view,
        requested=model if isinstance(model, str) else view.requested,
        system=msgspec.json.encode(system) if system else view.system,
        tools=msgspec.json.encode(tools) if tools else view.tools,
    )


class Lists(NamedTuple):
    """All lists of a conversation, its answers, and what was wrong with some."""

    lists: list[Listing]
    answers: list[Answer]
    problems: list[Problem]


def read_lists(key: Key, facts: Iterable[SnapshotSeen | ListSeen | PieceSeen]) -> Lists:
    snapshots: list[SnapshotSeen] = []
    references: list[ListSeen | PieceSeen] = []
    for fact in facts:
        if isinstance(fact, SnapshotSeen):
            snapshots.append(fact)
        else:
            references.append(fact)
    snapshots.sort(key=lambda fact: fact.place)
    inputs, outputs = read_references(references)
    problems: list[Problem] = []
    answers: list[Answer] = []
    lists: list[Listing] = []
    for fact in join(snapshots):
        listing = read_snapshot(fact)
        if listing is None:
            problems.append(_problem(key, fact.views[0], "messages-unreadable"))
        else:
            inputs.append(listing)
    for listing in sorted(inputs, key=lambda made: made.calls[0].place):
        if listing.trouble:
            problems.append(_problem(key, listing.calls[0].view, listing.trouble))
        kept = []
        for call in listing.calls:
            if _is_answer(listing, call):
                answers.append(Answer(call.view, listing.messages[0]))
            else:
                kept.append(call)
        if kept:
            listing.calls = kept
            lists.append(listing)
    answers += [Answer(o.calls[0].view, o.messages[0]) for o in outputs]
    return Lists(fold(lists), _unique(answers), problems)


def _problem(key: Key, view: View, code: str) -> Problem:
    return Problem(key=key, origin=view.origin, offset=view.offset, number=98, code=code)


def _is_answer(listing: Listing, call: Call) -> bool:
    """An output event logs just the one assistant message that the call gave."""
    view = call.view
    return (
        call.count == 1
        and listing.messages[0].role == "assistant"
        and not view.requested
        and bool(view.answered or view.completion is not None or view.call)
    )


def _unique(answers: list[Answer]) -> list[Answer]:
    """The same answer may come by two channels: by call id and text it is one."""
    best: dict[tuple[Any, ...], Answer] = {}
    for answer in sorted(answers, key=lambda a: (a.view.origin, a.view.offset)):
        view = answer.view
        key = (
            (view.call, view.request, answer.message.content)
            if view.call
            else (view.origin, view.offset)
        )
        known = best.get(key)
        if known is None or (not known.message.tool_calls and answer.message.tool_calls):
            best[key] = answer
    return list(best.values())


def fold(lists: list[Listing]) -> list[Listing]:
    """Lists of which, by their messages, none is the beginning of another."""
    kept: list[Listing] = []
    for listing in sorted(lists, key=lambda made: (-len(made.messages), made.calls[0].place)):
        size = len(listing.messages)
        for known in kept:
            if known.identity[:size] == listing.identity and not listing.missing:
                known.calls += listing.calls
                known.missing = known.missing and len(known.messages) > size
                break
        else:
            kept.append(listing)
    return kept
