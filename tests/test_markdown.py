"""The Markdown sink: readable, whole, and nothing in a conversation breaks the page around it."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.harness import case_id, cases, facts_of, origins_of, reduce_all
from tests.test_chat_json import families
from unspool.sinks import Family
from unspool.sinks.markdown import make_page, write
from unspool.sinks.markdown.prose import address, code, fenced, plain, prose
from unspool.trajectory import Message, ToolCall, ToolFunction, Trajectory

MARKDOWN = MarkdownIt("commonmark").enable("table")


def headings(page: str) -> list[str]:
    """The text of every heading that stands at the top of the page, outside of everything."""
    tokens = MARKDOWN.parse(page)
    return [
        tokens[n + 1].content
        for n, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]


def blocks(page: str, kind: str) -> list[str]:
    return [token.content for token in MARKDOWN.parse(page) if token.type == kind]


NASTY = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "```", "~~~~\nopen", "````\n```\n", "<details>", "<!-- gone", "</details>", "<script>",
            "<![CDATA[", "<?php", "- list\n  - deeper", "> quote", "text\n---", "    indented",
            "| a | b |\n|---|---|", "[x]: y", "`", "``a` <b>", "\u2028", "# title", "* * *", "<pre>",
            "1. one\n\n       ```\n", "\t```\n",
        ]
    ),
)  # fmt: skip
TEXTS = st.lists(NASTY, max_size=4).map("\n".join)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
def test_nothing_swallows_the_page(user: str, said: str, given_: str, got: str, name: str) -> None:
    call = ToolCall("c", function=ToolFunction(name, given_))
    page = make_page(
        Family(
            Trajectory(
                "id",
                [
                    Message("user", user, typed=user),
                    Message("assistant", said, thinking=given_, tool_calls=[call]),
                    Message("tool", got, tool_call_id="c", name=name),
                    Message("user", "SENTINEL", mode="last", typed="SENTINEL"),
                    Message("assistant", "END", model="end"),
                ],
                title="A title",
            )
        )
    )
    found = headings(page)
    assert found[0] == "A title"
    assert found[-2:] == ["User <sub>last</sub>", "Assistant <sub>end</sub>"]
    obeyed = "".join(blocks(page, "html_block"))
    assert obeyed.count("<details>") == obeyed.count("</details>")


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_code_blocks_hold_their_text(text: str) -> None:
    (found,) = blocks(f"before\n\n{fenced(text)}\n\nafter", "fence")
    shown = fenced(text).split("\n", 1)[1].rsplit("\n", 1)[0]
    assert found.rstrip("\n") == shown.rstrip("\n")


def test_fences_inside_fences() -> None:
    inner = "Use:\n```python\nprint()\n```\n"
    (found,) = blocks(fenced(inner), "fence")
    assert found == inner


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_words_and_code_stay_on_their_line(text: str) -> None:
    for made in (plain(text), code(text), address(text)):
        assert "\n" not in made


def test_html_is_shown_not_obeyed() -> None:
    assert prose("a <b>bold</b> `<i>` <https://example.org>") == (
        "a &lt;b>bold&lt;/b> `<i>` <https://example.org>"
    )


@pytest.mark.parametrize("case", cases(), ids=case_id)
def test_every_source(case: Path) -> None:
    """Every conversation has a page with every word that a person or a model said in it."""
    for family in families(reduce_all(facts_of(origins_of(case / "input")))):
        (piece,) = write(family, {})
        page = piece.data.decode()
        assert headings(page)
        for message in family.root.messages:
            for line in (message.typed or message.content).split("\n"):
                words = line.strip()
                if words.isascii() and words.replace(" ", "").isalnum():
                    assert words in page


def test_transcript_of_a_tool_call() -> None:
    call = ToolCall("c", function=ToolFunction("Bash", '{"command": "ls -l", "timeout": 5}'))
    call.status, call.duration_ms = "failed", 1200
    page = make_page(
        Family(
            Trajectory(
                "id",
                [
                    Message("user", "list"),
                    Message("assistant", "", tool_calls=[call]),
                    Message("tool", "no such\n```\nfolder", tool_call_id="c", is_error=True),
                ],
            )
        )
    )
    assert "<summary><code>Bash</code> — ls -l — <b>failed</b> — 1.2 s</summary>" in page
    assert "```sh\nls -l\n```" in page
    assert "````\nno such\n```\nfolder\n````" in page
