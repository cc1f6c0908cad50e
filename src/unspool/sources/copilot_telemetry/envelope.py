"""The envelope: one telemetry event, whatever the channel that it came by."""

import json

import msgspec

from unspool.io.dirty_json import clean_text
from unspool.io.longjson import decode_text
from unspool.io.longtext import Text, is_long, is_utf8, iter_cuts
from unspool.io.times import parse_time

Properties = dict[str, msgspec.Raw]

MOST = 16 << 20
"""No sender writes a longer name, mode or context (100 parts of 8192 characters). One that is longer
would be held several times; it is left out, and that is told."""


class BaseData(msgspec.Struct):
    name: msgspec.Raw = msgspec.Raw(b"")
    properties: Properties = {}
    measurements: Properties = {}


class Data(msgspec.Struct):
    baseData: BaseData | None = None
    name: msgspec.Raw = msgspec.Raw(b"")
    properties: Properties = {}
    measurements: Properties = {}


class Envelope(msgspec.Struct):
    name: msgspec.Raw = msgspec.Raw(b"")
    eventName: msgspec.Raw = msgspec.Raw(b"")
    time: msgspec.Raw = msgspec.Raw(b"")
    timestamp: msgspec.Raw = msgspec.Raw(b"")
    data: Data | None = None
    baseData: BaseData | None = None
    properties: Properties = {}
    measurements: Properties = {}


class Event:
    """One record: its name after the last slash, its properties whatever the envelope."""

    __slots__ = (
        "full_name", "is_damaged", "left_out", "measures", "name", "offset", "origin", "properties",
        "stamp", "time",
    )  # fmt: skip

    def __init__(self, envelope: Envelope, origin: str, offset: int) -> None:
        self.origin = origin
        self.offset = offset
        self.left_out: list[str] = []
        """Properties that were asked for and are too long for what they are."""
        self.is_damaged = False
        """Whether a property that was asked for is no UTF-8."""
        data = envelope.data
        base = (data.baseData if data is not None else None) or envelope.baseData
        holder = base or (data if data is not None and data.properties else envelope)
        self.properties = holder.properties
        self.measures = holder.measurements
        name = b""
        for found in (
            envelope.name,
            base.name if base is not None else b"",
            data.name if data is not None else b"",
            envelope.eventName,
        ):
            if len(found) > 2:
                name = bytes(found)
                break
        self.full_name = _string(name)
        self.name = self.full_name.rpartition("/")[2]
        stamp = self.text("timestamp") or _string(envelope.time) or _string(envelope.timestamp)
        self.stamp = stamp
        self.time = parse_time(stamp) if stamp else None

    def raw(self, name: str) -> msgspec.Raw | None:
        found = self.properties.get(name)
        return found if found is not None else self.properties.get(name.replace(".", "_"))

    def text(self, name: str) -> str:
        """A property as text; numbers come as strings and strings as numbers."""
        found = self.raw(name)
        if found is not None and len(found) > MOST:
            self.left_out.append(name)
            return ""
        return "" if found is None else self._told(found)

    def number(self, name: str) -> int | None:
        found = self.properties.get(name)
        if found is None:
            found = self.measures.get(name)
        if found is None or len(found) > _NUMBER_BYTES:
            return None
        try:
            return int(float(_string(found)))
        except (ValueError, OverflowError):
            return None

    def option(self, name: str) -> str:
        """A request option that is a text: as a JSON value inside the string, or plainly."""
        text = self.text(f"request.option.{name}")
        if not text or text == "undefined":
            return ""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return value if isinstance(value, str) else ""

    def joined(self, name: str) -> tuple[bytes | memoryview, bool, bool] | None:
        """A property that may be cut into name, name_02, …: (text, inside of a string, gap)."""
        properties = self.properties
        first = self.raw(name)
        if first is None:
            return None
        head = memoryview(first)
        if bytes(head[:1]) != b'"':
            return _held(head), False, False
        second = f"{name}_02"
        if second not in properties:
            second = f"{name.replace('.', '_')}_02"
            if second not in properties:
                return _held(head[1:-1]), True, self._has_later(name)
        stem = second[:-2]
        parts = [head[1:-1]]
        gap = False
        for number in range(2, 1000):
            found = properties.get(f"{stem}{number:02d}")
            if found is None:
                gap = any(_is_part(key, stem, number) for key in properties)
                break
            parts.append(memoryview(found)[1:-1])
        return b"".join(parts), True, gap

    def whole(self, name: str) -> str:
        """A property as text, joined where it was cut."""
        found = self.joined(name)
        if found is None:
            return ""
        text, escaped, _ = found
        if len(text) > MOST:
            self.left_out.append(name)
            return ""
        return self._told(b"".join((b'"', text, b'"')) if escaped else text)

    def _told(self, raw: msgspec.Raw | bytes | memoryview) -> str:
        told = _string(raw)
        if "\ufffd" in told and not is_utf8(bytes(raw)):
            self.is_damaged = True
        return told

    def json(self, name: str) -> bytes:
        """A request option as JSON text, still as a JSON string where it stood in one; of one that is
        too long the beginning."""
        found = self.joined(f"request.option.{name}")
        if found is None:
            return b""
        text, escaped, _ = found
        if len(text) > MOST:
            self.left_out.append(f"request.option.{name}")
            text = bytes(next(iter_cuts(text))) if escaped else b""
        self.look_at(text)
        return b"".join((b'"', text, b'"')) if escaped else bytes(text)

    def look_at(self, text: bytes | memoryview) -> None:
        """Whether what is decoded later is UTF-8."""
        if not bytes(text).isascii() and not is_utf8(text):
            self.is_damaged = True

    def take(self, name: str) -> str:
        """The same, however long, for good: a very long one is made, narrow, when the line that it
        stands in is gone, and the event holds nothing any more."""
        found = self.joined(name)
        if found is None or not found[1] or not is_long(len(found[0])):
            return self.whole(name)
        text = bytearray().join((b'"', found[0], b'"'))
        del found
        self.is_damaged = self.is_damaged or not is_utf8(text)
        self.properties, self.measures = {}, {}
        return decode_text(text)

    def _has_later(self, name: str) -> bool:
        stem = f"{name}_"
        return any(_is_part(key, stem, 2) for key in self.properties)


