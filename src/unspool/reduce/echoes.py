"""Echoes: messages that a channel of a higher rank tells of again.

    {"type": "user", "message": {"content": "List the files."}}          the thing itself
    {"hook_event_name": "UserPromptSubmit", "prompt": "List the files."}   its echo: no second message

(cases/claude_code/hooks_and_transcript)

A channel is an origin at a rank. What has an id that is known already is that message; else it is
the k-th of its role with its words. What matches nothing stands by itself: beside the things of its
own origin that did match, where time does not tell its place.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Set
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

from unspool.facts import ECHO, INDEX, MessageSeen
from unspool.reduce.records import LIST, NOT_TYPED

if TYPE_CHECKING:
    from unspool.reduce.drafts import Assembly, Draft

Channel = tuple[int, str]
"""(rank, origin): those who say the same thing as well as each other, in one order."""


class Placed(Protocol):
    """A message or call in the making: where it stands may still change."""

    place: float


class Anchors:
    """Where the records of an origin stand among those of the others, by what they share."""

    def __init__(self) -> None:
        self._pairs: dict[str, list[tuple[float, Placed | float]]] = {}
        self._untimed: set[str] = set()
        self.cut_off: set[int] = set()
        """Prompts without an answer whose answer, cut off, was found in a log without times."""
        self._inner: dict[Channel, list[tuple[float, Placed | float]]] = {}
        """Of a channel that is a store of its own, below ECHO: it may lie in one database with the
        store that it repeats, in another order."""

    def tie_inside(self, channel: Channel, place: float, target: Placed) -> None:
        self._inner.setdefault(channel, []).append((place, target))

    def tie(self, origin: str, place: float, target: Placed | float, timed: bool) -> None:
        self._pairs.setdefault(origin, []).append((place, target))
        if not timed:
            self._untimed.add(origin)

    def knows(self, origin: str) -> bool:
        return origin in self._pairs

    def settle(self) -> None:
        """No more ties will come. Origins whose ties all have times were woven in by time."""
        self._pairs = {
            origin: sorted(pairs, key=lambda pair: pair[0])
            for origin, pairs in self._pairs.items()
            if origin in self._untimed
        }
        for pairs in self._inner.values():
            pairs.sort(key=lambda pair: pair[0])

    def place(self, channel: Channel, place: float, total: int) -> float:
        """The place of an unmatched record: right behind the last one before it that matched.

        What it is tied to must have its own place by then: better channels are settled first.
        """
        pairs = self._inner.get(channel) or self._pairs.get(channel[1])
        if not pairs:
            return place
        at = bisect_right(pairs, place, key=lambda pair: pair[0])
        target = pairs[at - 1][1] if at else pairs[0][1]
        base = target if isinstance(target, int | float) else target.place
        return (base if at else base - 1) + (place + 1) / (total + 2)


Group = list[tuple[int, MessageSeen]]
"""The parts of one message, each with its place."""
NEAR = 60 * 1_000_000
"""Two channels tell of one moment within a minute, if they have the same clock."""
MOST_ALIKE = 100
"""So many are compared by their time: nobody says the same words that often within a minute."""
LEAST_CHARS = 20
"""A shorter text is held by too many others to prove anything."""


def words(parts: list[MessageSeen]) -> str:
    """What an echo is recognised by: what was typed, else the text, else the thinking."""
    typed = next((part.typed for part in parts if part.typed is not None), None)
    if typed is not None:
        return typed.strip()
    text = joined_text(parts).strip()
    return text or next((part.thinking.strip() for part in parts if part.thinking), "")


_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff]")


def visible(text: str) -> str:
    """The text without characters that nobody sees: some channels drop them."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def joined_text(parts: list[MessageSeen]) -> str:
    """The text of the parts that know best; a part that another one goes on from is left out."""
    if len(parts) == 1:
        return parts[0].text
    spoken = [part for part in parts if part.text]
    best = min([part.rank for part in spoken], default=0)
    texts: list[str] = []
    origin = ""
    for part in spoken:
        if part.rank == best:
            if part.piece and part.origin == origin:
                texts[-1] += part.text
            elif texts and part.text.startswith(texts[-1]):
                texts[-1] = part.text
            elif not texts or texts[-1].strip() != part.text:  # without the white space around it
                texts.append(part.text)
            origin = part.origin
    return "\n\n".join(dict.fromkeys(texts))


