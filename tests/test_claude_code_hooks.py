"""Hooks and transcript of one session are one conversation, however the hooks were logged."""

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.claude_hooks import (
    LOGGERS,
    STAMPS,
    TURNS,
    Logger,
    Told,
    a_file_per_event,
    as_lines,
    below_dates,
    in_two_halves,
    local,
    payloads,
    spellings,
    transcript,
    with_displays,
)
from tests.claude_lines import SESSION, answer, at, call, read, result, said, words, write
from tests.harness import facts_of, origins_of, reduce_all
from unspool.io.origins import Tally
from unspool.sources.claude_code.hooks import EVENTS
from unspool.trajectory import Message, ToolCall, Trajectory

Said = tuple[str, str, tuple[str, ...]]


def told(messages: list[Message]) -> list[Said]:
    return [(m.role, m.content, tuple(c.id for c in m.tool_calls or ())) for m in messages]


def expected() -> list[Said]:
    """The conversation, straight from the description."""
    made: list[Said] = []
    for turn in TURNS:
        made.append(("user", turn.prompt, ()))
        for made_call in turn.calls:
            made += [("assistant", "", (made_call.ident,)), ("tool", made_call.came, ())]
        made.append(("assistant", turn.last, ()))
    return made


def calls(made: Trajectory) -> dict[str, ToolCall]:
    found = [call for message in made.messages for call in message.tool_calls or ()]
    assert len(found) == len({call.id for call in found}), "a call is there twice"
    return {call.id: call for call in found}


def check_joined(made: Trajectory) -> None:
    assert told(made.messages) == expected()
    assert not any((m.extra or {}).get("echo_only") for m in made.messages)
    assert made.partial is None
    marks = [mark.kind for mark in made.marks or ()]
    assert sorted(marks) == ["end", "start", "turn_end", "turn_end", "turn_end"]
    assert marks[0] == "start"
    assert marks[-1] == "end"
    ends = [mark.index for mark in made.marks or () if mark.kind != "start"]
    assert all(at == len(made.messages) or made.messages[at].role == "user" for at in ends)
    assert [m.turn for m in made.messages if m.role == "user"] == [0, 1, 2]
    found = calls(made)
    assert [found[i].status for i in sorted(found)] == [
        "completed", "completed", "failed", "denied", "completed",
    ]  # fmt: skip
    # only the hooks measured, only the person was asked twice, only the transcript has ids
    assert [found[i].duration_ms for i in sorted(found)] == [3400, 3400, 3400, None, 3400]
    asked = [i for i, c in found.items() if (c.extra or {}).get("permission_requested")]
    assert sorted(asked) == ["t4", "t5"]
    assert made.messages[0].id == "p0"
    assert made.messages[0].request_id == "q0"


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("logger", LOGGERS, ids=lambda logger: logger.__name__)
@pytest.mark.parametrize("ids", [(True, True), (False, True), (False, False)], ids=str)
def test_hooks_and_transcript(
    tmp_path: Path, logger: Logger, stamp: str, ids: tuple[bool, bool]
) -> None:
    session = write(tmp_path / "projects" / f"{SESSION}.jsonl", *transcript())
    logs = tmp_path / "logs"
    logs.mkdir()
    logger(logs, payloads(*ids), STAMPS[stamp])
    both = read(session, logs)
    assert list(both) == [SESSION]
    check_joined(both[SESSION])
    other = read(logs, session)
    assert msgspec.to_builtins(other[SESSION]) == msgspec.to_builtins(both[SESSION])


@pytest.mark.parametrize("stamp", STAMPS)
def test_logs_that_overlap(tmp_path: Path, stamp: str) -> None:
    session = write(tmp_path / "projects" / f"{SESSION}.jsonl", *transcript())
    logs = tmp_path / "logs"
    logs.mkdir()
    in_two_halves(logs, payloads(), STAMPS[stamp])
    made = read(session, logs)[SESSION]
    assert told(made.messages) == expected()
    calls(made)


@pytest.mark.parametrize("logger", [log for log in LOGGERS if log is not a_file_per_event],
                         ids=lambda logger: logger.__name__)  # fmt: skip
