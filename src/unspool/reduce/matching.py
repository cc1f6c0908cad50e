"""Matching: the same call seen by several channels is one.

    {"tool_name": "Bash", "tool_input": {"command": "ls"}}         no id: the first call of Bash with
    {"tool_name": "Bash", "tool_input": {"command": "ls"}, …}      these arguments, and the second

(cases/claude_code/hooks_oldest, cases/cursor/hooks_tools, cases/recorder/runs_without_ids)

A channel is an origin at a rank. What has an id that is known already is that call; one without an
id, or one of a higher rank with a likeness, is the k-th with its signature.
"""

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from unspool.facts import ToolCalled, ToolReturned
from unspool.reduce.echoes import Channel

if TYPE_CHECKING:
    from unspool.reduce.drafts import Assembly, CallDraft

Signature = tuple[str, str]


def signature(fact: ToolCalled | ToolReturned) -> Signature:
    """What a call without an id is known by."""
    return ("", fact.like) if fact.like else _named(fact)


def _named(fact: ToolCalled | ToolReturned) -> Signature:
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
        self._nameless: set[int] = set()
        """Calls that no channel so far has an id for."""
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
        for channel, calls in sorted(self._named.items()):
            if channel[0] == 0:
                for call in calls:
                    self._known[signature(call.seen[0])].append(call)
        for channel in sorted({*self._named, *self._called, *self._returned}):
            self._match_calls(channel)
            self._match_results(channel)

    def _match_calls(self, channel: Channel) -> None:
        candidates = {key: list(calls) for key, calls in self._known.items()}
        # Calls that the channel knows by their id, though a better one knows them too.
        taken = {
            id(call)
            for call in self._assembly.calls.values()
            if any((fact.rank, fact.origin) == channel for fact in call.seen)
        }
        free: dict[Signature, list[CallDraft]] = {}
        used: dict[Signature, int] = defaultdict(int)
        units: list[tuple[float, CallDraft | ToolCalled]] = []
        if channel[0]:
            units += [(call.place, call) for call in self._named[channel]]
        units += self._called[channel]
        for place, unit in sorted(units, key=lambda item: item[0]):
            fact = unit if isinstance(unit, ToolCalled) else unit.seen[0]
            key = signature(fact)
            if key not in free:
                alike = candidates.get(key, [])
                if fact.like and (listed := candidates.get(_named(fact))):
                    # A message list tells no likeness.
                    alike = sorted([*alike, *listed], key=lambda call: call.place)
                free[key] = [call for call in alike if id(call) not in taken]
            number = used[key]
            used[key] += 1
            target = free[key][number] if number < len(free[key]) else None
            if isinstance(unit, ToolCalled):
                self._attach(unit, place, target, key, number)
            elif target is not None and fact.like:
                self._tie(fact, unit.place, target)
                self._seen_at.setdefault((fact.origin, id(target)), unit.place)
                target.seen += unit.seen
                target.results += unit.results
                del self._assembly.calls[unit.id]
                # A call that no store has an id for takes the echo's: results and notes in that
                # channel name the call by it.
                if id(target) in self._nameless:
                    self._nameless.discard(id(target))
                    del self._assembly.calls[target.id]
                    target.id = unit.id
                    self._assembly.calls[target.id] = target
                else:
                    self._assembly.call_aliases[unit.id] = target.id
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
            self._nameless.add(id(target))
            self._known[key].append(target)
        else:
            self._tie(fact, place, target)
        self._seen_at.setdefault((fact.origin, id(target)), place)
        target.seen.append(fact)

    def _tie(self, fact: ToolCalled | ToolReturned, place: float, target: "CallDraft") -> None:
        known = target.seen or target.results
        if all(other.origin != fact.origin for other in known):
            first = known[0]
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


def _made_id(key: Signature, number: int) -> str:
    digest = hashlib.sha256(repr(key).encode("utf-8", "replace")).hexdigest()[:12]
    return f"{digest}-{number}"
