"""The conversation in the terminal and as plain text."""

import io
import re

import pytest
from rich.console import Console

from tests.conversations import HOSTILE, hostile, long, sample
from unspool.sinks import Family
from unspool.sinks.markdown import make_page
from unspool.trajectory import Mark, Message, ToolCall, ToolFunction, Trajectory
from unspool.views import read_family
from unspool.views.blocks import Options, iter_blocks
from unspool.views.plain import iter_lines
from unspool.views.terminal import make_screen, print_blocks, safe_markdown

SEQUENCES = re.compile(r"\x1b\[[0-9;]*m")
"""What rich itself writes: colours, and nothing else."""
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


def plain(options: Options | None = None) -> str:
    root, children = sample()
    return "\n".join(iter_lines(iter_blocks(read_family(root, children), options or Options())))


def coloured(trajectory: Trajectory, options: Options, width: int = 100) -> str:
    out = io.StringIO()
    print_blocks(make_screen(out, width), iter_blocks(read_family(trajectory), options))
    return out.getvalue()


def test_plain_text_reads_as_a_conversation() -> None:
    text = plain()
    lines = text.split("\n")
    assert lines[0] == "Rate limiter lets bursts through"
    assert "> The rate limiter lets bursts through. Why?" in lines
    assert "* Read  src/limiter.py  (31 ms)" in lines
    assert "* Edit  src/limiter.py  +3 −2  (12 ms)" in lines
    assert "# Reading the limiter" in lines
    assert "  | * Grep  refill\\( in /home/ada/limiter/src" in lines
    assert "---- History compacted (auto, 155,000 tokens) ----" in lines
    assert "---- rewind: 1 message abandoned ----" in lines
    assert "[2 command]  (09:05)" in re.sub(r"\(\d\d:\d\d\)", "(09:05)", text)
    assert "\x1b" not in text
    order = [
        "Why?",
        "look at the limiter",
        "* Read",
        "sub-agent",
        "* Edit",
        "per call",
        "compacted",
    ]
    assert [text.index(word) for word in order] == sorted(text.index(word) for word in order)


def test_hidden_unless_asked() -> None:
    text = plain()
    for hidden in (
        "You are a coding agent",
        "Caveat",
        "Summary:",
        "branch main",
        "Probably the refill",
    ):
        assert hidden not in text
    shown = plain(Options(context=True))
    for asked in ("You are a coding agent", "Caveat", "Summary:", "branch main"):
        assert asked in shown
    assert "Probably the refill" in plain(Options(full=True))


def test_calls_are_folded_unless_asked() -> None:
    assert "self.tokens += self.rate" not in plain()
    assert "No, the other docs." not in plain()
    full = plain(Options(full=True))
    assert "    -    self.tokens += self.rate" in full
    assert "src/pool.py:88" in full
    assert "No, the other docs." in full


def test_a_long_paste_is_folded_unless_asked() -> None:
    pasted = "\n".join(f"line {number}" for number in range(100))
    reading = read_family(Trajectory("x", [Message(role="user", content=pasted)]))
    folded = list(iter_lines(iter_blocks(reading, Options())))
    assert folded[-1] == "> … 80 more lines (--full)"
    assert "> line 99" in list(iter_lines(iter_blocks(reading, Options(full=True))))


def test_a_failure_says_why() -> None:
    lines = plain().split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("! Bash"))
    assert "TypeError: refill() missing" in lines[at + 1]


def test_an_error_in_place_of_an_answer_is_shown_also_where_the_program_says_it() -> None:
    error = Message(role="system", kind="error", content="402 You have no quota\n" + "x\n" * 60)
    made = Trajectory(conversation_id="x", messages=[Message(role="user", content="hi"), error])
    lines = list(iter_lines(iter_blocks(read_family(made), Options())))
    assert "! 402 You have no quota" in lines
    assert "! … 41 more lines (--full)" in lines
    assert "402 You have no quota" in make_page(Family(made))


