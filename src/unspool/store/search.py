"""Search: what was typed, answered, called and returned, by words, pieces of words or a pattern."""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any, Literal

import msgspec

from unspool.errors import UsageError
from unspool.store.filters import Filters, where
from unspool.store.substrings import caught_up

FIELDS = ("typed", "answered", "called", "returned")
WEIGHTS = (4.0, 2.0, 1.0, 0.5)
"""What a person typed says more about what they look for than what a tool printed."""
OPEN, CLOSE = "\x01", "\x02"
"""Stand around what was found, in snippets; no text of a conversation holds them visibly."""
RANKED = 5000
"""Of a word that is everywhere only this many of the latest places are looked at, and they stand in
the order of FIELDS, the latest first: bm25 would count all places in the store to know how rare the
word is, and it is not rare."""
_SNIPPET_CHARS = 160
_TOKEN = re.compile(r'"[^"]*"\*?|\(|\)|[^\s()"]+')
_PLAIN = re.compile(r"^\w+\*?$")
_OPERATORS = frozenset(("AND", "OR", "NOT"))
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Scripts whose words no spaces part, or not all of them: Thai, Lao, Burmese, Khmer, Japanese,
Chinese, Korean. To the index of words a whole sentence of theirs is one word."""

Mode = Literal["words", "substring", "regex"]


class Hit(msgspec.Struct, array_like=True):
    """A message in which it was found."""

    source: str
    conversation_id: str
    title: str | None
    message_index: int
    turn: int | None
    role: str
    timestamp: str | None
    model: str | None
    tool: str | None
    field: str
    snippet: str
    """With OPEN and CLOSE around what was found."""
    score: float


class Found(msgspec.Struct):
    hits: list[Hit]
    capped: bool = False
    """Only the latest RANKED places were looked at."""


def search(
    connection: sqlite3.Connection,
    query: str,
    mode: Mode = "words",
    fields: tuple[str, ...] = FIELDS,
    filters: Filters | None = None,
    limit: int = 20,
) -> Found:
    filters = filters or Filters()
    if not query.strip():
        raise UsageError("search for what?")
    if mode == "regex":
        return Found(list(iter_pattern(connection, query, fields, filters, limit)))
    pieces = [query] if mode == "substring" else unworded(query)
    if pieces is None:
        return _words(connection, query, fields, filters, limit)
    return Found(list(_pieces(connection, pieces, fields, filters, limit)) if pieces else [])


def iter_pattern(
    connection: sqlite3.Connection,
    query: str,
    fields: tuple[str, ...],
    filters: Filters,
    limit: int,
) -> Iterator[Hit]:
    """Where a regular expression matches, the latest first, as it is found."""
    pattern = _pattern(query)
    trigrams = " AND ".join(_trigrams(text) for text in required_texts(query))
    if trigrams and caught_up(connection):
        return _look_at(connection, trigrams, [pattern], fields, filters, limit)
    return _scan(connection, [pattern], fields, filters, limit)


def required_texts(pattern: str) -> list[str]:
    """Texts that stand in everything that the pattern matches: `foo\\d+bar` needs foo and bar.

    None where nobody can tell (`foo|bar`), or where they are too short for the index.
    """
    texts = [""]

    def walk(items: Iterable[tuple[Any, Any]]) -> None:
        for kind, value in items:
            name = str(kind)
            if name == "LITERAL":
                texts[-1] += chr(value)
            elif name == "SUBPATTERN" and not value[1] and not value[2]:
                walk(value[3])
            elif name == "AT":
                pass  # an edge of a word or a line takes no room
            else:
                texts.append("")

    try:
        parser = import_module("re._parser")
        walk(parser.parse(pattern))
    except (ImportError, AttributeError, TypeError, ValueError, re.error):
        return []  # a Python that does it otherwise: all texts are looked at
    return [text for text in texts if len(text) >= 3]


def unworded(query: str) -> list[str] | None:
    """The pieces to look for where the index of words cannot know them; None where it can."""
    terms = _TOKEN.findall(query)
    if any(term in ("(", ")", "OR", "NOT") for term in terms):
        return None
    if re.search(r"\w", query) and not _UNSPACED.search(query):
        return None
    return [plain for term in terms if term != "AND" and (plain := term.strip('"*'))]


def _pattern(query: str) -> re.Pattern[str]:
    try:
        return re.compile(query)
    except re.error as error:
        raise UsageError(f"not a regular expression: {error}") from None


def match_query(query: str, fields: tuple[str, ...]) -> str:
    """FTS5's language with everything quoted that it would stumble over: foo-bar, a.b, C++."""
    parts: list[str] = []
    for token in _TOKEN.findall(query):
        known = token in ("(", ")") or token in _OPERATORS or token.startswith('"')
        if known or _PLAIN.match(token):
            parts.append(token)
        else:
            star = "*" if token.endswith("*") else ""
            parts.append('"' + token.removesuffix("*").replace('"', "") + '"' + star)
    text = " ".join(parts)
    return text if set(fields) == set(FIELDS) else f"{{{' '.join(fields)}}} : ({text})"


