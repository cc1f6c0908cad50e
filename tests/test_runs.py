"""What the reducer settles for any source that speaks of runs, echoes, chunks and sub-agents."""

from typing import Any

from unspool.facts import (
    AnyFact,
    Link,
    Marked,
    MessageSeen,
    Noted,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.link import Card, link
from unspool.reduce import reduce_facts
from unspool.trajectory import Link as Tie
from unspool.trajectory import Trajectory

KEY = ("made-up", "one")


class Log:
    """Facts in the order of one origin."""

    def __init__(self, origin: str = "log", timed: bool = True) -> None:
        self.origin = origin
        self.timed = timed
        self.facts: list[AnyFact] = []

    def add(self, fact: Any, /, **fields: Any) -> "Log":
        offset = len(self.facts)
        if self.timed:
            fields.setdefault("time", (offset + 1) * 1_000_000)
        self.facts.append(fact(key=KEY, origin=self.origin, offset=offset, **fields))
        return self

    def user(self, text: str, **fields: Any) -> "Log":
        return self.add(MessageSeen, role="user", text=text, **fields)

    def answer(self, ident: str, text: str = "", tokens: int | None = None) -> "Log":
        self.add(MessageSeen, role="assistant", id=ident, text=text)
        return self.add(UsageReported, subject=ident, completion=tokens) if tokens else self


def reduced(*logs: Log) -> Trajectory:
    return reduce_facts(KEY, [fact for log in logs for fact in log.facts]).trajectories[0]


def test_a_run_without_a_report_adds_what_its_messages_tell() -> None:
    log = Log().add(Marked, kind="start").user("one").answer("a", "x", 10)
    log.add(UsageReported, on="segment", subject="s1", model="m", prompt=100, completion=10)
    log.add(Marked, kind="resume").user("two").answer("b", "y", 7)  # this run crashed
    log.add(Marked, kind="resume").user("three").answer("c", "z", 5)
    log.add(UsageReported, on="segment", subject="s2", model="m", prompt=50, completion=5)
    usage = reduced(log).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (150, 22)
    assert usage.extra == {"runs": 3, "runs_reported": 2}


def test_calls_known_elsewhere_fill_only_the_run_that_has_no_report() -> None:
    log = Log().add(Marked, kind="start").user("one").answer("a", "x", 10)
    log.add(UsageReported, on="segment", subject="s1", prompt=100, completion=10)
    log.add(Marked, kind="resume").user("two").answer("b", "y", 7)
    store = Log("store")
    for number, (time, completion) in enumerate(((3_000_000, 10), (8_500_000, 7))):
        store.add(
            UsageReported, on="call", subject=str(number), prompt=1000, completion=completion,
            time=time, rank=1,
        )  # fmt: skip
    usage = reduced(log, store).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (1100, 17)


def test_nothing_known_is_not_zero() -> None:
    assert reduced(Log().user("hi").answer("a", "x")).usage is None


def test_chunks_of_one_answer_join_until_something_stands_between() -> None:
    log = Log().user("go")
    log.add(MessageSeen, role="assistant", id="a", text="first", joins=True)
    log.add(MessageSeen, role="assistant", id="b", text="second", joins=True)
    log.add(ToolCalled, id="t", message="b", name="bash")
    log.add(UsageReported, subject="a", completion=1).add(UsageReported, subject="b", completion=2)
    log.add(ToolReturned, call="t", text="ok")
    log.add(MessageSeen, role="assistant", id="c", text="third", joins=True)
    log.add(Link)
    log.add(MessageSeen, role="assistant", id="d", text="fourth", joins=True, request="r1")
    log.add(MessageSeen, role="assistant", id="e", text="fifth", joins=True, request="r2")
    messages = reduced(log).messages
    assert [(m.role, m.content) for m in messages] == [
        ("user", "go"),
        ("assistant", "first\n\nsecond"),
        ("tool", "ok"),
        ("assistant", "third"),
        ("assistant", "fourth"),
        ("assistant", "fifth"),
    ]
    assert messages[1].usage is not None
    assert messages[1].usage.completion_tokens == 3


def test_a_call_that_the_end_of_its_run_cut_off_is_interrupted() -> None:
    def status(kind: str, **data: Any) -> str | None:
        log = Log().user("go").answer("a").add(ToolCalled, id="t", message="a", name="bash")
        log.add(Marked, kind=kind, data=data)
        calls = reduced(log).messages[1].tool_calls
        return calls[0].status if calls else ""

    assert status("interruption") == "interrupted"
    assert status("resume") == "interrupted"
    assert status("resume", continues=True) is None
    assert status("info") is None


def test_model_and_mode_hold_until_the_next_note() -> None:
    log = Log().add(Noted, on="following", name="model", value="m1").user("a").answer("x", "1")
    log.add(Noted, on="following", name="model", value="m2")
    log.add(Noted, on="following", name="mode", value="plan")
    log.user("b").answer("y", "2").answer("z").add(ToolCalled, id="t", message="z", name="bash")
    log.add(Noted, on="call", subject="t", name="model", value="m3")
    messages = reduced(log).messages
    assert [m.model for m in messages if m.role == "assistant"] == ["m1", "m2", "m3"]
    assert [m.mode for m in messages if m.role == "user"] == [None, "plan"]


def test_echoes_give_their_channel_a_foothold() -> None:
    log = Log().user("one").answer("a", "first answer").user("two").answer("b", "second answer")
    store = Log("store", timed=False)
    store.user("one", rank=1).add(MessageSeen, role="assistant", text="first answer", rank=1)
    store.add(Marked, kind="file", rank=1, data={"path": "/x.py"})
    store.user("undone", rank=1)
    store.user("two", rank=1).add(Marked, kind="reference", rank=1, data={"type": "pr"})
    store.add(Noted, name="partial", value="store only", rank=1)
    made = reduced(log, store)
    assert [m.content for m in made.messages] == [
        "one", "first answer", "undone", "two", "second answer"
    ]  # fmt: skip
    assert made.partial is None
    assert [(f.path, f.turn) for f in made.files or ()] == [("/x.py", 0)]
    assert made.references == [{"type": "pr", "turn": 2}]


def test_an_echo_that_made_known_calls_is_their_message() -> None:
    log = Log().user("go").answer("a", "as the editor shows it")
    log.add(ToolCalled, id="t", message="a", name="edit", arguments="{}")
    other = Log("transcript").user("go", rank=1)
    other.add(MessageSeen, role="assistant", text="as it was sent", rank=1, entry="e", id="m")
    call = ToolCalled(
        key=KEY, origin="transcript", offset=1, entry="e", id="t", message="m", name="x", rank=1
    )
    other.facts.append(call)
    made = reduced(log, other)
    assert [m.content for m in made.messages] == ["go", "as the editor shows it"]
    alone = reduced(other)
    assert [m.content for m in alone.messages] == ["go", "as it was sent"]
    assert [c.id for c in alone.messages[1].tool_calls or ()] == ["t"]


def test_an_answer_held_by_another_within_its_turn_is_one() -> None:
    whole = "Here is the long answer, with a heading and all that goes with it."
    log = Log().user("go").answer("a", whole)
    other = Log("store").user("go", rank=1)
    other.add(MessageSeen, role="assistant", text=whole[:40], rank=1)
    assert [m.content for m in reduced(log, other).messages] == ["go", whole]


def test_a_file_that_a_call_touched_is_not_told_again() -> None:
    log = Log().user("go").answer("a").add(ToolCalled, id="t", message="a", name="edit")
    log.add(Marked, kind="file", subject="t", data={"path": "/x", "operation": "edit"})
    log.add(ToolReturned, call="t", text="no such text", failed=True)
    store = Log("store").add(Marked, kind="file", rank=1, data={"path": "/x", "tool": "edit"})
    files = reduced(log, store).files or []
    assert [(f.path, f.tool_call_id, f.outcome) for f in files] == [("/x", "t", "failed")]


def test_a_compaction_cuts_where_it_began() -> None:
    log = Log().user("a").answer("x", "1").add(Marked, kind="compaction_start")
    log.answer("y", "2").add(Marked, kind="compaction").answer("z", "3")
    assert [m.segment for m in reduced(log).messages] == [0, 0, 1, 1]


def test_the_parent_is_who_made_the_call() -> None:
    cards = [
        Card("s", "root", calls=["t1"]),
        Card("s", "root/t1", parent=Tie("root", tool_call_id="t1"), calls=["t2"]),
        Card("s", "root/t2", parent=Tie("root", tool_call_id="t2")),
    ]
    patches = link(cards)
    assert patches[("s", "root/t2")].parent == Tie("root/t1", tool_call_id="t2")
    assert [c.conversation_id for c in patches[("s", "root")].children] == ["root/t1"]
