"""Search: what was typed, answered, called and returned, by words, pieces of words or a pattern."""

import json
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain, islice
from typing import Any, Literal

import msgspec

from unspool.errors import UsageError
from unspool.store.conversations import PIECES, WORDS, caught_up
from unspool.store.filters import Filters, where

FIELDS = ("typed", "answered", "called", "returned")
_TEXTS = ", ".join(f"x.{field}" for field in FIELDS)
WEIGHTS = (4.0, 2.0, 1.0, 0.5)
"""What a person typed says more about what they look for than what a tool printed."""
OPEN, CLOSE = "\x01", "\x02"
"""Stand around what was found, in snippets; no text of a conversation holds them visibly."""
RANKED = 500
"""Of words that are everywhere only this many of the latest places are looked at, or as many as are
wanted."""
_FEW = 8
"""A filter that chooses fewer than one conversation in so many is asked first, then the index."""
_SNIPPET_CHARS = 160
_LONGEST_SNIPPET = 1000
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
    """There are more places than the latest, which were looked at."""
    complete: bool = True
    """Not where words are due to be indexed, and the store cannot be written just now."""


def search(
    connection: sqlite3.Connection,
    query: str,
    mode: Mode = "words",
    fields: tuple[str, ...] = FIELDS,
    filters: Filters | None = None,
    limit: int = 20,
    typing: bool = False,
) -> Found:
    """`typing`: the last word may go on, so what begins with it is found after what is it."""
    if not query.strip():
        raise UsageError("search for what?")
    complete = caught_up(connection, WORDS)
    asked = _Search(connection, fields, filters or Filters())
    pieces = [query] if mode == "substring" else unworded(query) if mode == "words" else None
    if mode == "regex":
        found = Found(list(iter_pattern(connection, query, fields, asked.filters, limit)))
    elif pieces is not None:
        patterns = [re.compile(re.escape(piece), re.IGNORECASE) for piece in pieces]
        hits = asked.matching(_all_trigrams(pieces), patterns) if pieces else iter(())
        found = Found(list(islice(hits, limit)))
    else:
        found = asked.words(query, limit)
        *_, last = words = query.split()
        if typing and len(found.hits) < limit and len(last) >= 3 and all(map(_PLAIN.match, words)):
            seen = {(hit.source, hit.conversation_id, hit.message_index) for hit in found.hits}
            begun = asked.matching(_all_trigrams(words), _word_patterns(query + "*"), _folded)
            more = (h for h in begun if (h.source, h.conversation_id, h.message_index) not in seen)
            found.hits += islice(more, limit - len(found.hits))
    found.complete = complete
    return found


def iter_pattern(
    connection: sqlite3.Connection,
    query: str,
    fields: tuple[str, ...],
    filters: Filters,
    limit: int,
) -> Iterator[Hit]:
    """Where a regular expression matches, the latest first, as it is found."""
    try:
        pattern = re.compile(query)
    except re.error as error:
        raise UsageError(f"not a regular expression: {error}") from None
    hits = _Search(connection, fields, filters).matching(required_trigrams(query), [pattern])
    return islice(hits, limit)


def required_trigrams(pattern: str) -> str:
    """What the index of pieces is asked for: what stands in everything that the pattern matches.

    `foo\\d+bar` needs foo and bar, `foo|bar` one of them. Empty where nobody can tell.
    """

    def walk(items: Iterable[tuple[Any, Any]]) -> str:
        needed: list[str] = []
        run = [""]
        for kind, value in items:
            name = str(kind)
            if name == "LITERAL":
                run[-1] += chr(value)
            elif name != "AT":  # an edge of a word or a line takes no room
                run.append("")
                inner = ""
                if name == "SUBPATTERN" and not value[1] and not value[2]:
                    inner = walk(value[3])
                elif name == "BRANCH":
                    ways = [walk(way) for way in value[1]]
                    inner = " OR ".join(f"({way})" for way in ways) if all(ways) else ""
                needed += [f"({inner})"] if inner else []
        needed += [_trigrams(text) for text in run if len(text) >= 3]
        return " AND ".join(needed)

    try:
        return walk(import_module("re._parser").parse(pattern))
    except (ImportError, AttributeError, TypeError, ValueError, re.error, RecursionError):
        return ""  # a Python that does it otherwise: all texts are looked at