def last_words(parts: list[MessageSeen]) -> str:
    """The last text of a message that has several."""
    best = min((part.rank for part in parts if part.text), default=0)
    texts = [part for part in parts if part.rank == best and part.text]
    if len(texts) < 2 or texts[-1].piece:
        return ""
    return texts[-1].text.strip()


def match_echoes(
    assembly: "Assembly", channels: dict[Channel, list[tuple[int, str, MessageSeen]]]
) -> None:
    """Messages of a higher rank join those they echo; the rest become messages of their own."""
    for channel, echoes in sorted(channels.items()):
        groups: dict[str, Group] = defaultdict(list)
        for place, ident, fact in echoes:
            groups[ident].append((place, fact))
        heard = _Heard(assembly, channel)
        heard.reserve(groups)
        for ident, group in groups.items():
            heard.take(ident, group)


class _Heard:
    """One channel being matched, in its order."""

    def __init__(self, assembly: "Assembly", channel: Channel) -> None:
        self._assembly = assembly
        self._channel = channel
        self._drafts = sorted(assembly.drafts.values(), key=lambda d: d.place)
        self._known: dict[tuple[str, str], Alike] = defaultdict(Alike)
        for draft in self._drafts:
            shown = {part.shown.strip() for part in draft.parts if part.shown}
            for text in {words(draft.parts), joined_text(draft.parts).strip(), *shown}:
                self._known[(draft.role, visible(text))].add(draft)
        self._ends: dict[str, Alike] = defaultdict(Alike)
        """The last words of answers that say more than those."""
        for draft in self._drafts:
            if draft.role == "assistant" and (text := last_words(draft.parts)):
                self._ends[text].add(draft)
        self._asked = _asked(self._drafts)
        self._callers = _callers(assembly)
        self._last: Draft | None = None
        self._taken: set[int] = set()
        self._told: dict[str, Alike] = defaultdict(Alike)
        """Words → the answers with an id that the channel itself has told so far."""
        self._retold: set[int] = set()
        self._named = {
            id(draft)
            for draft in self._drafts
            if any(
                part.rank == channel[0] and _is_native(part, draft.parts) for part in draft.parts
            )
        }
        """What another log of the kind has told under another id: that is another one, whatever it says
        (cases/claude_code/stream_totals)."""

    def reserve(self, groups: dict[str, Group]) -> None:
        """What the channel tells with the words and a call of a message is that message: others with
        the same words are not."""
        for ident in groups.keys() & self._callers.keys():
            target = self._assembly.drafts.get(self._callers[ident])
            text = words([fact for _, fact in groups[ident]])
            if target is not None and text and text == words(target.parts):
                self._taken.add(id(target))

    def take(self, ident: str, group: Group) -> None:
        text = words([fact for _, fact in group])
        answers = group[0][1].role == "assistant"
        target = self._find(ident, group, text)
        if target is None and self._last is not None and answers:
            # (Who says the same once more in a message list, word for word, says it a second time.)
            repeated = self._taken if self._channel[1] == LIST else frozenset()
            target = _held(text, self._last, self._drafts, repeated)
        self._last = target if target is not None else self._last
        if target is None and self._channel[0] >= INDEX and self._last is not None:
            turn = _turn(self._last, self._drafts)
            if answers and (_is_answered(turn) or _is_returned(text, turn, self._assembly)):
                # The index has one answer per question: this question has its answer already, so
                # these are a sub-agent's words, or the known answer cut off
                # (cases/copilot_cli/store_and_log).
                return
            self._last = None  # the log does not hold this question: what follows is new, too
        if target is None:
            for place, fact in group:
                self._assembly.add_part(place, fact, ident)
            target = self._assembly.drafts[ident]
            if answers and all(f.status == "interrupted" and f.time is None for _, f in group):
                self._tie_cut_off(group[0][0])
        else:
            self._assembly.aliases[ident] = target.id
            self._taken.add(id(target))
            if not text.isascii():
                _complete(target, [fact for _, fact in group])
            for place, fact in group:
                target.parts.append(fact)
                self._assembly.echoed[place] = target
                timed = fact.time is not None and target.time is not None
                if self._channel[0] < ECHO and not timed:
                    self._assembly.anchors.tie_inside(self._channel, place, target)
                elif target.origin != self._channel[1]:
                    self._assembly.anchors.tie(self._channel[1], place, target, timed)
            if target.time is None:
                target.time = next((fact.time for _, fact in group if fact.time is not None), None)
        if answers and text and group[0][1].id:
            self._told[text].add(target)

    def _tie_cut_off(self, place: int) -> None:
        """An answer that was cut off, of which only a log without times tells, is that of the next
        prompt that has none (cases/qwen_code/killed_stream_and_chat):

            {"type":"user","uuid":"u2","message":{"parts":[{"text":"And the other?"}]}}     the chat
            {"type":"user","uuid":"u3","message":{"parts":[{"text":"Once more."}]}}
            {"type":"assistant","message":{"content":[{"type":"thinking",…}]}}       killed: of u2
        """
        anchors = self._assembly.anchors
        start = self._drafts.index(self._last) + 1 if self._last in self._drafts else 0
        behind = self._drafts[start:]
        for asked, follower in zip_longest(behind, behind[1:]):
            if asked.role != "user" or any(part.kind in NOT_TYPED for part in asked.parts):
                continue
            answered = follower is not None and follower.role == "assistant"
            if not answered and id(asked) not in anchors.cut_off:
                anchors.cut_off.add(id(asked))
                anchors.tie(self._channel[1], place, asked, timed=False)
                return

    def _find(self, ident: str, group: Group, text: str) -> "Draft | None":
        assembly, first = self._assembly, group[0][1]
        target = assembly.drafts.get(assembly.aliases.get(ident, ident))
        if target is None and first.role == "assistant" and not first.id and text in self._told:
            # A hook log prints an answer piece by piece, under an id, and at the end of the turn once
            # more as a whole, without one.
            target = self._told[text].find(self._retold, first.time)
            self._retold.add(id(target))
        if target is None:
            target = assembly.drafts.get(self._callers.get(ident, ""))
            if target is not None and text and not words(target.parts):
                # One store has "I look." and the call as one message, the better one as two: the
                # words go to the message that has them (`tests/test_cursor_sent.py`).
                alike = self._known[(first.role, visible(text))]
                target = alike.find(self._taken, first.time) or target
        if target is None and first.role == "user":
            asked = self._asked.get(next((f.request for _, f in group if f.request), ""), ())
            target = next((draft for draft in asked if words(draft.parts) == text), None)
            target = target or next(iter(asked), None)
        native = first.role == "assistant" and _is_native(first, [fact for _, fact in group])
        barred = self._named if native else frozenset()
        if target is None and text:
            waits = any(fact.status == "queued" for _, fact in group)
            thought = next((fact.thinking.strip() for _, fact in group if fact.thinking), "")
            for name in (text, *(fact.shown.strip() for _, fact in group if fact.shown)):
                alike = self._known[(first.role, visible(name))]
                target = alike.find(
                    self._taken, first.time, waits, barred, self._channel[1], thought
                )
                if target is not None:
                    break
        if target is None and first.role == "assistant" and text in self._ends:
            target = self._ends[text].find(self._taken, first.time, barred=barred)
        return target


