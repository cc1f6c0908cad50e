"""Lists: the message lists that engine calls logged, decoded once each.

    call 1 logs  [system, user]                          and is answered with  assistant "Looking."
    call 2 logs  [system, user, assistant, tool]         and is answered with  assistant "Done."

Both are one list, seen by two calls (`Listing.calls`); the answers come apart (`Answer`), because a
call logs them when it ends. A list that is broken is used up to the break
(cases/copilot_telemetry/list_broken_in_the_middle).
"""

import json
import operator
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from unspool.facts import Key, MessageSeen, Problem, SnapshotSeen, View
from unspool.io.door import clean, recover_json, refuse_depth
from unspool.io.memory import give_back
from unspool.prompts.shapes import SentMessage, list_to_messages
from unspool.trajectory import Message

When = tuple[int, str, int]
"""Time (-1 where unknown), origin, offset."""


class Answer:
    """The message that a call was answered with."""

    __slots__ = ("message", "used", "view", "when")

    def __init__(self, view: View, message: Message) -> None:
        self.view = view
        self.message = message
        self.used = False
        self.when = when_of(view)


class Call:
    """One engine call: the list it saw (the first `count` messages) and what is known of it."""

    __slots__ = ("answer", "count", "view", "when")

    def __init__(self, view: View, count: int) -> None:
        self.view = view
        self.count = count
        self.answer: Answer | None = None
        self.when = when_of(view)

    def take(self, answer: Answer) -> None:
        self.answer = answer
        answer.used = True

    @property
    def place(self) -> tuple[str, int]:
        return (self.view.origin, self.view.offset)


def when_of(seen: View | MessageSeen) -> When:
    return (seen.time if seen.time is not None else -1, seen.origin, seen.offset)


by_time: Callable[[Call | Answer], When] = operator.attrgetter("when")


class Listing:
    """A message list and the calls that saw a beginning of it."""

    __slots__ = ("_chain", "calls", "gaps", "messages", "missing", "shared", "trouble")

    def __init__(
        self,
        messages: list[Message],
        calls: list[Call],
        missing: bool = False,
        gaps: tuple[int, ...] = (),
        trouble: str = "",
        shared: bool = False,
    ) -> None:
        self.messages = messages
        self.calls = calls
        self.missing = missing
        self.gaps = gaps
        """The numbers of messages that are missing: those behind are not numbered as in other lists."""
        self.trouble = trouble
        """The code of the problem that showed when the list was decoded."""
        self.shared = shared
        """Whether another list may hold the same message objects."""
        self._chain: list[int] = []

    @property
    def chain(self) -> list[int]:
        """Per n the hash of the first n messages: whether two lists begin alike is one comparison."""
        if not self._chain:
            chain = [0]
            for message in self.messages:
                chain.append(hash((chain[-1], identity(message))))
            self._chain = chain
        return self._chain

    @property
    def final(self) -> list[Call]:
        """The calls that saw the whole list."""
        size = len(self.messages)
        return [call for call in self.calls if call.count == size]


class Lists(NamedTuple):
    """All lists of a conversation, its answers, and what was wrong with some."""

    lists: list[Listing]
    answers: list[Answer]
    problems: list[Problem]


def identity(message: Message) -> tuple[Any, ...]:
    """What makes two messages of a list the same one."""
    calls = message.tool_calls
    return (
        message.role,
        message.content,
        tuple([call.id for call in calls]) if calls else (),
        message.tool_call_id,
    )


def same_answer(a: Message, b: Message) -> bool:
    """An answer and its place in a later list; the sender trims texts and may leave calls out."""
    return a.role == b.role and (a.content == b.content or a.content.rstrip() == b.content.rstrip())


_OF_A_REQUEST = ("mode", "request_id", "model_conflict")
_OF_AN_ANSWER = ("usage", "timestamp", "call_id", "stop_reason")


def fill_missing(message: Message, other: Message, is_same: bool = True) -> None:
    """What the message lacks and another list, or channel, tells of it; of another message of its
    request only what holds for both."""
    if message.model is None and other.model is not None:
        message.model, message.model_source = other.model, other.model_source
    for name in (*_OF_A_REQUEST, *_OF_AN_ANSWER) if is_same else _OF_A_REQUEST:
        if getattr(message, name) is None:
            setattr(message, name, getattr(other, name))


def is_empty(message: Message) -> bool:
    """Neither words nor calls: such a message says nothing (an empty tool result does)."""
    if message.content and not message.content.isspace():
        return False
    return not (
        message.tool_calls
        or message.attachments
        or message.thinking
        or message.extra
        or message.role == "tool"
    )


_PORTION_BYTES = 512 << 10
"""Lists are decoded together up to so many bytes: on the way there are several copies of them."""


