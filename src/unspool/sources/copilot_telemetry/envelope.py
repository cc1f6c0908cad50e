"""Envelope: what stands around the properties of a telemetry record, whatever the channel.

{"time": "…", "data": {"baseData": {"name": "GitHub.copilot-chat/engine.messages", "properties": {…}}}}
"""

import msgspec
from msgspec import Raw

Properties = dict[str, Raw]


class Bag(msgspec.Struct, gc=False):
    """Properties, and measures apart from them."""

    name: str | None = None
    properties: Properties | None = None
    measurements: Properties | None = None


class Data(Bag, gc=False):
    baseData: Bag | None = None


class Envelope(Bag, gc=False):
    eventName: str | None = None
    time: str | int | float | None = None
    timestamp: str | int | float | None = None
    data: Data | None = None
    baseData: Bag | None = None


def bag_of(envelope: Envelope) -> Bag:
    """Where the properties stand."""
    data = envelope.data
    bag: Bag = envelope
    if data is not None:
        bag = data.baseData or (data if data.properties else envelope)
    return envelope.baseData or bag
