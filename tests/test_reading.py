"""A conversation laid out as a person reads it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conversations import NEW, OLD, call, hostile, result, sample
from tests.cursor_oracle import load
from tests.harness import cases, corpus, facts_of, origins_of, reduce_all
from tests.test_cursor_shapes import real_databases
from unspool.io.origins import Origin
from unspool.sinks import Family
from unspool.sinks.html.page import make_page as html_page
from unspool.sinks.markdown import make_page as markdown_page
from unspool.sources import SOURCES
from unspool.trajectory import FileTouch, Link, Mark, Message, Trajectory
from unspool.views import Aside, Reading, Rule, Said, read_family
from unspool.views.blocks import Options, iter_blocks
from unspool.views.calls import headline
from unspool.views.characters import one_line, printable
from unspool.views.edits import Line, diff, edits_of
from unspool.views.figures import count, duration, size


def test_calls_have_their_results_and_sub_agents() -> None:
    root, children = sample()
    reading = read_family(root, children)
    calls = {c.call.id: c for said in reading.said() for c in said.calls}
    assert calls["c1"].result is root.messages[4]
    (child,) = calls["c2"].children
    assert [said.message.role for said in child.said()] == [
        "user",
        "assistant",
        "assistant",
    ]
    assert calls["c4"].failed
    assert calls["i1"].intent
    assert [turn.number for turn in reading.turns] == [None, 0, 1, 2]


def test_all_sub_agents_of_a_call_stand_with_it() -> None:
    """A workflow starts several by one call: in the terminal, in Markdown and on the page they
    are inside it, each with its own title, and not at the end of the conversation."""
    parent, children = workflow()
    reading = read_family(parent, children)
    (made,) = [c for said in reading.said() for c in said.calls]
    assert [(child.trajectory.conversation_id, title) for child, title in made.agents()] == [
        ("s/left", "Sort the left shelf"), ("s/right", "Sort the right shelf"),
    ]  # fmt: skip
    assert not any(isinstance(item, Aside) for item in reading.items())
    shown = [block.text for block in iter_blocks(reading, Options())]
    family = Family(parent, tuple(children))
    for text in ("\n".join(shown), html_page(family), markdown_page(family)):
        places = [text.index(words) for words in ("Left is done.", "Right is done.", "All sorted.")]
        assert places == sorted(places)


def workflow() -> tuple[Trajectory, list[Trajectory]]:
    children = [
        Trajectory(
            f"s/{side}",
            [Message(role="assistant", content=f"{side.title()} is done.")],
            title=f"Sort the {side} shelf",
            parent=Link("s", tool_call_id="w1"),
        )
        for side in ("left", "right")
    ]
    started = call("w1", "Workflow", {"name": "shelves"})
    started.child_id = "s/left"
    parent = Trajectory(
        "s",
        [
            Message(role="user", content="Sort them."),
            Message(role="assistant", content="", tool_calls=[started]),
            result("w1", "launched"),
            Message(role="assistant", content="All sorted."),
        ],
        children=[Link(child.conversation_id, tool_call_id="w1") for child in children],
    )
    return parent, children


def test_every_message_stands_somewhere_once() -> None:
    root, children = sample()
    shown: list[int] = []
    for said in read_family(root, children).said():
        shown += [said.index, *(c.result_index for c in said.calls if c.result_index is not None)]
    assert sorted(shown) == list(range(len(root.messages)))


def test_marks_and_branches_stand_where_they_happened() -> None:
    root, children = sample()
    items = list(read_family(root, children).items())
    rule = next(item for item in items if isinstance(item, Rule))
    assert rule.text == "History compacted (auto, 155,000 tokens)"
    before = items[items.index(rule) - 1]
    assert isinstance(before, Said)
    assert before.message.content.startswith("The limiter refilled")
    aside = next(item for item in items if isinstance(item, Aside))
    assert [m.content for m in aside.reading.trajectory.messages] == ["No, the other docs."]


def test_a_checkpoint_of_which_only_the_title_is_left_is_shown() -> None:
    root = Trajectory("c", [])
    root.checkpoints = [{"number": 1, "title": "Kettle found", "file": "001-kettle.md"}]
    assert [rule.text for rule in read_family(root).items()] == ["Checkpoint 1 Kettle found"]  # type: ignore[union-attr]


def test_a_ring_of_sub_agents_ends() -> None:
    first = Trajectory("a", [Message(role="user", content="x")], children=[Link("b")])
    second = Trajectory("b", [Message(role="user", content="y")], children=[Link("a"), Link("b")])
    reading = read_family(first, [second, first])
    assert sum(isinstance(item, Aside) for item in reading.items()) == 1


def test_a_chain_of_a_thousand_sub_agents_is_laid_out() -> None:
    chain = [
        Trajectory(str(n), [Message(role="user", content="x")], children=[Link(str(n + 1))])
        for n in range(1000)
    ]
    assert _count(read_family(chain[0], chain[1:])) == 1000


def _count(reading: Reading) -> int:
    return 1 + sum(_count(item.reading) for item in reading.items() if isinstance(item, Aside))


def test_a_sub_agent_that_nobody_names_is_shown_at_the_end() -> None:
    root = Trajectory("a", [Message(role="user", content="x")])
    stray = Trajectory("z", [Message(role="user", content="y")])
    last = list(read_family(root, [stray]).items())[-1]
    assert isinstance(last, Aside)
    assert last.agent


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("Bash", {"command": "ls -la\n| wc", "description": "List"}, "ls -la | wc"),
        ("Read", {"file_path": "/home/ada/limiter/src/a.py"}, "src/a.py"),
        ("Grep", {"pattern": "x", "path": "/home/ada/limiter/src"}, "x in src"),
        ("TodoWrite", {"todos": [{"status": "completed"}, {"status": "open"}]}, "1 of 2 done"),
        ("apply_patch", "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n", "a.py"),
        ("odd", {"n": 3, "list": [1, 2]}, "n=3, list=[2]"),
        (
            "str_replace_editor",
            {"command": "create", "path": "/home/ada/limiter/a.py"},
            "create a.py",
        ),
        ("none", "", ""),
        ("broken", '{"command": "l', '{"command": "l'),
    ],
)
def test_headline(name: str, arguments: dict[str, object] | str, line: str) -> None:
    assert headline(call("1", name, arguments), "/home/ada/limiter") == line


def test_edits_by_shape() -> None:
    pair = {"filePath": "a.py", "oldString": OLD, "newString": NEW}
    (edit,) = edits_of(call("1", "replace_string_in_file", pair))
    assert (edit.path, edit.added, edit.removed) == ("a.py", 3, 2)
    many = {"file_path": "a.py", "edits": [{"old_string": "a", "new_string": "b"}] * 2}
    assert len(edits_of(call("1", "MultiEdit", many))) == 2
    (made,) = edits_of(call("1", "Write", {"file_path": "n.py", "content": "x\ny\n"}))
    assert made.lines == [Line("+", "x"), Line("+", "y")]
    assert edits_of(call("1", "Bash", {"command": "ls"})) == []
    assert edits_of(call("1", "Bash", "not json")) == []


def test_a_call_changed_as_many_lines_as_the_list_of_files_says() -> None:
    edit = {"file_path": "a.py", "old_string": "a\nb", "new_string": "a\nc\nd"}
    calls = [
        call("1", "Edit", edit),
        call("2", "Edit", edit),
        call("3", "Edit", edit, status="denied"),
    ]
    root = Trajectory("c", [Message("assistant", "", tool_calls=calls)])
    root.files = [FileTouch("a.py", "edit", 5, 4, tool_call_id="1")]
    (said,) = read_family(root).said()
    assert [made.changed for made in said.calls] == [(5, 4), None, None]
    lines = [
        block.text for block in iter_blocks(read_family(root), Options()) if block.label == "Edit"
    ]
    assert lines == ["a.py  +5 −4", "a.py", "a.py"]
    root.files = None  # where nobody lists the files, the arguments tell
    (said,) = read_family(root).said()
    assert [made.changed for made in said.calls] == [(2, 1), (2, 1), None]


def _everything(folder: Path) -> Iterator[Trajectory]:
    """All conversations of the real corpus, Cursor's databases among them; else of the cases."""
    real = corpus()
    for place in [real] if real is not None else cases():
        yield from reduce_all(facts_of(_own(place)))
    for dump in real_databases():
        yield from reduce_all(facts_of(_own(load(dump, folder / dump.name))))


