"""The laws of docs/design.md, as properties over every source's cases."""

import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness import case_id, cases, facts_of, origins_of, plain, reduce_all, reread
from unspool import sources
from unspool.io.origins import Tally
from unspool.sinks import Family
from unspool.sinks.jsonl import parse, write

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
