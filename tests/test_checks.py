"""Checks of raw telemetry, on files made here."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.harness import case_id, cases
from unspool.cli import group
from unspool.errors import NothingToRead
from unspool.inspect.telemetry import check_models, search_types


def event(name: str, second: int = 0, **properties: Any) -> dict[str, Any]:
    return {
        "name": f"GitHub.copilot-chat/{name}",
        "time": f"2026-03-01T10:00:{second:02d}.000Z",
        "data": {"baseData": {"properties": properties, "measurements": {"promptTokens": 7}}},
    }


def engine(conversation: str, request: str, role: str, **properties: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "s"}, {"role": role, "content": "x"}]
    return event(
        "engine.messages",
        conversationId=conversation,
        headerRequestId=request,
        messagesJson=json.dumps(messages),
        **properties,
    )


def asked(model: str) -> dict[str, str]:
    return {"request.option.model": json.dumps(model)}


def session(request: str, model: str, name: str = "Message") -> dict[str, Any]:
    return event(f"interactiveSession{name}", sessionId="c", requestId=request, baseModel=model)


def write(folder: Path, *events: Any) -> str:
    path = folder / "log.jsonl"
    lines = (item if isinstance(item, str) else json.dumps(item) for item in events)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["check", *arguments])


GOOD = (
    engine("c", "r1", "user", **asked("m")),
    engine("c", "r1", "assistant", baseModel="m-2026"),
    engine("c", "r1", "tool", request_option_model='"m"'),
    session("r1", "m-2026", "Response"),
)


def test_all_holds(tmp_path: Path) -> None:
    report = check_models([write(tmp_path, *GOOD)])
    assert report.violated == 0
    assert {f.name: f.checked for f in report.findings} == {
        "one-model-field": 3,
        "some-model-field": 3,
        "answer-has-base-model": 1,
        "request-has-option-model": 2,
        "session-agrees": 1,
    }


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (engine("c", "r2", "user", baseModel="m", **asked("m")), "one-model-field"),
        (engine("c", "r2", "system"), "some-model-field"),
        (engine("c", "r2", "assistant", **asked("m")), "answer-has-base-model"),
        (engine("c", "r2", "tool", baseModel="m"), "request-has-option-model"),
        (session("r1", "another", "Response"), "session-agrees"),
    ],
)
def test_every_violation_is_counted_with_its_place(
    tmp_path: Path, bad: dict[str, Any], name: str
) -> None:
    path = write(tmp_path, *GOOD, bad, bad)
    finding = next(f for f in check_models([path]).findings if f.name == name)
    assert finding.violated == (1 if name == "session-agrees" else 2)
    first = finding.examples[0]
    assert first.origin == path
    lines = Path(path).read_bytes()
    assert lines[first.offset :].startswith(json.dumps(bad).encode()[:60])
    shown = run("model-correlation", path)
    assert shown.exit_code == 0
    assert f"{path}:{first.offset}" in shown.stdout
    assert run("model-correlation", path, "--strict").exit_code == 3


def test_the_session_response_knows_better_and_auto_says_nothing(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        *GOOD[:3],
        session("r1", "m", "Response"),
        session("r1", "wrong"),
        session("r9", "m"),
        session("r1", "auto", "Response"),
    )
    report = check_models([path])
    assert report.violated == 0
    assert report.unmatched_sessions == 1


def test_a_list_that_was_cut_off_does_not_tell_its_last_role(tmp_path: Path) -> None:
    cut = engine("c", "r1", "user", **asked("m"))
    cut["data"]["baseData"]["properties"]["messagesJson"] = '[{"role":"user","content":"x'
    report = check_models([write(tmp_path, cut, "{broken")])
    assert (report.unreadable_lists, report.problems, report.violated) == (1, 1, 0)


def test_examples_are_bounded_and_json_holds_everything(tmp_path: Path) -> None:
    bad = engine("c", "r", "user")
    path = write(tmp_path, *[bad] * 20)
    made = json.loads(run("model-correlation", path, "--json", "--examples", "2").stdout)
    finding = next(f for f in made["findings"] if f["name"] == "some-model-field")
    assert (finding["checked"], finding["violated"], len(finding["examples"])) == (20, 20, 2)


def test_types_with_counts_times_properties_and_an_example(tmp_path: Path) -> None:
    long = "x" * 9000
    path = write(
        tmp_path,
        event("engine.messages", 5, conversationId="c", messagesJson=long, messagesJson_02="y"),
        event("engine.messages", 2, conversationId="c", model_02="alone"),
        event("conversation.messageText", 1, messageText="hi"),
    )
    report = search_types([path], "ENGINE")
    (made,) = report.types
    assert (made.name, made.count, report.events) == ("GitHub.copilot-chat/engine.messages", 2, 3)
    assert (made.first, made.last) == ("2026-03-01T10:00:02.000Z", "2026-03-01T10:00:05.000Z")
    assert made.properties == {"conversationId": 2, "messagesJson": 1, "model_02": 1}
    assert made.measurements == {"promptTokens": 2}
    assert made.example["offset"] == 0
    assert len(made.example["properties"]["messagesJson"]) == 200
    shown = run("telemetry-type-search", path, "--contains", "messagetext")
    assert "conversation.messageText  1" in shown.stdout
    assert "engine" not in shown.stdout
    assert json.loads(run("telemetry-type-search", path, "--json").stdout)["events"] == 3


def test_nothing_to_check_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no telemetry")
    result = run("model-correlation", str(tmp_path))
    assert "1 files are of no known format" in str(result.exception)


@pytest.mark.parametrize("case", cases("copilot_telemetry"), ids=case_id)
def test_no_telemetry_is_too_odd_to_be_looked_at(case: Path) -> None:
    for name in ("model-correlation", "telemetry-type-search"):
        result = run(name, str(case / "input"), "--json")
        assert result.exit_code == 0 or isinstance(result.exception, NothingToRead)


def test_bytes_that_are_no_text_do_not_stop_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    line = json.dumps(event("conversation.messageText", messageText="a\nQ", source="user"))
    path.write_bytes(line.encode().replace(b"Q", b"\xff") + b"\n")
    (made,) = search_types([str(path)]).types
    assert made.example["properties"]["messageText"] == "a\n\ufffd"


@pytest.mark.parametrize("command", ["model-correlation", "telemetry-type-search"])
def test_what_could_not_be_read_is_named(tmp_path: Path, command: str) -> None:
    path, missing = tmp_path / "log.jsonl", str(tmp_path / "missing.jsonl")
    path.write_text(json.dumps(engine("c", "r", "user", **asked("m"))) + "\nbroken\n")
    runner = CliRunner()
    result = runner.invoke(group, ["check", command, str(path), missing])
    assert result.exit_code == 0
    assert "2 could not be read" in result.stderr
    assert f"{missing}:0  unreadable  No such file" in result.stderr
    assert f"{path}:{path.stat().st_size - 7}  invalid-json  broken" in result.stderr
    report = json.loads(
        runner.invoke(group, ["check", command, str(path), missing, "--json"]).stdout
    )
    assert report["problems"] == 2
    assert {one["origin"] for one in report["unread"]} == {str(path), missing}
    result = runner.invoke(group, ["check", command, missing])
    assert f"{missing}: No such file" in str(result.exception)


def test_conversation_tags_name_what_could_not_be_read(tmp_path: Path) -> None:
    path, missing = tmp_path / "log.jsonl", str(tmp_path / "missing.jsonl")
    path.write_text(json.dumps(engine("c", "r", "user", **asked("m"))))
    result = CliRunner().invoke(group, ["conversation-tags", str(path), missing])
    assert result.exit_code == 0
    assert f"1 × unreadable (first at {missing}:0)" in result.stderr
