"""Colours: code highlighted by Pygments, with a handful of classes of our own."""

from functools import lru_cache
from typing import Any

from unspool.errors import MissingExtra
from unspool.sinks.html.markup import Markup, element, join, text
from unspool.views.characters import colourable

try:
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
    from pygments.token import Comment, Error, Generic, Keyword, Name, Number, Operator, String
    from pygments.util import ClassNotFound
except ImportError as error:  # pragma: no cover - an installation without the extra
    raise MissingExtra("the HTML page needs: pip install 'unspool[view]'") from error

# The most special first: the first that the token lies in gives the class.
_CLASSES = (
    (Comment, "c"),
    (Keyword.Type, "t"),
    (Keyword, "k"),
    (String, "s"),
    (Number, "n"),
    (Name.Function, "f"),
    (Name.Class, "t"),
    (Name.Builtin, "b"),
    (Name.Tag, "k"),
    (Name.Attribute, "f"),
    (Name.Decorator, "f"),
    (Name.Variable, "v"),
    (Operator.Word, "k"),
    (Generic.Deleted, "d"),
    (Generic.Inserted, "i"),
    (Generic.Heading, "t"),
    (Generic.Subheading, "t"),
    (Generic.Prompt, "c"),
    (Error, ""),
)


@lru_cache(512)
def _class_of(token: Any) -> str:
    return next((name for kind, name in _CLASSES if token in kind), "")


@lru_cache(128)
def _lexer(language: str) -> Any:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(512)
def language_of(path: str) -> str:
    """The language of a file, by its name; empty where unknown."""
    try:
        lexer = find_lexer_class_for_filename(path.replace("\\", "/").rpartition("/")[2])
    except ClassNotFound:
        return ""
    return str(lexer.aliases[0]) if lexer and lexer.aliases else ""


def highlight(code: str, language: str) -> Markup:
    """The code as HTML: coloured where the language is known and the code not too long."""
    lexer = _lexer(language.lower()) if colourable(code, language) else None
    if lexer is None:
        return text(code)
    spans: list[Markup] = []
    run, run_class = "", ""
    for token, value in lexer.get_tokens(code):
        name = _class_of(token)
        if name != run_class:
            spans.append(_span(run, run_class))
            run, run_class = "", name
        run += value
    spans.append(_span(run, run_class))
    return join(spans)


def _span(run: str, name: str) -> Markup:
    return element("span", {"class": f"h{name}"}, run) if name and run.strip() else text(run)