def _quoted(query: str) -> str:
    """Every word by itself: for what is no query in FTS5's language (`AND foo`, `(`)."""
    return " ".join('"' + word.replace('"', "") + '"' for word in query.split() if word.strip('"'))


_JOIN = (
    "FROM {index} JOIN messages m ON m.id = {index}.rowid"
    " JOIN conversations c ON c.id = m.conversation_id"
)
_COLUMNS = (
    "c.source, c.external_id, c.title, m.message_index, m.turn_index, m.role, m.timestamp,"
    " m.model, m.tool_name"
)


def _words(
    connection: sqlite3.Connection,
    query: str,
    fields: tuple[str, ...],
    filters: Filters,
    limit: int,
) -> Found:
    try:
        return _ranked(connection, query, fields, filters, limit)
    except sqlite3.OperationalError:
        text = _quoted(query)
        return _ranked(connection, text, fields, filters, limit) if text else Found([])


def _ranked(
    connection: sqlite3.Connection,
    query: str,
    fields: tuple[str, ...],
    filters: Filters,
    limit: int,
) -> Found:
    match = match_query(query, fields)
    terms, values = filters.of_messages()
    # Rows of other tables are looked at only where something is asked of them, and for the best.
    join = _JOIN.format(index="words") if terms else "FROM words"
    places = f"{join} WHERE words MATCH ? AND {where(terms)}"
    bound = connection.execute(
        f"SELECT words.rowid {places} ORDER BY words.rowid DESC LIMIT 1 OFFSET {RANKED}",
        (match, *values),
    ).fetchone()
    scores: dict[int, float] = {}
    if bound is None:
        weights = ", ".join(map(str, WEIGHTS))
        scores |= connection.execute(
            f"SELECT words.rowid, -bm25(words, {weights}) AS score {places}"
            " ORDER BY score DESC, words.rowid DESC LIMIT ?",
            (match, *values, limit),
        )
    else:
        # All words in what was typed, all in the answer … and those that several fields share.
        tiers = [((field,), WEIGHTS[FIELDS.index(field)]) for field in fields]
        for tier, weight in (*tiers, (fields, 0.0)):
            for (place,) in connection.execute(
                f"SELECT words.rowid {places} AND words.rowid > ? ORDER BY words.rowid DESC LIMIT ?",
                (match_query(query, tier), *values, bound[0], limit),
            ):
                scores.setdefault(place, weight)
            if len(scores) >= limit:
                break
    marks = ", ".join(
        f"snippet(words, {number}, '{OPEN}', '{CLOSE}', '…', 20)" for number in range(len(FIELDS))
    )
    hits: list[Hit] = []
    for place, score in islice(scores.items(), limit):
        *columns, typed, answered, called, returned = connection.execute(
            f"SELECT {_COLUMNS}, {marks} {_JOIN.format(index='words')}"
            " WHERE words MATCH ? AND words.rowid = ?",
            (match, place),
        ).fetchone()
        field, snippet = _best((typed, answered, called, returned))
        hits.append(_make(columns, field, snippet, score))
    return Found(hits, bound is not None)


