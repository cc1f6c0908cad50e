"""Transcript: the facts that one line of a session file states."""

from typing import Any

import msgspec

from unspool.facts import (
    AnyFact,
    Attachment,
    Key,
    MessageSeen,
    ToolCalled,
    ToolReturned,
    UsageReported,
)
from unspool.prompts.shapes import image_of
from unspool.sources.claude_code.lines import Block, Body, Line, Usage, parse_content, parse_raw
from unspool.sources.claude_code.place import COMMAND_GUESS, GUESS, Place, child_id, title_of
from unspool.sources.claude_code.results import (
    FILE_TOOLS,
    flat_text,
    read_outcome,
    read_persisted,
)
from unspool.sources.claude_code.words import read_task, read_words

_CALLS = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))

_DENIALS = {"interrupted": "interrupted", "cancelled": "cancelled"}
"""Why a call did not run (since 2.1.205); every other word is a denial."""

Speech = tuple[Key, str, str | None, str | None, str | None]
"""What a line says of its message beside words: conversation, id, model, request, stop."""


def speech_of(line: Line, key: Key) -> Speech:
    body = line.message or Body()
    message = body.id or line.requestId or line.uuid or ""
    return (key, message, body.model, line.requestId, body.stop_reason)


def read_assistant(line: Line, place: Place, told: bool = False) -> list[AnyFact]:
    """`told`: the line before has said of the message all that this one says beside its calls."""
    body = line.message or Body()
    message = body.id or line.requestId or line.uuid or ""
    wrong = bool(line.isApiErrorMessage) or body.model == "<synthetic>"
    blocks = body.content
    if isinstance(blocks, str):
        blocks = [Block(type="text", text=blocks)]
    text, thinking, calls, odd, hidden = _parts(blocks or [])
    extra: dict[str, Any] = {"parts": odd} if odd else {}
    if hidden:
        extra["encrypted_reasoning"] = hidden
    if wrong and line.error:
        extra["error"] = parse_raw(bytes(line.error))
    if isinstance(line.effort, str) and not told:
        extra["effort"] = line.effort
    found: list[AnyFact] = []
    if not (told and calls and not text and not thinking and not extra):
        found.append(
            MessageSeen(
                **place.common(),
                id=message,
                role="assistant",
                text=text,
                thinking=thinking,
                kind="error" if line.isApiErrorMessage else "notification" if wrong else "",
                model="" if wrong else body.model or "",
                request=line.requestId or "",
                stop="" if wrong else body.stop_reason or "",
                status="interrupted" if line.isAbortedMidStream else "",
                side=place.side,
                rank=place.rank,
                extra=extra or None,
            )
        )
    for block in calls:
        if block.tool_use_id is None:
            found.append(_read_call(block, message, place))
        else:
            found.append(_read_server_result(block, place))
    if body.usage is not None and not wrong:
        found.append(_usage(body, line.version or "", message, place))
    return found


def _parts(blocks: list[Block]) -> tuple[str, str, list[Block], list[Any], int]:
    """Text, thinking, calls (and results of tools that ran at the model's side), odd blocks, and
    how many blocks of thinking cannot be read."""
    hidden = 0
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Block] = []
    odd: list[Any] = []
    for block in blocks:
        if block.type == "text":
            if block.text and not block.text.isspace():
                texts.append(block.text)
        elif block.type == "thinking":
            if block.thinking:
                thoughts.append(block.thinking)
            else:
                hidden += 1
        elif block.type in _CALLS or (block.type.endswith("tool_result") and block.tool_use_id):
            calls.append(block)
        elif block.type == "redacted_thinking":
            hidden += 1
        else:
            odd.append(_plain(block))
    return "\n\n".join(texts), "\n\n".join(thoughts), calls, odd, hidden


def _plain(block: Block) -> dict[str, Any]:
    """A block of a type that is not read, as it is."""
    made: dict[str, Any] = {"type": block.type}
    for name in ("text", "id", "name", "tool_use_id", "is_error", "title"):
        value = getattr(block, name)
        if value is not None:
            made[name] = value
    for name in ("input", "content", "source"):
        raw = bytes(getattr(block, name))
        if raw:
            made[name] = parse_raw(raw)
    return made


