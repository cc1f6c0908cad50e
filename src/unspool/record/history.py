"""History: which messages of a request the conversation has not had yet.

Every request sends the whole list again. What was sent before is told by short keys, so that the
journal holds each message once; a list that was cut, summarised or rewritten is aligned with the one
it came from. A message's id is its key and how often the conversation had it before: written twice
(after a restart, say) it is still one message.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from unspool.io.values import field_of, str_of
from unspool.record.plain import encode, name_of, plain, rows, table
from unspool.sources.recorder.entries import Item

if TYPE_CHECKING:
    Keys = array[int]
else:
    Keys = array  # cannot be subscripted before Python 3.12

LISTS = 8
"""Lists that a conversation is remembered by: side requests and parallel ones have their own."""
KEYS = 4096
"""Messages that a conversation is remembered by."""

_CACHE_MARK = b'"cache_control"'
_OTHERS, _USER, _ASSISTANT, _TOOL, _SYSTEM = range(5)
_ROLES = {
    "user": _USER,
    "assistant": _ASSISTANT,
    "model": _ASSISTANT,
    "tool": _TOOL,
    "function": _TOOL,
    "system": _SYSTEM,
    "developer": _SYSTEM,
}
_WORDS = (_USER, _ASSISTANT, _OTHERS)
_LONG = 6
_TEXTS = ("text", "input_text", "output_text", "refusal")


class Form(NamedTuple):
    """One message of a list: its key, who says it, and the message."""

    key: int
    role: int
    message: Any


def key_of(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


def answer_key(text: str, calls: Iterable[str]) -> int:
    """The key of an answer: its words and the ids of its calls, however they are wrapped."""
    words = text.strip().encode("utf-8", "replace")
    return key_of(b"\0".join((words, *(call.encode("utf-8", "replace") for call in calls))))


def form_of(message: Any) -> Form:
    if type(message) is not dict:
        message = (
            {"role": "user", "content": message} if isinstance(message, str) else plain(message)
        )
        if not isinstance(message, dict):
            return Form(key_of(encode(message)), _OTHERS, message)
    role = _ROLES.get(str_of(message.get("role")), _OTHERS)
    if role == _ASSISTANT or message.get("type") in ("function_call", "custom_tool_call"):
        return Form(_assistant_key(message), _ASSISTANT, message)
    if role in (_USER, _SYSTEM):
        words = _words(message.get("content"))
        if words is not None:
            # Told by its words alone: the same text may be a string here and a block there.
            data = f"{role}\0{message.get('name') or ''}\0{words.strip()}"
            return Form(key_of(data.encode("utf-8", "replace")), role, message)
    return Form(key_of(written(message)), role, message)


def _words(content: Any) -> str | None:
    """The text of a content that is nothing but text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        return None
    texts: list[str] = []
    for part in map(table, content):
        if part.get("type") not in _TEXTS:
            return None
        texts.append(str(part.get("text") or part.get("refusal") or ""))
    return "\n".join(texts)


def written(message: Any) -> bytes:
    """A message as it goes into the journal."""
    data = encode(message)
    if _CACHE_MARK in data:  # Anthropic's cache marks move from message to message
        data = encode(_unmarked(message))
    return data


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    return [_unmarked(v) for v in value] if isinstance(value, list) else value


def _assistant_key(message: dict[str, Any]) -> int:
    content = message.get("content")
    if isinstance(content, str) and len(message) == 2:
        return answer_key(content, ())
    texts = [content] if isinstance(content, str) else []
    calls: list[str] = []
    for part in map(table, rows(content)):
        if part.get("type") in _TEXTS:
            texts.append(str(part.get("text") or part.get("refusal") or ""))
        elif part.get("type") == "tool_use":
            calls.append(name_of(part.get("id")))
    calls += [name_of(table(call).get("id")) for call in rows(message.get("tool_calls"))]
    if "call_id" in message:
        calls.append(name_of(message["call_id"]))
    return answer_key("\n".join(texts), calls)


class News(NamedTuple):
    """What a request adds to its conversation."""

    items: list[Item]
    change: str


class Sent(msgspec.Struct, eq=False):
    """A list that was sent, and the id of the answer to it."""

    request: str
    keys: Keys
    answer: str = ""


