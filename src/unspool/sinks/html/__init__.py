"""HTML: a conversation as one page that stands by itself. `docs/html.md`."""

from collections.abc import Iterator

from unspool.sinks import Family, Options, Piece, safe_name

NAME = "html"
MANY_FILES = True
FAMILIES = True
REQUIRES = ("markdown_it", "nh3", "pygments")


def write(family: Family, options: Options) -> Iterator[Piece]:
    # Imported here: the extra is needed by nobody who does not write pages.
    from unspool.sinks.html.page import make_page

    name = safe_name(family.root.conversation_id) + ".html"
    yield Piece(name, make_page(family).encode("utf-8", "replace"))
