"""Events: one telemetry record each, whatever the channel that it came by.

    {"time": "…", "data": {"baseData": {"name": "GitHub.copilot-chat/engine.messages",
      "properties": {"conversationId": "…", "messagesJson": "[…", "messagesJson_02": "…]"}}}}

The name may stand outside or inside, the properties in `data.baseData`, in `data`, in the record's own
`properties`, or flat in the record itself. They stay undecoded until somebody asks for one.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import msgspec

from unspool.facts import Key, Problem
from unspool.io.door import clean, clean_text, iter_json_lines
from unspool.io.origins import Origin, Tally
from unspool.io.structs import Shape
from unspool.io.times import parse_time
from unspool.sources.copilot_telemetry.envelope import Envelope, Properties, bag_of
from unspool.sources.copilot_telemetry.repeats import Repeats
from unspool.sources.scribe import Scribe

SOURCE = "copilot-telemetry"

_decode_flat = msgspec.json.Decoder(Properties).decode
_NONE: Properties = {}


def iter_events(
    origin: Origin, tally: Tally, recover: bool = False, noise: re.Pattern[bytes] | None = None
) -> Iterator["Event | Problem"]:
    """Every record of the origin; lines that begin as `noise` does are only counted."""
    path = origin.path
    repeats = Repeats()
    body_of = repeats.body_of
    for record in iter_json_lines(
        origin,
        Shape(Envelope, repeats.decode),
        tally,
        recover,
        mend=_mend,
        noise=noise or (),
        lazy=True,
    ):
        if type(record) is tuple:
            offset, line, envelope = record
            yield Event(envelope, line, path, offset, body_of(envelope))
        else:
            yield cast(Problem, record)


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
        "body",
        "full_name",
        "measures",
        "name",
        "offset",
        "origin",
        "properties",
        "stamp",
        "time",
    )

    def __init__(
        self,
        envelope: Envelope,
        line: bytes,
        origin: str,
        offset: int,
        body: bytes | None = None,
    ) -> None:
        self.origin = origin
        self.offset = offset
        self.body = body
        """The whole message list but for its closing bracket, where the reader has it already."""
        data = envelope.data
        bag = bag_of(envelope)
        properties = bag.properties
        if properties is None:
            flat = data is None and envelope.baseData is None
            properties = _decode_flat(line) if flat else _NONE
        self.properties = properties
        self.measures = bag.measurements or _NONE
        self.full_name = (
            envelope.name or bag.name or (data and data.name) or envelope.eventName or ""
        )
        self.name = self.full_name.rpartition("/")[2]
        self.stamp = self.text("timestamp") or str(envelope.time or envelope.timestamp or "")
        """The time as the record writes it."""
        self.time = parse_time(self.stamp)

    def key(self, *names: str) -> Key | None:
        """The conversation, by the first of these properties that is there."""
        for name in names:
            raw = self.properties.get(name)
            if raw is not None and (key := _keys[bytes(raw)])[1]:
                return key
        return None

    def scribe(self, key: Key) -> Scribe:
        return Scribe(key, self.origin, self.offset, time=self.time)

    def text(self, name: str) -> str:
        """A property as text; numbers come as strings and strings as numbers."""
        raw = self.properties.get(name)
        return "" if raw is None else _strings[bytes(raw)]

    def texts(self, names: tuple[str, ...]) -> list[str]:
        """Several properties as texts."""
        raws = map(self.properties.get, names)
        return ["" if raw is None else _strings[bytes(raw)] for raw in raws]

    def number(self, name: str) -> int | None:
        raw = self.properties.get(name)
        if raw is None and self.measures:
            raw = self.measures.get(name)
        if raw is None:
            return None
        data = bytes(raw)
        if data.isdigit():
            return int(data)
        try:
            return int(float(_strings[data]))
        except (ValueError, OverflowError):
            return None

    @property
    def model(self) -> str:
        """The model that was asked for: as a JSON value inside the string, or plainly."""
        text = self.text("request_option_model") or self.text("request.option.model")
        if not text or text == _UNDEFINED:
            return ""
        if text[0] == text[-1] == '"' and "\\" not in text:
            return text[1:-1]
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return value if isinstance(value, str) else ""

    def option_json(self, name: str) -> bytes:
        """A request option as JSON, which may be a JSON string that holds it."""
        spelled, dotted = _OPTIONS[name]
        if spelled not in self.properties:
            if dotted not in self.properties:
                return b""
            spelled = dotted
        text, escaped, _ = cast(tuple[bytes, bool, bool], self.joined(spelled))
        if escaped:
            text = b"" if text in _UNDEFINED_JSON else b'"%b"' % text
        # Short ones are one object: whoever holds them once need not compare them.
        if len(text) <= _SHORT and len(_short_options) < 1000:
            return _short_options.setdefault(text, text)
        return text

    def whole(self, name: str) -> str:
        """A property as text, joined where it was cut."""
        parts = self.joined(name)
        if parts is None:
            return ""
        text, escaped, _ = parts
        return _decode_string(b'"%b"' % text if escaped else text)

    def joined(self, name: str) -> tuple[bytes, bool, bool] | None:
        """A property that may be cut into name, name_02, …: (its text undecoded, whether it is the
        inside of a JSON string, whether a part is missing)."""
        if self.body is not None and name == "messagesJson":
            return self.body + b"]", True, False
        properties = self.properties
        first = properties.get(name)
        if first is None:
            return None
        data = bytes(first)
        if data[0] != _QUOTE:
            return data, False, False
        stem, second, third = _part_names(name)
        part = properties.get(second)
        if part is None and third not in properties:
            return data[1:-1], True, False
        parts = [data[1:-1]]
        number = 2
        while part is not None:
            parts.append(bytes(part)[1:-1])
            number += 1
            part = properties.get(f"{stem}{number:02d}")
        gap = False
        if "\n".join(properties).count(stem) > number - 2:  # than there are parts
            later = [key[len(stem) :] for key in properties if key.startswith(stem)]
            gap = any(rest.isdigit() and int(rest) > number for rest in later)
        return b"".join(parts), True, gap


@cache
def _part_names(name: str) -> tuple[str, str, str]:
    """How the parts of a cut property are named, and the names of its second and third."""
    return f"{name}_", f"{name}_02", f"{name}_03"


_OPTIONS = {
    name: (f"request_option_{name}", f"request.option.{name}") for name in ("system", "tools")
}
_UNDEFINED = "undefined"
_UNDEFINED_JSON = (b"undefined", b'\\"undefined\\"')
"""What the sender writes for an option that is not there."""


_short_options: dict[bytes, bytes] = {b"": b""}
_QUOTE = ord('"')
_SHORT = 64


def _decode_string(data: bytes) -> str:
    if data[0] != _QUOTE:
        return "" if data == b"null" else data.decode()
    return data[1:-1].decode() if data.find(b"\\") < 0 else msgspec.json.decode(data, type=str)


class _Strings(dict[bytes, str]):
    """Values as texts. Short ones, which come again and again (ids, models, modes), are kept."""

    def __missing__(self, data: bytes) -> str:
        text = _decode_string(data)
        if len(data) <= _SHORT:
            if len(self) >= 10_000:
                self.clear()
            self[data] = text
        return text


class _Keys(dict[bytes, Key]):
    """Ids as keys of conversations: all facts of one share its key."""

    def __missing__(self, data: bytes) -> Key:
        if len(self) >= 10_000:
            self.clear()
        key = self[data] = (SOURCE, _decode_string(data))
        return key


_strings = _Strings()
_keys = _Keys()
