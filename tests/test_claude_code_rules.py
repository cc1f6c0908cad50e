"""Claude Code transcripts, rule by rule: each test breaks one thing that a real session does."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.claude_lines import (
    SESSION,
    answer,
    at,
    call,
    line,
    read,
    result,
    said,
    session,
    text,
    words,
    write,
)  # fmt: skip
from tests.harness import facts_of, origins_of, reduce_all
from unspool.io.origins import Tally
from unspool.trajectory import Trajectory

# Lines and trees


def test_blank_bad_and_unknown_lines_cost_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", said("1", None, "one"), said("2", "1", "two"))
    first, second = path.read_text().splitlines()
    odd = json.dumps({"type": "hologram", "sessionId": SESSION})
    path.write_text(f"\n{first}\n\n{{bad\n{odd}\n   \n{second}\n{second[:40]}")
    tally = Tally()
    (made,) = reduce_all(facts_of(origins_of(path), tally))
    assert words(made) == ["one", "two"]
    assert (tally.problems, tally.unrecognised, tally.unknown) == (2, 1, {"hologram": 1})
    assert tally.records == 5


def test_a_boundary_that_names_no_session_is_its_files(tmp_path: Path) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "timestamp": at(2)}
    lines = (said("1", None, "one"), boundary, said("2", "b", "two"))
    path = write(tmp_path / f"{SESSION}.jsonl", *lines)
    (made,) = reduce_all(facts_of(origins_of(path)))
    assert [mark.kind for mark in made.marks or ()] == ["compaction"]


def test_what_stands_inside_a_torn_line_is_no_line(tmp_path: Path) -> None:
    """A sub-agent's message, shown in a progress line that breaks off behind it; a line that was
    glued behind the torn one is one."""
    told = {"type": "user", "message": {"role": "user", "content": "inner"}, "uuid": "i1"}
    data = {"type": "agent_progress", "agentId": "a1", "prompt": "p", "message": told}
    shown = json.dumps(line("progress", "3", "2", data=data, parentToolUseID="c1"))
    torn = shown[: shown.index('"i1"}') + len('"i1"}')]
    path = write(tmp_path / f"{SESSION}.jsonl", said("1", None, "go"), answer("2", "1", "m", "hi"))
    whole = path.read_text()
    for more, expected in (
        (torn, ["go", "hi"]),
        (torn[:-9] + json.dumps(said("4", "2", "on")), ["go", "hi", "on"]),
    ):
        path.write_text(whole + more)
        tally = Tally()
        (made,) = reduce_all(facts_of(origins_of(path), tally))
        assert words(made) == expected
        assert tally.problems == 1


def test_links_of_the_chain_are_no_messages_but_hold_it(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "one"),
        line("progress", "2", "1", data={"type": "bash_progress"}),
        line("attachment", "3", "2", attachment={"type": "task_reminder", "content": []}),
        line("system", "4", "3", subtype="turn_duration", durationMs=5),
        answer("5", "4", "m", "two"),
    )
    assert words(made) == ["one", "two"]
    assert made.branches is None


@pytest.mark.parametrize("parents", [("1", "1"), ("2", "1"), ("3", "1")])
def test_circles_are_cut(tmp_path: Path, parents: tuple[str, str]) -> None:
    """The first line follows itself, the second, or the third one."""
    first, second = parents
    rows = [said("1", first, "one"), said("2", second, "two"), said("3", "2", "three")]
    assert words(session(tmp_path, *rows)) == ["one", "two", "three"]


def test_every_root_starts_a_segment(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "one"),
        answer("2", "1", "m1", "first"),
        said("3", "gone", "two"),
        answer("4", "3", "m2", "second"),
        line("system", "5", None, subtype="compact_boundary", compactMetadata={"preTokens": 9}),
        said("6", "5", "This session is being continued …", isCompactSummary=True),
        said("7", None, "three"),
    )
    assert words(made)[:4] == ["one", "first", "two", "second"]
    assert words(made)[5:] == ["three"]
    assert [m.kind for m in made.messages[4:]] == ["summary", None]
    assert [m.segment for m in made.messages] == [0, 0, 0, 0, 1, 1]
    (mark,) = made.marks or []
    assert mark.data == {"messages_before": 4, "pre_tokens": 9, "messages_after": 1}


def test_what_was_preserved_counts_behind_a_compaction(tmp_path: Path) -> None:
    preserved = {"anchorUuid": "4", "uuids": ["1", "2"]}
    made = session(
        tmp_path,
        said("1", None, "one"),
        answer("2", "1", "m", "first"),
        line("system", "3", None, subtype="compact_boundary",
             compactMetadata={"trigger": "auto", "preservedMessages": preserved}),
        said("4", "3", "Summary.", isCompactSummary=True),
    )  # fmt: skip
    (mark,) = made.marks or []
    assert mark.data is not None
    assert (mark.data["messages_before"], mark.data["messages_after"]) == (2, 3)


def test_a_segment_that_was_preserved_is_counted(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "one"),
        answer("2", "1", "m", "first", call("c")),
        result("3", "2", "c", "came"),
        answer("4", "3", "n", "second"),
        line("system", "5", None, subtype="compact_boundary",
             compactMetadata={"preservedSegment": {"headUuid": "2", "tailUuid": "4"}}),
        said("6", "5", "Summary.", isCompactSummary=True),
    )  # fmt: skip
    (mark,) = made.marks or []
    assert mark.data is not None
    assert (mark.data["messages_before"], mark.data["messages_after"]) == (4, 4)


# Rewinds


def rewound(*more: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        said("1", None, "the wrong question", 1),
        answer("2", "1", "m1", "a wrong answer", second=2),
        said("3", None, "the right question", 10),
        said("4", "3", "the wrong detail", 11),
        answer("5", "4", "m2", "a wrong detail", second=12),
        said("6", "3", "the right detail", 20),
        answer("7", "6", "m3", "right", second=21),
        *more,
    ]


def test_a_rewind_is_a_branch_with_its_fork(tmp_path: Path) -> None:
    made = session(tmp_path, *rewound()[2:])
    assert words(made) == ["the right question", "the right detail", "right"]
    (branch,) = made.branches or []
    assert [m.content for m in branch.messages] == ["the wrong detail", "a wrong detail"]
    assert (branch.fork_id, branch.index, branch.reason) == ("3", 1, "rewind")


def from_the_start() -> list[dict[str, Any]]:
    return [
        line("attachment", "0", None, attachment={"type": "skill_listing", "content": []}),
        said("1", "0", "the wrong question", 1),
        answer("2", "1", "m1", "a wrong answer", second=2),
        said("3", "0", "the right question", 10),
        answer("4", "3", "m2", "right", second=11),
    ]


def test_no_title_comes_from_a_prompt_that_was_taken_back(tmp_path: Path) -> None:
    made = session(tmp_path, *from_the_start())
    assert words(made) == ["the right question", "right"]
    assert made.title == "the right question"


def test_nor_from_a_line_that_repeats_it(tmp_path: Path) -> None:
    rows = from_the_start()
    rows.insert(3, {"type": "last-prompt", "lastPrompt": "the wrong question", "leafUuid": "2"})
    assert session(tmp_path, *rows).title == "the right question"


def test_nor_from_a_hook_that_saw_it(tmp_path: Path) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", *from_the_start())
    payload = {"session_id": SESSION, "hook_event_name": "UserPromptSubmit", "transcript_path": "t"}
    log = write(
        tmp_path / "log.jsonl",
        {**payload, "prompt": "the wrong question"},
        {**payload, "prompt": "the right question"},
    )
    for places in ((path, log), (log, path)):
        assert read(*places)[SESSION].title == "the right question"


def test_a_prompt_that_was_asked_again_is_a_title(tmp_path: Path) -> None:
    rows = from_the_start()
    rows[3] = said("3", "0", "the wrong question", 10)
    assert session(tmp_path, *rows).title == "the wrong question"


def test_a_session_began_with_what_was_taken_back(tmp_path: Path) -> None:
    made = session(tmp_path, *from_the_start()[1:])
    assert made.started_at == at(1)


# Titles


TITLES = [
    {"type": "custom-title", "customTitle": "by the person"},
    {"type": "ai-title", "aiTitle": "by the program"},
    {"type": "last-prompt", "lastPrompt": "the last prompt"},
    {"type": "summary", "summary": "a summary", "leafUuid": "1"},
]


@pytest.mark.parametrize("number", range(5))
def test_titles_go_by_who_knows_best(tmp_path: Path, number: int) -> None:
    best = ["by the person", "by the program", "the last prompt", "a summary", "one"]
    known = [{**row, "sessionId": SESSION} for row in TITLES[number:]]
    for rows in itertools.permutations([said("1", None, "one\nand more"), *known]):
        assert session(tmp_path, *rows).title == best[number]


def test_of_equal_titles_the_last_one_holds(tmp_path: Path) -> None:
    rows = [{"type": "ai-title", "aiTitle": name, "sessionId": SESSION} for name in ("a", "b")]
    assert session(tmp_path, said("1", None, "one"), *rows).title == "b"


# Answers


def test_lines_of_a_message_are_one_wherever_they_stand(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "go"),
        answer("2", "1", "m", call("c1"), requestId="r"),
        result("3", "2", "c1", "one"),
        answer("4", "2", "m", call("c2"), requestId="r"),
        result("5", "4", "c2", "two"),
        answer("6", "5", "n", "done"),
    )
    assert [m.role for m in made.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [c.id for c in made.messages[1].tool_calls or ()] == ["c1", "c2"]
    assert made.branches is None


def test_parallel_results_are_no_branch(tmp_path: Path) -> None:
    """Both results hang on their own calls; only one of them is on the way up."""
    rows = [
        said("1", None, "go"),
        answer("2", "1", "m", call("c1")),
        answer("3", "2", "m", call("c2")),
        answer("4", "3", "m", call("c3")),
        result("5", "4", "c3", "three"),
        result("6", "2", "c1", "one"),
        result("7", "3", "c2", "two"),
        answer("8", "7", "n", "done"),
    ]
    made = session(tmp_path, *rows)
    assert words(made) == ["go", "", "one", "two", "three", "done"]
    assert made.branches is None


def test_a_message_is_named_by_its_request_or_its_line_where_it_has_no_id(tmp_path: Path) -> None:
    def nameless(uuid: str, parent: str, words: str, **fields: Any) -> dict[str, Any]:
        return answer(uuid, parent, "", words, body={"id": None}, **fields)

    made = session(
        tmp_path,
        said("1", None, "go"),
        nameless("2", "1", "a", requestId="r"),
        nameless("3", "2", "b", requestId="r"),
        nameless("4", "3", "c"),
    )
    assert [(m.id, m.content) for m in made.messages[1:]] == [("r", "a\n\nb"), ("4", "c")]


def test_a_line_that_repeats_and_goes_on_is_not_told_twice(tmp_path: Path) -> None:
    thought = {"type": "thinking", "thinking": "hm"}
    made = session(
        tmp_path,
        said("1", None, "go"),
        answer("2", "1", "m", thought, "I will"),
        answer("3", "2", "m", thought, "I will see", call("c", command="ls")),
        answer("4", "3", "m", thought, "I will see", call("c", command="ls")),
    )
    (_, message) = made.messages
    assert (message.content, message.thinking) == ("I will see", "hm")
    assert [c.id for c in message.tool_calls or ()] == ["c"]


@pytest.mark.parametrize("odd", [{"isApiErrorMessage": True}, {"body": {"model": "<synthetic>"}}])
def test_answers_of_the_program_have_no_model_and_no_tokens(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    body = {"usage": {"input_tokens": 5, "output_tokens": 5}, **odd.get("body", {})}
    row = answer("2", "1", "m", "API Error", **{**odd, "body": body})
    made = session(tmp_path, said("1", None, "go"), row)
    message = made.messages[1]
    assert message.kind in ("error", "notification")
    assert (message.model, message.usage, made.usage) == (None, None, None)


# Tokens


def spent(output: int | None, **more: Any) -> dict[str, Any]:
    return {"body": {"usage": {"input_tokens": 3, "output_tokens": output, **more}}}


def test_tokens_count_once_from_the_last_line(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "go"),
        answer("2", "1", "m", "a", **spent(1, cache_read_input_tokens=None)),
        answer("3", "2", "m", call("c"), **spent(40, cache_read_input_tokens=100)),
        result("4", "3", "c", "r"),
        answer("5", "4", "m", "b", **spent(90, cache_read_input_tokens=100)),
    )
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (103, 90)
    assert made.usage.cached_tokens == 100


@pytest.mark.parametrize(("flat", "nested", "written"), [(0, 70, 70), (70, 0, 70), (50, 50, 50)])
def test_cache_writes_are_the_larger_count(
    tmp_path: Path, flat: int, nested: int, written: int
) -> None:
    cache = {"ephemeral_5m_input_tokens": nested // 2, "ephemeral_1h_input_tokens": nested // 2}
    usage = spent(1, cache_creation_input_tokens=flat, cache_creation=cache)
    made = session(tmp_path, said("1", None, "go"), answer("2", "1", "m", "a", **usage))
    assert made.usage is not None
    assert (made.usage.cache_write_tokens, made.usage.prompt_tokens) == (written, 3 + written)


def test_an_answer_that_a_side_thread_replays_counts_once(tmp_path: Path) -> None:
    """An aside repeats what was said, with other lines, times and requests."""
    own = [said("1", None, "go", 1), answer("2", "1", "msg_01AAAAAAAAAAAAAAAA", "hi", second=2,
                                            requestId="r1", **spent(10))]  # fmt: skip
    side: dict[str, Any] = {"isSidechain": True, "agentId": "aside_question-1"}
    replay = [
        said("11", None, "go", 50, **side),
        answer("12", "11", "msg_01AAAAAAAAAAAAAAAA", "hi", second=51, requestId="r2",
               **spent(10), **side),
        said("13", "12", "by the way?", 52, **side),
        answer("14", "13", "msg_01BBBBBBBBBBBBBBBB", "yes", second=53, requestId="r3",
               **spent(4), **side),
    ]  # fmt: skip
    root = tmp_path / "projects"
    write(root / f"{SESSION}.jsonl", *own)
    write(root / SESSION / "subagents" / "agent-aside_question-1.jsonl", *replay)
    made = read(root)
    tokens = {t.conversation_id: t.usage.completion_tokens for t in made.values() if t.usage}
    assert tokens == {SESSION: 10, f"{SESSION}/aside_question-1": 4}
    aside = made[f"{SESSION}/aside_question-1"]
    assert [m.copied for m in aside.messages] == [True, True, False, False]
    assert [m.turn for m in aside.messages] == [None, None, 0, 0]


def test_what_a_side_thread_was_given_opens_no_turn(tmp_path: Path) -> None:
    """Prompts and results of the session are told again before the last answer of it that is; what
    stands behind is the aside's own, also where its words are the same."""
    ident, later = "msg_01AAAAAAAAAAAAAAAA", "msg_01CCCCCCCCCCCCCCCC"
    own = [
        said("1", None, "go", 1),
        answer("2", "1", ident, call("c1"), second=2, requestId="r1", **spent(10)),
        result("3", "2", "c1", "done", 3),
        answer("4", "3", later, "Done.", second=4, requestId="r2", **spent(3)),
        said("5", "4", "and now?", 5),
    ]
    side: dict[str, Any] = {"isSidechain": True, "agentId": "aside_question-2"}
    replay = [
        {**row, **side, "uuid": f"x{row['uuid']}", "timestamp": f"2026-03-02T09:50:0{number}Z",
         "parentUuid": f"x{row['parentUuid']}" if row["parentUuid"] else None}
        for number, row in enumerate(own[:4])
    ]  # fmt: skip
    asked = [
        said("11", "x4", "go", 60, **side),
        answer("12", "11", "msg_01DDDDDDDDDDDDDDDD", "Gone.", second=61, **spent(1), **side),
    ]
    root = tmp_path / "projects"
    write(root / f"{SESSION}.jsonl", *own)
    write(root / SESSION / "subagents" / "agent-aside_question-2.jsonl", *replay, *asked)
    aside = read(root)[f"{SESSION}/aside_question-2"]
    assert [m.copied for m in aside.messages] == [True] * 4 + [False] * 2
    assert [m.turn for m in aside.messages] == [None] * 4 + [0, 0]
    assert aside.usage is not None
    assert (aside.usage.prompt_tokens, aside.usage.completion_tokens) == (3, None)


