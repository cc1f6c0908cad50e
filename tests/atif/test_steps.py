"""What goes where in an ATIF document, one rule at a time."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.atif.judges import documents, harbor_errors, write_all
from unspool.errors import UsageError
from unspool.facts import Attachment
from unspool.sinks import Family, load
from unspool.sinks.atif.rules import check
from unspool.trajectory import Link, Mark, Message, ToolCall, ToolFunction, Trajectory, Usage

PICTURE = b"\x89PNG\r\n\x1a\nxxxx"


def user(words: str = "go", **fields: Any) -> Message:
    return Message("user", words, **fields)


def said(words: str = "ok", *calls: ToolCall, **fields: Any) -> Message:
    return Message("assistant", words, tool_calls=list(calls) or None, **fields)


def call(ident: str, arguments: str = "{}", **fields: Any) -> ToolCall:
    return ToolCall(ident, function=ToolFunction("run", arguments), **fields)


def result(ident: str | None, words: str = "", **fields: Any) -> Message:
    return Message("tool", words, tool_call_id=ident, **fields)


def talk(*messages: Message, ident: str = "c", **fields: Any) -> Trajectory:
    return Trajectory(conversation_id=ident, messages=list(messages), source="x", **fields)


def write(root: Trajectory, *below: Trajectory, **options: str) -> dict[str, Any]:
    document = documents(Family(root, below), **options)[0]
    assert harbor_errors(document) == []
    assert [f for f in check(document) if f.level == "error"] == []
    return document


def steps(*messages: Message, **fields: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = write(talk(*messages, **fields))["steps"]
    return made


def test_the_system_prompt_leads_and_tools_stand_with_the_agent() -> None:
    document = write(
        talk(
            Message("system", "be good"),
            user(),
            said(model="m1"),
            agent="a",
            agent_version="1.2",
            tool_definitions=[
                {"name": "f", "description": "d", "input_schema": {"type": "object"}},
                {"type": "function", "name": "g", "parameters": {}},
                {"type": "function", "function": {"name": "h"}},
            ],
        )
    )
    assert [s["source"] for s in document["steps"]] == ["system", "user", "agent"]
    assert document["steps"][0]["message"] == "be good"
    agent = document["agent"]
    assert (agent["name"], agent["version"], agent["model_name"]) == ("a", "1.2", "m1")
    functions = [definition["function"] for definition in agent["tool_definitions"]]
    assert functions[0] == {"name": "f", "description": "d", "parameters": {"type": "object"}}
    assert [function["name"] for function in functions] == ["f", "g", "h"]


def test_results_are_exact_and_tell_how_it_went() -> None:
    (step,) = steps(
        said("", call("1"), call("2", duration_ms=5.0), call("3"), call("4"), thinking="hm"),
        result("1", ""),
        result("2", "  two \n", details={"exitCode": 3}, is_error=True, duration_ms=7.5),
        result("3", "Exit code 9\nno", is_error=True),
        result("4", "done\n<exited with exit code 0>", status="completed"),
    )
    assert step["message"] == ""
    assert step["reasoning_content"] == "hm"
    results = step["observation"]["results"]
    assert [r["content"] for r in results][:2] == ["", "  two \n"]
    assert results[1]["extra"]["is_error"] is True
    assert results[1]["extra"]["duration_ms"] == 7.5
    assert results[1]["extra"]["details"] == {"exitCode": 3}
    assert [r.get("extra", {}).get("exit_code") for r in results] == [None, 3, 9, 0]
    assert step["tool_calls"][1]["extra"]["duration_ms"] == 5.0


def test_results_find_their_call_wherever_it_stands() -> None:
    made = steps(
        said("", call("1")), user(), said("", call("2")), result("1", "one"), result("2", "two")
    )
    contents = [s["observation"]["results"][0]["content"] for s in (made[0], made[2])]
    assert contents == ["one", "two"]
    assert len(made) == 3


def test_a_result_without_a_call_is_kept() -> None:
    first, second = steps(user(), result("gone", "here", name="run"))
    assert first["source"] == "user"
    (kept,) = second["observation"]["results"]
    assert second["source"] == "system"
    assert "source_call_id" not in kept
    assert kept["content"] == "here"
    assert kept["extra"]["tool_call_id"] == "gone"


def test_arguments_are_objects() -> None:
    (step,) = steps(said("", call("1", '{"a": [1, 2.50]}'), call("2", "*** patch"), call("3", "")))
    assert [c["arguments"] for c in step["tool_calls"]] == [
        {"a": [1, 2.5]},
        {"raw": "*** patch"},
        {},
    ]


def test_images_are_files(tmp_path: Path) -> None:
    data = base64.b64encode(PICTURE).decode()
    photo = Attachment("image", media_type="image/jpg", data=data, name="shot.jpg")
    drawing = Attachment("image", media_type="image/svg+xml", data=data, name="x.svg")
    remote = Attachment("image", media_type="image/png", uri="https://x/y.png")
    local = Attachment("image", media_type="image/png", path="/home/me/y.png")
    root = talk(user("see", attachments=[photo, drawing, remote, local]), said())
    (path,) = write_all(Family(root), tmp_path)
    assert harbor_errors(path) == []
    name = hashlib.sha256(PICTURE).hexdigest()
    step = json.loads(path.read_text())["steps"][0]
    assert step["message"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"media_type": "image/jpeg", "path": f"images/{name}.jpg"}},
        {"type": "image", "source": {"media_type": "image/png", "path": "https://x/y.png"}},
    ]
    assert (tmp_path / "images" / f"{name}.jpg").read_bytes() == PICTURE
    told = step["extra"]["unspool"]["attachments"]
    assert [a.get("file") for a in told] == [f"images/{name}.jpg", f"images/{name}.svg", None, None]
    assert (tmp_path / "images" / f"{name}.svg").exists()
    assert data not in path.read_text()


def test_sound_needs_the_newest_version() -> None:
    data = base64.b64encode(b"RIFF").decode()
    root = talk(
        user("hear", attachments=[Attachment("audio", media_type="audio/x-wav", data=data)])
    )
    assert write(root)["schema_version"] == "ATIF-v1.8"
    lower = write(root, atif_version="1.7")
    assert lower["steps"][0]["message"] == [{"type": "text", "text": "hear"}]


def test_compaction() -> None:
    made = steps(
        user(),
        said(),
        user("so far: all", kind="summary"),
        said("on"),
        marks=[Mark("compaction", 2), Mark("compaction", 4, data={"summary": "shorter"})],
    )
    assert [s["source"] for s in made] == ["user", "agent", "system", "agent", "system"]
    for step, text in ((made[2], "so far: all"), (made[4], "shorter")):
        assert step["extra"]["context_management"] == {"type": "compaction", "boundary": "replace"}
        assert step["observation"] == {"results": [{"content": text}]}


def test_copied_context_is_marked_and_not_counted() -> None:
    document = write(
        talk(
            user(copied=True),
            said(copied=True, usage=Usage(prompt_tokens=100, cost_usd=1.0)),
            user("more"),
            said(usage=Usage(prompt_tokens=10, completion_tokens=2, cost_usd=0.5)),
        )
    )
    assert [s.get("is_copied_context") for s in document["steps"]] == [True, True, None, None]
    assert document["final_metrics"] == {
        "total_prompt_tokens": 10,
        "total_completion_tokens": 2,
        "total_cost_usd": 0.5,
        "total_steps": 4,
    }
    assert "2 of 4 steps are copied" in document["notes"]


def test_metrics() -> None:
    usage = Usage(
        prompt_tokens=100,
        completion_tokens=20,
        cached_tokens=60,
        cache_write_tokens=30,
        reasoning_tokens=5,
        requests=2,
    )
    (step,) = steps(said(usage=usage))
    assert step["llm_call_count"] == 2
    assert step["metrics"]["cached_tokens"] == 60
    assert step["metrics"]["extra"]["cache_creation_input_tokens"] == 30
    assert step["metrics"]["extra"]["reasoning_tokens"] == 5
    assert "cost_usd" not in step["metrics"]


def test_figures_that_cannot_be_true_are_not_told_as_such() -> None:
    (step,) = steps(said(usage=Usage(prompt_tokens=5, cached_tokens=9, completion_tokens=-1)))
    assert step["metrics"]["prompt_tokens"] == 5
    assert step["metrics"].keys() == {"prompt_tokens", "extra"}
    assert step["metrics"]["extra"]["unspool"] == {"cached_tokens": 9, "completion_tokens": -1}


def test_what_was_reported_fills_what_the_steps_do_not_tell() -> None:
    document = write(
        talk(
            said(usage=Usage(completion_tokens=5)),
            usage=Usage(prompt_tokens=70, completion_tokens=9, cost_usd=0.1),
        )
    )
    assert document["final_metrics"] == {
        "total_prompt_tokens": 70,
        "total_completion_tokens": 5,
        "total_cost_usd": 0.1,
        "total_steps": 1,
        "extra": {"reported": {"completion_tokens": 9}},
    }


def test_times_are_utc_or_absent() -> None:
    made = steps(
        user(timestamp="2026-01-01T12:00:00+02:00"), said(timestamp="noon"), user("no time")
    )
    assert [s.get("timestamp") for s in made] == ["2026-01-01T10:00:00.000Z", None, None]


def test_a_tool_that_the_person_ran_is_no_model_call() -> None:
    first, second = steps(said("", call("1", by_user=True)), result("1", "x"), said("hi"))
    assert (first["llm_call_count"], second["llm_call_count"]) == (0, 1)


def family() -> tuple[Trajectory, Trajectory, Trajectory]:
    """A root, its sub-agent, and the sub-agent's own; each known from one side only."""
    root = talk(user(), said("", call("1", child_id="kid")), result("1", "done"), ident="root")
    kid = talk(said("k", call("2"), usage=Usage(cost_usd=0.5)), ident="kid")
    grand = talk(said("g"), ident="grand", parent=Link("kid", tool_call_id="2"))
    return root, kid, grand


