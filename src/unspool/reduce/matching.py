"""Matching: the same message or call seen by several channels is one.

A channel is an origin at a rank. What has an id that is known already is that thing. A message of a
higher rank is else the k-th of its role with its words; a call without an id, or one of a higher
rank with a likeness, the k-th with its signature. What matches nothing stands by itself: beside the
things of its own origin that did match, where time does not tell its place.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from unspool.facts import INDEX, MessageSeen, ToolCalled, ToolReturned
from unspool.reduce.anchors import Channel

if TYPE_CHECKING:
    from unspool.reduce.drafts import Assembly, CallDraft, Draft

Signature = tuple[str, str]
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


def joined_text(parts: list[MessageSeen]) -> str:
    """The text of the parts that know best; a part that another one goes on from is left out."""
    best = min((part.rank for part in parts if part.text), default=0)
    texts: list[str] = []
    for part in parts:
        if part.rank == best and part.text:
            if texts and part.piece:
                texts[-1] += part.text
            elif texts and part.text.startswith(texts[-1]):
                texts[-1] = part.text
            else:
                texts.append(part.text)
    return "\n\n".join(texts)


def match_echoes(
    assembly: "Assembly", channels: dict[Channel, list[tuple[int, str, MessageSeen]]]
) -> None:
    """Messages of a higher rank join those they echo; the rest become messages of their own."""
    for channel, echoes in sorted(channels.items()):
        known: dict[tuple[str, str], Alike] = defaultdict(Alike)
        drafts = sorted(assembly.drafts.values(), key=lambda d: d.place)
        asked = _asked(drafts)
        for draft in drafts:
            for said in {words(draft.parts), joined_text(draft.parts).strip()}:
                known[(draft.role, said)].add(draft)
        callers = _callers(assembly)
        apart = all(fact.apart for _, _, fact in echoes)
        last: Draft | None = None
        taken: set[int] = set()
        groups: dict[str, list[tuple[int, MessageSeen]]] = defaultdict(list)
        for place, ident, fact in echoes:
            groups[ident].append((place, fact))
        for ident, group in groups.items():
            key = (group[0][1].role, words([fact for _, fact in group]))
            target = assembly.drafts.get(assembly.aliases.get(ident, ident))
            if target is None:
                target = assembly.drafts.get(callers.get(ident, ""))
                if target is not None and key[1] and not words(target.parts):
                    # What was said before a call may be known as a message of its own.
                    target = known[key].find(taken, group[0][1].time) or target
            if target is None and key[0] == "user":
                target = asked.get(next((f.request for _, f in group if f.request), ""))
            if target is None and key[1]:
                waits = any(fact.status == "queued" for _, fact in group)
                target = known[key].find(taken, group[0][1].time, waits)
            if target is None and last is not None and key[0] == "assistant":
                target = _held(key[1], last, drafts)
            last = target if target is not None else last
            if target is None and channel[0] >= INDEX and last is not None:
                if key[0] == "assistant" and _is_answered(last, drafts):
                    continue  # a sub-agent's words, or a cut of what is known whole
                last = None  # a question that only the index knows, and what follows it
            if target is None:
                for place, fact in group:
                    assembly.add_part(place, fact, ident)
                continue
            assembly.aliases[ident] = target.id
            taken.add(id(target))
            _join(assembly, channel, target, group, apart)


class Alike:
    """Messages of a role with the same words, for the echoes of one channel, each once."""

    def __init__(self) -> None:
        self._drafts: list[Draft] = []
        self._gone = 0
        """So many at the beginning are taken."""

    def add(self, draft: "Draft") -> None:
        self._drafts.append(draft)

    def find(self, taken: set[int], time: int | None, waits: bool = False) -> "Draft | None":
        """The one at that time, else the first that is free: a log may have begun later than the
        conversation. What waits to be said is nothing that had been said before."""
        while self._gone < len(self._drafts) and id(self._drafts[self._gone]) in taken:
            self._gone += 1
        ahead = self._drafts[self._gone : self._gone + MOST_ALIKE]
        free = [draft for draft in ahead if id(draft) not in taken]
        if waits and time is not None:
            free = [draft for draft in free if draft.time is None or draft.time >= time]
        if len(free) > 1 and time is not None:
            near = [d for d in free if d.time is not None and abs(d.time - time) <= NEAR]
            if near:
                return min(near, key=lambda d: abs((d.time or 0) - time))
        return free[0] if free else None


def _asked(drafts: list["Draft"]) -> dict[str, "Draft"]:
    """Request → the words that it was made with: the first that are not injected."""
    asked: dict[str, Draft] = {}
    for draft in drafts:
        if draft.role == "user" and not any(part.kind == "injected" for part in draft.parts):
            for part in draft.parts:
                if part.request:
                    asked.setdefault(part.request, draft)
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


def _is_answered(asked: "Draft", drafts: list["Draft"]) -> bool:
    """Whether the turn that a message is in has an answer in words."""
    for draft in drafts[drafts.index(asked) if asked in drafts else len(drafts) :]:
        if draft.role == "user" and draft is not asked:
            return False
        if draft.role == "assistant" and joined_text(draft.parts).strip():
            return True
    return False


def _held(text: str, after: "Draft", drafts: list["Draft"]) -> "Draft | None":
    """An answer in the turn of the last match that holds the text, or is held by it."""
    if len(text) < LEAST_CHARS:
        return None
    for draft in drafts[drafts.index(after) if after in drafts else len(drafts) :]:
        if draft.role == "user" and draft is not after:
            return None
        said = joined_text(draft.parts).strip()
        if draft.role == "assistant" and (
            text in said or (len(said) >= LEAST_CHARS and said in text)
        ):
            return draft
    return None


def _join(
    assembly: "Assembly",
    channel: Channel,
    target: "Draft",
    group: list[tuple[int, MessageSeen]],
    apart: bool,
) -> None:
    for place, fact in group:
        target.parts.append(fact)
        assembly.echoed[place] = target
        timed = fact.time is not None and target.time is not None
        if apart and not timed:
            assembly.anchors.tie_inside(channel, place, target)
        elif target.origin != channel[1]:
            assembly.anchors.tie(channel[1], place, target, timed)
    if target.time is None:
        target.time = next((fact.time for _, fact in group if fact.time is not None), None)


def signature(fact: ToolCalled | ToolReturned) -> Signature:
    """What a call without an id is known by."""
    if fact.like:
        return "", fact.like
    try:
        value = msgspec.json.decode(fact.arguments.encode("utf-8", "replace"))
        return fact.name, msgspec.json.encode(value, order="deterministic").decode()
    except (msgspec.DecodeError, RecursionError):
        return fact.name, fact.arguments


class Calls:
    """The calls of an assembly, matched channel by channel, best rank first."""

    def __init__(
        self, assembly: "Assembly", nameless: list[tuple[int, ToolCalled | ToolReturned]]
    ) -> None:
        self._assembly = assembly
        self._seen_at: dict[tuple[str, int], float] = {}
        """(origin, call) → where that origin tells of the call."""
        self._known: dict[Signature, list[CallDraft]] = defaultdict(list)
        self._called: dict[Channel, list[tuple[int, ToolCalled]]] = defaultdict(list)
        self._returned: dict[Channel, list[tuple[int, ToolReturned]]] = defaultdict(list)
        for place, fact in nameless:
            channel = (fact.rank, fact.origin)
            if isinstance(fact, ToolCalled):
                self._called[channel].append((place, fact))
            else:
                self._returned[channel].append((place, fact))
        self._named: dict[Channel, list[CallDraft]] = defaultdict(list)
        for call in sorted(assembly.calls.values(), key=lambda c: c.place):
            if call.seen:
                best = min(call.seen, key=lambda fact: fact.rank)
                self._named[(best.rank, best.origin)].append(call)
                self._seen_at[(best.origin, id(call))] = call.place

    def match(self) -> None:
        alike = (fact.like for call in self._assembly.calls.values() for fact in call.seen)
        if not self._called and not self._returned and not any(alike):
            return  # every call is known by its id: no arguments need to be compared
        for channel, calls in sorted(self._named.items()):
            if channel[0] == 0:
                for call in calls:
                    self._known[signature(call.seen[0])].append(call)
        for channel in sorted({*self._named, *self._called, *self._returned}):
            self._match_calls(channel)
            self._match_results(channel)

    def _match_calls(self, channel: Channel) -> None:
        known = {key: list(calls) for key, calls in self._known.items()}
        taken = _mentioned(self._assembly.calls.values(), channel)
        free: dict[Signature, list[CallDraft]] = {}
        used: dict[Signature, int] = defaultdict(int)
        units: list[tuple[float, CallDraft | ToolCalled]] = []
        if channel[0]:
            units += [(call.place, call) for call in self._named[channel]]
        units += self._called[channel]
        for place, unit in sorted(units, key=lambda item: item[0]):
            key = signature(unit if isinstance(unit, ToolCalled) else unit.seen[0])
            if key not in free:
                free[key] = [call for call in known.get(key, ()) if id(call) not in taken]
            number = used[key]
            used[key] += 1
            target = free[key][number] if number < len(free[key]) else None
            if isinstance(unit, ToolCalled):
                self._attach(unit, place, target, key, number)
            elif target is not None and unit.seen[0].like:
                self._merge(unit, target)
            else:
                self._known[key].append(unit)

    def _attach(
        self,
        fact: ToolCalled,
        place: float,
        target: "CallDraft | None",
        key: Signature,
        number: int,
    ) -> None:
        if target is None:
            target = self._assembly.call(_made_id(key, number), place)
            self._known[key].append(target)
        else:
            self._tie(fact, place, target)
        self._seen_at.setdefault((fact.origin, id(target)), place)
        target.seen.append(fact)

    def _merge(self, call: "CallDraft", target: "CallDraft") -> None:
        self._tie(call.seen[0], call.place, target)
        self._seen_at.setdefault((call.seen[0].origin, id(target)), call.place)
        target.seen += call.seen
        target.results += call.results
        self._assembly.call_aliases[call.id] = target.id
        del self._assembly.calls[call.id]

    def _tie(self, fact: ToolCalled | ToolReturned, place: float, target: "CallDraft") -> None:
        first = (target.seen or target.results)[0]
        if first.origin != fact.origin:
            timed = fact.time is not None and first.time is not None
            self._assembly.anchors.tie(fact.origin, place, target, timed)

    def _match_results(self, channel: Channel) -> None:
        used: dict[Signature, int] = defaultdict(int)
        waiting: dict[Signature, Waiting] = {}
        answered: set[int] = set()
        for place, fact in sorted(self._returned[channel], key=lambda item: item[0]):
            key = signature(fact)
            if key not in waiting:
                calls = self._candidates(fact, key)
                at = {id(call): self._seen_at.get((channel[1], id(call))) for call in calls}
                waiting[key] = Waiting(calls, at, answered)
            target = waiting[key].take(place)
            if target is None:
                target = self._assembly.call(_made_id(key, used[key]), place)
                if not target.results:
                    self._known[key].append(target)
            else:
                self._tie(fact, place, target)
            used[key] += 1
            answered.add(id(target))
            target.results.append(fact)

    def _candidates(self, fact: ToolReturned, key: Signature) -> list["CallDraft"]:
        if fact.like or fact.arguments:
            return list(self._known[key])
        return [
            call
            for calls in self._known.values()
            for call in calls
            if not call.results and call.seen and call.seen[0].name == fact.name
        ]


class Waiting:
    """Calls of one signature, for the results of one channel to be given to, in its order.

    A result is the last call's before it in its own origin: an earlier one may have been refused.
    Calls that the origin does not tell of get what is left, in their order.
    """

    def __init__(
        self, calls: list["CallDraft"], at: dict[int, float | None], answered: set[int]
    ) -> None:
        own = [(place, call) for call in calls if (place := at[id(call)]) is not None]
        self._own = sorted(own, key=lambda item: item[0], reverse=True)
        self._open: list[CallDraft] = []
        self._rest = list(reversed(calls))
        self._answered = answered

    def take(self, place: float) -> "CallDraft | None":
        while self._own and self._own[-1][0] <= place:
            self._open.append(self._own.pop()[1])
        for calls in (self._open, self._rest):
            while calls:
                call = calls.pop()
                if id(call) not in self._answered:
                    return call
        return None


def _mentioned(calls: Iterable["CallDraft"], channel: Channel) -> set[int]:
    """Calls that the channel knows by their id, though a better one knows them too."""
    return {
        id(call) for call in calls if any((fact.rank, fact.origin) == channel for fact in call.seen)
    }


def _made_id(key: Signature, number: int) -> str:
    digest = hashlib.sha256(repr(key).encode("utf-8", "replace")).hexdigest()[:12]
    return f"{digest}-{number}"
