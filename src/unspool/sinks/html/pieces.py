"""Pieces that several parts of the page are made of."""

from unspool.sinks.html.markup import Markup, element, join
from unspool.views import Reading
from unspool.views.figures import size

CLIP = 100_000
"""Of a longer output the page shows this many characters and says so."""


def message_id(reading: Reading, index: int) -> str:
    return f"{reading.prefix}m{index + 1}"


def link(ident: str) -> Markup:
    label = {"class": "link", "href": f"#{ident}", "aria-label": f"Link to {ident}"}
    return element("a", label, f"#{ident}")


def fold(title: object, body: object, kind: str = "", opened: bool = False) -> Markup:
    summary = element("summary", None, title)
    return element("details", {"class": kind, "open": opened}, summary, body)


def clipped(words: str) -> Markup:
    if len(words) <= CLIP:
        return join([words])
    left = f"… {size(len(words) - CLIP)} more; whole with `unspool export --to jsonl`"
    return join([words[:CLIP], "\n", element("em", {"class": "clip"}, left)])