def test_sub_agents_are_embedded_with_a_reference() -> None:
    root, kid, grand = family()
    document = write(root, kid, grand)
    (inner,) = document["subagent_trajectories"]
    assert inner["trajectory_id"] == "kid"
    assert inner["session_id"] == document["session_id"] == "root"
    (ref,) = document["steps"][1]["observation"]["results"][0]["subagent_trajectory_ref"]
    assert ref["trajectory_id"] == "kid"
    (ref,) = inner["steps"][0]["observation"]["results"][0]["subagent_trajectory_ref"]
    assert ref["trajectory_id"] == inner["subagent_trajectories"][0]["trajectory_id"] == "grand"
    assert document["final_metrics"]["total_cost_usd"] == 0.5


@pytest.mark.parametrize("options", [{"subagents": "files"}, {"atif_version": "1.6"}])
def test_sub_agents_in_files(options: dict[str, str], tmp_path: Path) -> None:
    root, kid, grand = family()
    paths = write_all(Family(root, (kid, grand)), tmp_path, **options)
    assert sorted(p.name for p in paths) == [
        "grand.trajectory.json",
        "kid.trajectory.json",
        "root.trajectory.json",
    ]
    for path in paths:
        assert harbor_errors(path) == []
    made = json.loads((tmp_path / "root.trajectory.json").read_text())
    assert "subagent_trajectories" not in made
    (ref,) = made["steps"][1]["observation"]["results"][0]["subagent_trajectory_ref"]
    inner = json.loads((tmp_path / ref["trajectory_path"]).read_text())
    if "atif_version" in options:
        assert ref["session_id"] == inner["session_id"] == "kid"