@pytest.mark.parametrize("told", [{"agentId": "abc", "status": "completed"}, {}])
def test_a_sub_agent_belongs_to_the_session_not_to_an_aside_that_repeats_its_call(
    tmp_path: Path, told: dict[str, Any]
) -> None:
    spawn, ident = "toolu_01SSSSSSSSSSSSSSSS", "msg_01AAAAAAAAAAAAAAAA"
    own = [
        said("1", None, "go", 1),
        answer("2", "1", ident, call(spawn, "Task", prompt="count", description="d"), second=2),
        result("3", "2", spawn, "three", 3, toolUseResult=told),
    ]
    side: dict[str, Any] = {"isSidechain": True, "agentId": "aside_question-3"}
    aside = [
        {**row, **side, "uuid": f"x{row['uuid']}",
         "parentUuid": f"x{row['parentUuid']}" if row["parentUuid"] else None}
        for row in own
    ]  # fmt: skip
    counting: dict[str, Any] = {"isSidechain": True, "agentId": "abc"}
    child = [
        said("k1", None, "count", 2.1, **counting),
        answer("k2", "k1", "msg_01KKKKKKKKKKKKKKKK", "three", second=2.2, **counting),
    ]
    root = tmp_path / "projects"
    write(root / f"{SESSION}.jsonl", *own)
    write(root / SESSION / "subagents" / "agent-aside_question-3.jsonl", *aside)
    write(root / SESSION / "subagents" / "agent-abc.jsonl", *child)
    made = read(root)
    parents = {t.conversation_id: t.parent for t in made.values()}
    above = parents[f"{SESSION}/abc"]
    assert above is not None
    assert (above.conversation_id, above.tool_call_id) == (SESSION, spawn)
    assert made[f"{SESSION}/aside_question-3"].children is None


