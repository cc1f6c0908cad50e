"""What `--to atif` writes: valid for every case of every source, and whole."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.atif import hostile
from tests.atif.judges import documents, families, harbor_errors, write_all
from tests.harness import case_id, cases, facts_of, origins_of, reduce_all
from unspool.sinks import Family
from unspool.sinks.atif.rules import check_file
from unspool.trajectory import Trajectory
from unspool.views.families import plant

OPTIONS: list[dict[str, str]] = [
    {},
    {"subagents": "files"},
    {"atif_version": "1.8"},
    {"atif_version": "1.6"},
    {"atif_version": "1.5"},
]

# Failing families are large and shrink for minutes: the first one found tells enough.
CALM: Any = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
}


def assert_good(family: Family, folder: Path, **options: str) -> None:
    """Valid by Harbor's rules, and without an error by ours."""
    for path in write_all(family, folder, **options):
        assert harbor_errors(path) == []
        assert [f for f in check_file(path) if f.level == "error"] == []


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_every_case_is_valid(case: Path, tmp_path: Path) -> None:
    trajectories = reduce_all(facts_of(origins_of(case / "input")))
    for number, options in enumerate(OPTIONS):
        for family in families(trajectories):
            assert_good(family, tmp_path / str(number), **options)


@settings(max_examples=60, **CALM)
@given(family=hostile.families)
def test_whatever_comes_is_written_valid(family: Family) -> None:
    for options in OPTIONS:
        with tempfile.TemporaryDirectory() as folder:
            assert_good(family, Path(folder), **options)


@settings(max_examples=60, **CALM)
@given(family=hostile.families)
def test_nothing_said_is_lost(family: Family) -> None:
    """Every word of the family's messages stands in its documents."""
    text = str(documents(family))
    members = {t.conversation_id: t for t in (*family.descendants, family.root)}
    for trajectory in members.values():
        for message in trajectory.messages:
            for words in (message.content, message.thinking):
                assert not words or str([words.replace("\ud800", "\ufffd")])[2:-2] in text


def test_children_that_nothing_ties_stand_in_the_order_given() -> None:
    strays = tuple(Trajectory(conversation_id=f"c{n}", messages=[]) for n in range(20))
    root = plant(Trajectory(conversation_id="root", messages=[]), strays)
    assert [node.id for node in root.children] == [f"c{n}" for n in range(20)]
