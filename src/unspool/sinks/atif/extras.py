"""Extras: what ATIF has no field for, kept so that it can be read back.

A trajectory's own `extra` stands in the nearest `extra` of the document, flat. Beside it stand the few
words that other readers look for (`is_error`, `duration_ms` …) and, under one key, the remaining fields
in the trajectory's words: `gather` writes such an `extra`, `fill` reads it.

The other way round, the trajectory of somebody else's document keeps the residue of it: what the writer
would not give back by itself, as a difference between two JSON values.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Literal, TypeVar

import msgspec

from unspool.io.times import format_time, parse_time
from unspool.sinks.atif.model import OURS, Json, Ref
from unspool.trajectory import Message, ToolCall, Trajectory, Usage

KEY = "atif"
Layout = list[int | Literal["media"]]
"""The lengths of the texts and the places of the media of a content in parts."""

Words = Mapping[str, str]
"""Word in the `extra` of a document → the trajectory's field."""

RESULT_WORDS = {
    "tool_call_id": "tool_call_id",
    "tool_name": "name",
    "is_error": "is_error",
    "status": "status",
    "duration_ms": "duration_ms",
    "timestamp": "timestamp",
    "details": "details",
}
CALL_WORDS = {name: name for name in ("status", "duration_ms", "started_at", "ended_at")}
USAGE_WORDS = {
    "cache_creation_input_tokens": "cache_write_tokens",
    "reasoning_tokens": "reasoning_tokens",
}

_Struct = TypeVar("_Struct", Trajectory, Message, ToolCall, Usage)
_BLANKS = {type(b): b for b in (Trajectory("", []), Message("user", ""), ToolCall(""), Usage())}
"""What says nothing."""


def gather(
    struct: _Struct,
    own: Json | None,
    placed: frozenset[str],
    words: Words | None = None,
    **more: Any,
) -> Json | None:
    """The `extra` for a struct: its own, our words, and under our key all fields that are set and
    not placed elsewhere. `more` is told beside these, or in their stead."""
    words = words or {}
    told = {w: value for w, name in words.items() if (value := getattr(struct, name)) is not None}
    rest: Json = {}
    blank = _BLANKS[type(struct)]
    for name in struct.__struct_fields__:
        value, default = getattr(struct, name), getattr(blank, name)
        if name in placed or name in words.values() or name == "extra" or value is default:
            continue
        if value != default or type(value) is not type(default):
            rest[name] = msgspec.to_builtins(value)
    rest |= more
    own = {key: value for key, value in (own or {}).items() if key != KEY}
    if own.keys() & told.keys() or OURS in own:
        rest["extra"] = own
        own = {}
    return {**own, **told, **({OURS: rest} if rest else {})} or None


def split(extra: Json | None) -> tuple[Json, Json]:
    """The way back: the struct's own `extra` with our words in it, and the fields under our key."""
    own = dict(extra or {})
    own.pop(KEY, None)  # somebody else's: it comes back with the residue
    rest = dict(own.pop(OURS)) if isinstance(own.get(OURS), dict) else {}
    return own, rest


def fill(struct: _Struct, own: Json, rest: Json, words: Words | None = None) -> _Struct:
    """The struct with those fields and that `extra`; what does not fit a field stays in it."""
    types = {field.name: field.type for field in msgspec.structs.fields(struct)}

    def fits(name: str, value: Any) -> bool:
        try:
            setattr(struct, name, msgspec.convert(value, types[name]))
        except (KeyError, msgspec.ValidationError):
            return False
        return True

    told = {word for word, name in (words or {}).items() if word in own and fits(name, own[word])}
    own = {word: value for word, value in own.items() if word not in told}
    strays = {name: value for name, value in rest.items() if not fits(name, value)}
    struct.extra = {**own, **(struct.extra or {}), **({OURS: strays} if strays else {})} or None
    return struct


class Residue(msgspec.Struct, omit_defaults=True):
    """What is kept in the `extra` of a trajectory or of a message."""

    set: dict[str, Any] = {}
    """Path in the document, or in the message's step → value."""
    unset: list[str] = []
    version: str | None = None
    """The version of the document."""
    children: list[str] = []
    """The order of the embedded sub-agents, which linking changes."""
    layout: Layout | None = None
    refs: list[tuple[str, Ref]] = []
    """(child, the reference as the document had it) of a result."""


def residue_of(extra: Json | None) -> Residue:
    """What is kept there; nothing where it is not ours."""
    try:
        return msgspec.convert((extra or {}).get(KEY, {}), Residue)
    except msgspec.ValidationError:
        return Residue()


def keep_residue(struct: Message | Trajectory, **fields: Any) -> None:
    """Keep those fields that are not None in the `extra` of the struct."""
    said = {name: value for name, value in fields.items() if value is not None}
    if said:
        kept = {**msgspec.to_builtins(residue_of(struct.extra)), **msgspec.to_builtins(said)}
        struct.extra = {**(struct.extra or {}), KEY: kept}


_GONE = object()


def difference(written: Json, wanted: Json) -> Json:
    """`set` and `unset` that turn `written` into `wanted`; empty where they are equal."""
    changes = list(_changes(written, wanted, ""))
    changed = {path: value for path, value in changes if value is not _GONE}
    gone = sorted(path for path, value in changes if value is _GONE)
    return {**({"set": changed} if changed else {}), **({"unset": gone} if gone else {})}


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


def restore(document: Json, changed: Mapping[str, Any], gone: list[str] | None = None) -> None:
    """Put a difference back, where the places that it names still stand."""
    for path, value in (*((path, _GONE) for path in gone or ()), *changed.items()):
        *above, last = [word.replace("~1", "/").replace("~0", "~") for word in path.split("/")]
        holder: Any = document
        for word in above[1:]:
            if isinstance(holder, list):
                holder = holder[int(word)] if word.isdigit() and int(word) < len(holder) else None
            else:
                holder = holder.get(word) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and value is _GONE:
            holder.pop(last, None)
        elif isinstance(holder, dict):
            holder[last] = deepcopy(value)
        elif isinstance(holder, list) and last.isdigit() and int(last) < len(holder):
            holder[int(last)] = deepcopy(value)


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def utc(text: str | None) -> str | None:
    """The time as ATIF wants it: UTC, or absent where it cannot be told."""
    return format_time(parse_time(text)) if text else None
