"""Lines of OTLP JSON, decoded but for the message lists that chat spans repeat.

    {"key":"gen_ai.input.messages","value":{"stringValue":"[{\\"role\\":\\"user\\",…}]"}}

Each list begins with the one before it, so that most of a file is told many times. Its text stays as it
stands in the line (`bytes`, without the closing bracket), to be compared; only what is new in it is
decoded (`messages.History`).
"""

from typing import Any

import msgspec
from msgspec import Raw

from unspool.io.door import refuse_depth
from unspool.io.structs import Shape

INPUT = "gen_ai.input.messages"
_MARK = INPUT.encode()
_BEFORE, _BEHIND = b'{"stringValue":"', b']"}'


class Line(msgspec.Struct, gc=False):
    value: dict[str, Any]


class _Pair(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    key: str
    value: Raw


class _ScopeSpans(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    spans: list[dict[str, Raw]]
    scope: Any = None
    schemaUrl: Any = None


class _ResourceSpans(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    scopeSpans: list[_ScopeSpans]
    resource: Any = None
    schemaUrl: Any = None


class _Envelope(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    resourceSpans: list[_ResourceSpans]


_decode = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_pairs = msgspec.json.Decoder(list[_Pair]).decode


class LineShape(Shape[Line]):
    """Any JSON object; of an envelope as collectors write it, the lists stay as they are."""

    def __init__(self) -> None:
        super().__init__(Line, Decoder().decode)

    def convert(self, value: Any, wrong: list[str] | None = None) -> Line:
        return Line(value)


class Decoder:
    __slots__ = ("_checked",)

    def __init__(self) -> None:
        self._checked = b""
        """The last list, known to be clean: the next one mostly begins with it."""

    def decode(self, data: Any) -> Line:
        refuse_depth(data)
        if data.find(_MARK) >= 0:
            try:
                return Line(self._envelope(_decode_envelope(data)))
            except msgspec.ValidationError:  # one of the other forms
                pass
        return Line(_decode_object(data))

    def _envelope(self, envelope: _Envelope) -> dict[str, Any]:
        resources = []
        for resource in envelope.resourceSpans:
            scopes = [
                {"scope": scope.scope, "spans": [self._span(span) for span in scope.spans]}
                for scope in resource.scopeSpans
            ]
            resources.append({"resource": resource.resource, "scopeSpans": scopes})
        return {"resourceSpans": resources}

    def _span(self, fields: dict[str, Raw]) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        for pair in _decode_pairs(fields.pop("attributes", b"[]")):
            text = self._list(pair.value) if pair.key == INPUT else None
            attributes[pair.key] = _decode(pair.value) if text is None else text
        span = {name: _decode(raw) for name, raw in fields.items()}
        span["attributes"] = attributes
        return span

    def _list(self, raw: Raw) -> bytes | None:
        """The text of a list, still escaped and without its closing bracket; what is new in it must be
        clean, as the rest of the line is."""
        view = memoryview(raw)
        if view[: len(_BEFORE)] != _BEFORE or view[-len(_BEHIND) :] != _BEHIND:
            return None
        text = bytes(view[len(_BEFORE) : -len(_BEHIND)])
        unescaped(text[len(self._checked) :] if text.startswith(self._checked) else text)
        self._checked = text
        return text


def unescaped(text: bytes) -> str:
    """What stands between the quotes of a JSON string."""
    return _decode_text(b'"' + text + b'"')


_decode_text = msgspec.json.Decoder(str).decode