def _own(folder: Path) -> list[Origin]:
    return [origin for origin in origins_of(folder) if origin.source in SOURCES]


def test_show_counts_the_lines_that_the_list_of_files_names(tmp_path: Path) -> None:
    """In every conversation at hand: what calls show together is what the list of files says."""
    different: list[str] = []
    for trajectory in _everything(tmp_path):
        if trajectory.files is None:
            continue
        calls = [made for said in read_family(trajectory).said() for made in said.calls]
        named: Counter[str] = Counter()
        for touch in trajectory.files:
            if touch.operation != "read" and touch.outcome not in ("failed", "denied", "rejected"):
                named[f"{touch.tool_call_id} +"] += touch.lines_added or 0
                named[f"{touch.tool_call_id} -"] += touch.lines_removed or 0
        for made in calls:
            told = tuple(named[f"{made.call.id} {sign}"] for sign in "+-")
            if (made.changed or (0, 0)) != told:
                different.append(
                    f"{trajectory.conversation_id} {made.call.id}: {made.changed}, {told}"
                )
    assert not different


def test_edits_prefer_the_numbers_that_the_file_had() -> None:
    hunk = {"oldStart": 7, "oldLines": 1, "newStart": 7, "newLines": 1, "lines": ["--- x", "+y"]}
    got = result("1", "ok", details={"filePath": "a.sql", "structuredPatch": [hunk]})
    pair = {"file_path": "a.sql", "old_string": "-- x", "new_string": "y"}
    (edit,) = edits_of(call("1", "Edit", pair), got)
    assert edit.lines == [Line("@", "@@ -7,1 +7,1 @@"), Line("-", "-- x"), Line("+", "y")]