@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("ids", [(True, True), (False, False)], ids=str)
def test_hooks_alone(tmp_path: Path, logger: Logger, stamp: str, ids: tuple[bool, bool]) -> None:
    logger(tmp_path, payloads(*ids), STAMPS[stamp])
    (made,) = read(tmp_path).values()
    assert [(role, text) for role, text, _ in told(made.messages) if role != "tool"] == [
        (role, text) for role, text, _ in expected() if role != "tool"
    ]
    came = [text for role, text, _ in told(made.messages) if role == "tool"]
    assert came == [c.came for t in TURNS for c in t.calls if c.end != "PermissionDenied"]
    assert made.partial == ["only-echoes"]
    assert len(calls(made)) == 5
    assert (made.metadata.get("time_zone") == "unknown") == (stamp in ("east", "west"))


@pytest.mark.parametrize("prompt_ids", [True, False])
def test_a_file_per_event_without_times_is_put_in_order(tmp_path: Path, prompt_ids: bool) -> None:
    """Prompts and ends of turns alternate."""
    a_file_per_event(tmp_path, payloads(prompt_ids), None)
    (made,) = read(tmp_path).values()
    spoken = [(m.role, m.content) for m in made.messages if m.content and m.role != "tool"]
    assert spoken == [(r, t) for r, t, _ in expected() if t and r != "tool"]
    assert len(calls(made)) == 5
    kinds = [mark.kind for mark in made.marks or ()]
    assert (kinds[0], kinds[-1]) == ("start", "end")


@pytest.mark.parametrize("hours", [-7.0, -3.5, 0.0, 1.0, 5.75, 12.0])
def test_the_zone_of_a_log_is_found_by_what_the_transcript_saw_too(
    tmp_path: Path, hours: float
) -> None:
    session = write(tmp_path / "projects" / f"{SESSION}.jsonl", *transcript())
    log = tmp_path / "hooks.jsonl"
    as_lines(tmp_path, payloads(), local(hours))
    made = read(session, log)[SESSION]
    sign, minutes = "-" if hours < 0 else "+", int(abs(hours) * 60)
    assert made.metadata["time_zone"] == f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    end = next(mark for mark in made.marks or () if mark.kind == "end")
    assert end.timestamp == at(300)
    assert calls(made)["t1"].started_at == at(5.5)


def test_one_log_with_a_shared_event_sets_the_clock_of_all(tmp_path: Path) -> None:
    session = write(tmp_path / "projects" / f"{SESSION}.jsonl", *transcript())
    logs = tmp_path / "logs"
    logs.mkdir()
    a_file_per_event(logs, payloads(), local(-7))
    made = read(session, logs)[SESSION]
    end = next(mark for mark in made.marks or () if mark.kind == "end")
    assert end.timestamp == at(300)


def test_a_log_that_shares_nothing_fits_where_the_session_was(tmp_path: Path) -> None:
    session = write(tmp_path / "projects" / f"{SESSION}.jsonl", *transcript())
    only = [t for t in payloads() if t.payload["hook_event_name"] == "SessionStart"]
    only.append(Told(120, {**only[0].payload, "hook_event_name": "Notification", "message": "?"}))
    as_lines(tmp_path, only, local(5))
    made = read(session, tmp_path / "hooks.jsonl")[SESSION]
    assert made.metadata["time_zone"] == "+05:00"
    (mark,) = [m for m in made.marks or () if m.kind == "notification"]
    assert mark.timestamp == at(120)


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_in_every_spelling(tmp_path: Path, event: str) -> None:
    """Whatever the case, the same comes of it, and something does (but for the screen's echo)."""
    known: dict[str, Any] = {
        "prompt": "hi", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t",
        "tool_response": "x", "error": "no", "reason": "r", "last_assistant_message": "bye",
        "agent_id": "a1", "agent_type": "Explore", "trigger": "auto", "message": "m",
        "tool_calls": [{"tool_name": "Bash", "tool_input": {}, "tool_use_id": "t"}],
    }  # fmt: skip
    base = {"session_id": SESSION, "transcript_path": "/t", "cwd": "/w", **known}
    first: list[Any] | None = None
    for number, name in enumerate(spellings(event)):
        path = write(tmp_path / str(number) / "log.jsonl", {**base, "hook_event_name": name})
        made = [msgspec.to_builtins(t) for t in read(path).values()]
        text = json.loads(json.dumps(made).replace(str(path.parent), ""))
        first = text if first is None else first
        assert text == first, name
    silent = {"MessageDisplay"}
    alone = [m for t in first or () for m in (*t["messages"], *t.get("marks", ()))]
    messages = {"UserPromptSubmit", "PreToolUse", "PermissionRequest", "PermissionDenied",
                "PostToolUse", "PostToolUseFailure", "PostToolBatch", "Stop", "StopFailure",
                "SubagentStop"}  # fmt: skip
    if event in messages:
        assert alone
    elif event not in silent:
        assert first == []  # a mark alone is no conversation


