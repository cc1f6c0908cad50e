"""History: which messages of a request the conversation has not had yet.

Every request sends the whole list again. A message is known by a short key, so that the journal holds
each message once. What people say they may say again: behind the last answer that the list shows, a
user message is new unless it was sent behind that answer before.

    [user A]                               A
    [user A, assistant B, user A]          behind B: said a second time
    [user A, assistant B, user A]          behind B, as before: a retry

A message's id is its key and how often the conversation had it before: written twice (after a
restart, say) it is still one message.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from unspool.io.values import field_of
from unspool.prompts.shapes import text, to_messages
from unspool.record.plain import encode
from unspool.sources.recorder.entries import Item

KEYS = 4096
"""Messages that a conversation is remembered by."""
_LONG = 6

Key = TypeVar("Key")
Value = TypeVar("Value")


def key_of(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def answer_key(text: str, calls: Iterable[str]) -> str:
    """The key of an answer: its words and the ids of its calls, however they are wrapped."""
    return key_of("\0".join((text.strip(), *calls)).encode("utf-8", "replace"))


class Form(NamedTuple):
    """A message of a list: its key, and who says it."""

    key: str
    role: str


def form_of(message: Any) -> Form:
    """Messages are told by what they say: the same text may be a string here and a block there, and
    Anthropic's cache marks move from message to message."""
    said = to_messages(message)
    if not said:
        return Form(key_of(encode(message)), "")
    role = said[-1].role
    if role == "assistant":
        calls = [call.id for call in said[-1].tool_calls or ()]
        return Form(answer_key(said[-1].content, calls), role)
    words = text(message.get("name"))
    for part in said:
        words += f"\0{part.role}\0{part.tool_call_id or ''}\0{part.content.strip()}"
        for media in part.attachments or ():
            words += f"\0{media.sha256 or media.uri}"
        if part.extra:
            words += encode(part.extra).decode()
    return Form(key_of(words.encode("utf-8", "replace")), role)


def _without_cache_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_cache_marks(v) for k, v in value.items() if k != "cache_control"}
    return [_without_cache_marks(v) for v in value] if isinstance(value, list) else value


class News(NamedTuple):
    """What a request adds to its conversation."""

    items: list[Item]
    change: str
    place: int
    """Where in the conversation the answer will stand."""


class History:
    """What one conversation is remembered by."""

    __slots__ = (
        "_answers", "_counts", "_last", "_latest", "_places", "_said", "_trimmed", "tools",
    )  # fmt: skip

    def __init__(self) -> None:
        self.tools = ""
        """The key of the tools that were offered last."""
        self._counts: dict[str, int] = {}
        """Key of a message → how often the conversation had it."""
        self._answers: dict[str, str] = {}
        """Key of an answer → its id."""
        self._said: dict[int, bool] = {}
        """User messages, each told by its key and the answer that it stands behind."""
        self._places: dict[int, str] = {}
        """Place of an answer → its id."""
        self._last: list[Form] = []
        """The last list."""
        self._latest = ""
        """The last answer."""
        self._trimmed = False

    def __len__(self) -> int:
        return len(self._counts) + len(self._answers) + len(self._said) + len(self._places)

    def take(self, request: str, messages: Sequence[Any]) -> News:
        """Take in the list of a request."""
        forms = [form_of(message) for message in messages]
        keys = [form.key for form in forms]
        start, anchor = -1, ""
        edits: dict[int, str] = {}
        for at, (key, role) in enumerate(forms):
            if role != "assistant":
                continue
            answer = self._answers.get(key, "")
            if not answer and (
                answer := self._places.get(hash((anchor, *keys[start + 1 : at])), "")
            ):
                # It stands where the answer to an earlier list should: the caller reworded it.
                edits[at] = answer
                self._remember(self._answers, key, answer)
            if answer:
                start, anchor = at, answer
        new = self._new(forms, start, anchor)
        for at in list(new):
            if field_of(messages[at], "type") == "reasoning" and self._answers:
                new.remove(at)  # the thinking of an answer that is recorded itself
        asked = [form.key for form in self._last if form.role == "user"]
        if not new and forms and forms[-1].role == "user" and keys[-1:] != asked[-1:]:
            # Sent before, it is a retry; but something else was said in between: it is asked again.
            new = [len(forms) - 1]
        change, summary = self._change(forms, new, start, anchor)
        # In the first list that is seen, what stands before an answer was said some time ago.
        answers = [at for at, form in enumerate(forms) if form.role == "assistant"]
        old = answers[-1] if answers and not self._last else -1
        items: list[Item] = []
        for at in sorted({*new, *edits}):
            item = Item(message=messages[at], old=at <= old, summary=at == summary)
            if b'"cache_control"' in encode(item.message):
                item.message = _without_cache_marks(item.message)
            item.edits = edits.get(at, "")
            item.id = "" if item.edits else self._name(keys[at], request)
            items.append(item)
        self._last = forms
        return News(items, change, hash((anchor, *keys[start + 1 :])))

    def _new(self, forms: list[Form], start: int, anchor: str) -> list[int]:
        """Which of the messages are; `anchor` is the last answer that is known, at `start`."""
        new: list[int] = []
        repeats: Counter[str] = Counter()
        for at, (key, role) in enumerate(forms):
            known = key in self._counts or key in self._answers
            if role == "user" and 0 <= start < at:
                repeats[key] += 1
                behind = hash((anchor, key, repeats[key]))
                known = behind in self._said
                self._remember(self._said, behind, True)
            if not known:
                new.append(at)
        return new

    def _change(
        self, forms: list[Form], new: list[int], start: int, anchor: str
    ) -> tuple[str, int]:
        """What was done to the list since the last one (words put in the place of others, a cut, a
        step back), and which message stands for what was cut."""
        before = {form.key for form in self._last if form.role != "system"}
        if before.issubset({form.key for form in forms}):
            return "", -1
        kept = [at for at, form in enumerate(forms) if form.key in before and at not in new]
        if (anchor and anchor == self._latest) or self._last[-1] in [forms[at] for at in kept]:
            # It goes on behind the end of the last one, so that its beginning was cut.
            for at in new:
                if at < max(start, *kept, -1) and forms[at].role == "user":
                    return "compaction", at
            return "pruning", -1
        if kept:
            return "rewind", -1
        is_short = start < 0 and len(forms) < len(self._last) >= _LONG
        if is_short and forms and forms[0] == self._last[0]:
            return "compaction", -1  # nothing but the system prompt is left of a long list
        return "", -1

    def answer(self, request: str, place: int, text: str, calls: Sequence[str]) -> str:
        """Take in an answer; its id."""
        if not text.strip() and not calls:
            return request
        key = answer_key(text, calls)
        name = self._name(key, request)
        self._remember(self._places, place, name)
        self._latest = name
        keys = [key]
        if calls and text.strip():
            keys.append(answer_key(text, ()))
        keys += [answer_key("", (call,)) for call in calls]
        for answer in keys:
            self._remember(self._answers, answer, name)
        return name

    def _name(self, key: str, request: str) -> str:
        """The id of the next message with this key."""
        count = self._counts.get(key, 0)
        self._trimmed |= self._remember(self._counts, key, count + 1)
        name = f"{key}-{count}"
        # Once keys are forgotten, a count may start again; the request tells the two apart.
        return f"{name}-{request}" if self._trimmed else name

    @staticmethod
    def _remember(table: dict[Key, Value], key: Key, value: Value) -> bool:
        """Put it in as the latest; whether the earliest had to go for it."""
        table.pop(key, None)
        table[key] = value
        if len(table) <= KEYS:
            return False
        del table[next(iter(table))]
        return True
