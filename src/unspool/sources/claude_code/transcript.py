"""Transcript: what a user line and an assistant line state.

One answer is split over several lines, a content block each; `message.id` holds them together:

    {"type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"Done."}],…},…}
    {"type":"assistant","message":{"id":"msg_1","content":[{"type":"tool_use","id":"toolu_1",…}],…},…}
    {"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"toolu_1",…}]},…}
"""

from functools import lru_cache
from typing import Any

import msgspec

from unspool.facts import Attachment, Rank
from unspool.sources.claude_code.lines import (
    Block,
    Body,
    CacheCreation,
    Line,
    Usage,
    attachment_of,
    blocks_of,
    parse_raw,
    plain_block,
    text_of,
)
from unspool.sources.claude_code.results import read_result
from unspool.sources.claude_code.words import read_task, read_words
from unspool.sources.hook_payloads import CLAUDE_FILE_TOOLS
from unspool.sources.scribe import Scribe, title_of, touched

COMMAND_GUESS = Rank.GUESS + 2
"""A slash command says what a session was about where nothing else was typed."""
_CALLS = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))


def message_id(line: Line, body: Body) -> str:
    return body.id or line.requestId or line.uuid or ""


def read_assistant(line: Line, body: Body, scribe: Scribe, repeats: bool = False) -> bool:
    """Whether its output tokens are only a floor. `repeats`: the line before has said of the message
    all that this one says beside its calls."""
    message = message_id(line, body)
    wrong = bool(line.isApiErrorMessage) or body.model == "<synthetic>"
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Block] = []
    odd: list[Any] = []
    encrypted = 0
    for block in blocks_of(body.content):
        if block.type == "text":
            if block.text and not block.text.isspace():
                texts.append(block.text)
        elif block.type in _CALLS or (block.type.endswith("tool_result") and block.tool_use_id):
            calls.append(block)
        elif block.type == "thinking" and block.thinking:
            thoughts.append(block.thinking)
        elif block.type in ("thinking", "redacted_thinking"):
            encrypted += 1
        else:
            odd.append(plain_block(block))
    extra: dict[str, Any] = {"parts": odd} if odd else {}
    if encrypted:
        extra["encrypted_reasoning"] = encrypted
    if wrong and line.error:
        extra["error"] = parse_raw(line.error)
    if isinstance(line.effort, str) and not repeats:
        extra["effort"] = line.effort
    if not (repeats and calls) or texts or thoughts or extra:
        scribe.message(
            id=message,
            role="assistant",
            text="\n\n".join(texts),
            thinking="\n\n".join(thoughts),
            kind="error" if line.isApiErrorMessage else "notification" if wrong else "",
            model="" if wrong else body.model or "",
            request=line.requestId or "",
            stop="" if wrong else body.stop_reason or "",
            status="interrupted" if line.isAbortedMidStream else "",
            extra=extra or None,
        )
    for block in calls:
        if block.tool_use_id is None:
            name, arguments = block.name or "", bytes(block.input).decode()
            files = touched(CLAUDE_FILE_TOOLS, name, arguments, "file_path", "notebook_path")
            scribe.call(
                id=block.id or "", message=message, name=name, arguments=arguments, files=files
            )
        else:  # a tool that ran at the model's side: what it returned stands in the answer itself
            scribe.returned(
                call=block.tool_use_id,
                text=text_of([block]),
                failed=bool(block.is_error),
                details=plain_block(block).get("content"),
            )
    begun = body.usage is not None and body.stop_reason is None
    floor = begun and _tells_beginning(line.version or "")
    if body.usage is not None and not wrong:
        model = body.model or ""
        # An answer that has just begun, or was cut off, counts one token (case cut_answer):
        # {"message":{"id":"msg_2","stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}
        unknown = body.stop_reason is None and body.usage.output_tokens == 1
        tell_usage(body.usage, scribe, floor, unknown, subject=message, model=model)
    return floor


