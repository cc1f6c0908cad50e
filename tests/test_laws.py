"""The laws of docs/design.md, as properties over every source's cases."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness import case_id, cases, facts_of, origins_of, plain, reduce_all, reread
from unspool import sources
from unspool.facts import (
    ROOT,
    AnyFact,
    Key,
    ListSeen,
    MessageSeen,
    PieceSeen,
    Rank,
    SnapshotSeen,
    ToolCalled,
    ToolReturned,
    View,
)
from unspool.io.origins import Tally
from unspool.io.times import parse_time
from unspool.prompts.typed import typed_text
from unspool.reduce import reduce_facts
from unspool.sinks import Family
from unspool.sinks.jsonl import parse, write
from unspool.sources.scribe import Scribe
from unspool.trajectory import Message

LIGHT = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
every_case = pytest.mark.parametrize("case", cases(), ids=case_id)


@every_case
@LIGHT
@given(data=st.data())
def test_chunking(case: Path, data: st.DataObject) -> None:
    """1: any split of the input gives the same trajectories."""
    folder = case / "input"
    whole = origins_of(folder)
    pieces = []
    for origin in whole:
        if not sources.load(origin.source).RANGES or origin.path.endswith((".gz", ".zst")):
            pieces.append(origin)
            continue
        cuts = data.draw(st.lists(st.integers(1, max(1, origin.size - 1)), max_size=4, unique=True))
        ends = [*sorted(cuts), None]
        start = 0
        for end in ends:
            pieces.append(msgspec.structs.replace(origin, start=start, end=end))
            start = end or 0
    assert plain(reduce_all(facts_of(pieces))) == plain(reduce_all(facts_of(whole)))


@every_case
@LIGHT
@given(data=st.data())
def test_arrival(case: Path, data: st.DataObject) -> None:
    """2: the order in which facts arrive does not matter."""
    facts = facts_of(origins_of(case / "input"))
    shuffled = data.draw(st.permutations(facts))
    assert plain(reduce_all(shuffled)) == plain(reduce_all(facts))


@every_case
def test_duplicates(case: Path) -> None:
    """3: reading an origin twice changes nothing."""
    origins = origins_of(case / "input")
    facts = facts_of(origins)
    assert plain(reduce_all([*facts, *facts_of(origins)])) == plain(reduce_all(facts))


@every_case
@LIGHT
@given(data=st.data())
def test_replay(case: Path, data: st.DataObject) -> None:
    """5: kept facts + new facts = all facts, also when the kept ones went through a file."""
    facts = facts_of(origins_of(case / "input"))
    cut = data.draw(st.integers(0, len(facts)))
    kept = [(source, reread(fact)) for source, fact in facts[:cut]]
    assert plain(reduce_all([*kept, *facts[cut:]])) == plain(reduce_all(facts))


@every_case
def test_round_trip(case: Path) -> None:
    """6: what the trajectory JSONL writes, it reads back equal."""
    for trajectory in reduce_all(facts_of(origins_of(case / "input"))):
        (piece,) = write(Family(trajectory), {})
        again = parse(piece.data)
        (second,) = write(Family(again), {})
        assert second.data == piece.data


@every_case
def test_nothing_lost(case: Path) -> None:
    """8: every record is used, superseded, noise, unrecognised or a problem."""
    tally = Tally()
    facts = facts_of(origins_of(case / "input"), tally)
    places = {(fact.origin, fact.offset) for _, fact in facts}
    unexplained = tally.records - tally.noise - tally.unrecognised
    assert len(places) >= 1 or unexplained == 0
    assert tally.noise + tally.unrecognised <= tally.records
    records_with_facts = len({(f.origin, f.offset, f.entry) for _, f in facts})
    assert unexplained <= max(records_with_facts, tally.problems)


@every_case
def test_fact_numbers(case: Path) -> None:
    """No two facts of one kind share a place: their place is what makes arrival harmless."""
    seen: set[tuple[object, ...]] = set()
    for _, fact in facts_of(origins_of(case / "input")):
        place = (*fact.place, type(fact).__name__, fact.key)
        assert place not in seen, place
        seen.add(place)


@every_case
def test_overlap_of_copies(case: Path, tmp_path: Path) -> None:
    """4: a second copy of every file, elsewhere, adds no message and loses none."""
    folder = case / "input"
    first = reduce_all(facts_of(origins_of(folder)))
    both = tmp_path / "both"
    shutil.copytree(folder, both / "a")
    shutil.copytree(folder, both / "b")
    second = reduce_all(facts_of(origins_of(both)))
    assert [_words(t) for t in second] == [_words(t) for t in first]


def _words(trajectory: object) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in trajectory.messages]  # type: ignore[attr-defined]


@every_case
@LIGHT
@given(data=st.data())
def test_mixing(case: Path, data: st.DataObject) -> None:
    """9: any part of a conversation may be told by records, by a list, or by both: nothing is lost,
    nothing is doubled."""
    for key, facts in _by_conversation(case).items():
        _check_mixing(key, facts, data)


SAID = ("Go on.", "Again, please.")
ANSWERED = ("Done.", "I went through all shelves, and none of them is full.", "")


@settings(LIGHT, max_examples=300)
@given(data=st.data())
def test_mixing_of_equal_words(data: st.DataObject) -> None:
    """9, of conversations that repeat themselves: the same answer twice in a turn, the same prompt in
    a turn that was taken back."""
    key = ("claude-code", "s1")
    facts: list[AnyFact] = []
    after, number = ROOT, 0

    def record(**fields: Any) -> Scribe:
        nonlocal after, number
        number += 1
        scribe = Scribe(
            key, "a.jsonl", number, time=number * 1_000_000, entry=f"e{number}", after=after
        )
        scribe.message(id=f"m{number}", **fields)
        after = scribe.entry
        facts.extend(scribe.facts)
        return scribe

    turns = data.draw(st.integers(1, 4))
    forks = [after]
    for turn in range(turns):
        if turn and data.draw(st.booleans()):
            back = data.draw(st.integers(1, len(forks) - 1))
            forks = forks[: back + 1]  # what stands behind it is taken back
            after = forks[-1]
        record(role="user", text=data.draw(st.sampled_from(SAID)))
        for _ in range(data.draw(st.integers(1, 3))):
            answer = data.draw(st.sampled_from(ANSWERED))
            calls = data.draw(st.booleans()) or not answer
            scribe = record(role="assistant", text=answer)
            if calls:
                call = f"c{number}"
                scribe.facts = []
                scribe.call(id=call, message=f"m{number}", name="look", arguments="{}", number=5)
                facts.extend(scribe.facts)
                number += 1
                result = Scribe(
                    key, "a.jsonl", number, time=number * 1_000_000, entry=f"e{number}", after=after
                )
                result.returned(call=call, text="seen")
                after = result.entry
                facts.extend(result.facts)
            forks.append(after)
    _check_mixing(key, facts, data)


def _check_mixing(key: Key, facts: list[AnyFact], data: st.DataObject) -> None:
    # An index adds nothing to what others tell: that is its rank.
    facts = [f for f in facts if not isinstance(f, THINGS) or f.rank < Rank.INDEX]
    whole = _messages(key, facts)
    told = [message for message in whole if fits_a_list(message)]
    if not told or any(isinstance(fact, LISTS) for fact in facts):
        return
    shape = data.draw(st.sampled_from((openai_list, anthropic_list)))
    size = data.draw(st.integers(1, len(told)))
    snapshot = _snapshot(key, told[:size], shape)
    before, behind = _cut(facts, data)
    recorded = data.draw(st.sampled_from((facts, before, behind)))
    calls = [fact for fact in facts if isinstance(fact, ToolCalled)]
    named = {call.id for call in calls if call.id and (not call.rank or not call.like)}
    if any(call.id not in named for call in calls):
        recorded = facts  # of calls without an id nobody can say which of them a part tells of
    mixed = _messages(key, [*recorded, snapshot])
    by_list, by_records = _things(told[:size]), _things(_messages(key, recorded))
    assert not by_list - _things(mixed), "lost from the list"
    assert not by_records - _things(mixed), "lost from the records"
    assert not _things(mixed) - (_things(whole) | by_records), "doubled"
    ranks = [fact.rank for fact in facts if isinstance(fact, THINGS)]
    if recorded is facts and max(ranks) < Rank.ECHO:
        # What only echoes tell, and runs side by side, has no order that is sure.
        assert [_said(m) for m in mixed] == [_said(m) for m in whole]


def _by_conversation(case: Path) -> dict[Key, list[AnyFact]]:
    found: dict[Key, list[AnyFact]] = {}
    for _, fact in facts_of(origins_of(case / "input")):
        found.setdefault(fact.key, []).append(fact)
    return found


def _messages(key: Key, facts: list[AnyFact]) -> list[Message]:
    made = reduce_facts(key, facts).trajectories
    return next((t.messages for t in made if t.conversation_id == key[1]), [])


def _things(messages: list[Message]) -> Counter[tuple[str, ...]]:
    """What was said, called and returned. A result is its call's, whatever a channel cuts off it; white
    space around an answer is nothing said."""
    found: Counter[tuple[str, ...]] = Counter()
    for message in messages:
        found.update(("call", call.id) for call in message.tool_calls or ())
        if message.role == "tool" and message.content:
            found[("result", message.tool_call_id or "")] += 1
        elif message.role != "tool" and message.content:
            words = typed_text(message.content) if message.role == "user" else None
            found[(message.role, words or message.content.strip())] += 1
    return found


def _said(message: Message) -> tuple[str, str, tuple[str, ...]]:
    return (message.role, message.content, tuple(c.id for c in message.tool_calls or ()))


def _cut(facts: list[AnyFact], data: st.DataObject) -> tuple[list[AnyFact], list[AnyFact]]:
    """The records before and behind a place that stands within no message."""
    ordered = sorted(facts, key=lambda fact: (fact.origin, fact.offset, fact.entry))
    last = {name: number for number, fact in enumerate(ordered) for name in _names(fact)}
    cuts, reach = [0], -1
    for number, fact in enumerate(ordered):
        place = (fact.origin, fact.offset, fact.entry)
        if number > reach and number and place != (
            ordered[number - 1].origin, ordered[number - 1].offset, ordered[number - 1].entry
        ):  # fmt: skip
            cuts.append(number)
        reach = max([reach, *(last[name] for name in _names(fact))])
    cut = data.draw(st.sampled_from(cuts))
    return ordered[:cut], ordered[cut:]


def _names(fact: AnyFact) -> list[str]:
    """The messages that a fact is a part of."""
    named = fact.id if isinstance(fact, MessageSeen) else getattr(fact, "message", "")
    return [named] if named else []


def fits_a_list(message: Message) -> bool:
    return bool(message.content.strip() or message.tool_calls or message.role == "tool")


def openai_list(messages: list[Message]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for message in messages:
        value: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            value["tool_calls"] = [
                {"id": c.id, "type": "function",
                 "function": {"name": c.name, "arguments": c.arguments}}
                for c in message.tool_calls
            ]  # fmt: skip
        if message.tool_call_id:
            value["tool_call_id"] = message.tool_call_id
        made.append(value)
    return made


def anthropic_list(messages: list[Message]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for message in messages:
        parts: list[dict[str, Any]] = []
        if message.role == "tool":
            block = {"type": "tool_result", "content": message.content}
            made.append(
                {"role": "user", "content": [{**block, "tool_use_id": message.tool_call_id}]}
            )
            continue
        if message.content:
            parts.append({"type": "text", "text": message.content})
        parts += [
            {"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments}
            for c in message.tool_calls or ()
        ]
        made.append({"role": message.role, "content": parts})
    return made


THINGS = (MessageSeen, ToolCalled, ToolReturned)
LISTS = (SnapshotSeen, ListSeen, PieceSeen)


def _snapshot(key: Key, messages: list[Message], shape: Callable[..., Any]) -> SnapshotSeen:
    """The list that a call logged when the last of the messages was there."""
    times = [time for m in messages if (time := parse_time(m.timestamp)) is not None]
    time = max(times, default=None)
    text = msgspec.json.encode(shape(messages))[:-1]
    view = View(size=len(text), origin="lists.jsonl", offset=7, time=time, requested="gpt-5")
    return SnapshotSeen(
        key=key, origin="lists.jsonl", offset=7, time=time, text=text, views=(view,)
    )