# Results


def test_results_find_their_calls_in_the_whole_session(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "go"),
        answer("2", "1", "m1", call("c1")),
        answer("3", "2", "m2", "meanwhile"),
        line("system", "4", None, subtype="compact_boundary"),
        said("5", "4", "Summary", isCompactSummary=True),
        result("6", "5", "c1", [text("late"), text("r")], toolUseResult={"stdout": "raw"}),
        result("7", "6", "nobody", "lost"),
    )
    late = next(m for m in made.messages if m.tool_call_id == "c1")
    assert made.messages.index(late) == 2
    assert (late.content, late.details) == ("late\n\nr", {"stdout": "raw"})
    assert words(made)[-1] == "lost"


def test_a_call_without_a_result_was_stopped_or_nobody_knows(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "go"),
        answer("2", "1", "m1", call("c1")),
        said("3", "2", "[Request interrupted by user for tool use]"),
        said("4", "3", "no"),
        answer("5", "4", "m2", call("c2")),
    )
    assert [c.status for m in made.messages for c in m.tool_calls or ()] == ["interrupted", None]


# Files of one session


def test_head_and_tail_in_two_files_written_in_one_moment(tmp_path: Path) -> None:
    """Names and times say nothing: what follows what does."""
    rows = [said("1", None, "one", 5)]
    rows += [said(str(n), str(n - 1), f"n{n}", 5) for n in range(2, 10)]
    whole = [row["message"]["content"] for row in rows]
    for names in itertools.permutations("abc"):
        folder = tmp_path / "".join(names)
        paths = [folder / f"{name}.jsonl" for name in names]
        for path, part in zip(paths, (rows[:3], rows[3:6], rows[6:]), strict=True):
            write(path, *part)
        assert words(read(folder)[SESSION]) == whole


