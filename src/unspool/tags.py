"""Prompt tags: what in a user message is the person's, and what the program put around it.

Tag contents are never escaped and may hold anything, so this is no XML parser: an opening tag at the
start of a line pairs with the nearest closing tag of its name at a line's start at the same depth.
"""

import re
from typing import NamedTuple

_TAG = re.compile(
    r"^[ \t]*<(?P<close>/)?(?P<name>[A-Za-z_][\w.\-]*)(?P<attributes>(?:\s[^<>\n]*?)?)(?P<empty>/)?>",
    re.MULTILINE,
)
_TYPED = ("userRequest", "user_query", "UserRequest", "prompt", "userPrompt")
SUMMARY = "conversation-summary"


class Block(NamedTuple):
    """A top-level block of a message: `<name …>inner</name>` from start to end."""

    name: str
    attributes: str
    inner: str
    start: int
    end: int


def blocks(text: str) -> list[Block]:
    """The top-level blocks of a message, in order; siblings of one name stay apart."""
    tags = list(_TAG.finditer(text))
    closers: dict[str, int] = {}
    for tag in tags:
        if tag["close"]:
            closers[tag["name"]] = closers.get(tag["name"], 0) + 1
    found: list[Block] = []
    opened: tuple[str, re.Match[str], int] | None = None
    depth = 0
    for tag in tags:
        name = tag["name"]
        if opened is None:
            if tag["close"]:
                closers[name] -= 1
            elif tag["empty"]:
                found.append(Block(name, tag["attributes"].strip(), "", tag.start(), tag.end()))
            elif closers.get(name):
                opened, depth = (name, tag, tag.end()), 1
            elif (inline := _closed_on_line(text, tag)) is not None:
                found.append(inline)
            continue
        if tag["close"]:
            closers[name] -= 1
        if name != opened[0] or tag["empty"]:
            continue
        depth += -1 if tag["close"] else 1
        if depth == 0 or (tag["close"] and not closers[name]):
            opener = opened[1]
            inner = text[opened[2] : tag.start()].strip("\n")
            found.append(
                Block(name, opener["attributes"].strip(), inner, opener.start(), tag.end())
            )
            opened = None
    return found


def _closed_on_line(text: str, tag: re.Match[str]) -> Block | None:
    """`<name>value</name>` on one line."""
    closing = f"</{tag['name']}>"
    line_end = text.find("\n", tag.end())
    at = text.find(closing, tag.end(), line_end if line_end >= 0 else len(text))
    if at < 0:
        return None
    inner = text[tag.end() : at]
    return Block(tag["name"], tag["attributes"].strip(), inner, tag.start(), at + len(closing))


def typed_text(text: str) -> str | None:
    """What the person typed; None where the message holds nothing of theirs."""
    if "<" not in text:
        return text
    found = blocks(text)
    for name in _TYPED:
        for block in reversed(found):
            if block.name == name:
                return block.inner.strip()
    rest = without_blocks(text, found)
    return rest or (None if found else text)


def without_blocks(text: str, found: list[Block]) -> str:
    pieces: list[str] = []
    at = 0
    for block in found:
        pieces.append(text[at : block.start])
        at = block.end
    pieces.append(text[at:])
    return "".join(pieces).strip()


def summary_of(text: str) -> str | None:
    """The conversation summary that a message begins from, where it holds one."""
    if f"<{SUMMARY}" not in text:
        return None
    found = [block for block in blocks(text) if block.name == SUMMARY]
    return found[-1].inner if found else None
