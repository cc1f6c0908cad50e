"""Pairing of tags: one rule per test, an oracle over made-up texts, and time on hostile ones."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.prompts import tags
from unspool.prompts.tags import Block, blocks, without


def tree(found: list[Block]) -> list[object]:
    return [(b.name, tree(b.children) if b.children else b.inner) for b in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no tag, 1 < 2 > 0", []),
        ("<a>\nx\n</a>", [("a", "x")]),
        ("<a>\nx\n</a>\n<a>\ny\n</a>", [("a", "x"), ("a", "y")]),
        ("<a>\n<a>\nx\n</a>\n</a>", [("a", [("a", "x")])]),
        ("<a>\nsay </a> here\n</a>", [("a", "say </a> here")]),
        ("text <a>\nx\n</a>", []),
        ("<a>\nx </a>", []),
        ("<a>\nnever closed\n<b>\nx\n</b>", [("b", "x")]),
        ("</a>\n<b>\nx\n</b>\n</c>", [("b", "x")]),
        ("<a>\n<a>\nx\n</a>", [("a", "x")]),
        ("<a/>\n<a b=1 />", [("a", ""), ("a", "")]),
        ("<a>v</a>\n<b>w</b> tail", [("a", "v"), ("b", "w")]),
        ("<a>begins here\nends there.</a> on", [("a", "begins here\nends there.")]),
        ("<a>\r\nx\r\n</a>\r\n<b>\r\ny\r\n</b>", [("a", "x"), ("b", "y")]),
        (" <a>\nx\n</a>", [("a", "x")]),
        ("    <a>\nx\n    </a>", []),
        ("<1>\n</1>\n<>\n</>", []),
    ],
)
def test_pairing(text: str, expected: list[object]) -> None:
    assert tree(blocks(text)) == expected


def test_a_closing_tag_in_a_file_that_was_attached_closes_nothing() -> None:
    text = "<outer>\n<inner>\nfile\n</outer>\nmore\n</inner>\n</outer>\n<last>\nx\n</last>"
    assert tree(blocks(text)) == [
        ("outer", [("inner", "file\n</outer>\nmore")]),
        ("last", "x"),
    ]


def test_an_opening_tag_in_a_file_does_not_swallow_what_follows() -> None:
    text = "<outer>\n<inner>\n<div>\n</inner>\n</outer>\n<last>\n</div>\nx\n</last>"
    assert tree(blocks(text)) == [("outer", [("inner", "<div>")]), ("last", "</div>\nx")]


def test_blocks_that_cross_leave_the_first() -> None:
    assert tree(blocks("<a>\n<b>\n</a>\n</b>")) == [("a", "<b>")]


def test_attributes_are_json_literals() -> None:
    (block,) = blocks('<a id="x > \\"y\\"" n=13 flag=true path="C:\\\\w" odd=x-1>\nt\n</a>')
    assert block.attributes == {
        "id": 'x > "y"',
        "n": 13,
        "flag": True,
        "path": "C:\\w",
        "odd": "x-1",
    }


def test_text_without_blocks_keeps_every_other_character() -> None:
    text = "before\n<a>\nx\n</a>\nbetween\n<b/>\nafter"
    assert without(text, blocks(text)).split() == ["before", "between", "after"]


LINES = st.sampled_from(["<a>", "</a>", "<b>", "</b>", "<c/>", "text", "", "<a>v</a>", "x </a>"])


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=14))
def test_blocks_are_well_nested_and_stand_where_they_say(lines: list[str]) -> None:
    text = "\n".join(lines)

    def check(found: list[Block], start: int, end: int) -> None:
        for block in found:
            assert start <= block.start <= block.inner_start <= block.inner_end <= block.end <= end
            assert text[block.start :].startswith(f"<{block.name}")
            assert text[: block.end].endswith((f"</{block.name}>", "/>"))
            check(block.children, block.inner_start, block.inner_end)
            start = block.end

    check(blocks(text), 0, len(text))


@settings(max_examples=300, deadline=None)
@given(st.recursive(st.just(""), lambda inner: st.lists(st.tuples(st.sampled_from("abc"), inner))))
def test_what_is_well_nested_is_read_as_it_was_written(shape: object) -> None:
    def write(shape: object) -> str:
        if isinstance(shape, str):
            return "text"
        return "\n".join(f"<{name}>\n{write(inner)}\n</{name}>" for name, inner in shape)  # type: ignore[attr-defined]

    def expect(shape: object) -> list[object]:
        if isinstance(shape, str):
            return []
        return [
            (name, expect(inner) if expect(inner) else write(inner))
            for name, inner in shape  # type: ignore[attr-defined]
        ]

    assert tree(blocks(write(shape))) == expect(shape)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=10))
def test_one_pass_over_well_nested_text_gives_what_the_whole_rule_gives(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert tree(blocks(text)) == tree(tags._crossed(text, list(tags._TAG.finditer(text))))


PADDING = ("y" * 99 + "\n") * 50_000
HOSTILE = {
    "unclosed": "<a>\n" * 10_000 + PADDING,
    "unclosed, each with its own name": "".join(f"<a{n}>\n" for n in range(10_000)) + PADDING,
    "unclosed, with text behind": "".join(f"<a{n}>z\n" for n in range(10_000)) + PADDING,
    "never opened": "</a>\n" * 10_000 + PADDING,
    "deep": "<a>\n" * 5_000 + PADDING + "</a>\n" * 5_000,
    "crossing": "".join(f"<a{n}>\n" for n in range(5_000))
    + PADDING
    + "".join(f"</a{n}>\n" for n in range(5_000)),
    "deep beyond any stack": "<a>\n" * 100_000 + "</a>\n" * 100_000,
    "siblings": ("<a>\n" + "x" * 990 + "\n</a>\n") * 5_000,
    "quotes": '<a b="' + '"x" y="' * 600_000,
    "no end of attributes": ("<a " + "b=c " * 100 + "\n") * 12_000,
    "fences of angles": "\n<" * 2_100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_five_megabytes_with_ten_thousand_tags_take_linear_time(name: str) -> None:
    text = HOSTILE[name]
    start = time.process_time()
    blocks(text)
    # 0.02 to 0.3 s on a slow core; anything quadratic takes minutes.
    assert time.process_time() - start < 3