_NUMBER_BYTES = 400
"""More than the digits of any number."""


def _held(text: memoryview) -> bytes | memoryview:
    """A list may be as long as the line: then it is copied once, by whoever keeps it."""
    return text if is_long(len(text)) else bytes(text)


def _is_part(key: str, stem: str, least: int) -> bool:
    rest = key[len(stem) :]
    return key.startswith(stem) and rest.isdigit() and int(rest) > least


def _string(raw: msgspec.Raw | bytes | memoryview) -> str:
    data = bytes(raw)
    if data[:1] != b'"':
        return "" if data == b"null" else data.decode("utf-8", "replace")
    if b"\\" not in data:
        return data[1:-1].decode("utf-8", "replace")
    try:
        return msgspec.json.decode(data, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _mended(data.decode("utf-8", "replace"))


def _mended(text: str) -> str:
    """A string with bytes that are no UTF-8, half a surrogate pair, or bare control characters."""
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return text[1:-1]
    return clean_text(value) if isinstance(value, str) else text[1:-1]


_decode = msgspec.json.Decoder(Envelope).decode
_decode_flat = msgspec.json.Decoder(Properties).decode


def decode_envelope(line: Text) -> Envelope:
    """The envelope of a record; where it has no property bag, the record itself is one."""
    envelope = _decode(line)
    if envelope.data is None and envelope.baseData is None and not envelope.properties:
        envelope.properties = _decode_flat(line)
    return envelope