def test_tool_result_is_tool_response(tmp_path: Path) -> None:
    told_twice = [
        Told(t.second, {("tool_result" if k == "tool_response" else k): v
                        for k, v in t.payload.items()})
        for t in payloads()
    ]  # fmt: skip
    as_lines(tmp_path, told_twice, None)
    (made,) = read(tmp_path).values()
    assert "a.txt b.txt" in words(made)


def test_the_order_of_the_files_does_not_matter(tmp_path: Path) -> None:
    session = write(tmp_path / "projects" / f"{SESSION}.jsonl", *transcript())
    as_lines(tmp_path, payloads(), None)
    logs = tmp_path / "logs"
    logs.mkdir()
    a_file_per_event(logs, payloads(), None)
    places = [session, tmp_path / "hooks.jsonl", logs]
    for order in itertools.permutations(places):
        check_joined(read(*order)[SESSION])


def test_hooks_alone_tell_what_became_of_an_edit(tmp_path: Path) -> None:
    base = {"session_id": SESSION, "transcript_path": "/t", "hook_event_name": "PostToolUse"}
    patch = [{"lines": ["-old", "+new", "+newer", " same"]}]
    given = {"file_path": "/w/a", "old_string": "old", "new_string": "new\nnewer"}
    came = {"filePath": "/w/a", "structuredPatch": patch, "userModified": True}
    edit = {"tool_name": "Edit", "tool_use_id": "t", "tool_input": given, "tool_response": came}
    (made,) = read(write(tmp_path / "log.jsonl", {**base, **edit})).values()
    (touch,) = made.files or []
    assert (touch.path, touch.operation, touch.outcome) == ("/w/a", "edit", "modified")
    assert (touch.lines_added, touch.lines_removed) == (2, 1)


@pytest.mark.parametrize("stamp", ["utc", "east"])
def test_a_log_that_began_later_finds_its_own_prompt(tmp_path: Path, stamp: str) -> None:
    """The second "go on" is the first one in the log: the time tells which it is."""
    session = write(tmp_path / "projects" / f"{SESSION}.jsonl", *transcript())
    late = [t for t in payloads(prompt_ids=False) if t.second >= 190]
    late[0].payload["source"] = "loop_wakeup"
    as_lines(tmp_path, late, STAMPS[stamp])
    made = read(session, tmp_path / "hooks.jsonl")[SESSION]
    assert told(made.messages) == expected()
    sources = [(m.extra or {}).get("prompt_source") for m in made.messages if m.role == "user"]
    assert sources == [None, None, "loop_wakeup"]


@pytest.mark.parametrize("stamp", ["none", "utc"])
def test_text_between_payloads_is_no_problem(tmp_path: Path, stamp: str) -> None:
    below_dates(tmp_path, payloads(), STAMPS[stamp])
    tally = Tally()
    (made,) = reduce_all(facts_of(origins_of(tmp_path), tally))
    assert (tally.problems, tally.records) == (0, len(payloads()))
    assert (made.messages[0].timestamp is not None) == (stamp == "utc")