def _complete(target: "Draft", echo: list[MessageSeen]) -> None:
    """Where the thing itself lacks only characters that nobody sees, the echo's text is the whole one
    (cases/gemini_cli/stream_and_chat):

        {"type":"gemini","content":"Done |"}                                       the chat
        {"type":"message","role":"assistant","content":"Done \u200d\u200b|"}       the stream
    """
    text, whole = joined_text(target.parts), joined_text(echo)
    if len(whole) > len(text) > 0 and visible(whole) == text:
        first = echo[0]
        target.parts.append(
            MessageSeen(
                key=first.key, origin=first.origin, offset=first.offset, number=first.number,
                time=first.time, id=first.id, role=first.role, text=whole, rank=-1,
            )
        )  # fmt: skip


class Alike:
    """Messages of a role with the same words, for the echoes of one channel, each once."""

    def __init__(self) -> None:
        self._drafts: list[Draft] = []
        self._gone = 0
        """So many at the beginning are taken."""

    def add(self, draft: "Draft") -> None:
        self._drafts.append(draft)

    def find(
        self,
        taken: set[int],
        time: int | None,
        waits: bool = False,
        barred: Set[int] = frozenset(),
        origin: str = "",
        thought: str = "",
    ) -> "Draft | None":
        """The one at that time, else with the same reasoning (case `codex/stream_same_words`), else of
        the same log (the end of a run repeats its last answer), else the first that is free: a log may
        have begun later than the conversation. What waits to be said is nothing that had been said
        before."""
        while self._gone < len(self._drafts) and id(self._drafts[self._gone]) in taken:
            self._gone += 1
        ahead = self._drafts[self._gone : self._gone + MOST_ALIKE]
        free = [draft for draft in ahead if id(draft) not in taken and id(draft) not in barred]
        if waits and time is not None:
            free = [draft for draft in free if draft.time is None or draft.time >= time]
        if len(free) > 1 and time is not None:
            near = [d for d in free if d.time is not None and abs(d.time - time) <= NEAR]
            if near:
                return min(near, key=lambda d: abs((d.time or 0) - time))
        if len(free) > 1 and thought:
            for draft in free:
                if any(part.thinking.strip() == thought for part in draft.parts):
                    return draft
        own = (draft for draft in free if draft.origin == origin)
        return next(own, free[0] if free else None)