def _best(snippets: tuple[str | None, ...]) -> tuple[str, str]:
    """The field in which it was found, and what stands around it."""
    for field, snippet in zip(FIELDS, snippets, strict=True):
        if snippet and OPEN in snippet:
            return field, snippet
    return next(((f, s) for f, s in zip(FIELDS, snippets, strict=True) if s), ("", ""))


def _pieces(
    connection: sqlite3.Connection,
    pieces: list[str],
    fields: tuple[str, ...],
    filters: Filters,
    limit: int,
) -> Iterator[Hit]:
    """By the trigram index, which knows the texts that hold all trigrams: these are looked at."""
    patterns = [re.compile(re.escape(piece), re.IGNORECASE) for piece in pieces]
    trigrams = " AND ".join(_trigrams(piece) for piece in pieces if len(piece) >= 3)
    if not trigrams or not caught_up(connection):
        yield from _scan(connection, patterns, fields, filters, limit)
        return
    yield from _look_at(connection, trigrams, patterns, fields, filters, limit)


def _look_at(
    connection: sqlite3.Connection,
    trigrams: str,
    patterns: list[re.Pattern[str]],
    fields: tuple[str, ...],
    filters: Filters,
    limit: int,
) -> Iterator[Hit]:
    """The texts that hold these trigrams, the latest first."""
    terms, values = filters.of_messages()
    rows = connection.execute(
        f"SELECT {_COLUMNS}, {', '.join('x.' + field for field in FIELDS)}"
        f" {_JOIN.format(index='pieces')} JOIN texts x ON x.id = m.id"
        f" WHERE pieces MATCH ? AND {where(terms)} ORDER BY pieces.rowid DESC",
        (trigrams, *values),
    )
    return islice(_hits(rows, patterns, fields), limit)


def _trigrams(query: str) -> str:
    found = dict.fromkeys(query[at : at + 3] for at in range(len(query) - 2))
    return " AND ".join('"' + one.replace('"', '""') + '"' for one in found)


def _scan(
    connection: sqlite3.Connection,
    patterns: list[re.Pattern[str]],
    fields: tuple[str, ...],
    filters: Filters,
    limit: int,
) -> Iterator[Hit]:
    """By reading all texts, the latest first: for patterns, and for what is shorter than a trigram."""
    terms, values = filters.of_messages()
    rows = connection.execute(
        f"SELECT {_COLUMNS}, {', '.join('x.' + field for field in FIELDS)}"
        " FROM texts x JOIN messages m ON m.id = x.id"
        " JOIN conversations c ON c.id = m.conversation_id"
        f" WHERE {where(terms)} ORDER BY x.id DESC",
        values,
    )
    yield from islice(_hits(rows, patterns, fields), limit)


def _hits(
    rows: Iterable[tuple[Any, ...]], patterns: list[re.Pattern[str]], fields: tuple[str, ...]
) -> Iterator[Hit]:
    for *columns, typed, answered, called, returned in rows:
        texts = zip(FIELDS, (typed, answered, called, returned), strict=True)
        chosen = [(field, text) for field, text in texts if field in fields and text]
        first, *others = patterns
        if not all(any(other.search(text) for _, text in chosen) for other in others):
            continue
        for field, text in chosen:
            if match := first.search(text):
                yield _make(columns, field, _around(text, match), 0.0)
                break


def _make(columns: list[Any], field: str, snippet: str, score: float) -> Hit:
    """A hit out of a row of _COLUMNS."""
    return msgspec.convert([*columns, field, snippet, score], Hit)


def _around(text: str, match: re.Match[str]) -> str:
    start = max(0, match.start() - _SNIPPET_CHARS // 2)
    end = min(len(text), match.end() + _SNIPPET_CHARS // 2)
    found = text[match.start() : match.end()]
    before, after = text[start : match.start()], text[match.end() : end]
    head = "…" if start else ""
    tail = "…" if end < len(text) else ""
    return f"{head}{before}{OPEN}{found}{CLOSE}{after}{tail}"