class History:
    """What one conversation is remembered by."""

    __slots__ = ("_answers", "_counts", "_last_user", "_lists", "_systems", "_trimmed", "tools")

    def __init__(self) -> None:
        self.tools = 0
        """The key of the tools that were offered last."""
        self._lists: deque[Sent] = deque(maxlen=LISTS)
        self._counts: dict[int, int] = {}
        self._answers: dict[int, str] = {}
        self._last_user: int | None = None
        self._systems: set[int] = set()
        """The system prompts of the last list: they change, and that cuts nothing."""
        self._trimmed = False

    def __len__(self) -> int:
        return len(self._counts) + len(self._answers)

    def take(self, request: str, messages: Sequence[Any]) -> News:
        """Take in the list of a request."""
        forms = [form_of(message) for message in messages]
        keys = array("q", [form.key for form in forms])
        base = self._base(keys)
        match = Match(base.keys, keys, self._systems) if base is not None else None
        had_before = match.in_base if match is not None else bytearray(len(keys))
        new = [at for at in range(len(forms)) if not had_before[at] and not self._had(forms[at])]
        if not new and forms and forms[-1].role == _USER and forms[-1].key != self._last_user:
            # Sent before, it is a retry; but something else was said in between: it is asked again.
            new = [len(forms) - 1]
        change = match.change([at for at in new if forms[at].role in _WORDS]) if match else ""
        items = self._items(request, forms, new, base)
        if change == "compaction" and match is not None:
            # What stands before all that was kept, and was not there before, stands for what was cut.
            for item, at in zip(items, new, strict=True):
                if at < match.end and forms[at].role == _USER:
                    item.summary = True
                    break
        if base is not None and match is not None and match.goes_on:
            self._lists.remove(base)
        self._lists.append(Sent(request, keys))
        self._last_user = next((f.key for f in reversed(forms) if f.role == _USER), self._last_user)
        self._systems = {form.key for form in forms if form.role == _SYSTEM}
        return News(items, change)

    def _base(self, keys: Keys) -> Sent | None:
        """The list that this one has most of its beginning from; of several the latest."""
        best: Sent | None = None
        most = -1
        for earlier in reversed(self._lists):
            shared = _shared(earlier.keys, keys)
            if shared > most:
                best, most = earlier, shared
                if shared == len(earlier.keys):
                    break
        return best

    def _had(self, form: Form) -> bool:
        """Answers and results are told by their keys; what a person says twice is said twice."""
        if form.role == _ASSISTANT:
            return form.key in self._answers or form.key in self._counts
        if form.role == _USER:
            return False
        if form.role == _OTHERS and field_of(form.message, "type") == "reasoning":
            return bool(self._answers)  # the thinking of an answer that is recorded itself
        return form.key in self._counts

    def _items(
        self, request: str, forms: list[Form], new: list[int], base: Sent | None
    ) -> list[Item]:
        # In the first list that is seen, what stands before an answer was said some time ago.
        answers = [at for at, form in enumerate(forms) if form.role == _ASSISTANT]
        last = answers[-1] if answers and base is None else -1
        items: list[Item] = []
        for at in new:
            form = forms[at]
            item = Item(message=msgspec.Raw(written(form.message)), old=at <= last)
            if form.role == _ASSISTANT and base and base.answer and at == len(base.keys):
                # It stands where the answer to that list should: the caller reworded it.
                item.edits = base.answer
            else:
                item.id = self._name(form.key, request)
            items.append(item)
        return items

    def _name(self, key: int, request: str) -> str:
        """The id of the next message with this key."""
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        if len(self._counts) > KEYS:
            self._trimmed = True
            del self._counts[next(iter(self._counts))]
        name = f"{key & 0xFFFFFFFFFFFFFFFF:016x}-{count}"
        # Once keys are forgotten, a count may start again; the request tells the two apart.
        return f"{name}-{request}" if self._trimmed else name

    def answer(self, request: str, text: str, calls: Sequence[str]) -> str:
        """Take in an answer; its id."""
        if not text.strip() and not calls:
            return request
        key = answer_key(text, calls)
        name = self._name(key, request)
        for sent in self._lists:
            if sent.request == request:
                sent.answer = name
        keys = [key]
        if calls and text.strip():
            keys.append(answer_key(text, ()))
        if calls:
            keys += [answer_key("", (call,)) for call in calls]
        for answer in keys:
            self._answers.pop(answer, None)
            self._answers[answer] = name
        while len(self._answers) > KEYS:
            del self._answers[next(iter(self._answers))]
        return name


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """How many elements the two begin with in common."""
    size = min(len(first), len(second))
    if first[:size] == second[:size]:
        return size
    return next(at for at in range(size) if first[at] != second[at])


def _blocks(first: list[int], second: list[int]) -> list[tuple[int, int, int]]:
    """Runs that the two have in common, in order: (start, start, length)."""
    if second and second[0] in first:
        start = first.index(second[0])
        tail = first[start:]
        if second[: len(tail)] == tail:
            return [(start, 0, len(tail))]  # a window that slid, which is the usual case
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    return [(*block,) for block in matcher.get_matching_blocks()]


class Match:
    """A list against the one that it came from."""

    __slots__ = ("_cut", "_kept", "_shared", "end", "in_base", "size")

    def __init__(self, base: Keys, keys: Keys, systems: set[int]) -> None:
        self.size = len(base)
        self.in_base = bytearray(len(keys))
        """Which of the keys the base has, too."""
        self._shared = _shared(base, keys)
        self.in_base[: self._shared] = b"\1" * self._shared
        self.end = self._shared
        """Behind the last one of them."""
        self._kept = 0
        rest = base[self._shared :].tolist()
        self._cut = 0
        if not rest:
            return
        cut = set(range(len(rest)))
        for of, at, size in _blocks(rest, keys[self._shared :].tolist()):
            start = self._shared + at
            self.in_base[start : start + size] = b"\1" * size
            self.end = max(self.end, start + size if size else 0)
            self._kept += size
            cut -= set(range(of, of + size))
        self._cut = sum(1 for at in cut if rest[at] not in systems)

    @property
    def goes_on(self) -> bool:
        """Whether this list has taken the place of the base."""
        return bool(self._kept) or self._shared == self.size

    def change(self, added: list[int]) -> str:
        """What was done to the list: words put in the place of others, a cut, a step back."""
        if not self._cut:
            return ""
        if self._kept:
            return "compaction" if any(at < self.end for at in added) else "pruning"
        if self._shared == 1 and len(self.in_base) < self.size >= _LONG:
            return "compaction"  # nothing but the system prompt is left of a long list
        return "rewind" if self._shared > 1 else ""