def _asked(drafts: list["Draft"]) -> dict[str, list["Draft"]]:
    """Request → what a person may have said for it, in order. A fork tells all that it copies, the
    summary too, under the request that it begins with (cases/claude_code/fork_compacted)."""
    asked: dict[str, list[Draft]] = {}
    for draft in drafts:
        if draft.role == "user" and not any(part.kind in NOT_TYPED for part in draft.parts):
            for request in {part.request for part in draft.parts if part.request}:
                asked.setdefault(request, []).append(draft)
    return asked


def _callers(assembly: "Assembly") -> dict[str, str]:
    """A message by which a channel knows a call → the message that made it, for who knows best."""
    callers: dict[str, str] = {}
    for call in assembly.calls.values():
        named = [fact for fact in sorted(call.seen, key=lambda f: f.rank) if fact.message]
        for fact in named[1:]:
            if fact.rank and fact.message != named[0].message:
                callers.setdefault(fact.message, named[0].message)
    aliases = assembly.aliases
    return {echo: aliases.get(ident, ident) for echo, ident in callers.items()}


def _turn(asked: "Draft", drafts: list["Draft"]) -> list["Draft"]:
    """The message and what follows it, up to the next one in the person's place."""
    start = drafts.index(asked) if asked in drafts else len(drafts)
    behind = range(start + 1, len(drafts))
    end = next((at for at in behind if drafts[at].role == "user"), len(drafts))
    return drafts[start:end]


def _is_answered(turn: list["Draft"]) -> bool:
    """Whether the turn has an answer in words."""
    return any(d.role == "assistant" and joined_text(d.parts).strip() for d in turn)


def _is_returned(text: str, turn: list["Draft"], assembly: "Assembly") -> bool:
    """Whether a call of the turn came back with the words: they are a sub-agent's."""
    if len(text) < LEAST_CHARS:
        return False
    asking = {draft.id for draft in turn}
    return any(
        text in (result.text or "")
        for call in assembly.calls.values()
        if any(assembly.aliases.get(fact.message, fact.message) in asking for fact in call.seen)
        for result in call.results
    )


def _is_native(part: MessageSeen, parts: list[MessageSeen]) -> bool:
    """Whether the format gave the message its id: where it has none, a source names it after a record
    (`id="transcript:…", entry="transcript:…"`), and two stores name one message differently."""
    return bool(part.id) and all(part.id != other.entry for other in parts)


def _held(text: str, after: "Draft", drafts: list["Draft"], repeated: Set[int]) -> "Draft | None":
    """An answer in the turn of the last match that holds the text, or is held by it."""
    if len(text) < LEAST_CHARS:
        return None
    for draft in _turn(after, drafts):
        said = joined_text(draft.parts).strip()
        if text == said and id(draft) in repeated:
            continue
        if draft.role == "assistant" and (
            text in said or (len(said) >= LEAST_CHARS and said in text)
        ):
            return draft
    return None
