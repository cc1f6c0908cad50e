"""A tiny made-up source proves that the reducer needs to know no format: only facts."""

from unspool.facts import (
    ROOT,
    AnyFact,
    Marked,
    MessageSeen,
    Noted,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.reduce import reduce_facts

KEY = ("smoke-signals", "hill-7")


def read(script: str) -> list[AnyFact]:
    """One line per record: `id<after who: words`, calls as `!tool`, results as `=tool`."""
    facts: list[AnyFact] = []
    for offset, line in enumerate(script.strip().splitlines()):
        head, _, words = line.strip().partition(": ")
        link, _, who = head.partition(" ")
        ident, _, after = link.partition("<")
        common = {"key": KEY, "origin": "hill", "offset": offset, "entry": ident}
        common["after"] = after if after != "-" else ROOT
        if who == "=":
            facts.append(ToolReturned(**common, call="bell", text=words))  # type: ignore[arg-type]
        elif who == "!":
            facts.append(ToolCalled(**common, id="bell", message=words, name="ring"))  # type: ignore[arg-type]
        elif who == "#":
            facts.append(Marked(**common, kind="compaction", data={"why": words}))  # type: ignore[arg-type]
        else:
            role = "user" if who == "u" else "assistant"
            facts.append(MessageSeen(**common, id=ident, role=role, text=words))  # type: ignore[arg-type]
    return facts


def words(script: str) -> list[str]:
    (made,) = reduce_facts(KEY, read(script)).trajectories
    return [message.content for message in made.messages]


def test_chain_branch_and_compaction() -> None:
    script = """
        1<- u: hello
        2<1 a: hi
        3<2 u: first try
        4<3 a: to the first try
        5<2 u: second try
        6<5 a: to the second try
        7<- #: full
        8<7 u: go on
    """
    (made,) = reduce_facts(KEY, read(script)).trajectories
    assert [m.content for m in made.messages] == [
        "hello",
        "hi",
        "second try",
        "to the second try",
        "go on",
    ]
    assert made.branches is not None
    assert [m.content for m in made.branches[0].messages] == ["first try", "to the first try"]
    assert (made.branches[0].index, made.branches[0].fork_id) == (2, "2")
    assert made.marks is not None
    assert [(m.kind, m.index) for m in made.marks] == [("compaction", 4)]
    assert [m.segment for m in made.messages] == [0, 0, 0, 0, 1]


def test_results_go_to_their_call_wherever_they_stand() -> None:
    script = """
        1<- u: ring
        2<1 a: ringing
        3<2 !: 2
        4<3 a: meanwhile
        5<4 =: ding
    """
    assert words(script) == ["ring", "ringing", "ding", "meanwhile"]


def test_notes_and_usage_settle_by_rank_then_order() -> None:
    facts = read("1<- u: hello\n2<1 a: hi")
    common = {"key": KEY, "origin": "hill"}
    facts += [
        Noted(**common, offset=10, name="title", value="worse", rank=1),  # type: ignore[arg-type]
        Noted(**common, offset=11, name="title", value="old"),  # type: ignore[arg-type]
        Noted(**common, offset=12, name="title", value="new"),  # type: ignore[arg-type]
        UsageReported(**common, offset=13, subject="2", prompt=1, completion=1),  # type: ignore[arg-type]
        UsageReported(**common, offset=14, subject="2", prompt=5, completion=7),  # type: ignore[arg-type]
    ]
    (made,) = reduce_facts(KEY, reversed(facts)).trajectories
    assert made.title == "new"
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (5, 7)
