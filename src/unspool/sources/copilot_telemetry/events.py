"""Events: one telemetry record each, whatever the channel that it came by.

    {"time": "…", "data": {"baseData": {"name": "GitHub.copilot-chat/engine.messages",
      "properties": {"conversationId": "…", "messagesJson": "[…", "messagesJson_02": "…]"}}}}

The name may stand outside or inside, the properties in `data.baseData`, in `data`, in the record's own
`properties`, or flat in the record itself. Long ones stay undecoded until somebody
asks for them.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from unspool.facts import Key
from unspool.io.door import clean, clean_text, iter_json_lines, unescape
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.sources.copilot_telemetry.envelope import (
    Envelope,
    LooseProperties,
    Measures,
    Properties,
    bag_of,
    is_flat,
)
from unspool.sources.copilot_telemetry.repeats import (
    PLAIN_MARK,
    Repeats,
    decode_loose,
    properties_of,
)
from unspool.sources.scribe import Scribe

SOURCE = "copilot-telemetry"
_FLAT = Shape(Properties)


def iter_events(
    origin: Origin, tally: Tally, recover: bool = False, noise: re.Pattern[bytes] | None = None
) -> Iterator["Event"]:
    """Every record of the origin; lines that begin as `noise` does are only counted."""
    for offset, line, envelope in iter_json_lines(
        origin,
        Shape(Envelope, Repeats().decode),
        tally,
        recover,
        mend=_mend,
        noise=noise or (),
        lazy=True,
    ):
        yield Event(envelope, line, origin.path, offset)


def _mend(value: Any) -> Any:
    """Clean, with cut properties put together first: the cut may go through a surrogate pair."""
    if isinstance(value, list):
        return [_mend(item) for item in value]
    if not isinstance(value, dict):
        return clean(value)
    value = {clean_text(key): item for key, item in value.items()}
    texts = {key: item for key, item in value.items() if isinstance(item, str)}
    for key in list(texts):
        number = 2
        while key in texts and (part := texts.pop(f"{key}_{number:02d}", None)) is not None:
            texts[key] += part
            number += 1
    return {
        key: clean_text(texts[key]) if key in texts else _mend(item)
        for key, item in value.items()
        if key in texts or not isinstance(item, str)
    }


class Event:
    """One record: its name after the last slash, its properties whatever the envelope."""

    __slots__ = (
        "full_name",
        "line",
        "measures",
        "name",
        "offset",
        "origin",
        "stamp",
        "time",
        "told",
    )

    def __init__(self, envelope: Envelope, line: bytes, origin: str, offset: int) -> None:
        self.origin = origin
        self.offset = offset
        self.line = line
        bag = bag_of(envelope)
        self.told: Properties = bag.properties or (
            _FLAT.convert(msgspec.json.decode(line)) if is_flat(envelope) else Properties()
        )
        self.measures: Measures = bag.measurements or _NO_MEASURES
        data = envelope.data
        name = envelope.name or bag.name or (data and data.name) or envelope.eventName or ""
        self.full_name, self.name = _names(name)
        self.stamp = text_of(self.told.timestamp) or str(envelope.time or envelope.timestamp or "")
        """The time as the record writes it."""
        self.time = parse_time(self.stamp)

    def everything(self) -> tuple[LooseProperties, LooseProperties]:
        """All properties and all measures, undecoded, in parts where they were cut."""
        loose = decode_loose(self.line)
        return properties_of(loose, self.line), bag_of(loose).measurements or {}

    def scribe(self, key: Key) -> Scribe:
        return Scribe(key, self.origin, self.offset, time=self.time)

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return _model_named(self.told.request_option_model or self.told.dotted_model)

    def read_messages(self) -> tuple[bytes, bool] | None:
        """The message list as it reads, without its closing bracket; and whether it is broken: the
        bracket, or a part of it, is missing."""
        value = self.told.messagesJson
        if value is UNSET:
            return None
        if type(value) is bytes:
            return value.lstrip(b" "), False
        if type(value) is str:
            text = value.encode()
        else:
            text = PLAIN_MARK.sub(b"", msgspec.json.encode(value))
        text = text.strip(b" ")
        if self.told.gap or not text.endswith(b"]"):
            return text, True
        return text[:-1].rstrip(b" "), False


def text_of(value: Any) -> str:
    """A property as text, whatever it is."""
    if type(value) is str:
        return value
    if type(value) is Raw:
        data = bytes(value)
        if data[:1] == b'"':
            return data[1:-1].decode() if data.find(b"\\") < 0 else unescape(data[1:-1])
        return "" if data == b"null" else data.decode()
    return "" if value is None else msgspec.json.encode(value).decode()


def number_of(told: Any, measured: Any) -> int | None:
    """A property, or else a measure, as a whole number."""
    value = measured if told is None else told
    if value is None or type(value) is int:
        return value
    try:
        return int(float(text_of(value)))
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=1000)
def _model_named(text: str) -> str:
    """The name of a model, which may be a JSON value inside the string."""
    if not text or text == _UNDEFINED:
        return ""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, str) else ""


def option_of(raw: Raw) -> bytes:
    """A request option as JSON, which may be a JSON string that holds it."""
    if not raw:
        return b""
    text = bytes(raw)
    # Short ones are one object: whoever holds them once need not compare them.
    if len(text) <= _SHORT and len(_short_options) < 1000:
        text = _short_options.setdefault(text, text)
    return b"" if text in _UNDEFINED_JSON else text


_UNDEFINED = "undefined"
_UNDEFINED_JSON = (b'"undefined"', b'"\\"undefined\\""')
"""What the sender writes for an option that is not there."""
_short_options: dict[bytes, bytes] = {}
_SHORT = 64
_NO_MEASURES = Measures()


@lru_cache(maxsize=10_000)
def _names(name: str) -> tuple[str, str]:
    """The name of an event, whole and behind its last slash."""
    return name, name.rpartition("/")[2]


@lru_cache(maxsize=10_000)
def key_of(ident: str) -> Key | None:
    """The key of a conversation, if its id is there: all facts of one share it."""
    return (SOURCE, ident) if ident else None