def _read_server_result(block: Block, place: Place) -> ToolReturned:
    """What a tool that ran at the model's side returned: it stands in the answer itself."""
    details = _plain(block)
    return ToolReturned(
        **place.common(),
        call=block.tool_use_id or "",
        text=flat_text([block]),
        failed=bool(block.is_error),
        details=details.get("content"),
        side=place.side,
        rank=place.rank,
    )


class _FileInput(msgspec.Struct, gc=False):
    file_path: Any = None
    notebook_path: Any = None


def _read_call(block: Block, message: str, place: Place) -> ToolCalled:
    name = block.name or ""
    arguments = bytes(block.input)
    return ToolCalled(
        **place.common(),
        id=block.id or "",
        message=message,
        name=name,
        arguments=arguments.decode("utf-8", "replace"),
        side=place.side,
        rank=place.rank,
        files=files_of(name, arguments),
    )


def files_of(name: str, arguments: bytes) -> tuple[dict[str, Any], ...]:
    """The file that a call is about, if it is a tool for files."""
    operation = FILE_TOOLS.get(name)
    if operation is None or arguments[:1] != b"{":
        return ()
    found = msgspec.json.decode(arguments, type=_FileInput)
    path = found.file_path or found.notebook_path
    return ({"path": path, "operation": operation, "tool": name},) if isinstance(path, str) else ()


def _usage(body: Body, version: str, message: str, place: Place) -> UsageReported:
    usage = body.usage or Usage()
    cache = usage.cache_creation
    nested = (
        (cache.ephemeral_5m_input_tokens or 0) + (cache.ephemeral_1h_input_tokens or 0)
        if cache
        else 0
    )
    # Before 2.1.152 the flat figure may be 0 while the nested one is right.
    written = max(usage.cache_creation_input_tokens or 0, nested)
    known = (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens)
    extra: dict[str, Any] = {}
    if nested:
        extra["cache_write_5m_tokens"] = cache.ephemeral_5m_input_tokens or 0 if cache else 0
        extra["cache_write_1h_tokens"] = cache.ephemeral_1h_input_tokens or 0 if cache else 0
    if usage.service_tier and usage.service_tier != "standard":
        extra["service_tier"] = usage.service_tier
    if usage.server_tool_use and any(usage.server_tool_use.values()):
        extra["server_tool_use"] = usage.server_tool_use
    if is_floor(body, version):
        extra["completion_floor"] = True
    return UsageReported(
        **place.common(),
        on="message",
        subject=message,
        model=body.model or "",
        prompt=None
        if all(value is None for value in known)
        else (usage.input_tokens or 0) + (usage.cache_read_input_tokens or 0) + written,
        completion=usage.output_tokens,
        cached=usage.cache_read_input_tokens,
        cache_write=written if written or usage.cache_creation_input_tokens is not None else None,
        reasoning=_thinking(usage),
        rank=place.rank,
        extra=extra or None,
    )


