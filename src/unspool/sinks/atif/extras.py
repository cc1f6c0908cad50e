"""Extras: what ATIF has no field for, in the nearest `extra`, so that it can be read back.

A trajectory's own `extra` stands there flat. Beside it stand the few words that other readers look
for (`is_error`, `duration_ms` …) and, under one key, the remaining fields in the trajectory's words.
"""

from functools import cache
from typing import Any

import msgspec

from unspool.io.times import format_time, parse_time
from unspool.sinks.atif.model import OURS
from unspool.sinks.atif.residue import KEY


def leftover(struct: msgspec.Struct, placed: set[str]) -> dict[str, Any]:
    """The fields that are set and were not placed."""
    made: dict[str, Any] = {}
    for name, default in _defaults(type(struct)):
        value = getattr(struct, name)
        if value is default or name in placed:
            continue
        if value != default or type(value) is not type(default):
            made[name] = msgspec.to_builtins(value)
    return made


@cache
def _defaults(kind: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    return [
        (field.name, {} if field.default_factory is dict else field.default)
        for field in msgspec.structs.fields(kind)
    ]


def merged(
    extra: dict[str, Any] | None, words: dict[str, Any], rest: dict[str, Any]
) -> dict[str, Any] | None:
    """One `extra` of the struct's own, our words and the rest."""
    own = {key: value for key, value in (extra or {}).items() if key != KEY}
    if own.keys() & words.keys() or OURS in own:
        rest = {**rest, "extra": own}
        own = {}
    made = {**own, **words}
    if rest:
        made[OURS] = rest
    return made or None


Words = dict[str, type | tuple[type, ...]]
NUMBER = (int, float)


def parted(
    extra: dict[str, Any] | None, words: Words
) -> tuple[dict[str, Any] | None, dict[str, Any], dict[str, Any]]:
    """The way back: the struct's own `extra`, our words where they are what we mean, the rest."""
    own = dict(extra or {})
    found = {word: own.pop(word) for word, kind in words.items() if _is(own.get(word), kind)}
    rest = own.pop(OURS) if isinstance(own.get(OURS), dict) else {}
    rest = dict(rest)
    if isinstance(rest.get("extra"), dict):
        own.update(rest.pop("extra"))
    own.pop(KEY, None)  # a foreign one: it comes back with the residue
    return own or None, found, rest


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    if value is None or (isinstance(value, bool) and kind not in (bool, object)):
        return False
    return isinstance(value, kind)


def utc(text: str | None) -> str | None:
    """The time as ATIF wants it: UTC, or absent where it cannot be told."""
    return format_time(parse_time(text)) if text else None
