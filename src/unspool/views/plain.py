"""Plain text: the conversation for a pipe, a file, grep. Nothing is wrapped."""

from collections.abc import Iterable, Iterator

from unspool.views.blocks import Block
from unspool.views.characters import printable
from unspool.views.edits import Edit

_TIGHT = frozenset(("call", "failed", "failure", "intent", "attachment", "input", "output", "diff"))
"""Kinds that follow one another without a blank line."""


def iter_lines(blocks: Iterable[Block]) -> Iterator[str]:
    before: Block | None = None
    for block in blocks:
        if before is not None and not (block.kind in _TIGHT and before.kind in _TIGHT):
            yield ""
        gutter = "  | " * block.depth
        for line in _block(block):
            yield f"{gutter}{line}".rstrip()
        before = block


def _block(block: Block) -> Iterator[str]:
    margin = f"  ({block.margin})" if block.margin else ""
    lines = block.text.split("\n")
    if block.kind == "title":
        yield from [block.text, "=" * min(len(block.text), 100)]
    elif block.kind == "prompt":
        label = f"[{block.label}]" if block.label else ""
        yield f"{label}{margin}".strip() or "[you]"
        yield from (f"> {line}" for line in lines)
    elif block.kind in ("call", "failed"):
        mark = "!" if block.kind == "failed" else "*"
        yield f"{mark} {block.label}  {block.text}{margin}"
    elif block.kind == "rule":
        yield f"---- {block.text}{margin} ----"
    elif block.kind == "agent":
        yield f"sub-agent: {block.text}{margin}"
    elif block.kind == "diff" and block.edit is not None:
        yield f"    {block.text}"
        yield from (f"    {line}" for line in diff_lines(block.edit))
    else:
        yield from (_PREFIX.get(block.kind, "") + line for line in lines)


_PREFIX = {
    "failure": "    ",
    "input": "    $ ",
    "output": "    ",
    "thought": "~ ",
    "intent": "# ",
    "context": "< ",
    "error": "! ",
    "attachment": "+ ",
}


def diff_lines(edit: Edit) -> Iterator[str]:
    for line in edit.lines:
        yield printable(line.text if line.sign == "@" else f"{line.sign}{line.text}")
