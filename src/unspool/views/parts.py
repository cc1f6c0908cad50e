"""Parts of an answer that are neither words nor calls, as far as a reader wants to see them."""

import json
from collections.abc import Iterator

import msgspec

from unspool.sources.vscode_chat.fields import DISPLAY
from unspool.sources.vscode_chat.uris import uri_of
from unspool.trajectory import Message
from unspool.views.told import SPOKEN, words_of

_TOLD = frozenset(
    ("textEditGroup", "notebookEditGroup", "workspaceEdit", "externalEdit", "autoModeResolution",
     "confirmation", "elicitation2", "elicitationSerialized", "questionCarousel", "planReview")
)  # fmt: skip
"""Kinds that the list of files, the heading or the answers tell already."""
EDITS = frozenset(("textEditGroup", "notebookEditGroup"))
"""Shown where no call did it: a call's arguments tell the edit already."""
_LINKS = frozenset(("inlineReference", "reference", "pullRequest"))


class Part(msgspec.Struct):
    """A link, what it says in words, or anything else as it is: also of a kind that nobody knows."""

    kind: str
    text: str
    uri: str = ""
    words: bool = False


def failure_of(message: Message) -> str:
    """Why an answer ended early, where its own words do not say it."""
    error = (message.extra or {}).get("error")
    told = error.get("message") if isinstance(error, dict) else None
    return told if isinstance(told, str) and told != message.content else ""


def parts_of(message: Message) -> Iterator[Part]:
    held = (message.extra or {}).get("parts")
    told = _TOLD if message.tool_calls else _TOLD - EDITS
    for part in held if isinstance(held, list) else ():
        kind = part.get("kind", part.get("type", "part")) if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind in DISPLAY or kind in told:
            continue
        target = part.get("inlineReference", part.get("reference", part.get("uri")))
        if kind in _LINKS and (uri := uri_of(target)):
            if kind == "inlineReference" and f"]({uri})" in message.content:
                continue  # the words have the link already
            name = part.get("name") or part.get("title")
            yield Part(kind, name if isinstance(name, str) else uri, uri)
        elif said := words_of(kind, part):
            if kind not in SPOKEN or said not in message.content:
                yield Part(kind, said, words=True)
        elif kind not in EDITS and kind not in SPOKEN:
            yield Part(kind, json.dumps(part, indent=1, ensure_ascii=False))
