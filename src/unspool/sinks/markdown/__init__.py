"""Markdown: a conversation as a transcript to read, with what the tools were given and gave back.

One `<id>.md` per conversation, sub-agents where they were called. `docs/markdown.md`.
"""

from collections.abc import Iterator

from unspool.sinks import Family, Options, Piece, safe_name
from unspool.sinks.markdown.page import make_page

__all__ = ["FAMILIES", "MANY_FILES", "NAME", "make_page", "write"]

NAME = "markdown"
MANY_FILES = True
FAMILIES = True


def write(family: Family, options: Options) -> Iterator[Piece]:
    name = safe_name(family.root.conversation_id) + ".md"
    yield Piece(name, make_page(family).encode("utf-8", "replace"))
