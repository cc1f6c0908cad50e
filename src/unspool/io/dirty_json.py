"""Being replaced by `unspool.io.door`."""

import re
from typing import NamedTuple

from unspool.io import longtext
from unspool.io.door import (
    DEEPEST,
    SAMPLE_CHARS,
    Salvage,
    clean,
    clean_text,
    is_cut_off,
    is_too_deep,
    recover_json,
    refuse_depth,
    sample,
)
from unspool.io.door import read_json as salvage
from unspool.io.longtext import is_utf8

__all__ = [
    "DEEPEST", "SAMPLE_CHARS", "LongSalvage", "Salvage", "clean", "clean_text", "is_cut_off",
    "is_too_deep", "mend_escapes", "recover_json", "refuse_depth", "salvage", "salvage_long",
    "sample",
]  # fmt: skip


class LongSalvage(NamedTuple):
    """The same of a line that is too long to be worked on as a string: its values as they stand."""

    values: list[memoryview]
    code: str = ""

    @property
    def lost(self) -> bool:
        return bool(self.code) and not (
            self.values and self.code in ("invalid-utf8", "invalid-escape", "recovered")
        )


def salvage_long(line: bytes | bytearray, recover: bool = False) -> LongSalvage:
    """As `salvage` does, without holding the line many times."""
    text: longtext.Text = line
    code = ""
    if not is_utf8(line):
        text, code = longtext.mend(line).text, "invalid-utf8"
    found = longtext.split(text)
    values = [memoryview(text)[start:end] for start, end in found.spans]
    if found.code == "invalid-json" and not code:
        mended = longtext.mend(memoryview(text)[found.at :])
        rest = longtext.split(mended.text)
        if rest.code:
            found = found._replace(code=rest.code)
        else:
            values += [memoryview(mended.text)[start:end] for start, end in rest.spans]
            found, code = rest, "invalid-escape" if mended.escapes else ""
    if found.code in ("invalid-json", "truncated-json"):
        later = _later_values(text, found.at + 1)
        values += [memoryview(text)[start:end] for start, end in later]
        if later:  # what stands before them may be cut off
            text = memoryview(text)[: later[0][0]]
            found = longtext.split(text, found.at)
        closed = longtext.close_broken(text, found) if recover else None
        if closed is not None:
            values.append(memoryview(closed))
            found, code = longtext.Split([], 0), "recovered"
    shallow = [value for value in values if not longtext.is_deeper(value, DEEPEST)]
    deep = len(shallow) < len(values)
    return LongSalvage(shallow, "too-deep" if deep else found.code or code)


def _later_values(text: longtext.Text, start: int) -> list[tuple[int, int]]:
    """As `_whole_objects`."""
    failed: set[int] = set()
    for match in _OBJECT_BYTES.finditer(text, start):
        if match.start() not in failed:
            found = longtext.split(text, match.start())
            if not found.code:
                return found.spans
            failed.update(begin for begin, _ in found.spans)
    return []


_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')


def mend_escapes(text: str) -> str:
    """Every backslash that escapes nothing is one that is meant."""
    return _ESCAPE.sub(lambda found: found[0] if found[1] else r"\\", text)


_OBJECT_BYTES = re.compile(rb'\{"(?:type|name|ver|time|data|uuid|parentUuid|hook_event_name)"')
