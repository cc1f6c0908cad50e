"""Documents: JSON values that stand over many lines, or as the elements of one array."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from unspool.io.dirty_json import (
    SAMPLE_CHARS,
    is_cut_off,
    is_too_deep,
    mend_escapes,
    recover_json,
)

_BETWEEN = re.compile(r"[\s\0,\ufeff\[\]]*")
"""What stands between the values: white space, commas, the brackets of arrays around them."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_decoder = json.JSONDecoder(strict=False)


MENDED = "invalid-escape"
"""From here on backslashes that escape nothing were mended: no value itself, and nothing lost."""


class Element(NamedTuple):
    """A value and where it begins; with a code, what is wrong with it, and the text."""

    offset: int
    value: Any
    code: str = ""
    text: str = ""


def iter_elements(text: str, recover: bool = False) -> Iterator[Element]:
    """The values one after the other, with their places in bytes, up to what cannot be read."""
    place = offset = 0
    while (at := _skip(text, place)) < len(text):
        offset += len(text[place:at].encode("utf-8", "surrogatepass"))
        place = at
        try:
            value, end = _decoder.raw_decode(text, at)
        except RecursionError:
            end = _end(text, at)
            yield Element(offset, None, "too-deep", text[at : at + SAMPLE_CHARS])
        except ValueError:
            yield from _rest(text[at:], offset, recover)
            return
        else:
            deep = is_too_deep(value)
            yield Element(offset, value, "too-deep" if deep else "", text[at : at + SAMPLE_CHARS])
        offset += len(text[at:end].encode("utf-8", "surrogatepass"))
        place = end


def _skip(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _rest(text: str, offset: int, recover: bool) -> Iterator[Element]:
    """From what could not be decoded to the end."""
    mended, shown = mend_escapes(text), text[:SAMPLE_CHARS]
    recovered = recover_json(text) if recover else None
    if mended != text:
        yield Element(offset, None, MENDED, shown)
        for element in iter_elements(mended, recover):
            yield element._replace(offset=offset + element.offset)
    elif recovered is not None:
        yield Element(offset, recovered, "recovered", shown)
    else:
        code = "truncated-json" if is_cut_off(text) else "invalid-json"
        yield Element(offset, None, code, shown)


def _end(text: str, at: int) -> int:
    """Where a value ends that is nested too deep to be decoded."""
    depth = 0
    for token in _TOKEN.finditer(text, at):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return len(text)
