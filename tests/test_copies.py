"""History copied from another conversation: found by ids and words, in linear time."""

import time

from unspool.link import apply_patch, link, make_card
from unspool.trajectory import Message, Trajectory

ANSWER = "msg_answer_of_the_first"


def linked(*conversations: Trajectory) -> list[list[bool]]:
    patches = link(make_card(conversation) for conversation in conversations)
    for made in conversations:
        apply_patch(made, patches.get((made.source, made.conversation_id)))
    return [[message.copied for message in made.messages] for made in conversations]


def conversation(ident: str, *messages: tuple[str, str]) -> Trajectory:
    return Trajectory(
        ident,
        [
            Message("user", text, id=number, timestamp="2026-03-01T10:00:00.000Z")
            for number, text in messages
        ],
        source="claude-code",
        started_at=f"2026-03-01T10:00:0{ident[-1]}.000Z",
    )


def test_what_a_fork_took_over_is_a_copy() -> None:
    first = conversation("c1", ("u1", "one"), ("u2", "two"))
    fork = conversation("c2", ("u1", "one"), ("u3", "three"))
    assert linked(first, fork) == [[False, False], [True, False]]
    assert fork.parent is not None
    assert (fork.parent.conversation_id, fork.parent.kind) == ("c1", "fork")


def test_a_line_that_the_program_puts_everywhere_makes_no_fork() -> None:
    first = conversation("c1", ("u1", "warning"), ("u2", "two"))
    other = conversation("c2", ("u1", "warning"), ("u3", "three"))
    first.messages[0].kind = other.messages[0].kind = "injected"
    assert linked(first, other) == [[False, False], [False, False]]
    assert other.parent is None


def test_what_has_no_time_goes_with_what_has() -> None:
    first = conversation("c1", ("u1", "one"), ("u2", "result"))
    fork = conversation("c2", ("u1", "one"), ("u2", "result"), ("u3", "three"))
    first.messages[1].timestamp = fork.messages[1].timestamp = None
    assert linked(first, fork) == [[False, False], [True, True, False]]


def test_an_answer_that_was_not_yet_whole_when_a_fork_took_it_is_a_copy() -> None:
    first = conversation("c1", ("u1", "one"), (ANSWER, "Let me look. Found it."), ("m2", "Done."))
    fork = conversation("c2", ("u1", "one"), (ANSWER, "Let me look."), ("m2", "Other."))
    for message in (*first.messages[1:], *fork.messages[1:]):
        message.role = "assistant"
    fork.messages[2].timestamp = "2026-03-01T10:00:05.000Z"  # counted ids: another answer
    assert linked(first, fork) == [[False, False, False], [True, True, False]]


def test_programs_that_count_their_messages_copy_nothing() -> None:
    first, second = conversation("c1", ("1", "one")), conversation("c2", ("1", "two"))
    assert linked(first, second) == [[False], [False]]
    assert second.parent is None


def test_two_that_begin_with_the_same_words_copy_nothing() -> None:
    """Where a format has no ids they are made from the words; the time tells them apart."""
    first, second = (conversation(f"c{n}", ("hash of hi", "hi")) for n in (1, 2))
    second.messages[0].timestamp = "2026-03-02T10:00:00.000Z"
    assert linked(first, second) == [[False], [False]]
    for made in (first, second):
        made.messages[0].timestamp = None
    assert linked(first, second) == [[False], [False]]


def test_many_conversations_that_begin_alike_take_linear_time() -> None:
    many = [conversation(f"c{number}", ("1", "hi"), (f"x{number}", "y")) for number in range(5000)]
    start = time.process_time()
    linked(*many)
    assert time.process_time() - start < 5
