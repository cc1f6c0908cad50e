"""JSON as text: adds and removes single members and items, and leaves every other byte as it is.

Settings files are written by people: with comments, commas behind the last item, tabs, one line or
many. Whoever decodes and writes them anew loses all that. Here the text is parsed only to find places.

    {                                    {
      // mine                              // mine
      "hooks": {                           "hooks": {
        "Stop": [                            "Stop": [
          {"command": "beep"} // ding          {"command": "beep"}, // ding
        ]                                      {"command": "x"}
      }                                      ]
    }                                      }
                                         }
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

_SPACE = " \t\r\n"
_GAP = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_BREAK = re.compile(r"[ \t]*[\r\n]")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_PLAIN = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


Path = tuple[str | int, ...]
"""The way from the root to a value: names of members, numbers of items."""


class NotJson(ValueError):
    """The text is no JSON, not even with comments; says where."""


class Child(NamedTuple):
    """A member of an object, or an item of an array (then without a key)."""

    start: int
    key: str | None
    node: "Node"
    comma: int | None
    """Where the comma behind it stands."""


class Node(NamedTuple):
    """A value and where it stands."""

    start: int
    end: int
    value: Any
    children: tuple[Child, ...] = ()

    def member(self, key: str) -> "Node | None":
        """The value of a member; of two with one name the last, as everybody reads it."""
        found = [child.node for child in self.children if child.key == key]
        return found[-1] if found else None


def parse(text: str) -> Node:
    """The whole text as one value."""
    try:
        node = _value(text, _skip(text, 0))
    except RecursionError:
        raise NotJson("it is nested too deep") from None
    if _skip(text, node.end) != len(text):
        raise _wrong(text, _skip(text, node.end), "something behind the end")
    return node


def append(text: str, path: Path, key: str | None, value: Any) -> str:
    """The text with one more child at the end of the container at `path`."""
    container = at(parse(text), path)
    closer = container.end - 1
    written = _Style.of(text, container, path)
    lead = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    child = lead + written.dump(value)
    tail = len(text[:closer].rstrip(_SPACE))
    if not container.children:
        behind = "" if "\n" in text[tail:closer] or written.one_line else written.outer
        return text[:tail] + written.before(first=True) + child + behind + text[tail:]
    last = container.children[-1]
    if last.comma is not None:  # a comma behind the last one stays the last character
        return text[:tail] + written.before() + child + "," + text[tail:]
    end = last.node.end
    return text[:end] + "," + text[end:tail] + written.before() + child + text[tail:]


def remove(text: str, path: Path, matches: Callable[[int, Child], bool]) -> str:
    """The text without those children of the container at `path`, told by number and child."""
    children = at(parse(text), path).children
    for number in reversed([n for n, child in enumerate(children) if matches(n, child)]):
        text = _without(text, at(parse(text), path), number)
    return text


def _without(text: str, container: Node, number: int) -> str:
    child = container.children[number]
    comma = container.children[number - 1].comma if number else container.start
    assert comma is not None
    start = len(text[: child.start].rstrip(_SPACE))
    end = child.node.end if child.comma is None else child.comma + 1
    comments = _COMMENT.findall(text, comma + 1, child.start)
    if comments and comments[-1].startswith("//") and not _BREAK.match(text, end):
        start = child.start  # the space before it ends a comment
    if child.comma is not None or not number:
        closer = container.end - 1
        if start == comma + 1 and not number and not text[end:closer].strip(_SPACE):
            end = closer  # it was alone
        return text[:start] + text[end:]
    return text[:comma] + text[comma + 1 : start] + text[end:]


class _Style(NamedTuple):
    """How children of a container are written in this text."""

    one_line: bool
    newline: str
    outer: str
    """What stands before the bracket that closes it."""
    inner: str
    """What stands before a child."""
    unit: str

    @classmethod
    def of(cls, text: str, container: Node, path: Path) -> "_Style":
        first_break = text.find("\n")
        newline = "\r\n" if first_break > 0 and text[first_break - 1] == "\r" else "\n"
        root = parse(text)
        unit = _indent(text, root.children[0].start) if root.children else None
        unit = unit or "  "
        around = container
        for length in range(len(path), 0, -1):  # an empty one is written as what is around it
            if around.children:
                break
            around = at(root, path[: length - 1])
        one_line = bool(around.children) and "\n" not in text[around.start : around.end]
        outer = _indent_of_line(text, container.start)
        inner = _indent(text, container.children[0].start) if container.children else None
        inner = outer + unit if inner is None else inner
        return cls(one_line, newline, newline + outer, newline + inner, unit)

    def before(self, first: bool = False) -> str:
        if self.one_line:
            return "" if first else " "
        return self.inner

    def dump(self, value: Any) -> str:
        if self.one_line:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return lines.replace("\n", self.inner)


def _indent(text: str, start: int) -> str | None:
    """What stands before a child on its line, where that is only space."""
    line = text[text.rfind("\n", 0, start) + 1 : start]
    return line if "\n" in text[:start] and not line.strip(" \t") else None


def _indent_of_line(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def at(node: Node, path: Path) -> Node:
    for step in path:
        below = node.children[step].node if isinstance(step, int) else node.member(step)
        assert below is not None, path
        node = below
    return node


def _skip(text: str, place: int) -> int:
    match = _GAP.match(text, place)
    assert match is not None
    return match.end()


def _value(text: str, place: int) -> Node:
    if text[place : place + 1] in ("{", "["):
        return _container(text, place)
    if match := _STRING.match(text, place) or _PLAIN.match(text, place):
        try:
            return Node(place, match.end(), json.loads(match[0]))
        except ValueError:  # a number of thousands of digits
            return Node(place, match.end(), match[0])
    raise _wrong(text, place, "no value")


def _container(text: str, start: int) -> Node:
    is_object = text[start] == "{"
    closer = "}" if is_object else "]"
    children: list[Child] = []
    place = _skip(text, start + 1)
    while text[place : place + 1] != closer:
        if children and children[-1].comma is None:
            raise _wrong(text, place, f"no comma or {closer}")
        first, key = place, None
        if is_object:
            match = _STRING.match(text, place)
            colon = _skip(text, match.end()) if match else place
            if match is None or text[colon : colon + 1] != ":":
                raise _wrong(text, place, "no name with a colon")
            key, place = json.loads(match[0]), _skip(text, colon + 1)
        node = _value(text, place)
        place = _skip(text, node.end)
        comma = place if text[place : place + 1] == "," else None
        children.append(Child(first, key, node, comma))
        place = place if comma is None else _skip(text, comma + 1)
    value: Any = [child.node.value for child in children]
    if is_object:
        value = {child.key: child.node.value for child in children}
    return Node(start, place + 1, value, tuple(children))


def _wrong(text: str, place: int, what: str) -> NotJson:
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    return NotJson(f"line {line}, column {column}: {what}")
