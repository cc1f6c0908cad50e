"""What telemetry must not lose or mix up: answers, sub-agents, modes, figures of empty answers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.harness import CASES, obey_modes
from tests.telemetry import Event, answer, call, event, said, write
from unspool import Message, Trajectory

SYSTEM = said("system", "be good")
USER = said("user", "hi")


def calls(ident: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": "{}"}
    made = [{"id": ident, "type": "function", "function": function}]
    return said("assistant", "", tool_calls=made)


def returned(ident: str) -> dict[str, Any]:
    return said("tool", "seen", tool_call_id=ident)


def rebuilt(folder: Path, *files: list[Event]) -> list[Trajectory]:
    for number, events in enumerate(files):
        write(folder / f"{number}.jsonl", events)
    return list(unspool.extract(folder))


def words(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in messages]


def test_figures_of_a_round_that_only_called_tools(tmp_path: Path) -> None:
    ids = [{"modelCallId": name, "headerRequestId": "r"} for name in ("m1", "m2")]
    (made,) = rebuilt(
        tmp_path,
        [
            call([SYSTEM, USER], 1, **ids[0]),
            answer("", 2, promptTokens=10, completionTokens=5, **ids[0]),
            call([SYSTEM, USER, calls("a"), returned("a")], 3, **ids[1]),
            answer("done", 4, promptTokens=20, completionTokens=6, **ids[1]),
        ],
    )
    assert [(m.model, m.model_source) for m in made.messages if m.role == "assistant"] == [
        ("gpt-answered", "engine")
    ] * 2
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (30, 11)


def test_an_unanswered_call_does_not_shift_the_answers(tmp_path: Path) -> None:
    middle = [SYSTEM, USER, calls("a"), returned("a")]
    (made,) = rebuilt(
        tmp_path,
        [
            call([SYSTEM, USER], 1, headerRequestId="r"),
            call(middle, 3, headerRequestId="r"),
            answer("middle", 4, headerRequestId="r"),
            call(
                [*middle, said("assistant", "middle"), said("user", "go")], 5, headerRequestId="r"
            ),
            answer("last", 6, headerRequestId="r"),
        ],
    )
    assert made.messages[-1].content == "last"
    assert made.messages[2].model_source == "engine-request"


def test_an_answer_with_an_id_finds_a_call_without(tmp_path: Path) -> None:
    (made,) = rebuilt(
        tmp_path,
        [call([SYSTEM, USER], 1, headerRequestId="r")],
        [answer("yes", 2, headerRequestId="r", modelCallId="m")],
    )
    assert words(made.messages)[-1] == ("assistant", "yes")
    assert made.partial is None


def test_cache_marks_in_front(tmp_path: Path) -> None:
    mark = {"type": "ephemeral"}
    marked = [
        {"copilot_cache_control": mark, **SYSTEM},
        said(
            "user",
            [{"type": "copilot_cache_control", "cache": "x"}, {"type": "text", "text": "hi"}],
        ),
        said("assistant", "I set copilot_cache_control", copilot_cache_control=mark),
        said("user", '{"copilot_cache_control": {"type": "ephemeral"}, "a": 1}'),
    ]
    (made,) = rebuilt(
        tmp_path, [call(marked, 1, modelCallId="m"), answer("yes", 2, modelCallId="m")]
    )
    assert words(made.messages) == [
        ("system", "be good"),
        ("user", "hi"),
        ("assistant", "I set copilot_cache_control"),
        ("user", '{"copilot_cache_control": {"type": "ephemeral"}, "a": 1}'),
        ("assistant", "yes"),
    ]


@pytest.mark.parametrize("header", ["r", None])
def test_sub_agents_that_share_an_id(tmp_path: Path, header: str | None) -> None:
    """With their parent's own request, or with none: neither they nor the parent get lost."""
    sub = {"subType": "subagent", "parentRequestId": "r", "headerRequestId": header}
    asked = [[said("system", "sub"), said("user", f"task {name}")] for name in "AB"]
    made = rebuilt(
        tmp_path,
        [
            call([SYSTEM, USER], 1, modelCallId="m1", headerRequestId="r"),
            call(asked[0], 2, modelCallId="s1", **sub),
            answer("A done", 3, modelCallId="s1", headerRequestId=header),
            call(asked[1], 2, modelCallId="s2", **sub),
            answer("B done", 3, modelCallId="s2", headerRequestId=header),
            call(
                [SYSTEM, USER, calls("a"), returned("a")], 4, modelCallId="m2", headerRequestId="r"
            ),
            answer("all done", 5, modelCallId="m2", headerRequestId="r"),
        ],
    )
    assert [(t.conversation_id, t.messages[-1].content) for t in made] == [
        ("c", "all done"),
        ("c/r", "A done"),
        ("c/r/2", "B done"),
    ]
    assert all(t.parent is not None and t.parent.conversation_id == "c" for t in made[1:])