def test_edits_of_patches() -> None:
    text = (
        "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n-old\n+new\n"
        "*** Add File: b.py\n+one\n*** End Patch"
    )
    first, second = edits_of(call("1", "apply_patch", {"input": text}))
    assert (first.path, first.added, first.removed) == ("a.py", 1, 1)
    assert (second.path, second.lines) == ("b.py", [Line("+", "one")])
    unified = "--- a/x.sql\n+++ b/x.sql\n@@ -1 +1 @@\n--- comment\n+++ plus\n"
    (edit,) = edits_of(call("1", "patch", {"patch": unified}))
    assert edit.path == "x.sql"
    assert edit.lines[1:] == [Line("-", "-- comment"), Line("+", "++ plus")]


def test_diff_keeps_lines_that_look_like_headers() -> None:
    assert diff("-- a\n", "++ b\n") == [
        Line("@", "@@ -1 +1 @@"),
        Line("-", "-- a"),
        Line("+", "++ b"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jgone", "gone"),
        ("\x1bPq#0\x1b\\pic", "pic"),
        ("a\x07b\x00", "a␇b␀"),
        ("cut \x1b[3", "cut ␛[3"),
        ("x\u202ey", "x⟦U+202E⟧y"),
        ("\U000e0041", "⟦U+E0041⟧"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\ud800", "\ufffd"),
        ("tab\tstays\n", "tab\tstays\n"),
        ("👩‍👩‍👧 שלום", "👩‍👩‍👧 שלום"),
        ("🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", None),
    ],
)
def test_printable(text: str, shown: str | None) -> None:
    assert printable(text) == (text if shown is None else shown)


def test_one_line_is_cut() -> None:
    assert one_line("a  b\nc" * 100, 10) == "a b ca b…"


def test_figures() -> None:
    assert [count(n) for n in (None, 7, 999, 1234, 18_230, 999_900, 2_500_000)] == [
        "", "7", "999", "1.2k", "18k", "1.0M", "2.5M",
    ]  # fmt: skip
    assert [size(n) for n in (0, 999, 1234, 56_789, 150_000_000)] == [
        "0 B", "999 B", "1.2 kB", "57 kB", "150 MB",
    ]  # fmt: skip
    assert [duration(n) for n in (31, 4210, 18_400, 61_000, 3_700_000, 999.9)] == [
        "31 ms", "4.2 s", "18 s", "1 min 1 s", "1 h 1 min", "1.0 s",
    ]  # fmt: skip


def test_a_turn_took_what_the_program_measured_else_what_its_times_say() -> None:
    times = ("10:00:00", "10:00:09", "10:05:00", "10:05:04")
    spoken = Trajectory(
        "c",
        [
            Message(role, "words", timestamp=f"2026-03-01T{time}.000Z")
            for role, time in zip(("user", "assistant") * 2, times, strict=True)
        ],
        marks=[Mark("turn_end", 2, data={"duration_ms": 8400})],
    )
    assert [turn.duration_ms for turn in read_family(spoken).turns] == [8400, 4000]


def test_what_nobody_typed_is_no_turn() -> None:
    nudge = Message(role="user", content="<reminder>Go on.</reminder>", typed="")
    asked = Message(role="user", content="Hello")
    reading = read_family(Trajectory("x", [asked, nudge]))
    assert [turn.prompt is not None for turn in reading.turns] == [True]
    assert [said.category for said in reading.said()] == ["user", "injected"]
    assert list(reading.said())[1].words == "<reminder>Go on.</reminder>"


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        ("output", "<stdout>\nall <b>well</b>\n</stdout>", "\nall <b>well</b>\n"),
        ("output", "<a>one</a> <a>two</a>", "<a>one</a> <a>two</a>"),
        (None, "<div>as typed</div>", "<div>as typed</div>"),
    ],
)
def test_a_tag_around_an_output_is_not_shown(kind: str | None, content: str, words: str) -> None:
    message = Message(role="user", content=content, kind=kind)
    (said,) = read_family(Trajectory("x", [message])).said()
    assert said.words == words


def test_hostile_conversations_are_laid_out_too() -> None:
    assert len(list(read_family(hostile()).said())) > 40
