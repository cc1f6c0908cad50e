"""Repeats: every call logs the list of the call before it again, and goes on from there.

    {…,"messagesJson":"[{\\"role\\":\\"user\\",…}]"}
    {…,"messagesJson":"[{\\"role\\":\\"user\\",…},{\\"role\\":\\"assistant\\",…}]"}

What the second line repeats is known to be clean, and what it reads as: it is compared with the first
line in one go, and only the rest of the line is looked at and decoded. Nothing depends on it but time.
"""

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from unspool.io.door import refuse_dirt, unescape
from unspool.sources.copilot_telemetry.envelope import (
    CUT,
    TEXTS,
    Envelope,
    Loose,
    LooseProperties,
    Properties,
    bag_of,
    is_flat,
)

_LIST = b'"messagesJson":'
_NAME = b'"messagesJson'
_CONVERSATION = b'"conversationId":'
_WHOSE_BYTES = 64
_SHORT_LINE = 4096
"""A line that costs less than the comparison."""
_KEPT_BYTES = 2 << 20
"""Lists of some conversations that go on side by side."""

CACHE_MARK = b"copilot_cache_control"
"""Marks move with every call: with them no list would be the beginning of the next."""
_SECOND_PART = b'_02":'
_PART = b'"messagesJson_'
_ODD = (_SECOND_PART, _PART, CACHE_MARK)
"""What a line has that is not decoded as it stands: a property in parts, a list of which one may be
missing, marks."""


def _cache_mark(quote: bytes) -> re.Pattern[bytes]:
    """A mark as a field or as a part, with the comma that goes with it: before or, in front, behind."""
    name = quote + CACHE_MARK + quote
    field = name + rb"\s*:\s*\{[^{}]*\}"
    part = rb"\{\s*" + quote + rb"type" + quote + rb"\s*:\s*" + name + rb"[^{}]*\}"
    mark = rb"(?:" + field + rb"|" + part + rb")"
    return re.compile(rb",\s*" + mark + rb"|" + mark + rb"(?:\s*,\s*)?")


_ESCAPED_MARK = _cache_mark(rb"\\\"")
PLAIN_MARK = _cache_mark(rb"\"")

Owner = tuple[bytes, bool, bool]
"""Whose list, whether all of its line is ASCII, and whether it has marks."""


class Known:
    """A list that was read, but for its closing bracket: as the line spells it, and as it reads."""

    __slots__ = ("parts", "spelled", "text")

    def __init__(self, spelled: bytes, text: bytes, parts: int = 1) -> None:
        self.spelled = spelled
        self.text = text
        self.parts = parts
        """Into how many properties the line cuts it: messagesJson, messagesJson_02, …"""


_NOTHING = Known(b"", b"")


