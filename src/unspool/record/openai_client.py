"""Recording what an `openai` client asks: chat completions and responses."""

from typing import Any

from unspool.record.clients import Asked, listed, options, watch_client
from unspool.record.recorder import Recorder

RESOURCES = ("chat.completions", "beta.chat.completions", "responses")
_OPTIONS = ("temperature", "max_tokens", "max_completion_tokens", "reasoning_effort", "reasoning")


def wrap(recorder: Recorder, client: Any) -> None:
    watch_client(recorder, client, RESOURCES, describe)


def describe(path: str, body: Any) -> Asked | None:
    kind = path.partition("?")[0].strip("/")
    if not isinstance(body, dict):
        return None
    if kind.endswith("chat/completions"):
        messages = listed(body.get("messages"))
    elif kind == "responses":
        given, instructions = body.get("input"), body.get("instructions")
        messages = (
            [{"role": "system", "content": instructions}] if isinstance(instructions, str) else []
        )
        messages += [given] if isinstance(given, str) else listed(given)
    else:
        return None
    asked = options(body, _OPTIONS)
    settings = {"settings": asked} if asked else {}
    return Asked(str(body.get("model", "")), messages, listed(body.get("tools")) or None, settings)