def unworded(query: str) -> list[str] | None:
    """The pieces to look for where the index of words cannot know them; None where it can."""
    terms = _TOKEN.findall(query)
    if any(term in ("(", ")", "OR", "NOT") for term in terms):
        return None
    if re.search(r"\w", query) and not _UNSPACED.search(query):
        return None
    return [plain for term in terms if term != "AND" and (plain := term.strip('"*'))]


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


def _word_patterns(query: str) -> list[re.Pattern[str]]:
    """What the words and phrases of a query look like in a text; not those that are not wanted."""
    patterns: list[re.Pattern[str]] = []
    wanted = True
    for token in _TOKEN.findall(query):
        if token in _OPERATORS or token in ("(", ")"):
            wanted = token != "NOT"
            continue
        words = r"\W+".join(map(re.escape, re.findall(r"\w+", _folded(token))))
        if wanted and words:
            end = r"\w*" if token.endswith("*") else r"(?!\w)"
            patterns.append(re.compile(rf"(?<!\w){words}{end}", re.IGNORECASE))
        wanted = True
    return patterns


_ACCENTS = {
    code: unicodedata.normalize("NFD", chr(code))[0]
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
}


def _folded(text: str) -> str:
    """Without accents, as the index of words has it; every character stays in its place."""
    return text if text.isascii() else text.translate(_ACCENTS)


def _all_trigrams(pieces: list[str]) -> str:
    return " AND ".join(_trigrams(piece) for piece in pieces if len(piece) >= 3)


def _trigrams(query: str) -> str:
    found = dict.fromkeys(query[at : at + 3] for at in range(len(query) - 2))
    return " AND ".join('"' + one.replace('"', '""') + '"' for one in found)


