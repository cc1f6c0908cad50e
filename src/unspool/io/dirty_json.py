"""The names of `unspool.io.door` before it was one: being replaced."""

import re

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

__all__ = [
    "DEEPEST", "SAMPLE_CHARS", "Salvage", "clean", "clean_text", "is_cut_off", "is_too_deep",
    "mend_escapes", "recover_json", "refuse_depth", "salvage", "sample",
]  # fmt: skip

_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')


def mend_escapes(text: str) -> str:
    """Every backslash that escapes nothing is one that is meant."""
    return _ESCAPE.sub(lambda found: found[0] if found[1] else r"\\", text)