class Repeats:
    """Decodes lines, and knows the lists of those before."""

    __slots__ = ("_known", "_size")

    def __init__(self) -> None:
        self._known: dict[Owner, Known] = {}
        """Those that grew last are the last."""
        self._size = 0

    def decode(self, line: Any) -> Envelope:
        """The record; where its list is whole, `messagesJson` is that but for the closing bracket."""
        at = line.find(_LIST) if len(line) > _SHORT_LINE else -1
        if at >= 0:
            at += len(_LIST)
            spaced = line.startswith(b" ", at)
            at += spaced
            if line.startswith(b'"', at):
                return self._decode_list(line, at + 1, spaced)
        refuse_dirt(line)
        if max(map(line.find, _ODD)) < 0:
            try:
                return decode_plain(line)
            except msgspec.DecodeError:  # half a character, maybe
                pass
        return self._decode_odd(line)

    def _decode_list(self, line: bytes, at: int, spaced: bool) -> Envelope:
        """A record whose list begins at this place of the line."""
        whose = line.find(_CONVERSATION)
        owner = (line[whose : whose + _WHOSE_BYTES], line.isascii(), False)
        known = self._known.get(owner, _NOTHING)
        if not line.startswith(known.spelled, at):
            known = _NOTHING
        start, parts, more = at + len(known.spelled), known.parts, ""
        try:
            # A part of it stands before it; or there are marks.
            if line.find(_PART, 0, at) >= 0 or line.find(CACHE_MARK, start) >= 0:
                raise _Odd
            while (found := line.find(_NAME, start)) >= 0:
                parts += 1
                comma = _between(spaced) % parts
                end = found - 2 - spaced
                if not line.startswith(comma, end):
                    raise _Odd
                more += _decode_text(b'"%b"' % line[start:end])
                start = end + len(comma)
            envelope = decode_plain(line[:at] + line[start:])
            properties = bag_of(envelope).properties
            last = properties.messagesJson if properties is not None else UNSET
            if type(last) is not str or not last.endswith("}]"):
                raise _Odd
            text = last[:-1].encode()
            # As the line spells it, it is no shorter, and ends at the first quote that is not escaped.
            end = line.find(b'}]"', start + len(text) - 1) + 2
            if end < start:  # the brackets are spelled as escapes
                raise _Odd
            outside = line[:at] + line[end:]
            refuse_dirt(outside)
            if outside.find(_SECOND_PART) >= 0:
                raise _Odd
        except (msgspec.DecodeError, _Odd):
            return self._decode_odd(line, at, spaced, owner, known)
        text = known.text + (more.encode() + text if more else text)
        properties.messagesJson = text
        self._keep(owner, Known(line[at : end - 1], text, parts))
        return envelope

    def _keep(self, owner: Owner, known: Known) -> None:
        before = self._known.pop(owner, _NOTHING)
        self._known[owner] = known
        self._size += len(known.spelled) - len(before.spelled)
        while self._size > _KEPT_BYTES and len(self._known) > 1:
            self._size -= len(self._known.pop(next(iter(self._known))).spelled)

    def _decode_odd(
        self,
        line: bytes,
        at: int = 0,
        spaced: bool = False,
        owner: Owner | None = None,
        known: Known = _NOTHING,
    ) -> Envelope:
        """A record with parts to be put together, with marks to be taken out, or with other things than
        text. The `known` list begins at this place of the line."""
        rest = line[:at] + line[at + len(known.spelled) :]
        refuse_dirt(rest)
        loose = decode_loose(rest)
        properties = properties_of(loose, rest)
        for name in TEXTS.intersection(properties):
            if bytes(properties[name])[:1] != b'"':
                value = msgspec.json.decode(properties[name])
                text = "" if value is None else _encode(value).decode()
                properties[name] = Raw(_encode(text))
        texts: dict[str, list[bytes]] = {}
        """Field → what stands between the quotes of its parts."""
        for name, field in CUT.items():
            first = bytes(properties.get(name, b""))
            if first[:1] == b'"':
                del properties[name]
                parts = texts[field] = [first[1:-1]]
                number = 2 if field != "messagesJson" else known.parts + 1
                while (part := bytes(properties.get(f"{name}_{number:02d}", b"")))[:1] == b'"':
                    del properties[f"{name}_{number:02d}"]
                    parts.append(part[1:-1])
                    number += 1
        bag_of(loose).properties = properties
        envelope = _decode(_encode(loose))
        told: Properties = bag_of(envelope).properties
        parts = texts.pop("messagesJson", [])
        if known is not _NOTHING and not (
            parts and line.startswith(parts[0] + b'"', at + len(known.spelled))
        ):  # it is another that begins here
            return self._decode_odd(line, at, spaced, owner)
        missing = known.parts + len(parts)
        told.gap = bool(parts) and any(
            key[:13] == "messagesJson_" and key[13:].isdecimal() and int(key[13:]) > missing
            for key in properties
        )
        for field, inside in texts.items():
            setattr(told, field, Raw(b'"%b"' % b"".join(inside)))
        if not parts:
            return envelope
        spelled = b"".join(parts)
        marked = spelled.find(CACHE_MARK) >= 0
        if marked:
            spelled = _ESCAPED_MARK.sub(b"", spelled)
        end = _end(parts, line, at + len(known.spelled), spaced, known.parts)
        if owner is None or told.gap or not spelled.endswith(b"}]") or not (marked or end):
            told.messagesJson = known.text.decode() + unescape(spelled)
        elif not marked:
            told.messagesJson = known.text + unescape(spelled[:-1]).encode()
            count = known.parts + len(parts) - 1
            self._keep(owner, Known(line[at : end - 1], told.messagesJson, count))
        elif known is not _NOTHING:  # which had none
            told.messagesJson = known.text + unescape(spelled[:-1]).encode()
        else:
            owner = (*owner[:2], True)
            known = self._known.get(owner, _NOTHING)
            if not spelled.startswith(known.spelled):
                known = _NOTHING
            more = unescape(spelled[len(known.spelled) : -1])
            told.messagesJson = known.text + more.encode()
            self._keep(owner, Known(spelled[:-1], told.messagesJson))
        return envelope


class _Odd(Exception):
    """A line that cannot be decoded as it stands."""


def _between(spaced: bool) -> bytes:
    """What stands between two parts of a list."""
    return b'", "messagesJson_%02d": "' if spaced else b'","messagesJson_%02d":"'


def _end(parts: list[bytes], line: bytes, end: int, spaced: bool, number: int) -> int:
    """Where the list ends in the line; 0 if its parts do not stand together."""
    comma = b""
    for part in parts:
        if not line.startswith(comma + part, end):
            return 0
        end += len(comma) + len(part)
        number += 1
        comma = _between(spaced) % number
    return end


def decode_plain(line: bytes) -> Envelope:
    """A record of which no property is cut."""
    envelope = _decode(line)
    if is_flat(envelope):
        envelope.properties = decode_flat(line)
    return envelope


def properties_of(loose: Loose, line: bytes) -> LooseProperties:
    """All of them, undecoded, in parts where they were cut."""
    return _decode_loose_flat(line) if is_flat(loose) else bag_of(loose).properties or {}


_decode = msgspec.json.Decoder(Envelope).decode
decode_flat = msgspec.json.Decoder(Properties).decode
decode_loose = msgspec.json.Decoder(Loose).decode
_decode_loose_flat = msgspec.json.Decoder(LooseProperties).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
