"""Prose: Markdown to HTML that can do nothing. Rendered by markdown-it, then sanitised by nh3.

Raw HTML in the Markdown is shown as the text that it is. Images are links, because a page that
fetches them would tell their server who reads it and when.
"""

from collections.abc import Sequence
from typing import Any

from unspool.errors import MissingExtra
from unspool.sinks.html.colours import highlight
from unspool.sinks.html.markup import Markup, element, text
from unspool.views.characters import printable

try:
    import nh3
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
except ImportError as error:  # pragma: no cover - an installation without the extra
    raise MissingExtra("the HTML page needs: pip install 'unspool[view]'") from error

LIMIT = 200_000
"""Longer texts are no prose that anybody reads: shown as they are."""

_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}, "span": {"class"}}
_SCHEMES = {"http", "https", "mailto"}


def _fence(tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    language = token.info.strip().split()[0] if token.info.strip() else ""
    return element("pre", None, element("code", None, highlight(token.content, language)))


def _image(tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    source = str(token.attrs.get("src", ""))
    return element("a", {"href": source}, f"🖼 {token.content or source}")


def _make() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    rules = parser.renderer.rules  # type: ignore[attr-defined]  # the protocol does not name it
    rules["fence"] = _fence
    rules["image"] = _image
    parser.core.ruler.push("lower_headings", _lower_headings)
    return parser


def _lower_headings(state: Any) -> None:
    """The page's own headings come first: `#` of a message is a heading of the third level."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"


_markdown = _make()


def render(markdown: str) -> Markup:
    """Markdown as safe HTML."""
    if len(markdown) > LIMIT:
        return element("div", {"class": "typed"}, markdown)
    try:
        # Again after rendering: `&#x202e;` turns the text round only then.
        html = printable(_markdown.render(printable(markdown)))
    except (RecursionError, IndexError):
        return element("div", {"class": "typed"}, markdown)
    return Markup(
        nh3.clean(
            html,
            tags=_TAGS,
            attributes=_ATTRIBUTES,
            url_schemes=_SCHEMES,
            link_rel="noopener noreferrer nofollow",
        )
    )


HEAD_LINES = 16
"""Of what a person pasted, so much is seen at once where it is much longer."""


def typed(words: str) -> Markup:
    """What a person typed: as they typed it, unless they fenced code in; long pastes are folded."""
    lines = words.split("\n")
    if len(lines) > 2 * HEAD_LINES:
        head, rest = "\n".join(lines[:HEAD_LINES]), "\n".join(lines[HEAD_LINES:])
        summary = element("summary", None, f"{len(lines) - HEAD_LINES} more lines")
        more = element("details", {"class": "more"}, summary, _as_typed(rest))
        return element("div", None, _as_typed(head), more)
    if "```" in words:
        return element("div", {"class": "prose keep"}, render(words))
    return _as_typed(words)


def _as_typed(words: str) -> Markup:
    return element("div", {"class": "typed"}, text(words))