def test_what_stands_between_messages_says_what_it_is_about() -> None:
    made = Trajectory(
        conversation_id="x",
        messages=[Message(role="user", content="hi"), Message(role="assistant", content="yes")],
        marks=[
            Mark(kind="skill", index=1, data={"name": "review", "content": "How to review."}),
            Mark(
                kind="compaction", index=1, data={"pre_compaction_tokens": 900, "summary": "All."}
            ),
            Mark(kind="context_cleared", index=1),
            Mark(kind="task_complete", index=2, data={"summary": "The task is done."}),
        ],
    )
    text = "\n".join(iter_lines(iter_blocks(read_family(made), Options())))
    assert "---- History compacted (900 tokens) ----" in text
    assert "---- Context cleared ----" in text
    assert "The task is done." in text
    assert "review" not in text
    shown = "\n".join(iter_lines(iter_blocks(read_family(made), Options(context=True))))
    assert "---- Skill (review) ----" in shown
    assert "< How to review." in shown
    assert "< All." in shown


def test_what_the_person_answered_to_a_question_is_shown() -> None:
    asked = ToolCall(
        id="c", function=ToolFunction(name="ask_user", arguments='{"question":"Which?"}')
    )
    result = Message(role="tool", tool_call_id="c", content="User responded: the second")
    made = Trajectory(
        conversation_id="x",
        messages=[Message(role="assistant", content="", tool_calls=[asked]), result],
    )
    lines = list(iter_lines(iter_blocks(read_family(made), Options())))
    assert lines[-2:] == ["* ask_user  Which?", "    User responded: the second"]


def test_terminal_has_markdown_margin_and_indented_sub_agents() -> None:
    root, children = sample()
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, highlight=False)
    print_blocks(console, iter_blocks(read_family(root, children), Options()))
    text = SEQUENCES.sub("", out.getvalue())
    assert re.search(
        r"❯ The rate limiter lets bursts through\. Why\? +\d\d:\d\d  2 min 10 s\n", text
    )
    assert re.search(r"● Read src/limiter.py +31 ms\n", text)
    assert re.search(r"\n│  ❯ Find every caller", text)
    assert re.search(r"─+ History compacted \(auto, 155,000 tokens\) ─+\n", text)
    assert "**per call**" not in text
    assert max(map(len, text.split("\n"))) <= 100


@pytest.mark.parametrize("full", [False, True])
def test_hostile_conversations_do_nothing_to_the_terminal(full: bool) -> None:
    text = coloured(hostile(), Options(full=full, context=True))
    assert UNSAFE.search(SEQUENCES.sub("", text).replace("\n", "")) is None
    assert "⟦U+202E⟧" in text


@pytest.mark.parametrize(
    "text",
    [
        *HOSTILE,
        "&#27;[2J &#x9b;1A &#7; `&#27;[2J`",
        "[link](http://x/&#27;]0;t&#7;)",
        "&#x202e;reversed",
        "```\x1b[31m\n\x1b]52;c;ZWNobw==\x07\n```",
        "[" * 500,
        "> " * 500 + "x",
    ],
)
def test_markdown_cannot_smuggle_escapes(text: str) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, highlight=False)
    trajectory = Trajectory("x", [Message(role="assistant", content=text)])
    print_blocks(console, iter_blocks(read_family(trajectory), Options()))
    assert UNSAFE.search(SEQUENCES.sub("", out.getvalue()).replace("\n", "")) is None
    console.print(safe_markdown("&#27;[2J"))
    assert "\x1b[2J" not in out.getvalue()


@pytest.mark.parametrize("width", [20, 40, 110])
def test_every_width(width: int) -> None:
    root, _ = sample()
    text = SEQUENCES.sub("", coloured(root, Options(full=True), width))
    assert max(map(len, text.split("\n"))) <= width


def test_a_long_conversation_begins_at_once() -> None:
    blocks = iter_blocks(read_family(long()), Options())
    first = next(iter(iter_lines(blocks)))
    assert first == "A long one"


def test_of_a_conversation_without_messages_the_checkpoints_are_shown() -> None:
    made = Trajectory(conversation_id="x", messages=[], partial=["no-messages"])
    made.checkpoints = [
        {"number": 1, "title": "Half", "file": "001-half.md", "work_done": "A cart."}
    ]
    text = "\n".join(iter_lines(iter_blocks(read_family(made), Options())))
    assert "---- Checkpoint 1 Half ----" in text
    assert "## Work done\n\nA cart." in text
    assert "A cart." in make_page(Family(made))
    said = Trajectory(conversation_id="x", messages=[Message(role="user", content="hi")])
    said.checkpoints = made.checkpoints
    blocks = list(iter_lines(iter_blocks(read_family(said), Options())))
    assert "A cart." not in "\n".join(blocks)