def test_circles_and_strangers() -> None:
    """Everybody once, however the ties run; who is tied to nobody stands under the root."""
    root = talk(user(), ident="a", parent=Link("b"), children=[Link("b")])
    other = talk(user(), ident="b", parent=Link("a"), children=[Link("a"), Link("b")])
    lost = talk(user(), ident="z")
    document = write(root, other, lost)
    assert [sub["trajectory_id"] for sub in document["subagent_trajectories"]] == ["b", "z"]


def test_an_older_version_keeps_the_rest_in_the_nearest_extra() -> None:
    data = base64.b64encode(PICTURE).decode()
    root = talk(
        user("see", attachments=[Attachment("image", media_type="image/png", data=data)]),
        said("", call("1", status="failed")),
        result("1", "no", is_error=True),
        session_id="run",
    )
    document = write(root, atif_version="1.5")
    assert document["schema_version"] == "ATIF-v1.5"
    assert document["session_id"] == "c"
    assert document["steps"][0]["message"] == "see"
    kept = document["steps"][1]["extra"]["unspool"]["newer"]
    assert kept["/observation/results/0/extra"]["is_error"] is True
    assert kept["/tool_calls/0/extra"]["status"] == "failed"
    assert kept["/llm_call_count"] == 1
    assert document["extra"]["unspool"]["newer"]["/session_id"] == "run"


def test_nothing_to_show_gives_no_file() -> None:
    assert list(load("atif").write(Family(talk()), {})) == []


def test_names_of_files() -> None:
    names = [
        piece.name
        for ident in ("plain-1", "a/b", "a_b", "..", "x" * 300)
        for piece in load("atif").write(Family(talk(user(), ident=ident)), {})
    ]
    assert names[0] == "plain-1.trajectory.json"
    assert len(set(names)) == len(names)
    assert all("/" not in name and len(name) < 200 and name[0] != "." for name in names)


def test_unknown_options() -> None:
    with pytest.raises(UsageError):
        list(load("atif").write(Family(talk(user())), {"atif_version": "2.0"}))
    with pytest.raises(UsageError):
        list(load("atif").write(Family(talk(user())), {"subagents": "inside"}))
