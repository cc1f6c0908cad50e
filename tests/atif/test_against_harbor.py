"""Against Harbor's converters on the same raw input: a table says step by step where we agree.

`harbor_table.json` has a line for every step of every pair: `=`, or what differs and why we have it
so. Harbor's outputs are a comparison and not the truth; every difference has its reason.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.atif.comparing import compare, digest, our_steps
from tests.harness import corpus

TABLE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "harbor_table.json").read_text(encoding="utf-8")
)
SOURCES = {"claude_code": "claude-code", "copilot_cli": "copilot-cli", "cursor_cli": "cursor"}
PAIRS = corpus("harbor", "converter_pairs")


def test_every_difference_has_a_reason() -> None:
    used = set()
    for entry in TABLE["pairs"]:
        for line, *reason in entry["steps"]:
            assert (line == "=") == (not reason), entry["about"]
            used.update(reason)
    assert used == TABLE["reasons"].keys()


@pytest.mark.skipif(PAIRS is None, reason="the real corpus is not here")
@pytest.mark.parametrize("entry", TABLE["pairs"], ids=lambda e: f"{e['agent']}: {e['about']}")
def test_step_by_step(entry: dict[str, Any]) -> None:
    assert PAIRS is not None
    agent = entry["agent"]
    folders = {digest(agent, folder.name): folder for folder in (PAIRS / agent).iterdir()}
    folder = folders[entry["pair"]]
    theirs = json.loads((folder / "atif.json").read_text(encoding="utf-8"))["steps"]
    found = compare(our_steps(folder / "raw", SOURCES[agent]), theirs)
    assert found == [line for line, *_ in entry["steps"]]


@pytest.mark.skipif(PAIRS is None, reason="the real corpus is not here")
def test_no_pair_is_left_out() -> None:
    assert PAIRS is not None
    known = {(entry["agent"], entry["pair"]) for entry in TABLE["pairs"]}
    there = {(agent, digest(agent, f.name)) for agent in SOURCES for f in (PAIRS / agent).iterdir()}
    assert known == there
