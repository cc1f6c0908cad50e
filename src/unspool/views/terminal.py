"""The terminal: colours, Markdown, and a margin with tokens and durations on the right."""

import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

from rich.console import Console, ConsoleRenderable, Group
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from unspool.views.blocks import Block
from unspool.views.characters import colourable, printable
from unspool.views.plain import diff_lines

WIDEST = 110
"""Longer lines are hard to read, however wide the window is."""
MARGIN = 19
_TIGHT = frozenset(("call", "failed", "failure", "intent", "attachment"))
_MARKDOWN_LIMIT = 200_000


class Screen(Console):
    """A console that leaves it to us what a reader who went away means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_screen(file: IO[str], width: int) -> Screen:
    return Screen(
        file=file,
        force_terminal=os.environ.get("TERM") != "dumb",
        width=max(min(width, WIDEST), 20),
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_blocks(console: Console, blocks: Iterable[Block]) -> None:
    before: Block | None = None
    for block in blocks:
        if before is not None and not (block.kind in _TIGHT and before.kind in _TIGHT):
            console.print(Text("│  " * min(block.depth, before.depth), style="magenta"))
        console.print(_placed(block, console.width))
        before = block


def _placed(block: Block, width: int) -> ConsoleRenderable:
    body = _block(block)
    if block.margin and block.kind not in ("rule", "agent"):
        row = Table.grid(expand=True, padding=(0, 0, 0, 2))
        row.add_column(ratio=1)
        row.add_column(width=MARGIN, justify="right", style="bright_black", no_wrap=True)
        row.add_row(body, Text(block.margin))
        body = row
    elif block.kind not in ("rule", "title", "facts"):
        body = Padding(body, (0, MARGIN + 2 if width > 70 else 0, 0, 0))
    if not block.depth:
        return body
    gutter = Table.grid(expand=True)
    for _ in range(block.depth):
        gutter.add_column(width=3, style="magenta", no_wrap=True)
    gutter.add_column(ratio=1)
    inside = Console(width=max(width - 3 * block.depth, 20))
    height = max(1, len(inside.render_lines(body)))
    bars = [Text("\n".join(["│"] * height))] * block.depth
    gutter.add_row(*bars, body)
    return gutter


def _block(block: Block) -> ConsoleRenderable:
    text = block.text
    match block.kind:
        case "answer":
            return safe_markdown(text)
        case "call" | "failed":
            mark, colour = ("✗ ", "red") if block.kind == "failed" else ("● ", "green")
            name = (f"{block.label} ", "bold red" if block.kind == "failed" else "bold")
            line = Text.assemble((mark, colour), name, (text, "bright_black"), no_wrap=True)
            line.overflow = "ellipsis"
            return line
        case "rule":
            shown = f"{text} · {block.margin}" if block.margin else text
            return Rule(Text(shown, style="yellow"), style="yellow")
        case "agent":
            return Text.assemble(("sub-agent ", "magenta"), (text, "bold"), f"  {block.margin}")
        case "diff":
            lines = list(diff_lines(block.edit)) if block.edit is not None else []
            code = Syntax("\n".join(lines), "diff", theme="ansi_dark", background_color="default")
            return Padding(Group(Text(text, style="bright_black"), code), (0, 0, 0, 4))
        case _:
            mark, style = _STYLES[block.kind]
            if not mark.strip():
                body = Text(text, style=style)
                return Padding(body, (0, 0, 0, len(mark))) if mark else body
            row = Table.grid()
            row.add_column(no_wrap=True)
            row.add_column(ratio=1)
            row.add_row(Text(mark, style=style), Text(text, style=style))
            return row


_STYLES = {
    "title": ("", "bold"),
    "facts": ("", "bright_black"),
    "prompt": ("❯ ", "bold cyan"),
    "input": ("    ", "cyan"),
    "output": ("    ", "bright_black"),
    "thought": ("✻ ", "italic bright_black"),
    "intent": ("→ ", "italic bright_black"),
    "failure": ("  ↳ ", "red"),
    "context": ("┆ ", "bright_black"),
    "error": ("✗ ", "bold red"),
    "attachment": ("  ⊕ ", "bright_black"),
}


def safe_markdown(text: str) -> ConsoleRenderable:
    if len(text) > _MARKDOWN_LIMIT:
        return Text(text)
    try:
        # No hyperlinks: what is seen is where it leads.
        rendered = Markdown(text, hyperlinks=False, code_theme="ansi_dark")
    except RecursionError:
        return Text(text)
    # Again after parsing: `&#27;` is an escape character only now.
    for token in _tokens(rendered.parsed):
        if token.type == "fence":
            language = (token.info.split() or [""])[0]
            token.info = language if colourable(token.content, language) else "text"
        token.content = printable(token.content)
        token.attrs = {
            name: printable(value) if isinstance(value, str) else value
            for name, value in token.attrs.items()
        }
    return rendered


def _tokens(tokens: Iterable[Any]) -> Iterator[Any]:
    for token in tokens:
        yield token
        yield from _tokens(token.children or ())
