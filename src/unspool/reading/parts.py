"""Parts of an answer that are neither words nor calls, as far as a reader wants to see them."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.chat_fields import DISPLAY
from unspool.trajectory import Message

_TOLD = frozenset(
    ("textEditGroup", "notebookEditGroup", "workspaceEdit", "externalEdit", "warning", "info",
     "progressTask", "progressTaskSerialized", "autoModeResolution", "confirmation", "elicitation2",
     "elicitationSerialized", "questionCarousel", "planReview")
)  # fmt: skip
"""Kinds that the list of files, the text, the heading or the answers tell already."""
_LINKS = frozenset(("inlineReference", "reference", "pullRequest"))


class Part(msgspec.Struct):
    """A link, or anything else as it is: also of a kind that nobody knows."""

    kind: str
    text: str
    uri: str = ""


def failure_of(message: Message) -> str:
    """Why an answer ended early, where its own words do not say it."""
    error = (message.extra or {}).get("error")
    told = error.get("message") if isinstance(error, dict) else None
    return told if isinstance(told, str) and told != message.content else ""


def parts_of(message: Message) -> Iterator[Part]:
    held = (message.extra or {}).get("parts")
    for part in held if isinstance(held, list) else ():
        kind = part.get("kind", part.get("type", "part")) if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind in DISPLAY or kind in _TOLD:
            continue
        target = part.get("inlineReference", part.get("reference", part.get("uri")))
        if kind in _LINKS and (uri := _uri(target)):
            name = part.get("name") or part.get("title")
            yield Part(kind, name if isinstance(name, str) else uri, uri)
        else:
            yield Part(kind, json.dumps(part, indent=1, ensure_ascii=False))


def _uri(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    for name in ("external", "uri"):
        if found := _uri(value.get(name)):
            return found
    scheme, path = value.get("scheme"), value.get("path")
    if not isinstance(scheme, str) or not isinstance(path, str):
        return ""
    authority = value.get("authority")
    return f"{scheme}://{authority if isinstance(authority, str) else ''}{path}"
