"""Response parts: words, thinking, calls, and what was kept beside them, in their order."""

import re
from typing import Any

from unspool.facts import Attachment
from unspool.io.values import dicts_of, field_of, list_of
from unspool.sinks.chat_json.prompts import uri_of
from unspool.sources.vscode_chat.fields import CALL, DISPLAY, NATIVE
from unspool.sources.vscode_chat.uris import name_of
from unspool.sources.vscode_chat.uris import uri_of as text_of_uri
from unspool.trajectory import Message, ToolCall, Trajectory, text_of

_DENIED = {"type": 0}
_ALLOWED = {"type": 1}

Part = dict[str, Any]


def thinking_parts(text: str, thoughts: Any) -> list[Part]:
    """The thinking, with what its parts said of themselves: the text stands in the first of them
    that has no words of its own."""
    parts: list[Part] = []
    abouts = dicts_of(thoughts)
    if text and all("value" in about for about in abouts):
        abouts = [{}, *abouts]
    for about in abouts:
        parts.append({"value": text, **about, "kind": "thinking"})
        text = "" if "value" not in about else text
    return parts


def thinking_id(thoughts: Any, number: int) -> str:
    ids = (about.get("id") for about in dicts_of(thoughts))
    return next((ident for ident in ids if isinstance(ident, str)), f"thinking_{number}")


def text_parts(text: str, early: list[Part], extra: Part) -> tuple[list[Part], list[Part]]:
    """(the words with the links that stand in them, what is left of the `early` parts).

    VS Code keeps the words that the model wrote, "See `a.py` first.", as three parts: words, a link
    and words. Written as they were kept, the link would be read twice (links_once).
    """
    vulnerabilities = extra.get("vulnerabilities")
    abouts = dicts_of(extra.get("markdown")) or ([{}] if text or vulnerabilities else [])
    pieces, left = _cut_at_links(text, early) if abouts else ([text], early)
    parts: list[Part] = []
    for piece in pieces:
        if not isinstance(piece, str):
            parts.append(piece)
        elif isinstance(vulnerabilities, list) and vulnerabilities:
            content = {"content": {"value": piece}, "vulnerabilities": vulnerabilities}
            parts.append({**abouts[0], "kind": "markdownVuln", **content})
            vulnerabilities = None
        elif abouts:
            parts.append(_markdown(piece, abouts[0]))
    # What was said of other parts of the words goes with parts that are empty.
    return [*parts, *(_markdown("", about) for about in abouts[1:])], left


def _markdown(text: str, about: Part) -> Part:
    if "kind" in about or "inlineReferences" in about:
        return {**about, "kind": "markdownContent", "content": {"value": text}}
    return {**about, "value": text}


def _cut_at_links(text: str, early: list[Part]) -> tuple[list[str | Part], list[Part]]:
    pieces: list[str | Part] = []
    left: list[Part] = []
    at = 0
    for part in early:
        match = None
        if part.get("kind") == "inlineReference":
            target = part.get("inlineReference")
            named = part.get("name") or field_of(target, "name")
            names = {named if isinstance(named, str) else "", name_of(text_of_uri(target))} - {""}
            if names:
                # How a model writes the name of a file: as a link, as code, or bare.
                name = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
                pattern = (
                    rf"\[[^\]\n]*(?:{name})[^\]\n]*\]\([^)\n]*\)|`[^`\s]*(?:{name})[^`\s]*`|{name}"
                )
                match = re.compile(pattern).search(text, at)
        if match is None or (left and match.start() == 0):
            left.append(part)
            continue
        pieces += [text[at : match.start()]] if match.start() > at else []
        pieces += [*left, part]  # in their order
        left.clear()
        at = match.end()
    words = any(isinstance(piece, str) for piece in pieces)
    return pieces + [text[at:]] * (at < len(text) or not words), left


def cleared_parts(cleared: Any) -> list[Part]:
    """Words that were taken back, and right behind them that they were: VS Code shows neither."""
    parts: list[Part] = []
    for was_shown in dicts_of(cleared):
        if isinstance(was_shown.get("text"), str):
            parts.append({"value": was_shown["text"]})
        reason = {"reason": was_shown["reason"]} if "reason" in was_shown else {}
        parts.append({"kind": "clearToPreviousToolInvocation", **reason})
    return parts


def woven(calls: list[list[Part]], extra: Part) -> tuple[list[Part], list[Part]]:
    """(those that were kept from before the first call, the parts of the calls and between them those
    that were kept, where they stood)."""
    kept = list_of(extra.get("parts"))
    places = extra.get("parts_at")
    if not isinstance(places, list) or len(places) != len(kept):
        places = [len(calls)] * len(kept)
    between: list[list[Part]] = [[] for _ in range(len(calls) + 1)]
    for part, at in zip(kept, places, strict=True):
        # One without a kind VS Code takes for a tree.
        if isinstance(part, dict) and isinstance(part.get("kind", ""), str):
            inside = isinstance(at, int) and 0 <= at <= len(calls)
            between[at if inside else len(calls)].append(_expanded(part))
    parts: list[Part] = []
    for call, behind in zip(calls, between[1:], strict=True):
        parts = [*parts, *call, *behind]
    return between[0], parts