def read_lists(
    key: Key,
    snapshots: list[SnapshotSeen],
    inputs: list[Listing],
    outputs: list[Listing],
) -> Lists:
    """All lists of a conversation: those that were logged whole, of which none is the beginning of
    another, and the `inputs` and `outputs` that were put together from references. `snapshots` is
    empty in the end: a text that was decoded is not needed any more."""
    answers: list[Answer] = []
    lists: list[Listing] = []
    inputs = list(inputs)
    while snapshots:
        some, size = [snapshots.pop()], 0
        while snapshots and (size := size + len(some[-1].text)) < _PORTION_BYTES:
            some.append(snapshots.pop())
        inputs += _read_snapshots(some, answers)
        if snapshots:
            del some
            give_back()
    inputs.sort(key=lambda listing: listing.calls[0].place)
    for listing in inputs:
        own = []
        for call in listing.calls:
            if _is_answer(call.view, call.count, listing.messages, listing.missing):
                text = listing.messages[0] if call.count else Message("assistant", "")
                answers.append(Answer(call.view, text))
            else:
                own.append(call)
        if own and (listing.messages or not listing.missing):
            lists.append(listing)
            listing.calls = own
    for output in outputs:
        if output.messages:
            output.trouble = ""
            answers.append(Answer(output.calls[0].view, output.messages[0]))
    problems = [_problem(key, one) for one in (*inputs, *outputs) if one.trouble]
    return Lists(fold(lists), _unique(answers), problems)


def _problem(key: Key, listing: Listing) -> Problem:
    view = listing.calls[0].view
    return Problem(key=key, origin=view.origin, offset=view.offset, number=98, code=listing.trouble)


def _read_snapshots(snapshots: list[SnapshotSeen], answers: list[Answer]) -> list[Listing]:
    """The lists, decoded in one go, or one by one where one of them is not clean; those that are
    nothing but the answer of a call go to the answers.

    A piece between two ends tells how many messages the next call saw more.
    """
    ends: list[list[int]] = []
    pieces: list[bytes] = []
    for fact in snapshots:
        text = fact.text
        own = [len(text)]
        if len(fact.views) > 1:
            own = sorted({len(text), *[view.size for view in fact.views]})
        start = 0
        for end in own:
            pieces.append(text[start + 1 : end])
            start = end
        ends.append(own)
    decoded: list[Piece] = []
    if not any(fact.broken for fact in snapshots):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            decoded = _decode_pieces(pieces)
    if len(decoded) != len(pieces):
        if len(snapshots) > 1:
            return [one for fact in snapshots for one in _read_snapshots([fact], answers)]
        return [_read_unclean(snapshots[0], end) for end in ends[0]]
    values = iter(decoded)
    lists: list[Listing] = []
    for fact, own in zip(snapshots, ends, strict=True):
        messages: list[Message] = []
        counts: list[int] = []
        trouble = ""
        for told, odd in islice(values, len(own)):
            if odd:
                trouble = "message-not-an-object"
            for message in told:
                if (message.content and not message.content.isspace()) or not is_empty(message):
                    messages.append(message)
            counts.append(len(messages))
        view = fact.views[0]
        if len(own) > 1 or len(fact.views) > 1:
            count_of = dict(zip(own, counts, strict=True))
            calls = [Call(view, count_of[view.size]) for view in fact.views]
            calls.sort(key=_by_view)  # not by who joined what when
            lists.append(Listing(messages, calls, trouble=trouble))
        elif not trouble and _is_answer(view, len(messages), messages):
            answers.append(Answer(view, messages[0] if messages else Message("assistant", "")))
        else:
            lists.append(Listing(messages, [Call(view, len(messages))], trouble=trouble))
    return lists


_by_view: Callable[[Call | Answer], tuple[str, int]] = operator.attrgetter(
    "view.origin", "view.offset"
)
Piece = tuple[list[Message], bool]
"""Messages of a list, and whether some of its elements are none."""


_decode_sent = msgspec.json.Decoder(list[list[SentMessage]]).decode
_decode_lists = msgspec.json.Decoder(list[list[Any]]).decode


def _decode_pieces(pieces: list[bytes]) -> list[Piece]:
    """The messages of arrays that stand one behind the other, per piece."""
    array = b"[[%b]]" % b"],[".join(pieces)
    refuse_depth(array)
    try:
        return [([sent.to_message() for sent in piece], False) for piece in _decode_sent(array)]
    except msgspec.ValidationError:  # of another shape, or with more to tell
        return [
            (list_to_messages(values), any(type(value) is not dict for value in values))
            for values in _decode_lists(array)
        ]