@pytest.mark.parametrize("header", [None, "another"])
def test_mode_by_the_message_of_the_call(tmp_path: Path, header: str | None) -> None:
    text = event(
        "conversation.messageText", 1, conversationId="c", source="user", messageId="u", mode="plan"
    )
    ids = {"modelCallId": "m", "messageId": "u", "headerRequestId": header}
    (made,) = rebuilt(tmp_path, [call([SYSTEM, USER], 1, **ids), answer("yes", 2, **ids), text])
    assert [m.mode for m in made.messages if m.role == "user"] == ["plan"]


def test_the_same_words_after_a_summary_are_a_turn(tmp_path: Path) -> None:
    summary = said("user", "<conversation-summary>\nWe talked.\n</conversation-summary>")
    (made,) = rebuilt(
        tmp_path,
        [
            call(
                [SYSTEM, USER, said("assistant", "1"), said("user", "go on")], 1, modelCallId="m1"
            ),
            answer("2", 2, modelCallId="m1"),
            call(
                [SYSTEM, summary, said("assistant", "3"), said("user", "go on")],
                3,
                modelCallId="m2",
            ),
            answer("4", 4, modelCallId="m2"),
        ],
    )
    assert [m.turn for m in made.messages if m.content == "go on"] == [1, 2]
    assert [m.copied for m in made.messages if m.role == "system"] == [False, True]


def test_a_missing_body_does_not_shift_what_is_merged(tmp_path: Path) -> None:
    """Tool calls go by the number of their message, which says nothing in a list with a gap."""
    whole = [SYSTEM, USER, said("assistant", "one"), said("user", "more"), said("assistant", "two")]
    ids = ["s", "u", "a", "r", "lost", "b"]
    bodies = {"s": SYSTEM, "u": USER, "a": calls("x"), "r": returned("x"), "b": calls("y")}
    pieces = [
        event(
            "model.message.added", 1, conversationId="c", messageUuid=ident, chunkIndex=0,
            totalChunks=1, messageJson=json.dumps(body),
        )
        for ident, body in bodies.items()
    ]  # fmt: skip
    listed = event(
        "model.modelCall.input", 1, conversationId="c", modelCallId="m0",
        messageUuids=json.dumps(ids), chunkIndex=0, totalChunks=1,
    )  # fmt: skip
    last = call([*whole, said("user", "bye")], 9, modelCallId="m1")
    (made,) = rebuilt(tmp_path, [*pieces, listed], [last, answer("bye", 10, modelCallId="m1")])
    assert not any(message.tool_calls for message in made.messages)


@pytest.mark.parametrize("request_id", ["T", "H"], ids=["of its own", "of the chat"])
@pytest.mark.parametrize("order", ["before", "within", "behind"])
@pytest.mark.parametrize("copies", [1, 2])
def test_the_answer_to_a_utility_call_without_an_id_is_no_message(
    tmp_path: Path, request_id: str, order: str, copies: int
) -> None:
    """Older data: only the request says whose an answer is, and the chat's own calls may share it."""
    asked, answered = {"before": (1, 2), "within": (4, 5), "behind": (7, 8)}[order]
    events = [
        call([SYSTEM, USER], 3, headerRequestId="H"),
        answer("hello", 6, headerRequestId="H"),
        call(
            [SYSTEM, said("user", "a title for this")], asked,
            headerRequestId=request_id, messageSource="title",
        ),
        answer("A Title", answered, headerRequestId=request_id),
    ]  # fmt: skip
    (made,) = rebuilt(tmp_path, *[events] * copies)
    assert words(made.messages) == [("system", "be good"), ("user", "hi"), ("assistant", "hello")]
    assert made.partial is None


