"""`unspool extract --to atif` from traces and from ATIF, as a user runs it."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.atif.judges import harbor_errors
from tests.atif.test_reader import GIVEN
from unspool.cli import group
from unspool.sinks.atif.rules import check_file


def extract(*arguments: str) -> None:
    result = CliRunner().invoke(group, ["extract", *arguments, "-q"], standalone_mode=False)
    assert result.exception is None, result.exception


def simple(words: str, **fields: Any) -> dict[str, Any]:
    return {
        "schema_version": "ATIF-v1.6",
        "session_id": "run",
        "agent": {"name": "a", "version": "1"},
        "steps": [{"step_id": 1, "source": "user", "message": words}],
        **fields,
    }


def found(folder: Path) -> dict[str, dict[str, Any]]:
    for path in folder.glob("*.json"):
        assert harbor_errors(path) == []
        assert [f for f in check_file(path) if f.level == "error"] == []
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}


@pytest.mark.parametrize("name", GIVEN)
def test_equal_after_the_whole_way(name: str, tmp_path: Path) -> None:
    """Linking and enriching add nothing to a document that is not ours."""
    given = copy.deepcopy(GIVEN[name])
    given["steps"][0]["message"] = given["steps"][0]["message"] or "<context>x</context> hi"
    (tmp_path / "x.json").write_text(json.dumps(given))
    extract(str(tmp_path / "x.json"), "--to", "atif", "-o", f"{tmp_path}/o")
    (made,) = (tmp_path / "o").glob("*.json")
    assert json.loads(made.read_text()) == given


def test_documents_of_one_id_are_all_written(tmp_path: Path) -> None:
    """Harbor's Copilot converter names every run alike."""
    (tmp_path / "a.json").write_text(json.dumps(simple("one")))
    (tmp_path / "b.json").write_text(json.dumps(simple("two")))
    extract(
        str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--to", "atif", "-o", f"{tmp_path}/o"
    )
    texts = [d["steps"][0]["message"] for d in found(tmp_path / "o").values()]
    assert sorted(texts) == ["one", "two"]


def test_sub_agents_in_files_of_their_own_come_together(tmp_path: Path) -> None:
    """Read apart, they are tied by their references and embedded where the version allows it."""
    ref = {"session_id": "kid", "trajectory_path": "kid.json"}
    parent = simple("go")
    parent["steps"].append(
        {
            "step_id": 2,
            "source": "agent",
            "message": "",
            "tool_calls": [{"tool_call_id": "c", "function_name": "task", "arguments": {}}],
            "observation": {"results": [{"source_call_id": "c", "subagent_trajectory_ref": [ref]}]},
        }
    )
    source = tmp_path / "in"
    source.mkdir()
    (source / "main.json").write_text(json.dumps(parent))
    (source / "kid.json").write_text(json.dumps(simple("yes", session_id="kid")))
    extract(str(source), "--to", "atif", "-o", f"{tmp_path}/o")
    made = found(tmp_path / "o")
    assert list(made) == ["run.trajectory.json"]
    document = made["run.trajectory.json"]
    (kid,) = document["subagent_trajectories"]
    assert kid["steps"][0]["message"] == "yes"
    (told,) = document["steps"][1]["observation"]["results"][0]["subagent_trajectory_ref"]
    assert told["trajectory_id"] == kid["trajectory_id"] == "kid"
    assert "trajectory_path" not in told