def _read_unclean(fact: SnapshotSeen, end: int) -> Listing:
    """What the calls saw that saw so much of a list that is not clean: its whole messages, up to where
    it breaks, and the one that breaks off as far as it goes. Calls that saw less of the list may have
    seen it whole."""
    text = fact.text[:end].decode("utf-8", "replace")
    values: Any = None
    cut_off = fact.broken
    try:
        if not cut_off:
            try:
                values = decode_array(f"{text}]".encode())
            except ValueError:
                cut_off = True
        if cut_off:
            values = recover_json(text)
        if values is None:
            try:
                json.loads(text, strict=False)
            except json.JSONDecodeError as error:
                values = recover_json(text[: error.pos])
    except (ValueError, RecursionError):
        pass
    seen = sorted((v for v in fact.views if v.size == end), key=lambda v: (v.origin, v.offset))
    if not isinstance(values, list):
        calls = [Call(view, 0) for view in seen]
        return Listing([], calls, missing=True, trouble="messages-unreadable")
    messages = [m for m in list_to_messages(values) if not is_empty(m)]
    trouble = ""
    if cut_off and not fact.broken:  # (else the source has told)
        trouble = "messages-cut-off"
    elif any(type(value) is not dict for value in values):
        trouble = "message-not-an-object"
    calls = [Call(view, len(messages)) for view in seen]
    return Listing(messages, calls, cut_off, trouble=trouble)


def decode_array(text: bytes) -> list[Any]:
    """The elements of `[…]`; raises ValueError (or RecursionError) where it is no clean array."""
    try:
        refuse_depth(text)
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = clean(json.loads(text, strict=False))
    if not isinstance(value, list):
        raise ValueError("not an array")
    return value


def decode_system(raw: bytes) -> str:
    """The text of a system prompt that is sent beside a list, a string or blocks."""
    messages = list_to_messages([{"role": "system", "content": _decode_nested(raw)}])
    return messages[0].content if messages else ""


def decode_tools(raw: bytes) -> list[dict[str, Any]] | None:
    value = _decode_nested(raw)
    if not isinstance(value, list):
        return None
    return [tool for tool in value if isinstance(tool, dict)] or None


def _decode_nested(raw: bytes) -> Any:
    """A value that stands as JSON in JSON strings; of one that was cut off, what there is."""
    value: Any = raw.decode("utf-8", "replace")
    try:
        while isinstance(value, str) and value[:1] in ('"', "["):
            try:
                value = msgspec.json.decode(value)
            except (msgspec.DecodeError, UnicodeEncodeError):
                value = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        recovered = recover_json(value)
        value = value if recovered is None else recovered
    return clean(value)


def _is_answer(view: View, count: int, messages: list[Message], missing: bool = False) -> bool:
    """An output event logs just the one assistant message that the call gave. `count`: how many of
    the messages the call saw.

    It is empty where the model only called tools and the sender logs texts alone
    (cases/copilot_telemetry/answers_without_call_id).
    """
    if view.requested or count > 1:
        return False
    if count == 0:
        return bool(view.answered or view.completion is not None) and not missing
    tells_answer = view.answered or view.completion is not None or view.call
    return bool(tells_answer) and messages[0].role == "assistant"


def _unique(answers: list[Answer]) -> list[Answer]:
    """The same answer may come by two channels: by call id (or request and time) and text it is
    one (cases/copilot_telemetry/two_channels)."""
    best: dict[tuple[Any, ...], Answer] = {}
    for answer in sorted(answers, key=_by_view):
        view = answer.view
        key = (
            (view.call, view.request, answer.message.content)
            if view.call
            else (view.request, view.time, answer.message.content)
            if view.request and view.time is not None
            else (view.origin, view.offset)
        )
        known = best.get(key)
        best[key] = answer if known is None else _combine(known, answer)
    return list(best.values())


def _combine(known: Answer, other: Answer) -> Answer:
    """One channel names the model, the other may not; the calls likewise."""
    if other.message.tool_calls and not known.message.tool_calls:
        known, other = other, known
    missing = {
        name: getattr(other.view, name)
        for name in ("answered", "prompt", "completion", "cached", "time")
        if getattr(known.view, name) in (None, "")
    }
    return Answer(msgspec.structs.replace(known.view, **missing), known.message)


def fold(lists: list[Listing]) -> list[Listing]:
    """Lists of which, by their messages, none is the beginning of another: one text may be spelled
    in two ways (cases/copilot_telemetry/same_text_spelled_otherwise)."""
    if len(lists) < 2:
        return lists
    kept: list[Listing] = []
    begun: dict[int, Listing] = {}
    """The hash of a beginning → the first of the longest lists that begin so."""
    for listing in sorted(lists, key=lambda made: (-len(made.messages), made.calls[0].place)):
        known = None if listing.missing else begun.get(listing.chain[-1])
        if known is None:
            kept.append(listing)
            for link in listing.chain:
                begun.setdefault(link, listing)
            continue
        known.calls += listing.calls
        known.missing = known.missing and len(known.messages) > len(listing.messages)
    return kept