@pytest.mark.parametrize(
    ("option", "model"),
    [('"gpt-5"', "gpt-5"), ("gpt-5", "gpt-5"), ("undefined", None), ("null", None), ('{"a": 1}', None),
     ('""', None), ("", None)],
)  # fmt: skip
def test_the_requested_model_is_a_text(tmp_path: Path, option: str, model: str | None) -> None:
    asked = event(
        "engine.messages", 1, conversationId="c", messagesJson=json.dumps([SYSTEM, USER]),
        **{"request.option.model": option},
    )  # fmt: skip
    (made,) = rebuilt(tmp_path, [asked])
    assert made.messages[-1].model == model


def _listed(ids: list[str], call: str, second: int, output: bool = False) -> Event:
    return event(
        f"model.modelCall.{'output' if output else 'input'}", second, conversationId="c",
        modelCallId=call, messageUuids=json.dumps(ids), chunkIndex=0, totalChunks=1,
    )  # fmt: skip


RESPONSE = {
    "r": {"type": "reasoning", "summary": [{"type": "summary_text", "text": "let me see"}]},
    "t": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hm."}]},
    "c1": {"type": "function_call", "call_id": "x1", "name": "look", "arguments": "{}"},
    "c2": {"type": "function_call", "call_id": "x2", "name": "look", "arguments": "{}"},
    "o1": {"type": "function_call_output", "call_id": "x1", "output": "one"},
    "o2": {"type": "function_call_output", "call_id": "x2", "output": "two"},
    "e": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
}  # fmt: skip


@pytest.mark.parametrize("lost", [None, "t"])
def test_items_of_a_response_are_one_message_in_lists_by_reference_too(
    tmp_path: Path, lost: str | None
) -> None:
    bodies = {"s": SYSTEM, "u": USER, **RESPONSE}
    pieces = [
        event(
            "model.message.added", 1, conversationId="c", messageUuid=ident, chunkIndex=0,
            totalChunks=1, messageJson=json.dumps(body),
        )
        for ident, body in bodies.items() if ident != lost
    ]  # fmt: skip
    first, second = ["s", "u"], ["s", "u", "r", "t", "c1", "c2", "o1", "o2"]
    lists = [
        _listed(first, "m1", 2), _listed(["r", "t", "c1", "c2"], "m1", 3, output=True),
        _listed(second, "m2", 4), _listed(["e"], "m2", 5, output=True),
    ]  # fmt: skip
    (by_reference,) = rebuilt(tmp_path / "reference", [*pieces, *lists])
    if lost:  # what stood there is not known, so nothing is joined across it
        assert [m.tool_calls is not None for m in by_reference.messages][2:4] == [False, True]
        return
    (whole,) = rebuilt(
        tmp_path / "whole",
        [
            call([bodies[ident] for ident in first], 2, modelCallId="m1"),
            call([bodies[ident] for ident in second], 4, modelCallId="m2"),
            answer("Yes.", 5, modelCallId="m2"),
        ],
    )
    assert words(by_reference.messages) == words(whole.messages)
    said_and_called = by_reference.messages[2]
    assert (said_and_called.content, said_and_called.thinking) == ("Hm.", "let me see")
    assert [made.id for made in said_and_called.tool_calls or ()] == ["x1", "x2"]


TALK = [SYSTEM, USER, said("assistant", "hello"), said("user", "more"), said("assistant", "done")]


def _by_reference(*lost: int) -> list[Event]:
    """The second call of a talk, of which some bodies were lost; then its answer."""
    bodies = [
        event(
            "model.message.added", 1, conversationId="c", messageUuid=str(number), chunkIndex=0,
            totalChunks=1, messageJson=json.dumps(message),
        )
        for number, message in enumerate(TALK) if number not in lost
    ]  # fmt: skip
    return [*bodies, _listed(list("0123"), "m2", 7), _listed(["4"], "m2", 8, output=True)]


