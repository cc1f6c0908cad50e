"""Narrow text: long strings whose emoji stand as surrogate pairs.

Python keeps a string in as many bytes a character as its widest one needs: one emoji makes it four.
The two halves of a surrogate pair need two each, so a narrow text takes half of that. Nothing is lost:
no text that was read holds halves, and whatever encodes a narrow text puts them together again.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from sys import getsizeof

from unspool.io import longtext
from unspool.io.dirty_json import clean_text
from unspool.io.memory import give_back

_WIDE = re.compile("[\U00010000-\U0010ffff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_FIRST_HALF, _LAST_HALF = "\ud800", "\udbff"
"""Of those that begin a pair."""
_KINDS = 32
"""So many different emoji are replaced one after the other: each time at once wherever it stands."""
_OFTEN = 32
"""After so many pieces what they took is given back."""


def narrow(text: str) -> str:
    if getsizeof(text) < 4 * len(text):  # it is: no character takes four bytes
        return text
    text, at = _swap(_WIDE, _pair, text)
    return text if at < 0 else _WIDE.sub(_pair, text)


def widen(text: str) -> str:
    """The text as it was."""
    text, at = _swap(_PAIR, _character, text)
    return text if at < 0 else clean_text(text)


def _swap(
    pattern: re.Pattern[str], swapped: Callable[[re.Match[str]], str], text: str
) -> tuple[str, int]:
    """The text with what matches swapped, and where more may stand; -1 if there is no more."""
    at = 0
    for _ in range(_KINDS):
        found = pattern.search(text, at)
        if found is None:
            return text, -1
        at = found.start()
        text = text.replace(found[0], swapped(found))
    return text, at


def _pair(found: re.Match[str]) -> str:
    number = ord(found[0])
    return chr(0xD7C0 + (number >> 10)) + chr(0xDC00 + (number & 0x3FF))


def _character(found: re.Match[str]) -> str:
    first, second = map(ord, found[0])
    return chr(((first - 0xD7C0) << 10) + (second & 0x3FF))


def put_together(pieces: Iterable[str]) -> str:
    """One narrow text. It grows in place: there is no moment when it is there twice."""
    made = ""
    for number, piece in enumerate(
        pieces
    ):  # Python 3.11 grows a string in place in such a loop only
        made += narrow(piece)
        if not number % _OFTEN:
            give_back()
    return made


def iter_steps(text: str) -> Iterator[str]:
    """A text in pieces, none of which ends within a pair."""
    at = 0
    while at < len(text):
        end = at + longtext.STEP
        if end < len(text) and _FIRST_HALF <= text[end - 1] <= _LAST_HALF:
            end += 1
        yield text[at:end]
        at = end


def iter_bytes(text: str) -> Iterator[bytes]:
    """The same as UTF-8."""
    for piece in iter_steps(text):
        yield widen(piece).encode()
