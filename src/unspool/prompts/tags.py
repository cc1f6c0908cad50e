"""Tags in a prompt: which opening tag belongs to which closing tag.

Tag contents are never escaped and may hold anything, so this is no XML parser. Programs write a tag
at the start of a line (Copilot CLI puts one space before `<reminder>`), and so:

- an opening tag pairs with the nearest closing tag of its name at a line's start at the same depth;
- an opening tag that is never closed, and a closing tag that was never opened, are mere text;
- `<name>value</name>` on one line is a block too, and one whose text begins behind the opening tag
  (`<ide_selection>The user …`) may be closed in the middle of a line.

Everything here takes time linear in the text, whatever the text.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator
from functools import lru_cache

import msgspec


class LineStart:
    """Finds a pattern at the starts of lines. It looks for the newline before it, a literal, which
    is ten times faster than `^`; and it makes no copy of the text."""

    def __init__(self, pattern: str) -> None:
        self._first = re.compile(f"(?:{pattern})")
        self._later = re.compile(f"\n(?:{pattern})")

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """The matches; all but one at the very beginning hold the newline before them."""
        at = 0
        first = self._first.match(text)
        if first is not None:
            yield first
            at = first.end()
        yield from self._later.finditer(text, at)


_ATTRIBUTES = r'(?:[ \t]++(?:[^<>"\n/]|"(?:[^"\\\n]|\\.)*+"|/(?!>))*+)?+'
_TAG = LineStart(rf" ?(</?+)([A-Za-z_][\w.\-]*+)({_ATTRIBUTES})(/?+)>(?=(\r?\n)?)")
_CLOSING = re.compile(r"</([A-Za-z_][\w.\-]*+)>")
_ATTRIBUTE = re.compile(r'([A-Za-z_][\w.\-]*+)=("(?:[^"\\\n]|\\.)*+"|[^\s"]++)')


class Tag(msgspec.Struct, gc=False):
    """An opening or closing tag at the start of a line."""

    name: str
    start: int
    end: int
    closing: bool
    attributes: str
    alone: bool
    """Whether the line ends behind it."""
    mate: int = -1
    """Of an opening tag: the number of the closing tag that its name alone would pair it with."""


class Block(msgspec.Struct, gc=False):
    """`<name attributes>inner</name>` from start to end, and the blocks within."""

    text: str
    name: str
    raw_attributes: str
    start: int
    inner_start: int
    inner_end: int
    end: int
    children: list["Block"] = []

    @property
    def inner(self) -> str:
        """What stands between the tags, without the newlines that belong to them."""
        return self.text[self.inner_start : self.inner_end].strip("\r\n")

    @property
    def attributes(self) -> dict[str, object]:
        """The values are JSON literals: strings quoted, numbers and booleans bare."""
        attributes: dict[str, object] = {}
        for name, value in _ATTRIBUTE.findall(self.raw_attributes):
            try:
                attributes[name] = msgspec.json.decode(value)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                attributes[name] = value.strip('"')
        return attributes


def blocks(text: str) -> list[Block]:
    """The top-level blocks of a text in order, each with those inside it."""
    if "<" not in text or ("</" not in text and "/>" not in text):
        return []  # nothing is closed
    if not ("\n<" in text or "\n <" in text or text.startswith(("<", " <"))):
        return []
    return _cached_blocks(text) if len(text) <= _CACHED_CHARS else _blocks(text)


_CACHED_CHARS = 20_000
"""Shorter texts are remembered for a while: the reducer asks what a message is, for each list that it
stands in, and whoever finishes the conversation asks again for its context."""


def _blocks(text: str) -> list[Block]:
    """The blocks where all is well nested, as it nearly always is; else paired name by name."""
    tags = list(_TAG.finditer(text))
    top = _nested(text, tags)
    if top is None:
        # A line that begins with `<tag>` or `<div>`, closed nowhere, is all that is wrong with most.
        names = set(_CLOSING.findall(text))
        closed = [tag for tag in tags if tag[2] in names or tag[4]]
        top = _nested(text, closed) if len(closed) < len(tags) else None
    return _crossed(text, tags) if top is None else top


_cached_blocks = lru_cache(maxsize=64)(_blocks)


def _nested(text: str, tags: list[re.Match[str]]) -> list[Block] | None:
    """The blocks; None where tags are left open, or cross each other."""
    top: list[Block] = []
    opened: list[Block] = []
    for match in tags:
        slash, name, attributes, empty, alone = match.groups()
        start = match.start(1)
        end = match.end(4) + 1
        if slash == "</":
            if not opened or opened[-1].name != name:
                return None
            block = opened.pop()
            block.inner_end, block.end = start, end
            continue
        block = Block(text, name, attributes, start, end, end, end)
        (opened[-1].children if opened else top).append(block)
        if not empty and (alone or not _close_on_line(block)):
            opened.append(block)
    return None if opened else top


def _close_on_line(block: Block) -> bool:
    """Close the block where its closing tag stands on the line of its opening tag."""
    closing = f"</{block.name}>"
    line_end = block.text.find("\n", block.end)
    at = block.text.find(closing, block.end, line_end if line_end >= 0 else len(block.text))
    if at >= 0:
        block.inner_end, block.end = at, at + len(closing)
    return at >= 0


def _crossed(text: str, matches: list[re.Match[str]]) -> list[Block]:
    """The blocks of a text in which tags are left open, or cross each other."""
    blocks: list[Block] = []
    tags: list[Tag] = []
    for match in matches:
        slash, name, attributes, empty, alone = match.groups()
        start = match.start(1)
        end = match.end(4) + 1
        if slash == "<" and (empty or not alone):
            block = Block(text, name, attributes, start, end, end, end)
            if empty or _close_on_line(block):
                blocks.append(block)
                continue
        tags.append(Tag(name, start, end, slash == "</", attributes, bool(alone)))
    # Pair within each name, as if there were no others.
    waiting: dict[str, list[Tag]] = {}
    for number, tag in enumerate(tags):
        if not tag.closing:
            waiting.setdefault(tag.name, []).append(tag)
        elif open_tags := waiting.get(tag.name):
            open_tags.pop().mate = number
    blocks += _pair(text, tags)
    blocks += _pair_open_lines(text, tags, {block.start for block in blocks})
    blocks.sort(key=lambda block: (block.start, -block.end))
    # Blocks inside those that hold them; one that would cross another's end is mere text.
    top: list[Block] = []
    stack: list[Block] = []
    for block in blocks:
        while stack and stack[-1].end <= block.start:
            stack.pop()
        if not stack:
            top.append(block)
        elif block.end <= stack[-1].inner_end:
            stack[-1].children.append(block)
        else:
            continue
        stack.append(block)
    return top


def _pair(text: str, tags: list[Tag]) -> Iterator[Block]:
    """Pair at the same depth: a closing tag inside a block that is itself closed later is text.

    Where that leaves an opening tag with nothing, it takes the closing tag that was passed over.
    """
    stack: list[Tag] = []
    by_name: dict[str, list[Tag]] = {}
    passed_over: dict[int, Tag] = {}

    def drop() -> Tag:
        tag = stack.pop()
        by_name[tag.name].pop()
        return tag

    def settle(tag: Tag) -> Iterator[Block]:
        if tag.start in passed_over:
            yield _block(text, tag, passed_over[tag.start])

    for number, tag in enumerate(tags):
        if not tag.closing:
            if tag.mate >= 0:
                stack.append(tag)
                by_name.setdefault(tag.name, []).append(tag)
            continue
        if not by_name.get(tag.name):
            continue
        while stack[-1].name != tag.name and stack[-1].mate < number:
            yield from settle(drop())
        if stack[-1].name == tag.name:
            yield _block(text, drop(), tag)
        else:
            passed_over.setdefault(by_name[tag.name][-1].start, tag)
    while stack:
        yield from settle(drop())


def _block(text: str, opening: Tag, closing: Tag) -> Block:
    return Block(
        text,
        opening.name,
        opening.attributes,
        opening.start,
        opening.end,
        closing.start,
        closing.end,
    )


def _pair_open_lines(text: str, tags: list[Tag], paired: set[int]) -> Iterator[Block]:
    """Opening tags with text behind them, closed in the middle of a later line."""
    left = [tag for tag in tags if not (tag.closing or tag.alone or tag.start in paired)]
    if not left:
        return
    names = {tag.name for tag in left}
    closings: dict[str, list[int]] = {}
    for match in _CLOSING.finditer(text):
        if match[1] in names:
            closings.setdefault(match[1], []).append(match.start())
    for tag in left:
        places = closings.get(tag.name, [])
        number = bisect_left(places, tag.end)
        if number < len(places):
            at = places[number]
            end = at + len(tag.name) + 3
            yield Block(text, tag.name, tag.attributes, tag.start, tag.end, at, end)


def iter_blocks(
    blocks: list[Block], containers: Collection[str]
) -> Iterator[tuple[Block, Block | None]]:
    """Every block that a program wrote, with the one it stands in.

    What a block holds is a file's or a person's text, save in those that are made to hold tags.
    """
    for block in blocks:
        yield block, None
        if block.name in containers:
            for child in block.children:
                yield child, block
                if child.name in containers:
                    # No program nests deeper; texts that do would be told again at every level.
                    yield from ((grandchild, child) for grandchild in child.children)


def without(text: str, blocks: list[Block]) -> str:
    """The text without these blocks."""
    pieces: list[str] = []
    at = 0
    for block in blocks:
        pieces.append(text[at : block.start])
        at = block.end
    pieces.append(text[at:])
    return "".join(pieces).strip()