def _thinking(usage: Usage) -> int | None:
    details = usage.output_tokens_details
    found = details.get("thinking_tokens") if isinstance(details, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def is_floor(body: Body, version: str) -> bool:
    """Up to 2.1.52 output tokens are what was known when the stream began, unless it ended."""
    return body.stop_reason is None and version_of(version) <= (2, 1, 52)


def version_of(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split("-")[0].split("."))
    except ValueError:
        return (1 << 30,)


def read_user(line: Line, place: Place) -> list[AnyFact]:
    body = line.message or Body()
    content = body.content
    if isinstance(content, str):
        return _read_prompt(line, place, content, ())
    found: list[AnyFact] = []
    texts: list[str] = []
    attachments: list[Attachment] = []
    results = 0
    for block in content or ():
        if block.type == "tool_result":
            results += 1
            found += _read_result(line, block, place)
        elif block.type == "text":
            texts.append(block.text or "")
        elif block.type in ("image", "document"):
            attachments.append(_attachment(block))
        elif block.text:
            texts.append(block.text)
        else:
            texts.append(msgspec.json.encode(_plain(block)).decode())
    if texts or attachments or not results:
        found += _read_prompt(line, place, "\n\n".join(texts), tuple(attachments))
    return found


def _attachment(block: Block) -> Attachment:
    made = image_of({"source": parse_raw(bytes(block.source))})
    if block.type == "image":
        return made
    name = block.title if isinstance(block.title, str) else ""
    return msgspec.structs.replace(made, kind=block.type, name=name)


def _read_prompt(
    line: Line, place: Place, text: str, attachments: tuple[Attachment, ...]
) -> list[AnyFact]:
    words = read_words(text)
    kind, typed = words.kind, words.typed
    if line.isCompactSummary:
        kind, typed = "summary", None
    elif line.isMeta and kind in ("", "command"):
        kind, typed = "injected", None
    elif kind == "" and _is_from_others(line):
        kind, typed = "notification", None
    extra: dict[str, Any] = {}
    if line.sourceToolUseID:
        extra["tool_call_id"] = line.sourceToolUseID
    seen = MessageSeen(
        **place.common(),
        id="" if place.rank else line.uuid or "",
        role="user",
        text=text,
        kind=kind,
        typed=typed,
        mode=line.permissionMode or "",
        request=line.promptId or "",
        side=place.side,
        rank=place.rank,
        attachments=(*attachments, *words.attachments),
        extra=extra or None,
    )
    if typed and kind in ("", "command") and place.rank <= 1:
        rank = GUESS if kind == "" else COMMAND_GUESS
        title = place.note("title", title_of(typed), rank)
        if place.side:  # of the side thread that the line turns out to be on
            title = msgspec.structs.replace(title, on="entry", subject=place.entry)
        return [seen, title]
    return [seen, *note_task(text, kind, place)]


def _is_from_others(line: Line) -> bool:
    """Whether the line says that no person typed it: another agent, a task, a schedule did."""
    kind = line.origin.get("kind") if isinstance(line.origin, dict) else None
    return isinstance(kind, str) and kind not in ("", "human")


def note_task(text: str, kind: str, place: Place) -> list[AnyFact]:
    """A notification may name a task and the call that started it: the task may be a sub-agent."""
    named = read_task(text) if kind == "notification" else None
    return [place.note_call(named[1], "task_id", named[0], 2)] if named else []


def _read_result(line: Line, block: Block, place: Place) -> list[AnyFact]:
    call = block.tool_use_id or ""
    content = parse_content(bytes(block.content))
    text = flat_text(content)
    failed = bool(block.is_error)
    raw = bytes(line.toolUseResult or line.tool_use_result)
    outcome = read_outcome(raw, text, failed)
    if line.toolDenialKind and not outcome.status:
        outcome.status = _DENIALS.get(line.toolDenialKind, "denied")
        outcome.by_user = line.toolDenialKind == "user-rejected"
    details = outcome.details
    if outcome.persisted:
        whole = read_persisted(place.origin, outcome.persisted)
        if whole is not None:
            rest = details if isinstance(details, dict) else {"result": details}
            details = {**rest, "persistedOutput": whole}
    images = (
        [b for b in content if b.type in ("image", "document")] if isinstance(content, list) else []
    )
    found: list[AnyFact] = [
        ToolReturned(
            **place.common(),
            call=call,
            text=text,
            failed=failed,
            status=outcome.status,
            details=details,
            side=place.side,
            rank=place.rank,
            files=(outcome.touch,) if outcome.touch is not None else (),
            attachments=tuple(_attachment(image) for image in images) if images else (),
        )
    ]
    if outcome.agent:
        session = place.key[1].partition("/")[0]
        found.append(place.note_call(call, "child_id", child_id(session, outcome.agent)))
    if outcome.run:
        found.append(place.note_call(call, "run_id", outcome.run))
    if outcome.by_user:
        found.append(place.note_call(call, "denied_by", "user"))
    return found