def test_resumed_copies_whose_cut_has_one_time(tmp_path: Path) -> None:
    """Two files hold the head, one of them the tail; all lines have the same time."""
    rows = [said("1", None, "one", 5), answer("2", "1", "m", "two", second=5)]
    rows += [said("3", "2", "three", 5), answer("4", "3", "n", "four", second=5)]
    for names in (("a", "b"), ("b", "a")):
        folder = tmp_path / names[0]
        write(folder / f"{names[0]}.jsonl", *rows[:2])
        write(folder / f"{names[1]}.jsonl", *rows[1:])
        assert words(read(folder)[SESSION]) == ["one", "two", "three", "four"]


def test_order_is_that_of_the_chain_not_of_time(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "one", 50),
        answer("2", "1", "m", "two", second=10),
        said("3", "2", "three", 30),
    )
    assert words(made) == ["one", "two", "three"]
    assert (made.started_at, made.ended_at) == (at(10), at(50))


# What was typed ahead


def queue(operation: str, content: str | None = None, second: float = 0) -> dict[str, Any]:
    row = {"type": "queue-operation", "operation": operation, "sessionId": SESSION}
    return {**row, "timestamp": at(second), **({"content": content} if content else {})}


def prompts(made: Trajectory) -> list[tuple[str, str | None, str | None]]:
    return [(m.content, m.kind, m.status) for m in made.messages if m.role == "user"]


