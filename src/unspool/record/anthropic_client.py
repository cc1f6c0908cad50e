"""Recording what an `anthropic` client asks: messages."""

from typing import Any

from unspool.record.clients import Asked, listed, options, watch_client
from unspool.record.recorder import Recorder

RESOURCES = ("messages", "beta.messages")
_OPTIONS = ("temperature", "max_tokens", "thinking")


def wrap(recorder: Recorder, client: Any) -> None:
    watch_client(recorder, client, RESOURCES, describe)


def describe(path: str, body: Any) -> Asked | None:
    if not isinstance(body, dict) or not path.partition("?")[0].endswith("/messages"):
        return None
    given, system = body.get("messages"), body.get("system")
    if given is not None and not isinstance(given, list | tuple):
        given = body["messages"] = list(given)  # an iterator: it can be read only once
    messages = [{"role": "system", "content": system}] if isinstance(system, str | list) else []
    messages += listed(given)
    asked = options(body, _OPTIONS)
    settings = {"settings": asked} if asked else {}
    return Asked(str(body.get("model", "")), messages, listed(body.get("tools")) or None, settings)
