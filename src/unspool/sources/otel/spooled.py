"""The contents of spans and log records, while these wait to be told in order of time.

Every chat span repeats the whole history, so that a file of spans is much larger than what it tells.
In memory stays what tells where a span belongs, and the contents of the first ones; those of all others
lie in a temporary file.
"""

from tempfile import TemporaryFile
from typing import Any

import msgspec

from unspool.io.packing import Packer
from unspool.sources.otel.otlp import Event, Item

MEMORY_CHARS = 16 << 20
_SHORT_CHARS = 300
"""Ids, names, models and counts are shorter; contents may well be, and then stay where they are."""


_Contents = tuple[dict[str, Any], list[Event], Any]
"""Attributes, events, body."""


class SpooledItems:
    """Spans and log records in the order in which they came."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        """Those that came late without their contents."""
        self._file = TemporaryFile()  # noqa: SIM115 - `__exit__` closes it
        self._kept_chars = 0
        self._packer = Packer()
        self._decoder = msgspec.msgpack.Decoder(_Contents)
        self._end = 0

    def __enter__(self) -> "SpooledItems":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def put(self, item: Item) -> None:
        self.items.append(item)
        size = _size(item.attributes) + _size(item.body)
        size += sum(_size(event.attributes) for event in item.events)
        if self._kept_chars + size <= MEMORY_CHARS:
            self._kept_chars += size
            return
        data = self._packer.encode((item.attributes, item.events, item.body))
        self._file.write(data)
        item.contents = (self._end, len(data))
        self._end += len(data)
        item.attributes = {
            name: value for name, value in item.attributes.items() if _is_short(value)
        }
        item.events = []
        item.body = item.body if _is_short(item.body) else None

    def whole(self, item: Item) -> Item:
        """The item with its contents, and with the log records that are events of it."""
        attributes, events, body = item.attributes, [*item.events], item.body
        if item.contents is not None:
            self._file.seek(item.contents[0])
            attributes, events, body = self._decoder.decode(self._file.read(item.contents[1]))
        for log in map(self.whole, item.logs):
            content = log.body if isinstance(log.body, dict) else {"content": log.body}
            events.append(Event(log.name, log.start, {**log.attributes, "body": content}))
        return msgspec.structs.replace(item, attributes=attributes, events=events, body=body)


def _size(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else 0


def _is_short(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return len(value) <= _SHORT_CHARS
    return not isinstance(value, list | dict)
