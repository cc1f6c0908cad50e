"""Our own trajectory JSONL, read back."""

import json
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.harness import case_id, cases, facts_of, origins_of, reduce_all
from unspool.facts import Problem
from unspool.io.origins import Origin, Tally, read_head
from unspool.pipeline.finish import enrich
from unspool.sinks import Family, jsonl
from unspool.trajectory import (
    Trajectory,
    encode_trajectory,
)

LINE: dict[str, Any] = {"conversation_id": "c", "messages": [{"role": "user", "content": "hi"}]}


def _file(folder: Path, *lines: str) -> Origin:
    path = folder / "t.jsonl"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    return Origin(str(path), path.name)


def _claims(origin: Origin) -> bool:
    return jsonl.claims(read_head(origin.path))


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_what_is_written_is_claimed_and_read_back_equal(case: Path, tmp_path: Path) -> None:
    made = reduce_all(facts_of(origins_of(case / "input")))
    data = [piece.data for t in made for piece in jsonl.write(Family(t), {})]
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"".join(data))
    assert not data or _claims(Origin(str(path), path.name))
    tally = Tally()
    again = list(jsonl.read(Origin(str(path), path.name), tally))
    assert [encode_trajectory(t) + b"\n" for t in again if isinstance(t, Trajectory)] == data
    assert (tally.records, tally.problems) == (len(data), 0)


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_what_was_read_back_is_not_changed_by_enriching_it_again(case: Path) -> None:
    for trajectory in reduce_all(facts_of(origins_of(case / "input"))):
        data = encode_trajectory(trajectory)
        again = jsonl.parse(data)
        enrich(again)
        assert encode_trajectory(again) == data


def test_a_first_line_longer_than_the_head_is_claimed(tmp_path: Path) -> None:
    long = {**LINE, "messages": [{"role": "user", "content": "x" * 200_000}]}
    assert _claims(_file(tmp_path, json.dumps(long)))
    rewritten = {"agent": "a", "context": {}, **long}
    assert _claims(_file(tmp_path, json.dumps(rewritten, sort_keys=True), "{}"))


def test_children_that_are_not_here_keep_their_order(tmp_path: Path) -> None:
    children = [{"conversation_id": name} for name in ("y", "z", "x")]
    path = _file(tmp_path, json.dumps({**LINE, "children": children}))
    (made,) = unspool.extract(path.path)
    assert [link.conversation_id for link in made.children or ()] == ["y", "z", "x"]


@pytest.mark.parametrize("size", [1, 100_000])
def test_half_a_character_hides_nothing(tmp_path: Path, size: int) -> None:
    messages = [{"role": "user", "content": "cut \ud83d"}, {"role": "user", "content": "x" * size}]
    rewritten = {"agent": "a", **LINE, "messages": messages}
    path = _file(tmp_path, json.dumps(rewritten))
    assert _claims(path)
    (made,) = unspool.extract(path.path)
    assert made.messages[0].content == "cut \ufffd"


@pytest.mark.parametrize(
    "other",
    [
        {"conversation_id": "c", "messages": "none"},
        {"conversation_id": "c", "messages": [1]},
        {"conversation_id": 7, "messages": []},
        {"data": {"baseData": {"properties": {"conversation_id": "c", "messages": []}}}},
        {"schema_version": "ATIF-v1.5", "steps": []},
        ["conversation_id", "messages"],
    ],
)
def test_other_json_is_not_claimed(tmp_path: Path, other: object) -> None:
    assert not _claims(_file(tmp_path, json.dumps(other)))


def test_absent_may_be_null_as_other_programs_write_it(tmp_path: Path) -> None:
    fields = ("mode", "model", "model_source", "model_conflict", "tool_calls", "tool_call_id")
    message = {"role": "user", "content": "hi", **dict.fromkeys(fields)}
    line = {**LINE, "messages": [message], "telemetry_type": None, "file_path": None}
    (found,) = jsonl.read(_file(tmp_path, json.dumps(line)), Tally())
    assert isinstance(found, Trajectory)
    assert json.loads(encode_trajectory(found)) == {**LINE}


def test_bad_lines_are_problems_with_their_place_and_the_rest_is_read(tmp_path: Path) -> None:
    good = json.dumps(LINE)
    deep = '{"conversation_id":"c","messages":[],"extra":{"x":' + "[" * 100_000
    lines = [good, good[:-5], '{"conversation_id":"c","messages":[{"role":"robot"}]}', deep, good]
    tally = Tally()
    found = list(jsonl.read(_file(tmp_path, *lines), tally))
    assert [isinstance(item, Trajectory) for item in found] == [True, False, False, False, True]
    problems = [item for item in found if isinstance(item, Problem)]
    assert [p.code for p in problems] == ["truncated-json", "not-a-trajectory", "too-deep"]
    assert problems[0].offset == len(good) + 1
    assert "robot" in problems[1].sample
    assert (tally.records, tally.problems) == (5, 3)
