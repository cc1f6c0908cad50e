"""What came with a message: attachments, errors, votes, follow-ups, and parts of a chat."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from unspool.facts import Attachment
from unspool.reading.figures import size
from unspool.sinks.markdown.prose import details, fenced, html, link, plain
from unspool.trajectory import Message

_EDITS = frozenset(("textEditGroup", "notebookEditGroup", "workspaceEdit", "externalEdit"))
"""Parts that are told by the list of files."""
_SAID = frozenset(
    ("warning", "info", "progressTask", "progressTaskSerialized", "autoModeResolution",
     "confirmation", "elicitation2", "elicitationSerialized", "questionCarousel", "planReview")
)  # fmt: skip
"""Parts that stand in the text, in the heading or among the answers already."""


def attached(attachments: Iterable[Attachment]) -> str:
    return "\n".join(f"- {_attachment(attachment)}" for attachment in attachments)


def _attachment(attachment: Attachment) -> str:
    target = attachment.path or attachment.uri
    name = attachment.name or target or attachment.kind or "attachment"
    lines = ""
    if attachment.start_line is not None:
        end = attachment.end_line
        lines = f"#L{attachment.start_line}" + (f"-L{end}" if end else "")
    notes = [n for n in (attachment.kind, attachment.media_type, size(attachment.size_bytes)) if n]
    shown = link(name + lines, target) if target else plain(name + lines)
    return f"📎 {shown}" + (f" ({plain(', '.join(notes))})" if notes else "")


def remarks(message: Message) -> Iterator[str]:
    """What is known about an answer besides its words."""
    extra = message.extra or {}
    error = extra.get("error")
    told = error.get("message") if isinstance(error, dict) else None
    if isinstance(told, str) and told != message.content:
        yield f"> **Error:** {plain(told)}"
    for part in extra["parts"] if isinstance(extra.get("parts"), list) else ():
        yield from _part(part)
    if extra.get("vote") in ("up", "down"):
        reason = extra.get("vote_down_reason")
        why = f": {plain(reason)}" if isinstance(reason, str) else ""
        yield f"*{'Helpful 👍' if extra['vote'] == 'up' else 'Not helpful 👎'}{why}*"
    followups = [t for t in map(_followup, _list(extra.get("followups"))) if t]
    if followups:
        yield "*Suggested next:* " + " · ".join(plain(text) for text in followups)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _followup(value: Any) -> str:
    found = value.get("message") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _part(part: Any) -> Iterator[str]:
    kind = part.get("kind") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind in _EDITS or kind in _SAID:
        return
    target = part.get("inlineReference", part.get("reference", part.get("uri")))
    if kind in ("inlineReference", "reference", "pullRequest") and (uri := _uri(target)):
        name = part.get("name") or part.get("title")
        yield f"- 🔗 {link(name if isinstance(name, str) else uri, uri)}"
        return
    yield details(
        f"<code>{html(kind)}</code>", fenced(json.dumps(part, indent=1, ensure_ascii=False), "json")
    )


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
