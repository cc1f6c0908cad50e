"""What telemetry must not lose or mix up: answers, sub-agents, modes, figures of empty answers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.harness import obey_modes
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


SUMMARY = said("user", "<conversation-summary>\nwe looked\n</conversation-summary>")


def test_what_a_segment_carries_over_was_made_by_the_call_before(tmp_path: Path) -> None:
    """Summarised within a turn: the last round is kept, its result was never seen before."""
    looks = {**calls("a"), "content": "I look."}
    ids = [{"modelCallId": name, "headerRequestId": "r"} for name in ("m1", "m2")]
    (made,) = rebuilt(
        tmp_path,
        [
            event("interactiveSessionResponse", 1, sessionId="c", requestId="r", model="session"),
            call([SYSTEM, USER], 2, **ids[0]),
            answer("I look.", 3, model="first", **ids[0]),
            call([SYSTEM, SUMMARY, looks, returned("a")], 4, **ids[1]),
            answer("done", 5, model="second", **ids[1]),
        ],
    )
    told = [(m.role, m.copied, m.model, m.request_id) for m in made.messages[3:]]
    assert told == [
        ("system", True, None, None),
        ("user", False, "session", "r"),
        ("assistant", True, "first", "r"),
        ("tool", False, "gpt-asked", "r"),
        ("assistant", False, "second", "r"),
    ]


def test_a_result_that_two_segments_have_is_copied_once(tmp_path: Path) -> None:
    round_a, round_b = [calls("a"), returned("a")], [calls("b"), returned("b")]
    (made,) = rebuilt(
        tmp_path,
        [
            call([SYSTEM, USER, *round_a, *round_b], 1, modelCallId="m1"),
            call([SYSTEM, SUMMARY, *round_b], 2, modelCallId="m2"),
        ],
    )
    results = [(m.tool_call_id, m.copied) for m in made.messages if m.role == "tool"]
    assert results == [("a", False), ("b", False), ("b", True)]


@pytest.mark.parametrize("first", ["engine", "model"])
def test_either_channel_may_be_read_first(tmp_path: Path, first: str) -> None:
    """Only one of them names the model that answered, and only one the tokens here."""
    ids = {"modelCallId": "m1", "headerRequestId": "r", "conversationId": "c"}
    bodies = [SYSTEM, USER, said("assistant", "hello")]
    pieces = [
        event(
            "model.message.added", 1, conversationId="c", messageUuid=str(number),
            messageJson=json.dumps(body), chunkIndex=0, totalChunks=1,
        )
        for number, body in enumerate(bodies)
    ]  # fmt: skip
    one_piece = {"chunkIndex": 0, "totalChunks": 1, **ids}
    model = [
        *pieces,
        event("model.modelCall.input", 3, messageUuids='["0","1"]', **one_piece),
        event("model.modelCall.output", 5, messageUuids='["2"]', promptTokens=7, **one_piece),
    ]
    engine = [
        call(bodies[:2], 2, modelCallId="m1", headerRequestId="r"),
        answer("hello", 4, modelCallId="m1", headerRequestId="r"),
    ]
    files = [engine, model] if first == "engine" else [model, engine]
    (made,) = rebuilt(tmp_path, *files)
    last = made.messages[-1]
    assert (last.model, last.model_source) == ("gpt-answered", "engine")
    assert last.usage is not None
    assert last.usage.prompt_tokens == 7


def test_context_before_a_turn_is_not_of_the_turn_before(tmp_path: Path) -> None:
    context = said("user", "<environment_info>\nLinux\n</environment_info>")
    more = said("user", "more")
    (made,) = rebuilt(
        tmp_path,
        [
            event("interactiveSessionResponse", 1, sessionId="c", requestId="r0", model="zero"),
            event("interactiveSessionResponse", 2, sessionId="c", requestId="r1", model="one"),
            call([SYSTEM, USER], 3, headerRequestId="r0", modelCallId="m0", model=None),
            call([SYSTEM, USER, said("assistant", "hello"), context, more], 5,
                 headerRequestId="r1", modelCallId="m1", model=None),
        ],
    )  # fmt: skip
    told = [(m.role, m.model) for m in made.messages]
    assert told == [
        ("system", None),
        ("user", "zero"),
        ("assistant", "zero"),
        ("user", None),
        ("user", "one"),
    ]


def test_words_that_a_segment_repeats_are_of_their_own_turn(tmp_path: Path) -> None:
    modes = ("ask", "edit", "agent")
    user = [said("user", f"u{number}") for number in range(3)]
    told = [
        event("conversation.messageText", 1, conversationId="c", source="user", turnIndex=number,
              mode=mode, messageText=f"u{number}")
        for number, mode in enumerate(modes)
    ]  # fmt: skip
    first = [SYSTEM, user[0], said("assistant", "a0"), user[1]]
    (made,) = rebuilt(
        tmp_path,
        [*told, call(first, 2), call([SYSTEM, SUMMARY, user[0], user[1], user[2]], 3)],
    )
    people = [(m.content, m.turn, m.mode, m.typed) for m in made.messages if m.typed]
    one, two, three = [(f"u{n}", n, mode, f"u{n}") for n, mode in enumerate(modes)]
    assert people == [one, two, one, two, three]
    assert made.mode_distribution == {"ask": 1, "edit": 1, "agent": 1}


def test_turns_of_a_conversation_whose_beginning_is_lost(tmp_path: Path) -> None:
    """Events number the turns from the first; the request of one turn shows where the list begins."""
    told = [
        event("conversation.messageText", 1, conversationId="c", source="user", turnIndex=number,
              mode=mode, messageText=f"u{number}", messageId=f"r{number}")
        for number, mode in enumerate(("ask", "edit", "plan", "agent"))
    ]  # fmt: skip
    words = [SYSTEM, SUMMARY, said("user", "u2"), said("assistant", "a2"), said("user", "u3")]
    (made,) = rebuilt(tmp_path, [*told, call(words, 2, headerRequestId="r3")])
    assert [(m.content, m.mode, m.typed) for m in made.messages if m.typed] == [
        ("u2", "plan", "u2"),
        ("u3", "agent", "u3"),
    ]


def text_event(second: int, turn: int, text: str, source: str = "user") -> Event:
    return event(
        "conversation.messageText", second, conversationId="c", source=source,
        turnIndex=turn + (source == "model"), messageText=text, messageId=f"r{turn}",
        mode="ask" if source == "user" else None,
    )  # fmt: skip


def numbered(turn: int) -> dict[str, str]:
    return {"modelCallId": f"m{turn}", "headerRequestId": f"r{turn}", "messageId": f"r{turn}"}


def test_answers_without_calls_stand_among_the_words_of_other_events(tmp_path: Path) -> None:
    """The person's event is sent when the turn is over."""
    (made,) = rebuilt(
        tmp_path,
        [
            answer("one", 2, **numbered(0)),
            text_event(3, 0, "first"),
            text_event(3, 0, "one", "model"),
            answer("two", 4, **numbered(1)),
            text_event(5, 1, "second"),
            text_event(8, 2, "third"),
            text_event(9, 2, "three", "model"),
        ],
    )
    told = ["first", "one", "second", "two", "third", "three"]
    assert [m.content for m in made.messages] == told
    assert [m.turn for m in made.messages] == [0, 0, 1, 1, 2, 2]
    assert made.partial == ["input-missing"]
    assert made.mode_distribution == {"ask": 3}