def _expanded(part: Part) -> Part:
    """Addresses and markdown as VS Code writes them."""
    if part.get("kind") not in DISPLAY:
        return part
    expanded = dict(part)
    if isinstance(expanded.get("uri"), str):
        expanded["uri"] = uri_of(expanded["uri"])
    if isinstance(expanded.get("content"), str):
        expanded["content"] = {"value": expanded["content"]}
    return expanded


def call_part(call: ToolCall, result: Message | None, child: Trajectory | None) -> dict[str, Any]:
    """The part of one call: as it was, or made from what is known."""
    extra = call.extra or {}
    part: dict[str, Any] = {"kind": "toolInvocationSerialized"}
    if isinstance(extra.get("tool_id"), str):
        part |= {theirs: extra[ours] for ours, theirs in CALL.items() if ours in extra}
        part["toolCallId"] = call.id
        if result is not None and result.details is not None:
            part["resultDetails"] = _with_data(result.details, result.attachments or [])
        part.setdefault("invocationMessage", call.name)
        native = extra.get(NATIVE)
        part = {**native, **part} if isinstance(native, dict) else part
    else:
        part |= _described(call, result, child)
    part.setdefault("isComplete", True)
    return part


def _described(call: ToolCall, result: Message | None, child: Trajectory | None) -> dict[str, Any]:
    name = call.name or "tool"
    failed = call.status == "failed" or bool(result is not None and result.is_error)
    output: list[dict[str, Any]] = []
    if result is not None:
        output.append({"type": "embed", "isText": True, "value": result.content})
        for attachment in (a for a in result.attachments or () if a.data):
            media_type = attachment.media_type or "application/octet-stream"
            data = {"isText": False, "mimeType": media_type, "value": attachment.data}
            output.append({"type": "embed", **data})
    description: dict[str, Any] = {
        "toolId": name,
        "toolCallId": call.id,
        "invocationMessage": name,
        "pastTenseMessage": name,
        "isConfirmed": _DENIED if call.status == "denied" else _ALLOWED,
        "source": {"type": "external", "label": "External"},
        "resultDetails": {"input": call.arguments, "output": output, "isError": failed},
    }
    if child is not None:
        description["toolSpecificData"] = _sub_agent(child)
    return description


def _sub_agent(child: Trajectory) -> dict[str, Any]:
    users = [text_of(m) for m in child.messages if m.role == "user"]
    answers = [m.content for m in child.messages if m.role == "assistant" and m.content]
    part = {
        "kind": "subagent",
        "agentName": (child.parent and child.parent.name) or child.agent,
        "description": child.title,
        "prompt": users[0] if users else None,
        "result": answers[-1] if answers else None,
    }
    return {name: value for name, value in part.items() if value}


def _with_data(details: Any, attachments: list[Attachment]) -> Any:
    """Result details with the bytes that were taken out of them."""
    if not isinstance(details, dict):
        return details if isinstance(details, list) else None
    if not holds_data(details, attachments):
        return details
    waiting = [a.data for a in attachments]
    output = details["output"]
    if isinstance(output, dict):
        return {**details, "output": {**output, "base64Data": waiting[0]}}
    filled = [{**part, "value": waiting.pop(0)} if _is_empty(part) else part for part in output]
    return {**details, "output": filled}


def _is_empty(part: Any) -> bool:
    """Whether the bytes of the part were taken out of it."""
    return isinstance(part, dict) and part.get("type") == "embed" and "value" not in part


def holds_data(details: Any, attachments: list[Attachment]) -> bool:
    """Whether the images of a result have their places in its details."""
    output = field_of(details, "output")
    if isinstance(output, dict):
        return len(attachments) == 1 and "base64Data" not in output
    places = sum(map(_is_empty, output)) if isinstance(output, list) else 0
    return 0 < places == len(attachments)


def result_of(result: Message) -> dict[str, Any]:
    """What the model got, as Copilot keeps it."""
    content: list[dict[str, Any]] = [{"$mid": 21, "value": result.content}]
    attachments = result.attachments or []
    if not holds_data(result.details, attachments):
        for attachment in attachments:
            if attachment.data:
                data = {"mimeType": attachment.media_type, "data": {"$base64": attachment.data}}
                content.append({"$mid": 24, "value": data})
    return {"$mid": 20, "content": content}
