"""What came with a message: attachments, errors, votes, follow-ups, and parts of a chat."""

from collections.abc import Iterable, Iterator
from typing import Any

from unspool.facts import Attachment
from unspool.sinks.markdown.prose import details, fenced, html, link, plain
from unspool.trajectory import Message
from unspool.views.figures import size
from unspool.views.parts import EDITS, Part, failure_of, parts_of

_LABELS = {
    "command": "Button",
    "extensions": "Extensions",
    "hook": "Hook",
    "info": "Note",
    "markdownContent": "Shown",
    "multiDiffData": "Changes",
    "notebookEditGroup": "Edit",
    "progressTask": "Task",
    "progressTaskSerialized": "Task",
    "pullRequest": "Pull request",
    "systemNotification": "Notice",
    "textEditGroup": "Edit",
    "treeData": "Files",
    "warning": "Warning",
}


def attached(attachments: Iterable[Attachment]) -> str:
    return "\n".join(f"- {_attachment(attachment)}" for attachment in attachments)


def pasted(message: Message) -> Iterator[str]:
    """The texts that were attached, where the message itself does not hold them."""
    for attachment in message.attachments or ():
        text = attachment.text or ""
        if text.strip() and text not in message.content:
            name = attachment.name or attachment.path or attachment.kind or "attachment"
            yield details(f"📎 {html(name)}", fenced(text))


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
    if told := failure_of(message):
        yield f"> **Error:** {plain(told)}"
    for part in parts_of(message):
        if part.uri:
            yield f"- 🔗 {link(part.text, part.uri)}"
        elif part.words:
            yield _told(part)
        else:
            yield details(f"<code>{html(part.kind)}</code>", fenced(part.text, "json"))
    if extra.get("vote") in ("up", "down"):
        reason = extra.get("vote_down_reason")
        why = f": {plain(reason)}" if isinstance(reason, str) else ""
        yield f"*{'Helpful 👍' if extra['vote'] == 'up' else 'Not helpful 👎'}{why}*"
    followups = [t for t in map(_followup, _list(extra.get("followups"))) if t]
    if followups:
        yield "*Suggested next:* " + " · ".join(plain(text) for text in followups)


def _told(part: Part) -> str:
    label = _LABELS.get(part.kind, part.kind)
    if part.kind in EDITS:
        return details(html(label), fenced(part.text, "diff"))
    if "\n" in part.text:
        return f"*{plain(label)}:*\n\n{fenced(part.text)}"
    return f"*{plain(label)}:* {plain(part.text)}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _followup(value: Any) -> str:
    found = value.get("message") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