def _around(text: str, match: re.Match[str], patterns: list[re.Pattern[str]], folded: str) -> str:
    """What stands around the first place, with marks around this and the others."""
    start = max(0, match.start() - _SNIPPET_CHARS // 2)
    end = min(len(text), match.end() + _SNIPPET_CHARS // 2, start + _LONGEST_SNIPPET)
    spans = sorted(
        [match.span()]
        + [one.span() for each in patterns for one in each.finditer(folded, start, end)]
    )
    parts = ["…" if start else ""]
    at = start
    for first, last in spans:
        if first >= at and last > first:
            parts += [text[at:first], OPEN, text[first : min(last, end)], CLOSE]
            at = min(last, end)
    return "".join([*parts, text[at:end], "…" if end < len(text) else ""])


class _Search:
    """A search in some fields of some conversations."""

    def __init__(
        self, connection: sqlite3.Connection, fields: tuple[str, ...], filters: Filters
    ) -> None:
        self.connection = connection
        self.fields = fields
        self.filters = filters

    def words(self, query: str, limit: int) -> Found:
        """Where all words stand in what was typed first, then in the answer …, the latest first.

        Not by bm25: it goes through all places of every word to know how rare it is.
        """
        most = max(RANKED, limit)

        def latest(query: str) -> list[int]:
            return list(islice(self._places("words", match_query(query, self.fields)), most + 1))

        try:
            places = latest(query)
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                raise
            # No query in FTS5's language (`AND foo`, `(`): every word by itself.
            words = (word.replace('"', "") for word in query.split())
            query = " ".join(f'"{word}"' for word in words if word)
            if not query:
                return Found([])
            places = latest(query)
        patterns = _word_patterns(query)
        scored: list[tuple[float, int]] = []
        weighed = [(FIELDS.index(field), WEIGHTS[FIELDS.index(field)]) for field in self.fields]
        for place, *texts in self._texts(places[:most]):
            score = 0.0
            for number, weight in weighed:
                if texts[number] and weight > score:
                    text = _folded(texts[number])
                    held = sum(1 for pattern in patterns if pattern.search(text))
                    score = max(score, weight * held / len(patterns) if patterns else 0)
            scored.append((-score, -place))
        scored.sort()
        hits = [self._hit(-place, patterns, _folded, -score) for score, place in scored[:limit]]
        return Found(hits, len(places) > most)

    def matching(
        self, trigrams: str, patterns: list[re.Pattern[str]], fold: Callable[[str], str] = str
    ) -> Iterator[Hit]:
        """The messages that all patterns match, the latest first.

        The trigram index knows which texts hold these trigrams; they are looked at. All texts are,
        where there is none to ask for, and those that the index does not hold yet.
        """
        terms, values = self.filters.of_messages()
        everything = (
            f"SELECT x.id, {_TEXTS} FROM texts x JOIN messages m ON m.id = x.id"
            f" JOIN conversations c ON c.id = m.conversation_id WHERE {where(terms)}%s"
            " ORDER BY x.id DESC"
        )
        rows: Iterable[tuple[Any, ...]]
        if not trigrams:
            rows = self.connection.execute(everything % "", values)
        else:
            rows = self._texts(self._places("pieces", trigrams))
            # Who can only read (a server) cannot index what is due.
            if not caught_up(self.connection, PIECES):
                due = f" AND x.id > (SELECT up_to FROM indexed WHERE name = '{PIECES}')"
                rows = chain(self.connection.execute(everything % due, values), rows)
        for place, *texts in rows:
            known = [
                fold(text)
                for field, text in zip(FIELDS, texts, strict=True)
                if text and field in self.fields
            ]
            if all(any(pattern.search(text) for text in known) for pattern in patterns):
                yield self._hit(place, patterns, fold)

    def _places(self, index: str, match: str) -> Iterator[int]:
        """The messages that an index finds, the latest first."""

        def found(statement: str, *values: Any) -> Iterator[int]:
            return (place for (place,) in self.connection.execute(statement, (match, *values)))

        terms, values = self.filters.of_messages()
        if not terms:
            yield from found(f"SELECT rowid FROM {index} WHERE {index} MATCH ? ORDER BY rowid DESC")
            return
        asked = (
            f"SELECT m.id FROM {index} i CROSS JOIN messages m ON m.id = i.rowid"
            f" JOIN conversations c ON c.id = m.conversation_id WHERE {index} MATCH ?"
            f" AND {where(terms)}"
        )
        chosen, chosen_values = self.filters.of_conversations()
        idents: list[str] = []
        total = 0
        if chosen:
            rows = self.connection.execute(
                f"SELECT c.id FROM conversations c WHERE {where(chosen)}", chosen_values
            )
            idents = [ident for (ident,) in rows]
            (total,) = self.connection.execute("SELECT count(*) FROM conversations").fetchone()
        if len(idents) * _FEW >= total:
            yield from found(f"{asked} ORDER BY i.rowid DESC", *values)
            return
        # Where the conversations stand is known, and only there is looked, in the latest one first.
        # Others stand between their messages where they went on later.
        ranges = self.connection.execute(
            "SELECT j.value, (SELECT n.id FROM messages n WHERE n.conversation_id = j.value"
            " ORDER BY n.message_index LIMIT 1), (SELECT n.id FROM messages n"
            " WHERE n.conversation_id = j.value ORDER BY n.message_index DESC LIMIT 1)"
            " FROM json_each(?) j ORDER BY 3 DESC",
            (json.dumps(idents),),
        ).fetchall()
        within = " AND m.conversation_id = ? AND i.rowid BETWEEN ? AND ? ORDER BY i.rowid DESC"
        for one in ranges:
            yield from found(asked + within, *values, *one)

    def _texts(self, places: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        waiting = iter(places)
        while some := list(islice(waiting, 100)):
            yield from self.connection.execute(
                f"SELECT x.id, {_TEXTS} FROM json_each(?) j CROSS JOIN texts x ON x.id = j.value",
                (json.dumps(some),),
            )

    def _hit(
        self,
        place: int,
        patterns: list[re.Pattern[str]],
        fold: Callable[[str], str],
        score: float = 0.0,
    ) -> Hit:
        *columns, typed, answered, called, returned = self.connection.execute(
            "SELECT c.source, c.external_id, c.title, m.message_index, m.turn_index, m.role,"
            f" m.timestamp, m.model, m.tool_name, {_TEXTS} FROM texts x"
            " JOIN messages m ON m.id = x.id JOIN conversations c ON c.id = m.conversation_id"
            " WHERE x.id = ?",
            (place,),
        ).fetchone()
        texts = dict(zip(FIELDS, (typed, answered, called, returned), strict=True))
        best: tuple[int, str, str] = (0, "", "")
        for field in self.fields:
            text = texts[field] or ""
            folded = fold(text)
            matches = [match for one in patterns if (match := one.search(folded))]
            if matches and len(matches) > best[0]:
                first = min(matches, key=lambda match: match.start())
                best = (len(matches), field, _around(text, first, patterns, folded))
            elif text and not best[1]:
                end = "…" if len(text) > _SNIPPET_CHARS else ""
                best = (0, field, text[:_SNIPPET_CHARS] + end)
        return msgspec.convert([*columns, *best[1:], score], Hit)