def test_a_queued_prompt_is_the_line_that_it_became(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "go", 1),
        queue("enqueue", "and then", 2),
        answer("2", "1", "m", "ok", second=3),
        queue("dequeue", second=4),
        said("3", "2", "and then", 5),
    )
    assert prompts(made) == [("go", None, None), ("and then", None, None)]


def test_a_queued_prompt_is_the_attachment_that_it_became(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "go", 1),
        queue("enqueue", "faster", 2),
        answer("2", "1", "m", "ok", second=3),
        queue("remove", second=4),
        line("attachment", "3", "2", 4, attachment={
            "type": "queued_command", "prompt": "faster", "commandMode": "prompt"}),
        answer("4", "3", "n", "done", second=5),
    )  # fmt: skip
    assert prompts(made) == [("go", None, None), ("faster", "steering", None)]


@pytest.mark.parametrize("operation", ["remove", "popAll"])
def test_a_queued_prompt_that_became_nothing_stands_where_it_was_typed(
    tmp_path: Path, operation: str
) -> None:
    made = session(
        tmp_path,
        said("1", None, "go", 1),
        queue("enqueue", "stop it", 2),
        queue(operation, second=3),
        answer("2", "1", "m", "ok", second=4),
    )
    assert prompts(made) == [("go", None, None), ("stop it", "steering", "queued")]
    assert words(made) == ["go", "stop it", "ok"]


def test_what_was_queued_is_no_prompt_from_before(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "continue", 1),
        answer("2", "1", "m", "ok", second=2),
        said("3", "2", "more", 3),
        answer("4", "3", "n", "done", second=4),
        queue("enqueue", "continue", 500),
        queue("enqueue", "and the docs", 501),
        queue("popAll", second=502),
    )
    assert words(made) == ["continue", "ok", "more", "done", "continue", "and the docs"]


def test_the_same_words_queued_twice_are_two_prompts(tmp_path: Path) -> None:
    made = session(
        tmp_path,
        said("1", None, "go", 1),
        queue("enqueue", "again", 2),
        queue("enqueue", "again", 3),
        answer("2", "1", "m", "ok", second=4),
        said("3", "2", "again", 5),
    )
    assert [words for words, _, _ in prompts(made)].count("again") == 2
