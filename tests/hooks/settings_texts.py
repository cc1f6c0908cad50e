"""Settings files as people write them: made-up text of JSON with comments, in any style."""

import json
from typing import Any

from hypothesis import strategies as st

EVENTS = ("Stop", "SessionStart", "PostToolUse", "stop", "AfterTool", "MyOwn")

names = st.sampled_from(["a", "model", "käse", "x y", 'q"uote', "//", "hooks2", "permissions"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.sampled_from([1.5, -0.25, 1e30]),
    st.text(max_size=12),
    st.sampled_from(["// no comment", "/* nor this */", "}", "]", ",", '"', "\\", "\u2028", "😀"]),
)
values = st.recursive(
    scalars,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(names, below, max_size=3)),
    max_leaves=8,
)
handlers = st.fixed_dictionaries(
    {"type": st.just("command"), "command": st.sampled_from(["beep", "x 'y' \"z\"", "node a.mjs"])},
    optional={"timeout": st.integers(1, 60), "async": st.booleans()},
)
groups = st.one_of(
    st.fixed_dictionaries(
        {"hooks": st.lists(handlers, max_size=2)}, optional={"matcher": st.just("*")}
    ),
    handlers,
)
hooks = st.dictionaries(st.sampled_from(EVENTS), st.lists(groups, max_size=3), max_size=4)


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    members: list[tuple[str, Any]] = list(draw(st.dictionaries(names, values, max_size=4)).items())
    if draw(st.booleans()):
        members.insert(draw(st.integers(0, len(members))), ("hooks", draw(hooks)))
    return dict(members)


class Writer:
    """Writes a value with whatever space and comments are drawn."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.newline = draw(st.sampled_from(["\n", "\r\n"]))
        self.unit = draw(st.sampled_from(["  ", "    ", "\t", " "]))
        self.one_line = draw(st.booleans())
        self.with_comments = not self.one_line and draw(st.booleans())
        self.with_trailing_commas = draw(st.booleans())

    def comment(self) -> str:
        if not self.with_comments or self.draw(st.integers(0, 3)):
            return ""
        return self.draw(st.sampled_from([" // one, two", " /* a } */", " /* b\n c */"]))

    def write(self, value: Any, depth: int = 0) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=self.draw(st.booleans()))
        opener, closer = "{}" if isinstance(value, dict) else "[]"
        if not value:
            return opener + closer
        children = (
            [f"{self.write(k)}:{self.gap()}{self.write(v, depth + 1)}" for k, v in value.items()]
            if isinstance(value, dict)
            else [self.write(one, depth + 1) for one in value]
        )
        one_line = self.one_line or (not self.with_comments and not self.draw(st.integers(0, 2)))
        outer = "" if one_line else self.newline + self.unit * depth
        inner = "" if one_line else self.newline + self.unit * (depth + 1)
        text = opener + self.comment_line(inner)
        for number, child in enumerate(children):
            last = number == len(children) - 1
            comma = "," if not last or (self.with_trailing_commas and not one_line) else ""
            text += inner + child + comma + (self.comment() if not one_line else "")
        return text + outer + closer

    def comment_line(self, inner: str) -> str:
        return inner + "// above" if inner and self.comment() else ""

    def gap(self) -> str:
        return self.draw(st.sampled_from(["", " "]))


@st.composite
def texts(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """(what it says, the file)"""
    value = draw(settings())
    writer = Writer(draw)
    text = draw(st.sampled_from(["", "\ufeff"])) + writer.write(value)
    text += draw(st.sampled_from(["", writer.newline]))
    return value, text.encode()
