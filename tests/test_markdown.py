"""The Markdown sink: readable, whole, and nothing in a conversation breaks the page around it."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.harness import case_id, cases, facts_of, origins_of, reduce_all
from tests.test_chat_json import families
from unspool.facts import Attachment
from unspool.sinks import Family
from unspool.sinks.markdown import address, code, fenced, make_page, plain, prose, write
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


def _page(*response: dict[str, object], **extra: object) -> str:
    parts = list(response)
    answer = Message("assistant", str(extra.pop("content", "Done.")), extra={"parts": parts})
    return make_page(Family(Trajectory("id", [Message("user", "q", typed="q"), answer])))


def test_what_was_shown_is_told_in_words() -> None:
    kid = {"label": "kid.py", "uri": {"scheme": "file", "path": "/p/kid.py"}}
    diff = {"modifiedUri": {"scheme": "file", "path": "/p/b.py"}, "added": 1, "removed": 2}
    page = _page(
        {"kind": "treeData", "treeData": {"label": "p", "children": [kid]}},
        {"kind": "multiDiffData", "multiDiffData": {"title": "Both", "resources": [diff]}},
        {"kind": "command", "command": {"id": "x", "title": "Press *me*"}},
        {"kind": "systemNotification", "content": {"value": "Heads up"}},
        {"kind": "hook", "hookType": "Stop", "systemMessage": "held"},
        {"kind": "extensions", "extensions": ["a.b", "c.d"]},
        {"kind": "pullRequest", "owner": "o", "repo": "r", "pullRequestNumber": 12},
    )
    assert blocks(page, "fence") == ["p/\n  kid.py\n", "Both\nfile:///p/b.py  +1 −2\n"]
    for line in ("Button:* Press \\*me\\*", "Notice:* Heads up", "Hook:* Stop: held",
                 "Extensions:* a.b, c.d", "Pull request:* o/r\\#12"):  # fmt: skip
        assert f"*{line}" in page


def test_other_shapes_of_these_kinds_are_shown_as_they_are() -> None:
    page = _page({"kind": "treeData", "treeData": [1]}, {"kind": "hook", "hookType": "Stop"})
    assert [b.count('"kind"') for b in blocks(page, "fence")] == [1, 1]


def test_edits_that_no_call_made_are_shown() -> None:
    place = {"startLineNumber": 8, "endLineNumber": 9}
    edit = {"kind": "textEditGroup", "uri": {"scheme": "file", "path": "/a.py"},
            "edits": [[{"range": place, "text": "one\ntwo\n"}]]}  # fmt: skip
    (shown,) = blocks(_page(edit), "fence")
    assert shown == "file:///a.py\n@@ lines 8-9 @@\n+one\n+two\n"


def test_links_that_the_words_have_are_not_repeated() -> None:
    uri = {"scheme": "file", "path": "/a.py"}
    part = {"kind": "inlineReference", "inlineReference": {"location": {"uri": uri}}, "name": "A"}
    assert _page(part, content="See [A](file:///a.py).").count("file:///a.py") == 1
    assert _page(part).count("file:///a.py") == 1


def test_a_link_to_a_path_with_a_space_is_not_repeated() -> None:
    part = {"kind": "inlineReference", "inlineReference": {"scheme": "file", "path": "/a b.py"}}
    assert _page(part, content="See [A](file:///a%20b.py).").count("a%20b.py") == 1


def test_what_the_program_said_is_told_once() -> None:
    """In the text where no round tells it; beside the words of a round otherwise."""
    parts = [
        {"kind": kind, "content": {"value": f"Said by {kind}"}}
        for kind in ("warning", "info", "progressTaskSerialized", "markdownContent")
    ]
    apart = _page(*parts, {"kind": "warning", "content": {"value": ""}})
    for label, kind in (("Warning", "warning"), ("Note", "info"), ("Shown", "markdownContent"),
                        ("Task", "progressTaskSerialized")):  # fmt: skip
        assert f"*{label}:* Said by {kind}" in apart
    assert '"kind"' not in apart
    assert _page(*parts[:1], content="Said by warning. Done.").count("Said by warning") == 1


def test_a_reference_right_behind_a_code_block_is_no_code() -> None:
    text = "```py\nx = 1\n```[a.py](file:///a.py) and on"
    assert blocks(prose(text), "fence") == ["x = 1\n"]
    assert "[a.py](file:///a.py) and on" in prose(text)


def test_a_call_in_the_programs_words_has_no_empty_links() -> None:
    extra = {"past_tense": "Read [](file:///a/my%20file.py#1-1), lines [1](x) to 5"}
    call = ToolCall("c", function=ToolFunction("read_file", ""), extra=extra)
    message = Message("assistant", "", tool_calls=[call])
    page = make_page(Family(Trajectory("id", [Message("user", "q"), message])))
    assert "— Read my file.py, lines 1 to 5</summary>" in page


def test_attached_texts_are_there_once() -> None:
    paste = Attachment(kind="paste", name="p", text="PASTED")
    for content, times in (("q", 1), ("<attachment>PASTED</attachment> q", 1)):
        message = Message("user", content, typed="q", attachments=[paste])
        assert make_page(Family(Trajectory("id", [message]))).count("PASTED") == times
