"""Markup: HTML built from parts. Plain text is escaped by construction; only Markup is taken as is."""

from collections.abc import Iterable, Mapping
from html import escape

from unspool.views.characters import printable

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
