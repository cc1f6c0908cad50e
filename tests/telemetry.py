"""Telemetry in the making: small events, as the sender writes them, for tests."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PART = 8192

Event = dict[str, Any]


def stamp(second: int | None) -> str | None:
    if second is None:
        return None
    return f"2025-08-17T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000Z"


def event(name: str, second: int | None = None, **properties: Any) -> Event:
    """An event in the common envelope; properties that are None are left out."""
    made: Event = {"name": f"GitHub.copilot.chat/{name}"}
    if second is not None:
        made["time"] = stamp(second)
    kept = {key.replace("__", "."): v for key, v in properties.items() if v is not None}
    made["data"] = {"baseData": {"properties": kept}}
    return made


def split(name: str, text: str, size: int = PART) -> dict[str, str]:
    """A property cut in pieces: name, name_02, …"""
    pieces = [text[at : at + size] for at in range(0, len(text), size)] or [""]
    return {name if n == 1 else f"{name}_{n:02d}": piece for n, piece in enumerate(pieces, 1)}


def call(
    messages: list[Any],
    second: int | None = None,
    conversation: str = "c",
    model: str | None = "gpt-asked",
    size: int = PART,
    **properties: Any,
) -> Event:
    """The input of an engine call."""
    text = json.dumps(messages, ensure_ascii=False, separators=(",", ":"))
    return event(
        "engine.messages",
        second,
        conversationId=conversation,
        **split("messagesJson", text, size),
        **({"request.option.model": json.dumps(model)} if model else {}),
        **properties,
    )


def answer(
    text: str | dict[str, Any],
    second: int | None = None,
    conversation: str = "c",
    model: str | None = "gpt-answered",
    **properties: Any,
) -> Event:
    """The output of an engine call."""
    message = text if isinstance(text, dict) else {"role": "assistant", "content": text}
    return event(
        "engine.messages",
        second,
        conversationId=conversation,
        messagesJson=json.dumps([message], ensure_ascii=False, separators=(",", ":")),
        baseModel=model,
        **properties,
    )


def said(role: str, text: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


def write(path: Path, events: Iterable[Event], ascii_only: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(e, ensure_ascii=ascii_only, separators=(",", ":")) for e in events]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path
