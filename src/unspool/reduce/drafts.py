"""Drafts: the facts of a thread put together by the message and the call that they are about.

    {"message": {"id": "m1", "content": [{"type": "text", …}]}}             one message, m1, of two
    {"message": {"id": "m1", "content": [{"type": "tool_use", "id": "c1"}]}}  records, that calls c1
    {"content": [{"type": "tool_result", "tool_use_id": "c1"}]}             the result of c1, behind it

(cases/claude_code/parallel_tools)

A message is all parts with its id; a result belongs to its call. Nothing is paired by adjacency. A
call or a text whose message nobody saw stands by itself. What several channels saw is matched in
echoes.py and matching.py; messages.py makes messages out of the drafts.
"""

from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from unspool.facts import (
    ECHO,
    AnyFact,
    Fact,
    Key,
    Link,
    Marked,
    MessageSeen,
    Noted,
    Problem,
    Rank,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.reduce.echoes import Anchors, Channel, match_echoes
from unspool.reduce.matching import Calls
from unspool.reduce.records import Listed, Record
from unspool.trajectory import Message

STANDIN = Rank.STANDIN
_UNRANKED = frozenset((Link, Problem))
ENDS = ("turn_end", "end")
"""Marks that stand behind the words of their own record."""


class Draft(msgspec.Struct, eq=False, gc=False):
    """A message in the making."""

    id: str
    role: str
    place: float
    time: int | None
    origin: str = ""
    parts: list[MessageSeen] = []
    calls: "list[CallDraft]" = []
    orphan: "CallDraft | None" = None
    """Set on a result whose call nobody saw."""


class CallDraft(msgspec.Struct, eq=False, gc=False):
    """A tool call in the making, with what came of it."""

    id: str
    place: float
    ended: float
    """Where its result stands."""
    seen: list[ToolCalled] = []
    results: list[ToolReturned] = []


class Assembly:
    """All drafts of one thread, and the facts that are settled later."""

    def __init__(self) -> None:
        self.drafts: dict[str, Draft] = {}
        self.listed: list[tuple[float, list[Message]]] = []
        self.calls: dict[str, CallDraft] = {}
        self.notes: list[Noted] = []
        self.following: list[tuple[float, Noted]] = []
        self.usage: list[tuple[float, UsageReported]] = []
        self.marks: list[tuple[float, Marked]] = []
        self.times: list[int] = []
        self.echo_times: list[int] = []
        self.anchors = Anchors()
        self.adrift: set[str] = set()
        """Origins without times whose marks nothing ties to the rest."""
        self.echoed: dict[float, Draft] = {}
        """Where a record repeats a message → that message."""
        self.aliases: dict[str, str] = {}
        """Ids by which echoes, or parts that joined it, know a message → its own id."""
        self.joined: dict[str, str] = {}
        """Of these, the parts that joined it."""
        self._open: str | None = None
        self.call_aliases: dict[str, str] = {}
        self._echoes: dict[Channel, list[tuple[int, str, MessageSeen]]] = defaultdict(list)
        self._nameless: list[tuple[int, ToolCalled | ToolReturned]] = []
        self._alike = False
        """Whether a call that has an id may be known by its likeness, too."""
        self._spawners: dict[Any, str] = {}
        """Child → the call that says it started it."""
        self._told: list[tuple[int, CallDraft, ToolCalled | ToolReturned]] = []
        """Echoes of calls that are known by their id."""
        self._stand_ins: list[tuple[int, Record, AnyFact]] = []
        """What holds only where no store tells of the conversation."""

    def take(self, records: list[Record]) -> None:
        for place, record in enumerate(records):
            for origin in record.others:  # it stands at the same place in all of them
                self.anchors.tie(origin, place, place, record.time is not None)
            if record.ready:
                self.listed.append((place, record.ready))
            for fact in record.facts:
                self._take(place, record, fact)
        # Where a store tells of the conversation, and not only echoes, stand-ins add nothing.
        stored = any(rank < ECHO for rank, _ in self._echoes)
        if self._stand_ins and not (self.drafts or self.listed or stored):
            for place, record, fact in self._stand_ins:
                self._take(place, record, msgspec.structs.replace(fact, rank=Rank.LAST_RESORT))
        self._tie_calls()
        if self._nameless or self._alike:
            Calls(self, self._nameless).match()
        match_echoes(self, self._echoes)
        self._settle_places(len(records))
        self._place_calls()
        # An echo without words whose calls were all known from elsewhere says nothing.
        for ident, draft in list(self.drafts.items()) if self._echoes else ():
            tells = any(
                part.rank == 0
                or part.text.strip()
                or part.thinking
                or part.attachments
                or part.kind
                for part in draft.parts
            )
            if draft.parts and not draft.calls and not tells:
                del self.drafts[ident]
        self._rename()

    def _take(self, place: int, record: Record, fact: Any) -> None:
        kind = type(fact)
        if kind in _UNRANKED:
            if fact.time is not None:
                self.times.append(fact.time)
            if kind is Link:
                self._open = None
            return
        rank = fact.rank
        if fact.time is not None:
            (self.echo_times if rank >= ECHO else self.times).append(fact.time)
        if rank >= STANDIN and kind is not Noted:
            self._stand_ins.append((place, record, fact))
        elif kind is MessageSeen or kind is Listed:
            ident = fact.id or f"{record.entry}#{fact.number}"
            if rank:
                self._echoes[(rank, fact.origin)].append((place, ident, fact))
            else:
                self.add_part(place, fact, self._joined(fact, ident))
        elif kind is UsageReported:
            self.usage.append((place, fact))
        elif kind is ToolCalled:
            if fact.id:
                call = self.call(fact.id, place)
                if rank:
                    self._told.append((place, call, fact))
                elif _is_unheard(call.seen):
                    call.place = place  # so far only echoes of it had been seen
                call.seen.append(fact)
                if fact.like:
                    self._alike = True
            else:
                self._nameless.append((place, fact))
        elif kind is ToolReturned:
            self._open = None
            if fact.call:
                call = self.call(fact.call, place)
                if rank:
                    self._told.append((place, call, fact))
                elif _is_unheard(call.results):
                    call.ended = place
                call.results.append(fact)
            else:
                self._nameless.append((place, fact))
        elif kind is Marked:
            self.marks.append((place, fact))
        elif kind is Noted:
            if fact.on == "following":
                self.following.append((place, fact))
                return
            self.notes.append(fact)
            if fact.on == "call" and fact.name == "model":
                # Older logs tell the model only here: an answer without calls has it from the call
                # before.
                self.following.append((place, fact))
            elif fact.on == "call" and fact.name == "child_id":
                self._spawners.setdefault(fact.value, fact.subject)

    def _tie_calls(self) -> None:
        """Calls known by their id in several origins show where these stand to each other."""
        for place, call, fact in self._told:
            for other in call.seen if type(fact) is ToolCalled else call.results:
                if other.rank == 0 and other.origin != fact.origin:
                    target = call.place if type(fact) is ToolCalled else call.ended
                    timed = fact.time is not None and other.time is not None
                    self.anchors.tie(fact.origin, place, target, timed)
                    break

    def _joined(self, fact: MessageSeen, ident: str) -> str:
        """The id of the message that the part belongs to: the open one, or its own."""
        ident = self.aliases.get(ident, ident)
        if fact.role != "assistant":
            self._open = None
            return ident
        if fact.joins and self._open is not None and ident not in self.drafts:
            requests = {part.request for part in self.drafts[self._open].parts} - {""}
            if not fact.request or requests <= {fact.request}:
                self.joined[ident] = self.aliases[ident] = ident = self._open
        self._open = ident
        return ident

    def add_part(self, place: int, fact: MessageSeen, ident: str) -> None:
        draft = self.drafts.get(ident)
        if draft is None:
            draft = self.drafts[ident] = Draft(ident, fact.role, place, fact.time, fact.origin)
        draft.parts.append(fact)

    def call(self, ident: str, place: float) -> CallDraft:
        call = self.calls.get(ident)
        if call is None:
            call = self.calls[ident] = CallDraft(ident, place, place)
        return call

    def _settle_places(self, total: int) -> None:
        """What matched nothing goes beside the things of its own origin that did match."""
        self.adrift = {
            fact.origin
            for _, fact in self.marks
            if fact.time is None and fact.rank and not self.anchors.knows(fact.origin)
        }
        self.anchors.settle()
        for draft in self.drafts.values():  # in the order of their channels, the best first
            first = draft.parts[0].rank
            if first and all(part.rank for part in draft.parts):
                channel = (first, draft.origin)
                draft.place = self.anchors.place(channel, draft.place, total)
        for call in self.calls.values():
            first_fact = call.seen[0] if call.seen else call.results[0]
            if first_fact.rank and _is_unheard(call.seen) and _is_unheard(call.results):
                channel = (first_fact.rank, first_fact.origin)
                call.place = self.anchors.place(channel, call.place, total)
        reached: dict[str, float] = {}
        for number, (at, mark) in enumerate(self.marks):
            place = self._mark_place(at, mark, total)
            if mark.rank and mark.kind in ENDS:
                # {"hook_event_name": "Stop", "last_assistant_message": "Done."}: behind "Done.", and
                # behind the ends that the same log told before.
                repeated = self.echoed[at].place if at in self.echoed else place
                place = reached[mark.origin] = max(place, repeated, reached.get(mark.origin, place))
            self.marks[number] = (place, mark)

    def _mark_place(self, place: float, fact: Marked, total: int) -> float:
        """Of a mark without a time: beside the call that it tells of, or what its origin shares."""
        if fact.time is None:
            child = (fact.data or {}).get("conversation_id")
            call = self.calls.get(self._spawners.get(child, "")) if child else None
            if call is not None:
                return (call.ended if fact.kind.endswith("_end") else call.place) + 0.5
            if fact.kind == "start" and fact.origin in self.adrift:
                return -1
        return self.anchors.place((fact.rank, fact.origin), place, total)

    def _place_calls(self) -> None:
        """Every call goes to its message; a call whose message nobody saw makes one."""
        for call in sorted(self.calls.values(), key=_by_place):
            seen = call.seen
            if len(seen) > 1:
                seen.sort(key=_by_rank)
            elif not seen and not call.results[0].call and call.results[0].name:
                # It tells which call it answers, though nobody saw the call itself.
                result = call.results[0]
                seen.append(
                    ToolCalled(
                        *_place_of(result),
                        entry=result.entry,
                        name=result.name,
                        arguments=result.arguments,
                        rank=result.rank,
                        side=result.side,
                    )
                )
            self._mark_files(call)
            if not seen:
                orphan = Draft(f"result:{call.id}", "tool", call.place, call.results[0].time)
                orphan.orphan = call
                self.drafts[orphan.id] = orphan
                continue
            ident = seen[0].message or next((fact.message for fact in seen if fact.message), "")
            ident = self.aliases.get(ident, ident)
            draft = self.drafts.get(ident)
            if draft is None:
                ident = ident or f"call:{call.id}"
                draft = self.drafts.setdefault(
                    ident, Draft(ident, "assistant", call.place, seen[0].time)
                )
            draft.calls.append(call)

    def _mark_files(self, call: CallDraft) -> None:
        """What the call did to files: per path, each field from the fact that knows best."""
        told: list[ToolCalled | ToolReturned] = [*call.results, *call.seen]
        touched: dict[str, tuple[ToolCalled | ToolReturned, dict[str, Any]]] = {}
        for fact in sorted([fact for fact in told if fact.files], key=_by_rank):
            for touch in fact.files:
                # Channels write one path whole or from the workspace, but its last part the same.
                name = touch["path"].replace("\\", "/").rpartition("/")[2]
                first, fields = touched.get(name, (fact, {}))
                touched[name] = (first, {**touch, **fields})
        for fact, data in touched.values():
            mark = Marked(*_place_of(fact), fact.time, kind="file", subject=call.id, data=data)
            self.marks.append((call.place, mark))

    def _rename(self) -> None:
        """Notes, usage and marks on a thing by the id that only an echo has for it."""
        if not self.aliases and not self.call_aliases:
            return
        names = {"message": self.aliases, "call": self.call_aliases}
        self.notes = [_renamed(note, names.get(note.on, {})) for note in self.notes]
        self.usage = [
            (place, use if use.subject in self.joined else _renamed(use, names.get(use.on, {})))
            for place, use in self.usage
        ]
        self.marks = [(place, _renamed(mark, self.call_aliases)) for place, mark in self.marks]

    def standing_notes(self) -> list[Noted]:
        """The notes; that the whole is not known holds only where nobody knows the thing itself."""
        whole = any(part.rank == 0 for draft in self.drafts.values() for part in draft.parts)
        return [n for n in self.notes if not (whole and n.rank and n.name == "partial")]

    def in_order(self) -> list[Draft]:
        return sorted(self.drafts.values(), key=_by_place)


_by_place = attrgetter("place")
_by_rank = attrgetter("rank")


def _is_unheard(facts: Sequence[ToolCalled | ToolReturned]) -> bool:
    """Whether nobody but echoes has told this yet."""
    return not facts or all(fact.rank for fact in facts)


def _place_of(fact: Fact) -> tuple[Key, str, int, int]:
    """The first fields of every fact, for another one that is drawn from it."""
    return (fact.key, fact.origin, fact.offset, fact.number)


Named = TypeVar("Named", Noted, UsageReported, Marked)


def _renamed(fact: Named, names: dict[str, str]) -> Named:
    name = names.get(fact.subject, fact.subject)
    return fact if name == fact.subject else msgspec.structs.replace(fact, subject=name)
