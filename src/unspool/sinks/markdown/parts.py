"""Parts of the page: attachments, remarks, what a tool was given and what it gave back."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from unspool.facts import Attachment
from unspool.sinks.markdown.prose import details, fenced, html, link, plain
from unspool.sources.vscode_chat.shown import Part
from unspool.trajectory import Message, ToolCall
from unspool.views.calls import arguments_of
from unspool.views.figures import size
from unspool.views.items import failure_of, parts_of


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
    if failure := failure_of(message):
        yield f"> **Error:** {plain(failure)}"
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
    label = part.label
    if part.is_edit:
        return details(html(label), fenced(part.text, "diff"))
    if "\n" in part.text:
        return f"*{plain(label)}:*\n\n{fenced(part.text)}"
    return f"*{plain(label)}:* {plain(part.text)}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _followup(value: Any) -> str:
    text = value.get("message") if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


_COMMANDS = ("command", "cmd", "script")


def given(call: ToolCall) -> str:
    """The arguments: a command as such, other objects as JSON over lines, plain text as it is."""
    if not call.arguments:
        return ""
    values = arguments_of(call)
    if values is None:
        return f"Input:\n\n{fenced(call.arguments)}"
    blocks: list[str] = []
    for name in _COMMANDS:
        if isinstance(values.get(name), str):
            blocks.append(fenced(str(values.pop(name)), "sh"))
            break
    if values:
        blocks.append(fenced(json.dumps(values, indent=2, ensure_ascii=False), "json"))
    return "Input:\n\n" + "\n\n".join(blocks) if blocks else ""


def returned(result: Message) -> str:
    """What the model got; what the tool returned besides, where the model got nothing."""
    blocks: list[str] = []
    if result.content:
        blocks.append(fenced(result.content))
    elif result.details is not None:
        blocks.append(fenced(_shown(result.details), "json"))
    if result.attachments:
        blocks.append(attached(result.attachments))
    if not blocks:
        return "Output: none"
    return "Output:\n\n" + "\n\n".join(blocks)


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=1, ensure_ascii=False, default=str)
