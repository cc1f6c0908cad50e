"""What telemetry must not lose or mix up where calls are missing: turns, segments, leftovers."""

import json
from pathlib import Path

import pytest

from tests.telemetry import Event, answer, call, event, said
from tests.test_telemetry_rules import SYSTEM, USER, calls, rebuilt, returned, words

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


@pytest.mark.parametrize(
    "name", ["interactiveSessionResponse", "interactiveSessionRequest", "conversation.messageText"]
)
def test_intents_are_kept_whichever_event_tells_them(tmp_path: Path, name: str) -> None:
    asked = [said("system", "s"), said("user", "hi")]
    ids = {"conversationId": "c", "sessionId": "c", "requestId": "r", "headerRequestId": "r"}
    told = {"intent": "fix", "detectedIntent": "explain", "source": "user"}
    events = [call(asked, 1, headerRequestId="r"), event(name, 2, **ids, **told)]
    (made,) = rebuilt(tmp_path, events)
    assert (made.metadata["intent"], made.metadata["detectedIntent"]) == ("fix", "explain")


@pytest.mark.parametrize("conversation", [{"conversationId": "c"}, {}])
def test_a_mode_is_known_by_the_request_alone(tmp_path: Path, conversation: dict[str, str]) -> None:
    """The person's event has no turn, no message id and no words, and may not name whose it is."""
    asked = [said("system", "s"), said("user", "hi")]
    told = {**conversation, "headerRequestId": "r", "source": "user", "mode": "agent"}
    mode = event("conversation.messageText", 1, **told)
    (made,) = rebuilt(tmp_path, [call(asked, 1, headerRequestId="r"), mode])
    assert [message.mode for message in made.messages] == [None, "agent"]
    assert made.metadata["mode"] == "agent"
