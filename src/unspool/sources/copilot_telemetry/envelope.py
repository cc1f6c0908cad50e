"""Envelope: what stands around the properties of a telemetry record, whatever the channel.

    {"time":"…","data":{"baseData":{"name":"GitHub.copilot-chat/engine.messages","properties":{…}}}}

Of the properties only those are decoded that somebody reads. Long ones stay as they are, and so does
whatever is asked for seldom: `Loose` is the same record with all its properties.
"""

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw

_NO = Raw()


class Properties(msgspec.Struct, gc=False):
    """Numbers come as strings. A property of more than 8192 characters comes in parts, `messagesJson`,
    `messagesJson_02` …, which are one here; the two channels spell request options with dots or
    underscores."""

    conversationId: str = ""
    headerRequestId: str = ""
    messageId: str = ""
    modelCallId: str = ""
    messageSource: str = ""
    request_option_model: str = ""
    request_option_tools: Raw = _NO
    request_option_system: Raw = _NO
    baseModel: str = ""
    messagesJson: Any = UNSET
    gap: Any = msgspec.field(default=False, name="unspool:gap")
    """Whether a part of the list is missing; a name that nobody uses."""
    source: str = ""
    turnIndex: Any = None
    mode: str = ""
    messageText: Raw = _NO
    suggestion: str = ""
    sessionId: str = ""
    requestId: str = ""
    model: str = ""
    timestamp: Any = ""
    subType: str = ""
    parentRequestId: str = ""
    mostRecentConversationHeaderRequestId: str = ""
    promptTokens: Any = None
    completionTokens: Any = None
    chunkIndex: Any = None
    totalChunks: Any = None
    messageUuid: str = ""
    requestOptionsId: str = ""
    messageUuids: Raw = _NO
    messageJson: Raw = _NO
    requestOptionsJson: Raw = _NO
    intent: str = ""
    detectedIntent: str = ""
    attachedContext: Raw = _NO
    contextTypes: Raw = _NO
    fileExcerpt: Raw = _NO
    activeSelection: Raw = _NO
    detectedParticipant: Raw = _NO
    assignedIntent: Raw = _NO
    dotted_model: str = msgspec.field(default="", name="request.option.model")
    dotted_tools: Raw = msgspec.field(default=_NO, name="request.option.tools")
    dotted_system: Raw = msgspec.field(default=_NO, name="request.option.system")


CUT = {
    field.encode_name: field.name
    for field in msgspec.structs.fields(Properties)
    if field.type is Raw or field.name == "messagesJson"
}
"""The properties that may come in parts, and their fields."""
TEXTS = {f.encode_name for f in msgspec.structs.fields(Properties) if f.type is str}
"""The properties that are text; one of another type is taken for what it says."""


class Measures(msgspec.Struct, gc=False):
    promptTokens: Any = None
    completionTokens: Any = None
    turnIndex: Any = None
    chunkIndex: Any = None
    totalChunks: Any = None


Told = TypeVar("Told")
Measured = TypeVar("Measured")


class Bag(msgspec.Struct, Generic[Told, Measured], gc=False):
    """Properties, and measures apart from them."""

    name: str | None = None
    properties: Told | None = None
    measurements: Measured | None = None


class Data(Bag[Told, Measured], Generic[Told, Measured], gc=False):
    baseData: Bag[Told, Measured] | None = None


class Record(Bag[Told, Measured], Generic[Told, Measured], gc=False):
    eventName: str | None = None
    time: str | int | float | None = None
    timestamp: str | int | float | None = None
    data: Data[Told, Measured] | None = None
    baseData: Bag[Told, Measured] | None = None


LooseProperties = dict[str, Raw]
Envelope = Record[Properties, Measures]
Loose = Record[LooseProperties, LooseProperties]


def bag_of(envelope: Any) -> Any:
    """Where the properties stand, of an Envelope or a Loose one."""
    data = envelope.data
    bag = envelope
    if data is not None:
        told = data.properties
        # An empty bag (`"data":{"properties":{}}`) does not hide one that is filled.
        is_filled = told and not (envelope.properties and told == type(told)())
        bag = data.baseData or (data if is_filled else envelope)
    return envelope.baseData or bag


def is_flat(envelope: Envelope | Loose) -> bool:
    """Whether the properties stand in the record itself."""
    return envelope.properties is None and envelope.data is None and envelope.baseData is None
