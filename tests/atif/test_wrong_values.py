"""Documents whose values are of wrong types, also where only we write: read, and written valid."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.atif.judges import again, documents, families, harbor_errors
from tests.atif.test_reader import GIVEN, document, step
from tests.harness import CASES, facts_of, origins_of, reduce_all
from unspool.sinks import Family
from unspool.sinks.atif.reader import Reading
from unspool.trajectory import Message, Trajectory

OURS = {
    "newer": {"/agent/x/3/y": 1, "/steps/0/message": [1], "": 3, "/observation": [], "/extra": 4},
    **{"mark": 5, "result": True, "role": "king", "usage": [], "tool_calls": [4], "unset": 3},
    **{"refs": [{"trajectory_id": 5}], "branches": [{"messages": 5}], "extra": [], "raw": True},
    **{"attachments": [{"kind": 5}, {"file": []}], "children": {}, "marks": [{"index": "x"}]},
}
RESIDUE = {
    **{"set": 5, "unset": {"x": 1}, "layout": "q", "refs": 4, "lone": [1], "children": 7},
    "version": [],
}
LATER = {
    "set": {"/steps/0/source": 5, "/steps": 5, "/agent": None, "/message": 5, "/odd": 1},
    **{"unset": ["/agent", "/message", "/steps/0/step_id", ""], "layout": ["x", "media", -1]},
    **{"refs": [["a", {"trajectory_id": 5}], [1], 3], "lone": {"c1": 5}, "children": [5]},
}
OTHERS: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**30, "", "x", [], {}, [1], {"a": 1}, [{}], [None]),
    *({"unspool": 3}, {"unspool": OURS}, {"atif": RESIDUE}, {"atif": LATER}, OURS, RESIDUE, LATER),
]
CASE = CASES / "claude_code"
RICH = ("subagent", "compaction", "image")


def given_documents() -> list[dict[str, Any]]:
    """Those of others, and our own at an old and at the usual version."""
    found = list(GIVEN.values())
    for case in sorted(CASE.iterdir()):
        if any(word in case.name for word in RICH):
            for family in families(reduce_all(facts_of(origins_of(case / "input")))):
                for version in ("1.5", "1.7"):
                    found += documents(family, atif_version=version)
    return found


def spoil(value: Any, chance: random.Random) -> None:
    """Put another value in the place of one, anywhere."""
    while True:
        places: list[Any] = []
        if isinstance(value, dict):
            places = [*value, *(["extra"] if chance.random() < 0.3 else [])]
        elif isinstance(value, list):
            places = list(range(len(value)))
        if not places:
            return
        place = chance.choice(places)
        if chance.random() < 0.3 or place == "extra":
            value[place] = copy.deepcopy(chance.choice(OTHERS))
            return
        value = value[place]


def check(spoilt: dict[str, Any], *versions: str) -> None:
    """It can be read, and what is written of it is valid."""
    read = Reading(spoilt, "x").trajectories
    for version in versions if read else ():
        for made in documents(Family(read[0], tuple(read[1:])), atif_version=version):
            assert harbor_errors(made) == []


@pytest.mark.parametrize("seed", range(10))
def test_some_wrong_values(seed: int) -> None:
    chance = random.Random(seed)
    for given in given_documents():
        spoilt = json.loads(json.dumps(given))
        for _ in range(chance.choice([1, 2, 5])):
            spoil(spoilt, chance)
        check(spoilt, "1.5", "1.7", "1.8")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(holder, key) of everything in a value."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


@pytest.mark.parametrize(
    ("name", "version"),
    [("metrics in full", "1.2"), ("embedded sub-agents", "1.6"), ("a managed context", "1.8")],
)
def test_every_value_wrong(name: str, version: str) -> None:
    """Each in its turn, in documents of others that were written by us at another version."""
    root, *below = Reading(GIVEN[name]).trajectories
    given = documents(Family(root, tuple(below)), atif_version=version)[0]
    for other in OTHERS:
        for holder, key in list(places(given)):
            before, holder[key] = holder[key], other
            check(given, "1.7")
            holder[key] = before


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: str(value)[:20])
def test_a_key_of_others_that_we_use_ourselves(value: Any) -> None:
    """A trajectory keeps in `extra.atif` what it has no field for; documents may have their own."""
    extra = {"atif": value, "k": 1}
    call = {"tool_call_id": "c", "function_name": "f", "arguments": {}, "extra": extra}
    result = {"source_call_id": "c", "content": "r", "extra": {"atif": value}}
    given = document(
        step(1, "user", "hi", extra={"atif": value}),
        step(2, "agent", "x", tool_calls=[call], observation={"results": [result]}, extra=extra),
        step(3, "agent", "y", metrics={"prompt_tokens": 1, "extra": {"atif": value}}),
        extra=extra,
    )
    assert again(given) == given


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: str(value)[:20])
def test_our_own_fields_hold_anything(value: Any) -> None:
    for field in msgspec.structs.fields(Trajectory):
        ours = {"source": "cursor", field.name: value}
        check(document(step(1, "user", "hi"), extra={"unspool": ours}), "1.7")
    for field in msgspec.structs.fields(Message):
        ours = {field.name: value}
        check(document(step(1, "user", "hi", extra={"unspool": ours})), "1.7")
