"""Values of fields, whatever they hold: as text, as a count, under our own names."""

from typing import Any

import msgspec

FIRST_PROMPT_RANK = 10
"""Of titles drawn from a prompt: a guess, of which the first in order stays."""


def plain(value: Any) -> str:
    """Text, or the text in a list of parts; other things as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(plain(part) for part in value)
    if isinstance(value, dict):
        for name in ("text", "refusal", "content", "output", "message"):
            if isinstance(value.get(name), str):
                return str(value[name])
    return msgspec.json.encode(value).decode()


def whole_number(value: Any) -> int | None:
    """A count; unknown where it is no number (logs hold nulls and, rarely, strings)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value)