@pytest.mark.parametrize("stamp", ["", "2026-03-02 09:00:04 "])
@pytest.mark.parametrize("last", [None, "Done."])
def test_a_turn_ends_behind_its_answer(tmp_path: Path, last: str | None, stamp: str) -> None:
    """Clocks that show seconds are early; without a clock and the last words, the turn tells."""
    write(
        tmp_path / "t.jsonl",
        said("1", None, "go", 1),
        answer("2", "1", "m1", call("c1"), second=2),
        result("3", "2", "c1", "a.txt", second=3),
        answer("4", "3", "m2", "Done.", second=4.4),
        said("5", "4", "more", 9),
        answer("6", "5", "m3", "Yes.", second=10),
    )
    base = {"session_id": SESSION, "transcript_path": "/t.jsonl", "cwd": "/w"}
    given = {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "c1", "tool_response": "a.txt"}
    stop = {**base, "hook_event_name": "Stop", "stop_hook_active": False}
    rows = [
        {**base, "hook_event_name": "PostToolUse", **given},
        {**stop, "last_assistant_message": last} if last else stop,
        {**base, "hook_event_name": "SessionEnd", "reason": "other"},
    ]
    lines = (f"{stamp}{json.dumps(row)}\n" for row in rows)
    (tmp_path / "hooks.log").write_text("".join(lines))
    (made,) = read(tmp_path).values()
    assert words(made)[3] == "Done."
    assert [(mark.kind, mark.index) for mark in made.marks or ()] == [("turn_end", 4), ("end", 4)]


# What appeared on the screen


def shown() -> list[Said]:
    """The conversation with words before every call, as only the screen told them."""
    made: list[Said] = []
    for role, text, ids in expected():
        made += [("assistant", "I look around.", ())] if ids else []
        made.append((role, text, ids))
    return made


@pytest.mark.parametrize("logger", [log for log in LOGGERS if log is not a_file_per_event],
                         ids=lambda logger: logger.__name__)  # fmt: skip
@pytest.mark.parametrize("stamp", STAMPS)
def test_words_that_appeared_on_the_screen(tmp_path: Path, logger: Logger, stamp: str) -> None:
    """They are all that a log knows of what was said between the calls; the last answer, which the
    end of the turn tells again, is there once."""
    logger(tmp_path, with_displays(payloads()), STAMPS[stamp])
    (made,) = read(tmp_path).values()
    spoken = [said for said in told(made.messages) if said[0] != "tool"]
    assert spoken == [said for said in shown() if said[0] != "tool"]


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("logger", LOGGERS, ids=lambda logger: logger.__name__)
def test_the_screen_shows_what_the_transcript_holds(
    tmp_path: Path, logger: Logger, stamp: str
) -> None:
    rows = transcript()
    for row in rows:
        if row["type"] == "assistant" and row["message"]["content"][0]["type"] == "tool_use":
            row["message"]["content"].insert(0, {"type": "text", "text": "I look around."})
    session = write(tmp_path / "projects" / f"{SESSION}.jsonl", *rows)
    logs = tmp_path / "logs"
    logs.mkdir()
    logger(logs, with_displays(payloads()), STAMPS[stamp])
    made = read(session, logs)[SESSION]
    assert told(made.messages) == [
        (role, "I look around." if ids else text, ids) for role, text, ids in expected()
    ]
    assert not any((m.extra or {}).get("echo_only") for m in made.messages)


@pytest.mark.parametrize("stamp", [name for name in STAMPS if name != "none"])
@pytest.mark.parametrize("logger", [in_two_halves, as_lines], ids=lambda logger: logger.__name__)
def test_pieces_that_two_logs_hold_are_shown_once(
    tmp_path: Path, logger: Logger, stamp: str
) -> None:
    logger(tmp_path, with_displays(payloads()), STAMPS[stamp])
    if logger is as_lines:
        (tmp_path / "copy.jsonl").write_bytes((tmp_path / "hooks.jsonl").read_bytes())
    (made,) = read(tmp_path).values()
    words = [m.content for m in made.messages if m.role == "assistant" and m.content]
    assert words == [text for role, text, _ in shown() if role == "assistant" and text]
