"""Structs out of JSON that is typed as expected, and out of JSON that is not.

A `Shape` is made once for a struct. `decode` is the fast way: straight from bytes, and it raises
where any field has a wrong type. `convert` is the lenient way, from a decoded value: what fits is
taken field by field, what does not is left out and its path reported.
"""

import types
from collections.abc import Callable
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Raw

StructType = TypeVar("StructType", bound=msgspec.Struct)
REST = "unspool:rest"
"""A name that no document uses."""


class Whole(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A shape of which everything is kept: `decode` refuses a field that it does not name, and
    `convert` keeps it in `rest`."""

    rest: dict[str, Any] | None = msgspec.field(default=None, name=REST)


class Shape(Generic[StructType]):
    """A struct and the two ways into it.

    A `decode` of one's own must not belong to the shape itself: runs do not look for circles of
    objects, so both would stay for ever.
    """

    __slots__ = ("decode", "kind")

    def __init__(
        self, kind: type[StructType], decode: Callable[[Any], StructType] | None = None
    ) -> None:
        self.kind = kind
        self.decode = decode or msgspec.json.Decoder(kind).decode
        """Raises msgspec.DecodeError where the JSON is broken or a field has a wrong type."""

    def convert(self, value: Any, wrong: list[str] | None = None) -> StructType:
        """The value, which may be anything; paths of what does not fit are added to `wrong`."""
        paths: list[str] = [] if wrong is None else wrong
        struct: StructType | None = convert(value, self.kind, paths)
        return self.kind() if struct is None else struct


def convert(value: Any, wanted: Any, wrong: list[str], path: str = "") -> Any:
    """The value as the wanted type; None where it does not fit, and its path is added to `wrong`."""
    if wanted is Raw:
        return Raw(msgspec.json.encode(value))
    try:
        return msgspec.convert(value, wanted)
    except (msgspec.ValidationError, RecursionError):
        pass
    options = get_args(wanted) if get_origin(wanted) in (Union, types.UnionType) else (wanted,)
    for option in options:
        kind = get_origin(option) or option
        is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        if isinstance(value, dict) and is_struct:
            return _convert_struct(value, option, wrong, path)
        if isinstance(value, list) and get_origin(option) is list:
            (inner,) = get_args(option)
            items = [convert(v, inner, wrong, f"{path}[{n}]") for n, v in enumerate(value)]
            return [item for item in items if item is not None]
        if isinstance(value, dict) and get_origin(option) is dict:
            inner = get_args(option)[1]
            fields = {str(k): convert(v, inner, wrong, f"{path}.{k}") for k, v in value.items()}
            return {k: v for k, v in fields.items() if v is not None}
    wrong.append(path or "root")
    return None


def _convert_struct(value: dict[str, Any], wanted: Any, wrong: list[str], path: str) -> Any:
    struct = wanted()
    fields = msgspec.structs.fields(wanted)
    for field in fields:
        if field.encode_name in value:
            where = f"{path}.{field.name}" if path else field.name
            fitting = convert(value[field.encode_name], field.type, wrong, where)
            if fitting is not None:
                setattr(struct, field.name, fitting)
    if isinstance(struct, Whole):
        names = {field.encode_name for field in fields}
        struct.rest = {k: v for k, v in value.items() if k not in names} or None
    return struct
