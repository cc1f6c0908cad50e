"""Context: lines of the chain that are no message: system lines and attachments."""

from typing import Any

from unspool.facts import Attachment
from unspool.io.values import dict_of, dicts_of, field_of, str_of
from unspool.sources.claude_code.bare import read_setup
from unspool.sources.claude_code.lines import text_of
from unspool.sources.claude_code.transcript import note_task
from unspool.sources.claude_code.words import read_words
from unspool.sources.scribe import Scribe, chosen

Value = dict[str, Any]

_OURS = {
    "compactedToolIds": "tool_call_ids",
    "hookEvent": "event",
    "hookName": "name",
    "hookCount": "count",
    "hookInfos": "hooks",
    "hookErrors": "errors",
    "hookAdditionalContext": "context",
}
_HOOK = ("hookEvent", "hookName", "command", "exitCode", "durationMs", "stdout", "stderr")
_HOOK_SUMMARY = (
    "hookCount", "hookInfos", "hookErrors", "preventedContinuation", "stopReason",
    "hookAdditionalContext",
)  # fmt: skip
_COMPACTION = (
    "trigger", "preTokens", "postTokens", "tokensSaved", "durationMs", "compactedToolIds",
    "pre_tokens", "post_tokens",  # in a stream
)  # fmt: skip
_OF_EVERY_LINE = frozenset((
    "type", "uuid", "parentUuid", "sessionId", "timestamp", "cwd", "version", "gitBranch",
    "session_id", "parent_tool_use_id", "isSidechain", "userType", "slug",
))  # fmt: skip


def _present(**fields: Any) -> Value | None:
    return {name: value for name, value in fields.items() if value} or None


def read_system(value: Value, scribe: Scribe) -> None:
    subtype = value.get("subtype")
    if subtype == "microcompact_boundary":
        meta = dict_of(value.get("microcompactMetadata"))
        scribe.mark("microcompaction", chosen(meta, _COMPACTION, _OURS))
    elif subtype == "compact_boundary":
        _read_compaction(value, scribe)
    elif subtype == "turn_duration":
        scribe.mark("turn_end", chosen(value, ("durationMs", "messageCount")))
    elif subtype == "stop_hook_summary":
        data = {"event": "Stop", **chosen(value, _HOOK_SUMMARY, _OURS)}
        scribe.mark("hook", data, str(value.get("toolUseID") or ""))
    elif subtype == "api_error":
        names = ("error", "retryInMs", "retryAttempt", "maxRetries")
        scribe.mark("api_error", chosen(value, names))
    elif isinstance(text := value.get("content"), str) and text:
        # What the program told the person, and commands that it ran itself: the model has not seen
        # them. A command is what the person typed (cases/claude_code/queued_command):
        # {"type":"system","subtype":"local_command","content":"<command-name>/model</command-name>…"}
        words = read_words(text)
        is_typed = words.kind in ("command", "shell")
        scribe.message(
            id=scribe.entry,
            role="user" if is_typed else "system",
            text=text,
            kind=words.kind or "notification",
            typed=words.typed if is_typed else None,
            extra=_present(
                subtype=subtype, level=value.get("level"), tool_call_id=value.get("toolUseID")
            ),
        )
    else:
        scribe.mark("system", {k: v for k, v in value.items() if k not in _OF_EVERY_LINE})


def _read_compaction(value: Value, scribe: Scribe) -> None:
    meta = dict_of(value.get("compactMetadata") or value.get("compact_metadata"))
    data = chosen(meta, _COMPACTION, _OURS)
    uuids = field_of(meta.get("preservedMessages"), "uuids")
    if isinstance(uuids, list):
        data["preserved"] = uuids
        data["messages_after"] = len(uuids) + 1
    elif isinstance(segment := meta.get("preservedSegment"), dict):
        ends = {"preserved_from": segment.get("headUuid"), "preserved_to": segment.get("tailUuid")}
        data |= {name: uuid for name, uuid in ends.items() if isinstance(uuid, str)}
    else:
        data["messages_after"] = 1  # the summary alone stands for what was before
    scribe.mark("compaction", data)


def read_attachment(value: Value, scribe: Scribe) -> None:
    attachment = dict_of(value.get("attachment"))
    kind = str(attachment.get("type") or "")
    if kind == "queued_command":
        _read_queued(attachment, scribe)
    elif kind == "hook_additional_context":
        lines = attachment.get("content")
        text = "\n".join(map(str, lines)) if isinstance(lines, list) else lines
        _inject(str_of(text), scribe, _present(hook=attachment.get("hookEvent")))
    elif kind.startswith("hook_"):
        data = {"outcome": kind.removeprefix("hook_"), **chosen(attachment, _HOOK, _OURS)}
        error = attachment.get("blockingError")
        if isinstance(error, dict):
            data |= {"error": error.get("blockingError"), "command": error.get("command")}
        elif error:
            data["error"] = error
        if attachment.get("content") and "stdout" not in data:
            data["content"] = attachment["content"]
        scribe.mark("hook", data, str(attachment.get("toolUseID") or ""))
    elif kind in ("file", "directory", "edited_text_file", "compact_file_reference"):
        _read_file(attachment, kind, scribe)
    elif kind == "prompt_snapshot":
        system = text_of(attachment.get("systemPrompt"))
        read_setup(system, attachment.get("tools"), scribe)
        if not scribe.facts:
            scribe.link()
    else:
        text = _rendered(value.get("rendered")) or attachment.get("content")
        if isinstance(text, str) and text.strip():
            _inject(text, scribe, _present(attachment=kind))
        else:
            scribe.mark("context", attachment)


def _rendered(value: Any) -> str:
    """What the model got of an attachment (since 2.1.2xx)."""
    texts = (text_of(item.get("content")) for item in dicts_of(value))
    return "\n\n".join(text for text in texts if text)


def _inject(
    text: str, scribe: Scribe, extra: Value | None, attachments: tuple[Attachment, ...] = ()
) -> None:
    scribe.message(
        id=scribe.entry, role="user", text=text, kind="injected", attachments=attachments,
        extra=extra,
    )  # fmt: skip


def _read_file(attachment: Value, kind: str, scribe: Scribe) -> None:
    """A file that was put into the context: mentioned by the person, or changed under the model."""
    content = attachment.get("content")
    file = dict_of(field_of(content, "file"))
    path = attachment.get("filename") or file.get("filePath") or attachment.get("path") or ""
    text = file.get("content") or attachment.get("snippet") or content
    shown = Attachment(
        kind=kind,
        name=str(attachment.get("displayPath") or ""),
        path=str(path),
        text=str_of(text),
    )
    _inject("", scribe, _present(attachment=kind), (shown,))


def _read_queued(attachment: Value, scribe: Scribe) -> None:
    """A prompt typed while the model was at work, handed to it between two calls."""
    text = text_of(attachment.get("prompt"))
    words = read_words(text)
    steering = words.kind == "" and attachment.get("commandMode") in (None, "prompt")
    kind = "steering" if steering else words.kind or "notification"
    scribe.message(
        id=scribe.entry,
        role="user",
        text=text,
        kind=kind,
        typed=words.typed if steering else None,
        attachments=words.attachments,
    )
    note_task(text, kind, scribe)
