"""`unspool validate`: every rule finds its case, at its path; and all that Harbor finds, we find."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.atif.judges import again, harbor_errors
from tests.harness import corpus
from unspool.cli import group
from unspool.sinks.atif.reader import Reading
from unspool.sinks.atif.rules import check, check_file

Json = dict[str, Any]


def base() -> Json:
    sub = {
        "schema_version": "ATIF-v1.8",
        "trajectory_id": "kid",
        "agent": {"name": "k", "version": "1"},
        "steps": [{"step_id": 1, "source": "agent", "message": "done"}],
    }
    return {
        "schema_version": "ATIF-v1.8",
        "session_id": "s",
        "agent": {"name": "a", "version": "1", "tool_definitions": []},
        "steps": [
            {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "hi"}]},
            {
                "step_id": 2,
                "source": "agent",
                "timestamp": "2026-01-02T00:00:00Z",
                "message": "",
                "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {}}],
                "observation": {
                    "results": [
                        {
                            "source_call_id": "c",
                            "content": "ok",
                            "subagent_trajectory_ref": [{"trajectory_id": "kid"}],
                        }
                    ]
                },
                "metrics": {"prompt_tokens": 10, "cached_tokens": 4, "cost_usd": 0.5},
                "llm_call_count": 1,
            },
            {
                "step_id": 3,
                "source": "agent",
                "timestamp": "2026-01-03T00:00:00Z",
                "message": "end",
                "metrics": {"prompt_tokens": 20, "completion_tokens": 3},
            },
        ],
        "final_metrics": {"total_prompt_tokens": 30, "total_cost_usd": 0.5, "total_steps": 3},
        "subagent_trajectories": [sub],
    }


def test_a_good_document_has_no_finding() -> None:
    assert check(base()) == []


def put(*path: str | int, value: Any) -> Callable[[Json], None]:
    def change(document: Json) -> None:
        holder: Any = document
        for word in path[:-1]:
            holder = holder[word]
        if value is DROP:
            del holder[path[-1]]
        elif isinstance(holder, list) and path[-1] == len(holder):
            holder.append(copy.deepcopy(value))
        else:
            holder[path[-1]] = copy.deepcopy(value)

    return change


DROP = object()
CALL = ("steps", 1, "tool_calls", 0)
RESULT = ("steps", 1, "observation", "results", 0)
REF = (*RESULT, "subagent_trajectory_ref", 0)
IMAGE = {"type": "image", "source": {"media_type": "image/png", "path": "x.png"}}

BROKEN: list[tuple[str, str, str, Callable[[Json], None]]] = [
    # level, rule, path, what is done to the good document
    ("error", "missing", "$.schema_version", put("schema_version", value=DROP)),
    ("error", "unknown-version", "$.schema_version", put("schema_version", value="ATIF-v1.9")),
    ("warning", "no-session", "$.session_id", put("session_id", value=DROP)),
    ("error", "missing", "$.agent.version", put("agent", "version", value=None)),
    ("error", "empty", "$.agent.name", put("agent", "name", value="")),
    ("error", "no-steps", "$.steps", put("steps", value=[])),
    ("error", "unknown-field", "$.steps[0].foo", put("steps", 0, "foo", value=1)),
    ("error", "unknown-field", "$.bar", put("bar", value=1)),
    ("error", "wrong-type", "$.steps[1]", put("steps", 1, value="x")),
    ("error", "wrong-type", "$.steps[0].step_id", put("steps", 0, "step_id", value=1.0)),
    ("error", "wrong-type", "$.steps[0].step_id", put("steps", 0, "step_id", value=True)),
    ("error", "wrong-type", "$.steps[0].message", put("steps", 0, "message", value={})),
    ("error", "missing", "$.steps[0].message", put("steps", 0, "message", value=None)),
    (
        "error",
        "wrong-type",
        "$.steps[1].metrics.prompt_tokens",
        put("steps", 1, "metrics", "prompt_tokens", value="10"),
    ),
    ("error", "step-order", "$.steps[2].step_id", put("steps", 2, "step_id", value=4)),
    ("error", "unknown-source", "$.steps[0].source", put("steps", 0, "source", value="tool")),
    ("error", "agent-only", "$.steps[0].tool_calls", put("steps", 0, "tool_calls", value=[])),
    ("error", "agent-only", "$.steps[0].metrics", put("steps", 0, "metrics", value={})),
    ("error", "no-llm-call", "$.steps[1].metrics", put("steps", 1, "llm_call_count", value=0)),
    ("error", "negative", "$.steps[1].llm_call_count", put("steps", 1, "llm_call_count", value=-1)),
    ("error", "timestamp", "$.steps[1].timestamp", put("steps", 1, "timestamp", value="noon")),
    ("error", "timestamp", "$.steps[1].timestamp", put("steps", 1, "timestamp", value="")),
    (
        "warning",
        "no-time-zone",
        "$.steps[1].timestamp",
        put("steps", 1, "timestamp", value="2026-01-01"),
    ),
    (
        "warning",
        "time-goes-back",
        "$.steps[2].timestamp",
        put("steps", 2, "timestamp", value="2026-01-01T00:00:00Z"),
    ),
    (
        "warning",
        "user-observation",
        "$.steps[0].observation",
        put("steps", 0, "observation", value={"results": []}),
    ),
    ("error", "missing", "$.steps[1].tool_calls[0].arguments", put(*CALL, "arguments", value=None)),
    (
        "error",
        "wrong-type",
        "$.steps[1].tool_calls[0].arguments",
        put(*CALL, "arguments", value="{}"),
    ),
    (
        "error",
        "empty",
        "$.steps[1].tool_calls[0].function_name",
        put(*CALL, "function_name", value=""),
    ),
    (
        "error",
        "duplicate-call",
        "$.steps[1].tool_calls[1].tool_call_id",
        put(
            *("steps", 1, "tool_calls", 1),
            value={"tool_call_id": "c", "function_name": "f", "arguments": {}},
        ),
    ),
    (
        "warning",
        "no-result",
        "$.steps[1].tool_calls[1]",
        put(
            *("steps", 1, "tool_calls", 1),
            value={"tool_call_id": "d", "function_name": "f", "arguments": {}},
        ),
    ),
    (
        "error",
        "unknown-call",
        "$.steps[1].observation.results[0].source_call_id",
        put(*RESULT, "source_call_id", value="z"),
    ),
    (
        "error",
        "two-results",
        "$.steps[1].observation.results[1].source_call_id",
        put("steps", 1, "observation", "results", 1, value={"source_call_id": "c"}),
    ),
    (
        "error",
        "unresolvable-reference",
        "$.steps[1].observation.results[0].subagent_trajectory_ref[0]",
        put(*REF, value={"session_id": "s"}),
    ),
    (
        "error",
        "dangling-reference",
        "$.steps[1].observation.results[0].subagent_trajectory_ref[0].trajectory_id",
        put(*REF, "trajectory_id", value="gone"),
    ),
    ("warning", "unreferred", "$.subagent_trajectories[0]", put(*RESULT[:-1], value=[])),
    (
        "error",
        "missing",
        "$.subagent_trajectories[0].trajectory_id",
        put("subagent_trajectories", 0, "trajectory_id", value=DROP),
    ),
    (
        "error",
        "duplicate-trajectory",
        "$.subagent_trajectories[1].trajectory_id",
        lambda document: document["subagent_trajectories"].append(
            copy.deepcopy(document["subagent_trajectories"][0])
        ),
    ),
    (
        "error",
        "step-order",
        "$.subagent_trajectories[0].steps[0].step_id",
        put("subagent_trajectories", 0, "steps", 0, "step_id", value=2),
    ),
    (
        "error",
        "cached",
        "$.steps[1].metrics.cached_tokens",
        put("steps", 1, "metrics", "cached_tokens", value=11),
    ),
    (
        "error",
        "negative",
        "$.steps[1].metrics.cost_usd",
        put("steps", 1, "metrics", "cost_usd", value=-0.5),
    ),
    (
        "warning",
        "token-ids",
        "$.steps[1].metrics.prompt_token_ids",
        put("steps", 1, "metrics", "prompt_token_ids", value=[1]),
    ),
    (
        "error",
        "total",
        "$.final_metrics.total_prompt_tokens",
        put("final_metrics", "total_prompt_tokens", value=31),
    ),
    (
        "warning",  # one step does not tell its cost
        "total",
        "$.final_metrics.total_cost_usd",
        put("final_metrics", "total_cost_usd", value=0.7),
    ),
    (
        "error",
        "total",
        "$.final_metrics.total_cost_usd",
        put("final_metrics", "total_cost_usd", value=0.4),
    ),
    (
        "error",
        "total",
        "$.final_metrics.total_prompt_tokens",
        put("steps", 2, "is_copied_context", value=True),
    ),
    (
        "error",
        "total-steps",
        "$.final_metrics.total_steps",
        put("final_metrics", "total_steps", value=2),
    ),
    (
        "error",
        "not-finite",
        "$.steps[1].extra.x",
        put("steps", 1, "extra", value={"x": float("nan")}),
    ),
    ("error", "lone-surrogate", "$.steps[2].message", put("steps", 2, "message", value="\ud800")),
    (
        "error",
        "missing",
        "$.steps[0].message[0].text",
        put("steps", 0, "message", 0, "text", value=None),
    ),
    (
        "error",
        "wrong-part",
        "$.steps[0].message[0].type",
        put("steps", 0, "message", 0, "type", value="video"),
    ),
    (
        "error",
        "media-type",
        "$.steps[0].message[0].source.media_type",
        put(
            *("steps", 0, "message", 0),
            value={"type": "image", "source": {"media_type": "image/svg+xml", "path": "x"}},
        ),
    ),
    (
        "error",
        "data-uri",
        "$.steps[0].message[0].source.path",
        put(
            *("steps", 0, "message", 0),
            value={"type": "image", "source": {"media_type": "image/png", "path": "data:x"}},
        ),
    ),
    (
        "warning",
        "context-management",
        "$.steps[0].extra.context_management",
        put("steps", 0, "extra", value={"context_management": True}),
    ),
]


@pytest.mark.parametrize(("level", "rule", "path", "change"), BROKEN)
def test_every_rule(level: str, rule: str, path: str, change: Callable[[Json], None]) -> None:
    document = base()
    change(document)
    assert (level, rule, path) in [(f.level, f.rule, f.path) for f in check(document)]


def test_a_total_may_hold_the_sub_agents() -> None:
    document = base()
    document["subagent_trajectories"][0]["steps"][0]["metrics"] = {"cost_usd": 0.25}
    document["final_metrics"]["total_cost_usd"] = 0.75
    assert check(document) == []


def test_a_wrong_number_of_steps_can_be_explained() -> None:
    document = base()
    document["final_metrics"]["total_steps"] = 9
    document["notes"] = "steps 4 to 9 are in the continuation"
    assert [(f.level, f.rule) for f in check(document)] == [("warning", "total-steps")]


@pytest.mark.parametrize(
    ("version", "paths"),
    [
        ("1.7", []),
        (
            "1.6",
            [
                "$.subagent_trajectories",
                "$.steps[1].llm_call_count",
                "$.steps[1].observation.results[0].subagent_trajectory_ref[0].trajectory_id",
            ],
        ),
        ("1.5", ["$.steps[0].message"]),
        ("1.4", ["$.agent.tool_definitions"]),
    ],
)
def test_fields_newer_than_the_declared_version(version: str, paths: list[str]) -> None:
    document = base()
    document["schema_version"] = f"ATIF-v{version}"
    found = [f.path for f in check(document) if f.rule == "newer-than-declared"]
    assert set(paths) <= set(found)
    assert bool(found) == bool(paths)


def test_files_that_a_document_names(tmp_path: Path) -> None:
    document = base()
    document["steps"][0]["message"] = [IMAGE]
    document["continued_trajectory_ref"] = "next.json"
    sub = document["subagent_trajectories"][0]
    sub["steps"][0]["message"] = [IMAGE]
    document["steps"][1]["observation"]["results"][0]["subagent_trajectory_ref"].append(
        {"trajectory_path": "kid.json"}
    )
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    assert [(f.level, f.path) for f in check_file(path)] == [
        (
            "error",
            "$.steps[1].observation.results[0].subagent_trajectory_ref[1].trajectory_path",
        ),
        ("error", "$.steps[0].message[0].source.path"),
        ("error", "$.subagent_trajectories[0].steps[0].message[0].source.path"),
        ("warning", "$.continued_trajectory_ref"),
    ]
    for name in ("x.png", "kid.json", "next.json"):
        (tmp_path / name).write_text("")
    assert check_file(path) == []


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found += _places(item, (*path, key))
    return found


ODD = [None, "", "x", "12", 0, -1, 1.5, True, [], {}, [1], ["x"], {"x": 1}, DROP, "2026-13-01"]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_all_that_harbor_finds(data: st.DataObject) -> None:
    """Whatever is done to a document: if Harbor rejects it, so do we."""
    document = base()
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(_places(document)))
        put(*path, value=data.draw(st.sampled_from(ODD)))(document)
    errors = [finding for finding in check(document) if finding.level == "error"]
    if harbor_errors(document):
        assert errors


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_what_is_read_is_written_valid(data: st.DataObject) -> None:
    """Whatever is done to a document: it goes through equal if it is lawful, else it is made so."""
    document = base()
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(_places(document)))
        odd = [value for value in ODD if value is not True]  # which Harbor takes for the number 1
        put(*path, value=data.draw(st.sampled_from(odd)))(document)
    reading = Reading(document, "x")
    if not reading.trajectories:
        assert harbor_errors(document)
        return
    made = again(document, "x")
    assert harbor_errors(made) == []
    if not reading.wrong and not harbor_errors(document):
        assert _plain(made) == _plain(document)


def _plain(value: Any) -> Any:
    """Without what says nothing: labels that are missing, nulls, empty lists of sub-agents."""
    if isinstance(value, dict):
        left = {k: _plain(v) for k, v in value.items() if v is not None and k != "schema_version"}
        return {k: v for k, v in left.items() if (k, v) != ("subagent_trajectories", [])}
    return [_plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.skipif(corpus("harbor") is None, reason="the real corpus is not here")
def test_the_verdicts_of_the_corpus() -> None:
    path = corpus("harbor", "validator_cases.jsonl")
    assert path is not None
    for line in path.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if not case["harbor_valid"]:
            assert any(f.level == "error" for f in check(case["doc"])), case["name"]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(group, ["validate", *arguments], standalone_mode=False)
    return result.return_value, result.stdout


def test_the_command(tmp_path: Path) -> None:
    good, bad, other = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"
    good.write_text(json.dumps(base()))
    document = base()
    document["steps"][0]["step_id"] = 5
    document["steps"][1]["source"] = "tool"
    bad.write_text(json.dumps(document))
    other.write_text('{"no": "atif"}')
    assert run(str(good))[0] == 0
    code, text = run(str(tmp_path))
    assert code == 1
    assert "$.steps[0].step_id: is 5, must be 1 [step-order]" in text
    assert "$.steps[1].source" in text
    assert "c.json" not in text
    code, text = run(str(tmp_path), "--json")
    verdicts = json.loads(text)
    assert code == 1
    assert [(v["file"], v["errors"]) for v in verdicts] == [(str(good), 0), (str(bad), 2)]
    paths = {finding["path"] for finding in verdicts[1]["findings"]}
    assert paths >= {"$.steps[0].step_id", "$.steps[1].source"}
    assert run(str(other))[0] == 1
    other.write_text('{"broken')
    assert "not-json" in run(str(other))[1]
    assert "unreadable" in run(str(tmp_path / "nowhere.json"))[1]
    other.write_text('{"steps": [], "\\ud800": {"\\udfff": 1e999}}')
    assert "lone-surrogate" in run(str(other))[1]
    assert "not-finite" in run(str(other), "--json")[1]
    other.write_text(json.dumps({"one": base(), "two": document}))
    assert '$["two"].steps[0].step_id' in run(str(other))[1]