FIRST = [call(TALK[:2], 3, modelCallId="m1"), answer("hello", 4, modelCallId="m1")]


@pytest.mark.parametrize("lost", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)], ids=str)
def test_lost_bodies_are_taken_from_a_list_that_begins_alike(
    tmp_path: Path, lost: tuple[int, ...]
) -> None:
    (made,) = rebuilt(tmp_path, _by_reference(*lost), FIRST)
    assert words(made.messages) == [(m["role"], m["content"]) for m in TALK]
    assert [m.turn for m in made.messages] == [None, 0, 0, 1, 1]
    assert made.partial is None


def test_a_mode_that_is_only_known_by_its_turn_is_nobodys_where_turns_are_missing(
    tmp_path: Path,
) -> None:
    mode = event(
        "conversation.messageText", 2, conversationId="c", source="user", turnIndex=0, mode="ask",
    )  # fmt: skip
    (made,) = rebuilt(tmp_path, [*_by_reference(1), mode])
    assert [m.content for m in made.messages if m.role == "user"] == ["more"]
    assert not any(m.mode for m in made.messages)


def test_a_list_of_which_no_body_was_seen_is_a_problem(tmp_path: Path) -> None:
    listed = event(
        "model.modelCall.input", 1, conversationId="c", modelCallId="m0",
        messageUuids='["a","b"]', chunkIndex=0, totalChunks=2,
    )  # fmt: skip
    write(tmp_path / "a.jsonl", [listed, call([SYSTEM, USER], 2, modelCallId="m1")])
    done = run(["extract", str(tmp_path), "--json"])
    assert json.loads(done.stderr)["problems"] == {"message-body-missing": 1}


def test_properties_in_the_record_itself(tmp_path: Path) -> None:
    flat = {"name": "copilot-chat/engine.messages", "conversationId": "c", "modelCallId": "m"}
    asked = {**flat, "messagesJson": json.dumps([SYSTEM, USER]), "request_option_model": '"g"'}
    (made,) = rebuilt(
        tmp_path,
        [
            asked,
            {**flat, "messagesJson": json.dumps([said("assistant", "yes")]), "baseModel": "g2"},
        ],
    )
    assert words(made.messages)[-1] == ("assistant", "yes")
    assert made.messages[-1].model == "g2"


def run(arguments: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unspool", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)


def test_output_over_the_input_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [call([SYSTEM, USER], 1)])
    before = path.read_bytes()
    for option in ("-o", "--problems"):
        done = run(["extract", str(path), option, str(tmp_path / "." / "a.jsonl")])
        assert done.returncode == 2, done.stderr
    assert path.read_bytes() == before


def test_a_pipe_on_the_command_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [call([SYSTEM, USER], 1)])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cp", str(path), str(pipe)]):
        done = run(["extract", str(pipe), "-q"])
    assert json.loads(done.stdout)["file_path"] == str(pipe)


def test_a_pipe_and_a_loop_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [call([SYSTEM, USER], 1)])
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "loop").symlink_to(tmp_path)
    done = run(["extract", str(tmp_path), "--json"])
    assert json.loads(done.stderr)["written"] == 1


def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [call([SYSTEM, USER], 1)])
    write(tmp_path / "closed" / "b.jsonl", [call([SYSTEM, USER], 1)]).parent.chmod(0)
    done = run(["extract", str(tmp_path), "--json"], preexec_fn=obey_modes)
    assert json.loads(done.stderr)["problems"] == {"unreadable": 1}


def test_a_place_that_may_not_be_looked_into(tmp_path: Path) -> None:
    path = write(tmp_path / "closed" / "in" / "b.jsonl", [call([SYSTEM, USER], 1)])
    path.parents[1].chmod(0)
    done = run(["extract", str(path.parent)], preexec_fn=obey_modes)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_tool_metadata_of_other_lists_can_be_left_out() -> None:
    case = str(CASES / "copilot_telemetry/merge_tool_metadata/input")
    for merged in (True, False):
        (made,) = unspool.extract(case, merge_tool_metadata=merged)
        assert bool(made.messages[0].tool_calls) is merged
