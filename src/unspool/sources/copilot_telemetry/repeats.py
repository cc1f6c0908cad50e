"""Repeats: every call logs the list of the call before it again, and goes on from there.

    {…,"messagesJson":"[{\\"role\\":\\"user\\",…}]"}
    {…,"messagesJson":"[{\\"role\\":\\"user\\",…},{\\"role\\":\\"assistant\\",…}]"}

What the second line repeats is known to be clean JSON: it is compared with the first line in one go,
and only the rest of the line is looked at and decoded. Nothing depends on it but time.
"""

from typing import Any

from msgspec import Raw

from unspool.io.door import refuse_dirt
from unspool.io.structs import Shape
from unspool.sources.copilot_telemetry.envelope import Envelope, bag_of

CACHE_MARK = b"copilot_cache_control"
_LIST = b'"messagesJson":'
_CONVERSATION = b'"conversationId":'
_WHOSE_BYTES = 64
_SHORT_LINE = 4096
"""A line that costs less than the comparison."""
_KEPT_BYTES = 2 << 20
"""Lists of some conversations that go on side by side."""


class Known:
    """A list that was read: as the line spells it and as a text, both without the closing bracket."""

    __slots__ = ("body", "parts", "spelled")

    def __init__(self, spelled: bytes, body: bytes, parts: int) -> None:
        self.spelled = spelled
        self.body = body
        self.parts = parts
        """Into how many properties the text is cut: messagesJson, messagesJson_02, …"""


_NOTHING = Known(b"", b"", 1)


class Repeats:
    """Decodes lines, and knows the lists of those before."""

    __slots__ = ("_decode", "_known", "_last", "_size")

    def __init__(self) -> None:
        self._decode = Shape(Envelope).decode
        self._known: dict[tuple[bytes, bool], Known] = {}
        """Whose list, and whether all of it is ASCII → the list; those that grew last are the last."""
        self._size = 0
        self._last: tuple[Envelope, bytes] | None = None

    def body_of(self, envelope: Envelope) -> bytes | None:
        """The list of the line that was decoded last, whole but for its closing bracket. The envelope
        may hold only the end of it. None where it is for the envelope to tell."""
        last = self._last
        return last[1] if last is not None and last[0] is envelope else None

    def decode(self, line: Any) -> Envelope:
        at = line.find(_LIST) + len(_LIST) if len(line) > _SHORT_LINE else 0
        spaced = line[at : at + 1] == b" "
        at += 1 + spaced
        if at < len(_LIST) or line[at - 1 : at] != b'"':
            refuse_dirt(line)
            return self._decode(line)
        whose = line.find(_CONVERSATION)
        key = (line[whose : whose + _WHOSE_BYTES], line.isascii())
        known = self._known.get(key, _NOTHING)
        if known is not _NOTHING and line.startswith(known.spelled, at):
            rest = line[:at] + line[at + len(known.spelled) :]
            refuse_dirt(rest)
            envelope = self._decode(rest)
            if self._take(envelope, line, at, spaced, known, key):
                return envelope
        refuse_dirt(line)
        envelope = self._decode(line)
        self._take(envelope, line, at, spaced, _NOTHING, key)
        return envelope

    def _take(
        self,
        envelope: Envelope,
        line: bytes,
        at: int,
        spaced: bool,
        known: Known,
        key: tuple[bytes, bool],
    ) -> bool:
        """Keep the list that begins at this place of the line and goes on from the known one; not if it
        is cut off, does not stand together, or has marks to be taken out of it."""
        properties = bag_of(envelope).properties or {}
        between = b'", "messagesJson_%02d": "' if spaced else b'","messagesJson_%02d":"'
        texts = [known.body]
        end, parts = at + len(known.spelled), known.parts
        part: Raw | None = properties.get("messagesJson")
        while part is not None:
            text = bytes(part)[1:-1]
            if not line.startswith(text, end) or text.find(CACHE_MARK) >= 0:
                return False
            texts.append(text)
            end += len(text)
            part = properties.get(f"messagesJson_{parts + 1:02d}")
            if part is not None:
                parts += 1
                comma = between % parts
                if not line.startswith(comma, end):
                    return False
                end += len(comma)
        if parts - known.parts != "\n".join(properties).count("messagesJson_"):
            return False  # one between them is missing
        if not texts[-1].endswith(b"}]"):
            return False
        texts[-1] = texts[-1][:-1]
        body = b"".join(texts)
        if not body.startswith(b"["):
            return False
        self._last = (envelope, body)
        before = self._known.pop(key, _NOTHING)
        self._known[key] = Known(line[at : end - 1] if parts > 1 else body, body, parts)
        self._size += end - 1 - at - len(before.spelled)
        while self._size > _KEPT_BYTES and len(self._known) > 1:
            self._size -= len(self._known.pop(next(iter(self._known))).spelled)
        return True
