"""Markup: HTML built from parts. Plain text is escaped by construction; only Markup is taken as is."""

from collections.abc import Iterable, Mapping
from html import escape

from unspool.views import Reading
from unspool.views.characters import printable
from unspool.views.figures import size

_EMPTY = frozenset(("img", "input", "br", "hr", "meta", "link"))


class Markup(str):
    """HTML that is safe: made by `element`, or sanitised."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Plain text as HTML: escaped, with nothing in it that could hide or turn text round."""
    return Markup(escape(printable(value)))


def element(name: str, attributes: Mapping[str, object] | None = None, *children: object) -> Markup:
    """`<name …>children</name>`; None children are left out, strings are escaped."""
    opening = "".join(_attributes(attributes or {}))
    if name in _EMPTY:
        return Markup(f"<{name}{opening}>")
    return Markup(f"<{name}{opening}>{join(children)}</{name}>")


def _attributes(attributes: Mapping[str, object]) -> Iterable[str]:
    for name, value in attributes.items():
        if value is True:
            yield f" {name}"
        elif value is not None and value is not False and value != "":
            yield f' {name}="{escape(printable(str(value)))}"'


def join(children: Iterable[object]) -> Markup:
    return Markup("".join(_pieces(children)))


def _pieces(children: Iterable[object]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            yield child
        elif isinstance(child, str):
            yield text(child)
        elif isinstance(child, Iterable):
            yield from _pieces(child)
        else:
            yield text(str(child))


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
