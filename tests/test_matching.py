"""One thing seen by several channels is one: messages by their words, calls by their likeness."""

from typing import Any

from unspool.facts import (
    AnyFact,
    Marked,
    MessageSeen,
    Noted,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.reduce import reduce_facts
from unspool.trajectory import Trajectory

KEY = ("some", "c1")


def fact(what: type[AnyFact], origin: str, offset: int, **fields: Any) -> AnyFact:
    return what(key=KEY, origin=origin, offset=offset, **fields)


def reduced(*facts: AnyFact) -> Trajectory:
    return reduce_facts(KEY, facts).trajectories[0]


STORE = (
    fact(MessageSeen, "store", 0, id="m1", role="user", text="list it"),
    fact(MessageSeen, "store", 1, id="m2", role="assistant", text="Listing."),
    fact(ToolCalled, "store", 2, id="t1", message="m2", name="shell", like="shell ls"),
    fact(ToolReturned, "store", 3, call="t1", text="a b"),
    fact(MessageSeen, "store", 4, id="m3", role="assistant", text="Two files."),
)


def test_an_echo_under_another_id_adds_no_message_and_its_notes_arrive() -> None:
    made = reduced(
        *STORE,
        fact(
            MessageSeen, "log", 0, id="x1", role="assistant", text="Listing.", rank=2, model="big"
        ),
        fact(Noted, "log", 0, on="message", subject="x1", name="duration_ms", value=7, rank=2),
    )
    assert [m.content for m in made.messages] == ["list it", "Listing.", "a b", "Two files."]
    assert (made.messages[1].model, made.messages[1].duration_ms) == ("big", 7)


def test_a_call_under_another_id_is_the_same_call_by_its_likeness() -> None:
    made = reduced(
        *STORE,
        fact(ToolCalled, "log", 0, id="other", name="Shell", like="shell ls", rank=2),
        fact(ToolReturned, "log", 1, call="other", text="a b!", duration_ms=3, rank=2),
        fact(ToolCalled, "log", 2, name="Shell", like="shell ls", rank=3),
    )
    calls = [call for m in made.messages for call in m.tool_calls or ()]
    assert [(call.id, call.name, call.duration_ms) for call in calls] == [("t1", "shell", 3)]
    assert [m.content for m in made.messages if m.role == "tool"] == ["a b"]


def test_a_second_call_of_the_same_likeness_stays_a_second_call() -> None:
    made = reduced(
        *STORE,
        fact(ToolCalled, "log", 0, name="Shell", like="shell ls", rank=3),
        fact(ToolCalled, "log", 1, name="Shell", like="shell ls", rank=3),
    )
    assert sum(len(m.tool_calls or ()) for m in made.messages) == 2


def test_a_result_answers_the_last_call_before_it_where_an_earlier_one_was_refused() -> None:
    made = reduced(
        fact(ToolCalled, "log", 0, name="Shell", like="shell rm", rank=3),
        fact(ToolCalled, "log", 1, name="Shell", like="shell rm", rank=3),
        fact(ToolReturned, "log", 2, name="Shell", like="shell rm", text="gone", rank=3),
    )
    assert [call.status for m in made.messages for call in m.tool_calls or ()] == [
        None,
        "completed",
    ]


def test_results_of_a_log_keep_its_order_where_a_better_store_has_the_calls() -> None:
    for log in ("a-log", "z-log"):
        made = reduced(
            fact(ToolCalled, "store", 0, id="t1", name="shell", like="shell ls"),
            fact(ToolCalled, "store", 1, id="t2", name="shell", like="shell ls"),
            fact(ToolCalled, log, 0, name="Shell", like="shell ls", rank=3),
            fact(ToolReturned, log, 1, name="Shell", like="shell ls", text="first", rank=3),
            fact(ToolCalled, log, 2, name="Shell", like="shell ls", rank=3),
            fact(ToolReturned, log, 3, name="Shell", like="shell ls", text="second", rank=3),
        )
        results = [(m.tool_call_id, m.content) for m in made.messages if m.role == "tool"]
        assert results == [("t1", "first"), ("t2", "second")]


def test_what_matches_nothing_stands_beside_what_did() -> None:
    made = reduced(
        *STORE,
        fact(Marked, "a-log", 0, kind="start"),
        fact(MessageSeen, "a-log", 1, role="user", text="list it", rank=2),
        fact(MessageSeen, "a-log", 2, role="assistant", thinking="hm", rank=2),
        fact(MessageSeen, "a-log", 3, role="assistant", text="Two files.", rank=2),
        fact(Marked, "a-log", 4, kind="end"),
    )
    assert [m.content or m.thinking for m in made.messages] == [
        "list it",
        "hm",
        "Listing.",
        "a b",
        "Two files.",
    ]
    assert [(mark.kind, mark.index) for mark in made.marks or ()] == [("start", 0), ("end", 5)]


def test_origins_that_share_nothing_are_woven_by_time() -> None:
    made = reduced(
        fact(MessageSeen, "a", 0, id="1", role="user", text="one", time=10),
        fact(MessageSeen, "a", 1, id="2", role="assistant", text="three"),
        fact(MessageSeen, "a", 2, id="3", role="assistant", text="four", time=30),
        fact(Marked, "b", 0, kind="turn_end", time=20),
        fact(MessageSeen, "b", 1, id="9", role="user", text="five", time=40),
    )
    assert [m.content for m in made.messages] == ["one", "three", "four", "five"]
    assert [mark.index for mark in made.marks or ()] == [2]


def test_usage_of_a_request_goes_to_its_last_answer_once() -> None:
    usage = {"on": "request", "subject": "g", "prompt": 5, "completion": 2}
    said = fact(MessageSeen, "log", 0, role="assistant", text="x", request="g", rank=1)
    made = reduced(
        said,
        fact(UsageReported, "log", 1, **usage, rank=1),
        fact(UsageReported, "log", 2, **usage),
        fact(UsageReported, "log", 3, on="conversation", cost_usd=0.5),
    )
    assert made.messages[0].usage is not None
    assert made.messages[0].usage.prompt_tokens == 5
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (5, 2)
    assert made.usage.cost_usd == 0.5


def test_usage_of_a_request_that_nobody_answered_counts() -> None:
    made = reduced(
        fact(MessageSeen, "log", 0, role="user", text="x", request="g"),
        fact(UsageReported, "log", 1, on="request", subject="g", prompt=5),
    )
    assert made.usage is not None
    assert made.usage.prompt_tokens == 5


def test_files_of_a_call_are_told_once_each_field_from_who_knows_best() -> None:
    made = reduced(
        *STORE,
        fact(ToolCalled, "store", 9, id="t2", like="edit a.py", name="edit",
             files=({"path": "src/a.py", "outcome": "accepted"},)),
        fact(ToolReturned, "log", 0, like="edit a.py", name="edit", rank=3,
             files=({"path": "/w/src/a.py", "lines_added": 2, "lines_removed": 0},)),
    )  # fmt: skip
    (touch,) = made.files or ()
    assert (touch.path, touch.outcome, touch.lines_added) == ("src/a.py", "accepted", 2)
    assert touch.tool_call_id == "t2"
