"""Packing: values in binary, for a trip through a file."""

from typing import Any

import msgspec

_LEAST, _MOST = -(2**63), 2**64 - 1


class Packer:
    """Encodes like msgspec's, and what that refuses: whole numbers of more than 64 bits, which JSON
    may hold, become floating-point ones, as they are in the programs that wrote them."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()

    def encode(self, value: Any) -> bytes:
        try:
            return self._encoder.encode(value)
        except OverflowError:
            plain = msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=False)
            return self._encoder.encode(_tamed(plain))


def _tamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {_tamed(key): _tamed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_tamed(item) for item in value]
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        try:
            return float(value)
        except OverflowError:
            return str(value)
    return value
