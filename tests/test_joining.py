"""What saves work must change nothing that comes out: joining lists, looking at long lines, dealing."""

import random
from itertools import accumulate

import pytest

from unspool.facts import SnapshotSeen, View
from unspool.io.origins import Origin
from unspool.pipeline.discover import Plan
from unspool.reduce import joining
from unspool.reduce.joining import Joiner

KEY = ("copilot-telemetry", "c")


def snapshot(text: bytes, offset: int, broken: bool = False) -> SnapshotSeen:
    view = View(len(text), "a.jsonl", offset)
    return SnapshotSeen(
        key=KEY, origin="a.jsonl", offset=offset, text=text, broken=broken, views=(view,)
    )


def lists(rng: random.Random) -> list[bytes]:
    """Beginnings of some lists that share a beginning themselves, some with long messages."""
    made: list[bytes] = []
    shared = [b'{"n":%d}' % rng.randrange(3) + b" " * rng.choice((0, 3000)) for _ in range(3)]
    for _ in range(rng.randint(1, 7)):
        own = [b'{"m":%d}' % rng.randrange(4) for _ in range(rng.randint(0, 5))]
        messages = [*shared[: rng.randint(0, 3)], *own]
        made += accumulate(messages, lambda known, more: known + b"," + more, initial=b"[0")
    return made


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("side_by_side", [1, 16])
def test_what_is_left_begins_no_other_list_and_all_views_are_kept(
    seed: int, side_by_side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "_OPEN", side_by_side)
    rng = random.Random(seed)
    texts = lists(rng)
    rng.shuffle(texts)
    longest = {t for t in texts if not any(other.startswith(t + b",") for other in texts)}
    joiner = Joiner()
    grown = sum(joiner.add(snapshot(text, number)) for number, text in enumerate(texts))
    facts = joiner.facts()
    assert sorted(fact.text for fact in facts) == sorted(longest)
    assert sorted(v.offset for fact in facts for v in fact.views) == list(range(len(texts)))
    for fact in facts:
        assert all(fact.text.startswith(texts[view.offset]) for view in fact.views)
    assert grown >= sum(map(len, longest))
    again = Joiner()
    for fact in reversed(facts):
        again.add(fact)
    assert sorted(fact.text for fact in again.facts()) == sorted(longest)


def test_a_broken_list_is_joined_with_its_equal_alone() -> None:
    joiner = Joiner()
    for number, broken in enumerate((False, True, True)):
        joiner.add(snapshot(b"[" + b"1," * 2000, number, broken))
    assert sorted(len(fact.views) for fact in joiner.facts()) == [1, 2]


def test_a_conversation_belongs_to_who_has_read_most_of_it() -> None:
    plan = Plan([], {("p", "own"): [Origin("own.jsonl", "", size=90)]}, 2)
    held = [{("p", "a"): 90, ("p", "b"): 10}, {("p", "b"): 80, ("p", "own"): 5}]
    assert plan.deal(held) == {("p", "own"): 1, ("p", "a"): 0, ("p", "b"): 0}


def test_work_stays_even_though_one_worker_has_read_everything() -> None:
    plan = Plan([], {}, 2)
    owners = plan.deal([{("p", str(number)): 10 for number in range(10)}, {}])
    assert sorted(owners.values()) == [0] * 5 + [1] * 5
