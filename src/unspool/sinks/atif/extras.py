"""Extras: what ATIF has no field for, kept so that it can be read back.

A trajectory's own `extra` stands in the nearest `extra` of the document, flat. Beside it stand the few
words that other readers look for (`is_error`, `duration_ms` …) and, under one key, the remaining fields
in the trajectory's words. The other way round, a trajectory keeps the residue of a document that it was
read from: what the writer would not give back by itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any, Literal

import msgspec

from unspool.io.times import format_time, parse_time
from unspool.sinks.atif.model import OURS, Ref

KEY = "atif"

KeptRefs = list[tuple[str, Ref | None]]
"""(child, the reference as the document had it): foreign references of a result."""


class Residue(msgspec.Struct, omit_defaults=True):
    """What is kept in the `extra` of a trajectory or of a message."""

    set: dict[str, Any] = {}
    unset: list[str] = []
    version: str | None = None
    """The version that differences within the steps belong to."""
    children: list[str] = []
    """The order of the embedded sub-agents."""
    layout: list[int | Literal["media"]] | None = None
    """The lengths of the texts and the places of the media of a content in parts."""
    refs: KeptRefs = []
    lone: dict[str, KeptRefs] = {}
    """Call → the references of a result that did nothing but refer."""


NOTHING = Residue()


def residue_of(extra: Mapping[str, Any] | None) -> Residue:
    """What is kept there; nothing where it is not ours."""
    if not extra or KEY not in extra:
        return NOTHING
    try:
        return msgspec.convert(extra[KEY], Residue)
    except msgspec.ValidationError:
        return NOTHING


def keep_residue(extra: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """The `extra` with those fields kept in it, too."""
    kept = {**msgspec.to_builtins(residue_of(extra)), **msgspec.to_builtins(fields)}
    return {**(extra or {}), KEY: kept}


def difference(written: Any, wanted: Any) -> dict[str, Any]:
    """`set` and `unset` that turn `written` into `wanted`; empty where they are equal."""
    changes = list(_changes(written, wanted, ""))
    changed = {path: value for path, value in changes if value is not _GONE}
    gone = sorted(path for path, value in changes if value is _GONE)
    return {**({"set": changed} if changed else {}), **({"unset": gone} if gone else {})}


_GONE = object()


def _changes(written: Any, wanted: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(written, dict) and isinstance(wanted, dict):
        yield from ((f"{path}/{_escape(key)}", _GONE) for key in written.keys() - wanted.keys())
        for key, value in wanted.items():
            below = f"{path}/{_escape(key)}"
            yield from _changes(written[key], value, below) if key in written else [(below, value)]
    elif isinstance(written, list) and isinstance(wanted, list) and len(written) == len(wanted):
        for number, (one, other) in enumerate(zip(written, wanted, strict=True)):
            yield from _changes(one, other, f"{path}/{number}")
    elif type(written) is not type(wanted) or written != wanted:
        yield path, wanted


def restore(document: dict[str, Any], changed: Mapping[str, Any], gone: Iterable[str] = ()) -> None:
    """Put a difference back, where the places that it names still stand."""
    for path in gone:
        holder, last = _holder(document, path)
        if isinstance(holder, dict):
            holder.pop(last, None)
    for path, value in changed.items():
        holder, last = _holder(document, path)
        if isinstance(holder, dict):
            holder[last] = deepcopy(value)
        elif isinstance(holder, list) and last.isdigit() and int(last) < len(holder):
            holder[int(last)] = deepcopy(value)


def without_steps(kept: Residue) -> Residue:
    """The difference outside the steps."""
    return Residue(
        set={path: value for path, value in kept.set.items() if not path.startswith("/steps")},
        unset=[path for path in kept.unset if not path.startswith("/steps")],
    )


def _holder(value: Any, path: str) -> tuple[Any, str]:
    *above, last = [_unescape(word) for word in path.split("/")[1:]] or [""]
    for word in above:
        if isinstance(value, dict):
            value = value.get(word)
        elif isinstance(value, list) and word.isdigit() and int(word) < len(value):
            value = value[int(word)]
        else:
            return None, last
    return value, last


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescape(word: str) -> str:
    return word.replace("~1", "/").replace("~0", "~")


def leftover(struct: msgspec.Struct, placed: set[str]) -> dict[str, Any]:
    """The fields that are set and were not placed."""
    rest: dict[str, Any] = {}
    for name, default in _defaults(type(struct)):
        value = getattr(struct, name)
        if value is default or name in placed:
            continue
        if value != default or type(value) is not type(default):
            rest[name] = msgspec.to_builtins(value)
    return rest


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
    both = {**own, **words}
    if rest:
        both[OURS] = rest
    return both or None


Words = dict[str, type | tuple[type, ...]]
NUMBER = (int, float)


def parted(
    extra: dict[str, Any] | None, words: Words
) -> tuple[dict[str, Any] | None, dict[str, Any], dict[str, Any]]:
    """The way back: the struct's own `extra`, our words where they are what we mean, the rest."""
    own = dict(extra or {})
    ours = {word: own.pop(word) for word, kind in words.items() if _is(own.get(word), kind)}
    rest = own.pop(OURS) if isinstance(own.get(OURS), dict) else {}
    rest = dict(rest)
    if isinstance(rest.get("extra"), dict):
        own.update(rest.pop("extra"))
    own.pop(KEY, None)  # a foreign one: it comes back with the residue
    return own or None, ours, rest


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    if value is None or (isinstance(value, bool) and kind not in (bool, object)):
        return False
    return isinstance(value, kind)


def utc(text: str | None) -> str | None:
    """The time as ATIF wants it: UTC, or absent where it cannot be told."""
    return format_time(parse_time(text)) if text else None