def tell_usage(
    usage: Usage, scribe: Scribe, floor: bool = False, unknown: bool = False, **of: Any
) -> None:
    """Tokens of an answer, or of a whole run. The completion may be no more than known so far
    (`floor`), or unknown."""
    fresh, read = usage.input_tokens, usage.cache_read_input_tokens
    flat, nested = usage.cache_creation_input_tokens, usage.cache_creation or CacheCreation()
    short, long = nested.ephemeral_5m_input_tokens or 0, nested.ephemeral_1h_input_tokens or 0
    # Before 2.1.152 the flat figure may be 0 while the nested one is right.
    written = max(flat or 0, short + long)
    # What a fork copies over a compaction says 0: nobody knows (cases/claude_code/fork_compacted).
    if not (fresh or read or written or usage.output_tokens):
        return
    extra: dict[str, Any] = {}
    if short or long:
        extra = {"cache_write_5m_tokens": short, "cache_write_1h_tokens": long}
    if usage.service_tier and usage.service_tier != "standard":
        extra["service_tier"] = usage.service_tier
    if usage.server_tool_use and any(usage.server_tool_use.values()):
        extra["server_tool_use"] = usage.server_tool_use
    if floor:
        extra["completion_floor"] = True
    scribe.usage(
        prompt=(fresh or 0) + (read or 0) + written or None,
        completion=None if unknown and not floor else usage.output_tokens,
        cached=read,
        cache_write=written if written or flat is not None else None,
        reasoning=(usage.output_tokens_details or {}).get("thinking_tokens"),
        extra=extra or None,
        **of,
    )


@lru_cache(maxsize=64)
def _tells_beginning(version: str) -> bool:
    """Up to 2.1.52 output tokens are what was known when the stream began, unless it ended."""
    try:
        numbers = tuple(int(part) for part in version.split("-")[0].split("."))
    except ValueError:
        return False
    return numbers <= (2, 1, 52)


def read_user(line: Line, scribe: Scribe) -> None:
    texts: list[str] = []
    attachments: list[Attachment] = []
    results = 0
    for block in blocks_of(line.body.content):
        if block.type == "tool_result":
            results += 1
            read_result(line, block, scribe)
        elif block.type == "text":
            texts.append(block.text or "")
        elif block.type in ("image", "document"):
            attachments.append(attachment_of(block))
        else:
            texts.append(block.text or msgspec.json.encode(plain_block(block)).decode())
    if texts or attachments or not results:
        _read_prompt(line, scribe, "\n\n".join(texts), tuple(attachments))


def _read_prompt(
    line: Line, scribe: Scribe, text: str, attachments: tuple[Attachment, ...]
) -> None:
    words = read_words(text)
    kind, typed = words.kind, words.typed
    # {"type":"user","origin":{"kind":"task-notification"},…}: another agent, a task, a schedule
    sender = line.origin.get("kind") if isinstance(line.origin, dict) else None
    if line.isCompactSummary:
        kind, typed = "summary", None
    elif line.isMeta and kind in ("", "command"):
        kind, typed = "injected", None
    elif kind == "" and isinstance(sender, str) and sender not in ("", "human"):
        kind, typed = "notification", None
    scribe.message(
        id="" if scribe.rank else line.uuid or "",
        role="user",
        text=text,
        kind=kind,
        typed=typed,
        mode=line.permissionMode or "",
        request=line.promptId or "",
        attachments=(*attachments, *words.attachments),
        extra={"tool_call_id": line.sourceToolUseID} if line.sourceToolUseID else None,
    )
    if typed and kind in ("", "command") and scribe.rank <= Rank.COPY:
        rank = Rank.GUESS if kind == "" else COMMAND_GUESS
        if scribe.side:  # the title of the side thread that the line turns out to be on
            scribe.note("title", title_of(typed), rank, "entry", scribe.entry)
        else:
            scribe.note("title", title_of(typed), rank)
    else:
        note_task(text, kind, scribe)


def note_task(text: str, kind: str, scribe: Scribe) -> None:
    """A notification may name a task and the call that started it: the task may be a sub-agent."""
    task = read_task(text) if kind == "notification" else None
    if task is not None:
        scribe.note("task_id", task[0], Rank.EXTRACT, "call", task[1])
