"""The text of a message list, decoded between the ends that calls saw."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from unspool.io.longjson import LongArray, unescape
from unspool.io.longtext import mend
from unspool.reduce.listing import decode_array, elements
from unspool.trajectory import Message

LEAST = 16
"""A piece longer than this holds a message and not only spaces and a bracket."""


class ListText:
    """A JSON array without its closing bracket; where `escaped`, the inside of a JSON string."""

    def __init__(self, text: bytes, escaped: bool) -> None:
        self._text: bytes | bytearray = text
        self._escaped = escaped
        self.trouble = ""
        """The code of the problem that it had and that did not keep it from being read."""

    def read(self, ends: list[int]) -> list[list[Message]]:
        """The messages up to each end; raises ValueError or RecursionError where it is no clean
        array."""
        return [self._messages(decode_array(self._array(*at))) for at in pairwise([0, *ends])]

    def can_be_taken(self, ends: list[int]) -> bool:
        """Whether it is clean, or can be mended: `take` will not fail."""
        try:
            for at, end in pairwise([0, *ends]):
                self._long_array(at, end)
        except (ValueError, RecursionError):
            return False
        return True

    def take(self, ends: list[int]) -> list[list[Message]]:
        """The same as `read` gives, from the end, so that the text goes as the messages come."""
        self._text = text = bytearray(self._text)
        made: list[list[Message]] = []
        for at, end in reversed(list(pairwise([0, *ends]))):
            array = self._long_array(at, end)
            del text[at:]
            made.append(self._messages(array.take()))
        made.reverse()
        return made

    def _messages(self, values: Iterable[Any]) -> list[Message]:
        return elements(self._objects(values))

    def _objects(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, dict):
                yield value
            else:
                self.trouble = self.trouble or "message-not-an-object"

    def _long_array(self, at: int, end: int) -> LongArray:
        array = self._array(at, end)
        try:
            return LongArray(array)
        except ValueError:
            mended = mend(array)
        del array
        if mended.escapes:
            self.trouble = "invalid-escape"
        return LongArray(mended.text)

    def _array(self, at: int, end: int) -> bytes | bytearray:
        """What stands between two ends. It may be very long: no more copies than needed."""
        with memoryview(self._text) as text, text[at + 1 : end] as piece:
            if end - at <= LEAST and not bytes(piece).strip():
                return b"[]"
            if self._escaped:
                return unescape(piece, b"[", b"]")
            return b"".join((b"[", piece, b"]"))
