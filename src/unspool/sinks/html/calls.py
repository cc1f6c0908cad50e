"""Tool calls, which open to arguments, diffs and results; attachments: pictures, texts, names."""

import re
from collections.abc import Iterator

import msgspec

from unspool.sinks.html.colours import highlight, language_of
from unspool.sinks.html.markup import CLIP, Markup, clipped, element, fold, link, message_id
from unspool.trajectory import Attachment
from unspool.views import Call, Reading
from unspool.views.calls import arguments_of
from unspool.views.characters import one_line
from unspool.views.edits import Edit
from unspool.views.figures import duration, size

_PICTURES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def attachment_part(attachment: Attachment) -> Markup:
    name = attachment.name or attachment.path or attachment.uri or attachment.kind
    if attachment.media_type in _PICTURES and _BASE64.fullmatch(attachment.data or ""):
        data = "".join(attachment.data.split())
        source = f"data:{attachment.media_type};base64,{data}"
        picture = element("img", {"src": source, "alt": one_line(name, 200), "loading": "lazy"})
        caption = element("figcaption", None, one_line(name, 200))
        return element("figure", {"class": "picture"}, picture, caption)
    lines = ""
    if attachment.start_line is not None:
        lines = f":{attachment.start_line}"
        if attachment.end_line not in (None, attachment.start_line):
            lines += f"–{attachment.end_line}"
    facts = " · ".join(
        fact
        for fact in (attachment.kind, attachment.media_type, size(attachment.size_bytes))
        if fact
    )
    title = [element("b", None, one_line(name, 120) + lines), " ", element("small", None, facts)]
    if attachment.text.strip():
        code = highlight(attachment.text[:CLIP], language_of(attachment.path or attachment.name))
        return fold(title, element("pre", {"class": "output"}, code), kind="attachment")
    return element("span", {"class": "attachment"}, title)


def call_part(reading: Reading, call: Call, ident: str, agents: list[Markup]) -> Markup:
    """A call folded to its line, what it did inside, and the sub-agents that it started."""
    if call.intent and not call.failed:
        own = {"class": "unit tools said-intent", "id": ident, "tabindex": "-1"}
        line = element("p", {"class": "intent"}, call.line)
        return element("div", own, line, _place_of_result(reading, call))
    state = "failed" if call.failed else "done" if call.result is not None else "open"
    words = {"failed": call.call.status or "failed", "done": "done", "open": "no result"}[state]
    margin = element("span", {"class": "margin"}, duration(call.duration_ms), link(ident))
    summary = [
        element("span", {"class": f"state {state}", "role": "img", "aria-label": words}),
        element("span", {"class": "tool"}, one_line(call.call.name, 80) or "tool"),
        element("span", {"class": "line"}, call.line),
        _changed(call),
        margin,
    ]
    kind = "error" if call.failed else "tools"
    details = element(
        "details", {"class": "run"}, element("summary", None, summary), list(_inside(reading, call))
    )
    label = f"Tool call: {one_line(call.call.name, 80)}"
    return element(
        "article",
        {"class": f"unit call {kind}", "id": ident, "tabindex": "-1", "aria-label": label},
        details,
        agents,
    )


def _place_of_result(reading: Reading, call: Call) -> Markup | None:
    if call.result_index is None:
        return None
    return element("span", {"id": message_id(reading, call.result_index)})


def _changed(call: Call) -> Markup | None:
    if call.changed is None:
        return None
    added, removed = call.changed
    return element(
        "span",
        {"class": "changed", "aria-label": f"{added} lines added, {removed} removed"},
        element("ins", None, f"+{added}"),
        " ",
        element("del", None, f"−{removed}"),
    )


def _inside(reading: Reading, call: Call) -> Iterator[Markup]:
    if call.edits:
        yield from map(diff_part, call.edits)
    else:
        yield from _arguments(call)
    result = call.result
    if result is None:
        return
    at = message_id(reading, call.result_index or 0)
    shown: list[object] = []
    if result.content.strip():
        shown.append(element("pre", {"class": "output", "tabindex": "0"}, clipped(result.content)))
    shown += [attachment_part(attachment) for attachment in result.attachments or ()]
    yield element("div", {"class": "result", "id": at, "tabindex": "-1"}, shown or "(nothing)")


def _arguments(call: Call) -> Iterator[Markup]:
    values = arguments_of(call.call)
    if values is None:
        if call.call.arguments.strip():
            yield element("pre", {"class": "input"}, clipped(call.call.arguments))
        return
    rows: list[Markup] = []
    for name, value in values.items():
        shown = value if isinstance(value, str) else _json(value)
        if name in ("command", "cmd", "script") and isinstance(value, str):
            yield element("pre", {"class": "input"}, highlight(value[:CLIP], "bash"))
            continue
        long = "\n" in shown or len(shown) > 200
        inner = element("pre", None, clipped(shown)) if long else shown
        rows += [element("dt", None, name), element("dd", None, inner)]
    if rows:
        yield element("dl", {"class": "arguments"}, rows)


def _json(value: object) -> str:
    data = msgspec.json.encode(value)
    return (msgspec.json.format(data, indent=2) if len(data) > 100 else data).decode()


def diff_part(edit: Edit) -> Markup:
    language = language_of(edit.path) if sum(len(line.text) for line in edit.lines) < 20_000 else ""
    rows: list[Markup] = []
    shown = edit.lines[:2000]
    for line in shown:
        names = {"+": "added", "-": "removed", "@": "place", " ": "same"}
        tag = {"+": "ins", "-": "del"}.get(line.sign, "span")
        code = highlight(line.text, language) if line.sign != "@" else line.text
        rows.append(element(tag, {"class": names[line.sign]}, code, "\n"))
    if len(shown) < len(edit.lines):
        rows.append(element("em", {"class": "clip"}, f"… {len(edit.lines) - 2000} more lines"))
    path = element("figcaption", None, edit.path or "patch")
    return element("figure", {"class": "diff"}, path, element("pre", {"tabindex": "0"}, rows))
