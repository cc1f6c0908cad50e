"""Context: lines of the chain that are no message: system lines and attachments."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from unspool.facts import AnyFact, Attachment, MessageSeen
from unspool.sources.claude_code.lines import Block, lenient_content
from unspool.sources.claude_code.place import Place
from unspool.sources.claude_code.results import flat_text
from unspool.sources.claude_code.transcript import note_task
from unspool.sources.claude_code.words import read_words

Value = dict[str, Any]

_NAMES = {
    "preTokens": "pre_tokens",
    "postTokens": "post_tokens",
    "tokensSaved": "tokens_saved",
    "durationMs": "duration_ms",
    "messageCount": "message_count",
    "retryInMs": "retry_in_ms",
    "retryAttempt": "retry_attempt",
    "maxRetries": "max_retries",
    "compactedToolIds": "tool_call_ids",
    "hookEvent": "event",
    "hookName": "name",
    "hookCount": "count",
    "hookInfos": "hooks",
    "hookErrors": "errors",
    "exitCode": "exit_code",
    "preventedContinuation": "prevented_continuation",
    "stopReason": "stop_reason",
    "hookAdditionalContext": "context",
}
_HOOK = ("hookEvent", "hookName", "command", "exitCode", "durationMs", "stdout", "stderr")
_SUMMARY_HOOK = (
    "hookCount",
    "hookInfos",
    "hookErrors",
    "preventedContinuation",
    "stopReason",
    "hookAdditionalContext",
)


def picked(value: Value, names: tuple[str, ...]) -> Value:
    """The fields that say something, under our names."""
    return {
        _NAMES.get(name, name): value[name]
        for name in names
        if value.get(name) not in (None, "", [], {})
    }


def read_system(value: Value, place: Place) -> Iterator[AnyFact]:
    subtype = value.get("subtype")
    if subtype in ("compact_boundary", "microcompact_boundary"):
        yield _compaction(value, str(subtype), place)
    elif subtype == "turn_duration":
        yield place.mark("turn_end", picked(value, ("durationMs", "messageCount")))
    elif subtype == "stop_hook_summary":
        data = {"event": "Stop", **picked(value, _SUMMARY_HOOK)}
        yield place.mark("hook", data, str(value.get("toolUseID") or ""))
    elif subtype == "api_error":
        data = picked(value, ("error", "retryInMs", "retryAttempt", "maxRetries"))
        yield place.mark("api_error", data)
    elif value.get("content") and isinstance(value["content"], str):
        yield _said(value, place)
    else:
        known = (
            "type",
            "uuid",
            "parentUuid",
            "sessionId",
            "timestamp",
            "cwd",
            "version",
            "gitBranch",
            "session_id",
            "parent_tool_use_id",
        )
        rest = {
            k: v for k, v in value.items() if k not in (*known, "isSidechain", "userType", "slug")
        }
        yield place.mark("system", rest)


def _said(value: Value, place: Place) -> MessageSeen:
    """What the program told the person: the model has not seen it."""
    text: str = value["content"]
    words = read_words(text)
    typed = words.typed if words.kind in ("command", "shell") else None
    level = value.get("level")
    extra = {
        "subtype": value.get("subtype"),
        "level": level,
        "tool_call_id": value.get("toolUseID"),
    }
    return MessageSeen(
        **place.common(),
        id=place.entry,
        role="system",
        text=text,
        kind=words.kind or "notification",
        typed=typed,
        side=place.side,
        extra={name: found for name, found in extra.items() if found} or None,
    )


def _compaction(value: Value, subtype: str, place: Place) -> AnyFact:
    micro = subtype.startswith("micro")
    name = "microcompactMetadata" if micro else "compactMetadata"
    meta = value.get(name) or value.get("compact_metadata") or {}
    meta = meta if isinstance(meta, dict) else {}
    data = picked(meta, ("trigger", "preTokens", "postTokens", "tokensSaved", "durationMs"))
    for ours, theirs in (("pre_tokens", "pre_tokens"), ("post_tokens", "post_tokens")):
        if theirs in meta:
            data.setdefault(ours, meta[theirs])
    data |= picked(meta, ("compactedToolIds",))
    if micro:
        return place.mark("microcompaction", data)
    preserved = meta.get("preservedMessages")
    uuids = preserved.get("uuids") if isinstance(preserved, dict) else None
    if isinstance(uuids, list):
        data["preserved"] = uuids
        data["messages_after"] = len(uuids) + 1
    elif isinstance(segment := meta.get("preservedSegment"), dict):
        ends = {"preserved_from": segment.get("headUuid"), "preserved_to": segment.get("tailUuid")}
        data |= {name: uuid for name, uuid in ends.items() if isinstance(uuid, str)}
    else:
        data["messages_after"] = 1  # the summary alone stands for what was before
    return place.mark("compaction", data)


def read_attachment(value: Value, place: Place) -> Iterator[AnyFact]:
    found = value.get("attachment")
    found = found if isinstance(found, dict) else {}
    kind = str(found.get("type") or "")
    if kind == "queued_command":
        queued = _queued(found, place)
        yield queued
        yield from note_task(queued.text, queued.kind, place)
    elif kind == "hook_additional_context":
        yield _injected(_lines(found.get("content")), place, {"hook": found.get("hookEvent")})
    elif kind.startswith("hook_"):
        yield _hook(found, kind, place)
    elif kind in ("file", "directory", "edited_text_file", "compact_file_reference"):
        yield _file(found, kind, place)
    elif kind == "prompt_snapshot":
        yield from _prompt_snapshot(found, place)
    else:
        text = _rendered(value.get("rendered")) or found.get("content")
        if isinstance(text, str) and text.strip():
            yield _injected(text, place, {"attachment": kind})
        else:
            yield place.mark("context", found)


def _prompt_snapshot(found: Value, place: Place) -> Iterator[AnyFact]:
    """The system prompt and the tools. They are written again with every resumption: by its words,
    the same prompt is one message, where it stood first."""
    parts = found.get("systemPrompt")
    text = queued_text(parts)
    if text.strip():
        ident = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        yield MessageSeen(
            **place.common(), id=f"system:{ident}", role="system", text=text, side=place.side
        )
    else:
        yield place.link()
    tools = found.get("tools")
    known = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    if known:
        yield place.note("tool_definitions", known)


def _rendered(value: Any) -> str:
    """What the model got of an attachment (since 2.1.2xx)."""
    shown = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    texts = (queued_text(item.get("content")) for item in shown)
    return "\n\n".join(text for text in texts if text)


def _lines(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(str(item) for item in value)
    return value if isinstance(value, str) else ""


def _injected(
    text: str, place: Place, extra: Value, attachments: tuple[Attachment, ...] = ()
) -> MessageSeen:
    return MessageSeen(
        **place.common(),
        id=place.entry,
        role="user",
        text=text,
        kind="injected",
        side=place.side,
        attachments=attachments,
        extra={name: found for name, found in extra.items() if found} or None,
    )


def _hook(found: Value, kind: str, place: Place) -> AnyFact:
    data = {"outcome": kind.removeprefix("hook_"), **picked(found, _HOOK)}
    error = found.get("blockingError")
    if isinstance(error, dict):
        data |= {"error": error.get("blockingError"), "command": error.get("command")}
    elif error:
        data["error"] = error
    if found.get("content") and "stdout" not in data:
        data["content"] = found["content"]
    return place.mark("hook", data, str(found.get("toolUseID") or ""))


def _file(found: Value, kind: str, place: Place) -> MessageSeen:
    """A file that was put into the context: mentioned by the person, or changed under the model."""
    content = found.get("content")
    inner = content.get("file") if isinstance(content, dict) else None
    inner = inner if isinstance(inner, dict) else {}
    path = found.get("filename") or inner.get("filePath") or found.get("path") or ""
    text = (
        inner.get("content")
        or found.get("snippet")
        or (content if isinstance(content, str) else "")
    )
    made = Attachment(
        kind=kind,
        name=str(found.get("displayPath") or ""),
        path=str(path),
        text=text if isinstance(text, str) else "",
    )
    return _injected("", place, {"attachment": kind}, (made,))


def _queued(found: Value, place: Place) -> MessageSeen:
    """A prompt typed while the model was at work, handed to it between two calls."""
    text = queued_text(found.get("prompt"))
    words = read_words(text)
    steering = words.kind == "" and found.get("commandMode") in (None, "prompt")
    return MessageSeen(
        **place.common(),
        id=place.entry,
        role="user",
        text=text,
        kind="steering" if steering else words.kind or "notification",
        typed=words.typed if steering else None,
        side=place.side,
        attachments=words.attachments,
    )


def queued_text(value: Any) -> str:
    content = lenient_content(value)
    if isinstance(content, list):
        return "\n\n".join(
            block.text for block in content if isinstance(block, Block) and block.text
        )
    return flat_text(content)


CHAINED: dict[str, Callable[[Value, Place], Iterator[AnyFact]]] = {
    "system": read_system,
    "attachment": read_attachment,
}