def test_a_turn_after_the_last_list(tmp_path: Path) -> None:
    (made,) = rebuilt(
        tmp_path,
        [
            call([SYSTEM, USER], 1, **numbered(0)),
            answer("hello", 2, **numbered(0)),
            text_event(3, 0, "/hi there"),  # not what was sent, but of the same request
            text_event(3, 0, "hello", "model"),
            answer("there", 5, **numbered(1)),
            text_event(6, 1, "and now?"),
        ],
    )
    told = [("user", "hi"), ("assistant", "hello"), ("user", "and now?"), ("assistant", "there")]
    assert words(made.messages[1:]) == told
    assert made.partial == ["input-missing"]


def test_an_event_that_names_the_fetch_is_of_its_turn(tmp_path: Path) -> None:
    """Older calls have an id of their own, which the person's event names beside the message's."""
    told = text_event(3, 0, "/hi there")
    told["data"]["baseData"]["properties"]["headerRequestId"] = "fetch"
    reply = text_event(4, 0, "hello, as shown", "model")
    asked = call([SYSTEM, USER], 1, headerRequestId="fetch", modelCallId="m")
    answered = answer("hello", 2, headerRequestId="fetch", modelCallId="m")
    (made,) = rebuilt(tmp_path, [asked, answered, told, reply])
    assert words(made.messages[1:]) == [("user", "hi"), ("assistant", "hello")]
    assert (made.partial, made.mode_distribution) == (None, {"ask": 1})


@pytest.mark.parametrize("what", ["sub-agent", "unreadable", "bodies"])
def test_words_of_other_events_where_no_list_is_left(tmp_path: Path, what: str) -> None:
    lists = {
        "sub-agent": call([SYSTEM, USER], 4, subType="subagent", **numbered(7)),
        "unreadable": event("engine.messages", 4, conversationId="c",
                            messagesJson="[" * 9000 + "]" * 9000),
        "bodies": event("model.message.added", 4, conversationId="c", messageUuid="u", chunkIndex=0,
                        totalChunks=1, messageJson=json.dumps(USER)),
    }  # fmt: skip
    found = rebuilt(
        tmp_path, [lists[what], text_event(1, 0, "please"), text_event(2, 0, "done", "model")]
    )
    made = {one.conversation_id: one for one in found}
    assert words(made["c"].messages) == [("user", "please"), ("assistant", "done")]
    assert made["c"].partial == ["only-echoes"]
    assert len(made) == (2 if what == "sub-agent" else 1)


def test_calls_of_a_list_that_was_cut_off_stay(tmp_path: Path) -> None:
    """Another conversation has a call of the same id: this one's is no echo of it."""
    other = [call([SYSTEM, USER, calls("a"), returned("a")], 1, conversation="d")]
    cut_off = call([SYSTEM, USER, calls("a"), returned("a")], 2)
    properties = cut_off["data"]["baseData"]["properties"]
    properties["messagesJson"] = properties["messagesJson"][:-1]
    made = {one.conversation_id: one for one in rebuilt(tmp_path, [*other, cut_off])}
    assert made["c"].partial == ["messages-missing"]
    assert [len(one.messages) for one in made.values()] == [4, 4]
