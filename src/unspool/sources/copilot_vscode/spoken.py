"""Messages in the shape that OpenTelemetry gives them: a role and typed parts."""

from typing import Any, NamedTuple

import msgspec

from unspool.io.door import recover_json
from unspool.sources.copilot_cli.texts import plain

_CUT = "...[truncated, original "


class Said(NamedTuple):
    """What one engine call answered."""

    text: str
    thinking: str
    calls: list[dict[str, Any]]


def decoded(value: Any) -> Any:
    """JSON text that may be cut off, as far as it goes."""
    if not isinstance(value, str) or not value:
        return value or None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        text = value.partition(_CUT)[0]
        return recover_json(text) if text[:1] in ("[", "{") else value


def answer(value: Any) -> Said:
    """The assistant's words, reasoning and calls in a list of output messages."""
    found = decoded(value)
    if isinstance(found, str):
        return Said(found, "", [])
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for message in found if isinstance(found, list) else [found]:
        parts = message.get("parts") if isinstance(message, dict) else None
        if parts is None and isinstance(message, dict):
            parts = [{"type": "text", "content": message.get("content")}]
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            kind = part.get("type")
            if kind == "text":
                texts.append(plain(part.get("content", part.get("text"))))
            elif kind in ("reasoning", "thinking"):
                thoughts.append(plain(part.get("content", part.get("text"))))
            elif kind == "tool_call":
                calls.append(part)
    return Said("\n".join(t for t in texts if t), "\n\n".join(t for t in thoughts if t), calls)


def bare_call(ident: Any) -> str:
    """The id of a call without what VS Code puts behind it."""
    return plain(ident).partition("__vscode-")[0]
