"""Choosing a conversation: order, short ids, ambiguous ids."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conversations import sample
from unspool.errors import AmbiguousId, UnknownConversation
from unspool.inspect.collection import Entry, make_entry, match, newest_first, short_ids

ENTRIES = [
    Entry(id="abcdef0123", source="claude-code", title="One", ended_at="2026-01-02T00:00:00Z"),
    Entry(id="abcdef0999", source="cursor", title="Two", ended_at="2026-01-03T00:00:00Z"),
    Entry(id="ffff", source="cursor", title="Three"),
    Entry(id="ffff", source="claude-code", title="Four", started_at="2026-01-01T00:00:00Z"),
    Entry(id="9900", source="cursor", title="Root"),
    Entry(id="9900-agent-1", source="cursor", title="Agent", parent_id="9900"),
]


def test_entry_of_a_conversation() -> None:
    root, (child,) = sample()
    entry = make_entry(root)
    assert entry.title == "Rate limiter lets bursts through"
    assert (entry.turns, entry.tools, entry.messages) == (3, 5, 17)
    assert (entry.project, entry.model) == ("/home/ada/limiter", "big-model-4")
    assert entry.completion_tokens == 412 + 655 + 1204
    assert make_entry(child).parent_id == root.conversation_id
    root.title = None
    assert make_entry(root).title == "The rate limiter lets bursts through. Why?"


def test_newest_first_and_no_time_last() -> None:
    assert [entry.title for entry in newest_first(ENTRIES)] == [
        "Two", "One", "Four", "Root", "Agent", "Three",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ident", "title"),
    [
        ("abcdef01", "One"),
        ("abcdef0999", "Two"),
        ("cursor/ffff", "Three"),
        ("claude-code/f", "Four"),
        ("9900", "Root"),
        ("99", "Root"),
        ("9900-", "Agent"),
    ],
)
def test_match(ident: str, title: str) -> None:
    assert match(ident, ENTRIES).title == title


def test_an_ambiguous_id_lists_the_candidates() -> None:
    with pytest.raises(AmbiguousId) as caught:
        match("abcdef", ENTRIES)
    assert "claude-code/abcdef0123" in str(caught.value)
    assert "cursor/abcdef0999" in str(caught.value)
    with pytest.raises(AmbiguousId):
        match("ffff", ENTRIES)


def test_an_unknown_id_says_so() -> None:
    with pytest.raises(UnknownConversation):
        match("nope", ENTRIES)


def test_sub_agents_do_not_lengthen_the_id_of_their_parent() -> None:
    parent = Entry(id="0123456789abcdef", source="x")
    children = [
        Entry(id=f"{parent.id}/{name}", source="x", parent_id=parent.id) for name in ("a1", "a2")
    ]
    other = Entry(id="0123456780", source="x")
    entries = [parent, *children, other]
    short = short_ids(entries)
    assert [short(entry) for entry in entries] == [
        "0123456789", "0123456789/a1", "0123456789/a2", "0123456780",
    ]  # fmt: skip
    for entry in entries:
        assert match(short(entry), entries) is entry


IDS = st.lists(
    st.text("ab/", min_size=1, max_size=6).map(lambda text: "0000000" + text),
    min_size=1, max_size=8, unique=True,
)  # fmt: skip


@given(IDS)
@settings(max_examples=1000)
@example(["0000000a/aaa/", "0000000/aaa/a"])
@example(["0000000a/", "0000000a/a"])
@example(["0000000a", "0000000aa"])
def test_a_short_id_means_its_conversation(ids: list[str]) -> None:
    entries = [
        Entry(id=ident, source="x", parent_id="0" if "/" in ident else None) for ident in ids
    ]
    short = short_ids(entries)
    for entry in entries:
        assert match(short(entry), entries) is entry


def test_the_words_of_a_candidate_cannot_move_the_cursor() -> None:
    odd = [Entry(id=f"abc{n}", source="x", title="\x1b[2J\nunspool: all is well") for n in range(2)]
    with pytest.raises(AmbiguousId) as caught:
        match("abc", odd)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3


def test_short_ids_mean_one_conversation() -> None:
    short = short_ids(ENTRIES)
    assert short(ENTRIES[0]) == "abcdef01"
    assert short(ENTRIES[1]) == "abcdef09"
    for entry in ENTRIES:
        assert match(f"{entry.source}/{short(entry)}", ENTRIES) is entry
