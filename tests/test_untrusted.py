"""Anything at all may stand in a conversation: nothing breaks, nothing gets through."""

import io
import re
import sys
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.conversations import HOSTILE, call, sample
from tests.harness import corpus
from unspool.errors import MissingExtra
from unspool.inspect.collection import FileCollection
from unspool.sinks import Family
from unspool.sinks.html import write
from unspool.trajectory import Message, Trajectory
from unspool.views import read_family
from unspool.views.blocks import Options, iter_blocks
from unspool.views.calls import headline
from unspool.views.characters import COLOURED_CHARS, COLOURED_LINE, printable
from unspool.views.edits import edits_of
from unspool.views.plain import iter_lines
from unspool.views.terminal import safe_markdown

LIGHT = settings(max_examples=150, deadline=None)
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
TAG = re.compile(r"<(/?[a-zA-Z!][^\s>]*)([^>]*)>")
SAFE_TAGS = {
    "a", "blockquote", "br", "code", "del", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
PIECES = [*"<>\"'&`*_[]()!#|\n \\/=:;-", "script", "onerror", "javascript:", "href"]
JUNK = st.one_of(
    st.sampled_from(HOSTILE), st.text(), st.lists(st.sampled_from(PIECES)).map("".join)
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    [
        "command",
        "file_path",
        "old_string",
        "new_string",
        "edits",
        "input",
        "patch",
        "content",
        "todos",
    ]
)


@LIGHT
@given(JUNK)
def test_markdown_gives_only_safe_tags(text: str) -> None:
    from unspool.sinks.html.prose import render

    html = render(text)
    assert UNSAFE.search(html.replace("\n", "")) is None
    for name, attributes in TAG.findall(html):
        assert name.lstrip("/") in SAFE_TAGS
        assert (
            re.search(r"\bon\w+\s*=|style\s*=|javascript:", attributes.partition("href=")[0])
            is None
        )
    for href in re.findall(r'href="([^"]*)"', html):
        scheme = re.match(r"\s*([a-z][a-z0-9+.-]*):", href, re.IGNORECASE)
        assert scheme is None or scheme[1].lower() in ("http", "https", "mailto")


@LIGHT
@given(st.text())
def test_printable_is_safe_and_settled(text: str) -> None:
    shown = printable(text)
    assert UNSAFE.search(shown.replace("\n", "")) is None
    assert printable(shown) == shown


@LIGHT
@given(st.dictionaries(NAMES | st.text(), VALUES, max_size=5), st.text(), VALUES)
def test_any_arguments_and_any_details(
    arguments: dict[str, object], name: str, details: object
) -> None:
    try:
        made = call("1", name, msgspec.json.encode(arguments).decode())
    except (UnicodeEncodeError, OverflowError):
        return
    assert "\n" not in headline(made)
    hunks = {"filePath": "x", "structuredPatch": details}
    for got in (details, hunks):
        edits_of(made, Message(role="tool", content="", details=got))


@LIGHT
@given(JUNK)
def test_any_text_in_a_patch(text: str) -> None:
    edits_of(call("1", "apply_patch", f"*** Begin Patch\n{text}\n@@ -1,9 +1 @@\n{text}"))
    edits_of(call("1", "apply_patch", f"--- a\n+++ b\n@@ -{text[:2]} @@\n{text}"))


@pytest.mark.parametrize(("language", "unit"), [("perl", "s{"), ("diff", "@"), ("console", "$ ")])
def test_code_that_lexers_choke_on_is_soon_shown(language: str, unit: str) -> None:
    """Each took 10 s and more at 30,000 characters on one line."""
    from unspool.sinks.html.colours import highlight

    start = time.process_time()
    line = (unit * COLOURED_LINE)[:COLOURED_LINE] + "\n"
    highlight(line * (COLOURED_CHARS // len(line)), language)
    highlight(unit * COLOURED_CHARS, language)
    fenced = f"```{language}\n{unit * COLOURED_CHARS}\n```"
    Console(file=io.StringIO(), width=80).print(safe_markdown(fenced))
    assert time.process_time() - start < 5


def test_an_empty_conversation_is_a_page_too() -> None:
    (piece,) = write(Family(Trajectory("empty", [])), {})
    assert b"holds no messages" in piece.data


def test_without_the_extra_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith("unspool.sinks.html"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nh3", None)
    from unspool.sinks.html import write as fresh

    with pytest.raises(MissingExtra, match=r"pip install 'unspool\[view\]'"):
        list(fresh(Family(sample()[0]), {}))


def test_every_real_conversation_can_be_read() -> None:
    folder = corpus()
    if folder is None:
        pytest.skip("no corpus on this machine")
    files = FileCollection([str(folder)])
    entries = [entry for entry in files.entries() if entry.parent_id is None]
    for entry in entries[:150]:
        family = files.family(entry)
        (piece,) = write(family, {})
        page = piece.data.decode()
        assert UNSAFE.search(page.replace("\n", "")) is None
        reading = read_family(family.root, family.descendants)
        shown = "\n".join(iter_lines(iter_blocks(reading, Options(full=True, context=True))))
        assert UNSAFE.search(shown.replace("\n", "")) is None
        for said in reading.said():
            assert f'id="m{said.index + 1}"' in page
    assert entries
