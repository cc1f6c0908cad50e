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
from typing import Any, NamedTuple

_SPACE = " \t\r\n"
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=[ \t\r\n]*[}\]])', re.DOTALL)
_NO_BREAK = re.compile(r"[^\r\n]")
_decode = json.JSONDecoder().raw_decode

Path = tuple[str | int, ...]
"""The way from the root to a value: names of members, numbers of items."""


class NotJson(ValueError):
    """The text is no JSON, not even with comments; says where."""


class Child(NamedTuple):
    """A member of an object, or an item of an array (then without a key), and where it stands."""

    start: int
    key: str | None
    value: int
    end: int
    comma: int | None
    """Where the comma behind it stands."""


class Container(NamedTuple):
    """An object or an array, from bracket to bracket."""

    start: int
    end: int
    children: list[Child]


def parse(text: str) -> Any:
    """The value of the text."""
    try:
        return json.loads(_plain(_uncommented(text)))
    except json.JSONDecodeError as error:
        raise NotJson(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise NotJson("it is nested too deep") from None


def append(text: str, path: Path, key: str | None, value: Any) -> str:
    """The text with one more child at the end of the container at `path`, written as others are."""
    container = find(text, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    line = text[text.rfind("\n", 0, container.start) + 1 : container.start]
    outer = newline + line[: len(line) - len(line.lstrip(" \t"))]
    unit = _indent(text, find(text, ())) or "  "
    inside = _indent(text, container)
    inner = outer + unit if inside is None else newline + inside
    alike = text[container.start : container.end] if container.children else text
    lead = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    if "\n" not in alike.strip(_SPACE):
        child = lead + json.dumps(value, ensure_ascii=False)
        before, behind = " " if container.children else "", ""
    else:
        child = lead + json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", inner)
        before, behind = inner, outer
    tail = len(text[: container.end - 1].rstrip(_SPACE))
    if not container.children:
        behind = "" if "\n" in text[tail : container.end] else behind
        return text[:tail] + before + child + behind + text[tail:]
    last = container.children[-1]
    if last.comma is not None:  # a comma behind the last one stays the last character
        return text[:tail] + before + child + "," + text[tail:]
    return text[: last.end] + "," + text[last.end : tail] + before + child + text[tail:]


def remove(text: str, path: Path, number: int) -> str:
    """The text without a child of the container at `path`."""
    container = find(text, path)
    child = container.children[number]
    opener = container.children[number - 1].comma if number else container.start
    assert opener is not None
    start = len(text[: child.start].rstrip(_SPACE))
    end = child.end if child.comma is None else child.comma + 1
    above = text[opener + 1 : start].rpartition("\n")[2]
    if "//" in above and text[end:].lstrip(" \t")[:1] not in ("\r", "\n"):
        start = child.start  # the space before it ends a comment
    if child.comma is not None or not number:
        closer = container.end - 1
        if start == opener + 1 and not number and not text[end:closer].strip(_SPACE):
            end = closer  # it was alone
        return text[:start] + text[end:]
    return text[:opener] + text[opener + 1 : start] + text[end:]


def find(text: str, path: Path) -> Container:
    """The container at `path`; of two members with one name the last, as everybody reads it."""
    bare = _uncommented(text)
    plain = _plain(bare)
    container = _container(bare, plain, _skip(plain, 0))
    for step in path:
        named = {child.key: child for child in container.children}
        below = container.children[step] if isinstance(step, int) else named[step]
        container = _container(bare, plain, below.value)
    return container


def _container(bare: str, plain: str, start: int) -> Container:
    children: list[Child] = []
    at = _skip(plain, start + 1)
    while plain[at] not in "}]":
        first, key = at, None
        if plain[start] == "{":
            key, at = _decode(plain, at)
            at = _skip(plain, _skip(plain, at) + 1)  # behind the colon
        _, end = _decode(plain, at)
        behind = _skip(bare, end)
        comma = behind if bare[behind] == "," else None
        children.append(Child(first, key, at, end, comma))
        at = behind if comma is None else _skip(plain, comma + 1)
    return Container(start, at + 1, children)


def _uncommented(text: str) -> str:
    """The text with spaces in the place of comments."""
    return _STRING_OR_COMMENT.sub(
        lambda found: found[0] if found[0][0] == '"' else _NO_BREAK.sub(" ", found[0]), text
    )


def _plain(bare: str) -> str:
    """The text with spaces in the place of commas behind the last child, too."""
    return _STRING_OR_LAST_COMMA.sub(lambda found: found[0] if found[0] != "," else " ", bare)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _indent(text: str, container: Container) -> str | None:
    """What stands before its first child on a line of its own."""
    if not container.children:
        return None
    start = container.children[0].start
    line = text[text.rfind("\n", 0, start) + 1 : start]
    return line if "\n" in text[:start] and not line.strip(" \t") else None
