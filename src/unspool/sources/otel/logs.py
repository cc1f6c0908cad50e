"""Log records of Claude Code, Codex and Gemini CLI: what each states.

    claude_code.user_prompt        {"session.id":"s1","prompt":"fix it","event.sequence":1}
    claude_code.assistant_response {"message.uuid":"a1","response":"Done.","request_id":"req_1"}
    codex.tool_result              {"conversation.id":"t1","call_id":"c1","output":"ok"}

They repeat what the agent's own files hold (`Rank.ECHO`), and most hold no words but where a person
switched that on.
"""

from collections.abc import Callable

from unspool.facts import Rank
from unspool.sources.otel.otlp import Item
from unspool.sources.scribe import Scribe, title_of

_REDACTED = ("", "<REDACTED>", "[REDACTED]")
_TRUE = (True, "true", "True")
_FALSE = (False, "false", "False")


def tell_log(item: Item, scribe: Scribe) -> bool:
    """State what the record says; False where nobody knows it."""
    name = item.text("event.name") or item.name
    for beginning in ("claude_code.", "codex.", "gemini_cli."):
        name = name.removeprefix(beginning)
    if name in _NOISE or name.startswith(("hook_", "mcp_", "plugin_", "skill_")):
        return True
    teller = _TELLERS.get(name)
    if teller is None:
        return False
    teller(item, scribe)
    return True


def _tell_prompt(item: Item, scribe: Scribe) -> None:
    text = item.text("prompt")
    if text in _REDACTED:
        scribe.note("partial", "no-content")
        return
    scribe.message(role="user", text=text, typed=text, request=item.text("prompt.id"))
    scribe.note("title", title_of(text), Rank.LAST_RESORT)


def _tell_answer(item: Item, scribe: Scribe) -> None:
    text = item.text("response")
    if text in _REDACTED:
        scribe.note("partial", "no-content")
        return
    # The line of the transcript has this id: the two are one record.
    place = scribe.at(entry=item.text("message.uuid") or scribe.entry, after=None)
    place.message(
        role="assistant", text=text, model=item.text("model"), request=item.text("request_id")
    )


def _tell_usage(item: Item, scribe: Scribe) -> None:
    """Tokens of one engine call. Claude Code's leave out the cache; the others' are all input."""
    cached = item.count("cache_read_tokens", "cached_token_count", "cached_content_token_count")
    written = item.count("cache_creation_tokens")
    prompt = item.count("input_tokens", "input_token_count")
    if prompt is not None and scribe.key[0] == "claude-code":
        prompt += (cached or 0) + (written or 0)
    reasoning = item.count("reasoning_token_count", "thoughts_token_count")
    completion = item.count("output_tokens", "output_token_count")
    if completion is not None and scribe.key[0] == "gemini-cli":
        completion += reasoning or 0
    if prompt is None and completion is None:
        return
    cost = item.attributes.get("cost_usd")
    try:
        cost_usd = float(cost) if cost is not None else None
    except (TypeError, ValueError):
        cost_usd = None
    request = item.text("request_id") if scribe.key[0] == "claude-code" else ""
    scribe.usage(
        on="request" if request else "call", subject=request or scribe.entry,
        model=item.text("model"), prompt=prompt, completion=completion, cached=cached,
        cache_write=written, reasoning=reasoning, cost_usd=cost_usd,
    )  # fmt: skip


def _tell_sse(item: Item, scribe: Scribe) -> None:
    if item.text("event.kind") == "response.completed":
        _tell_usage(item, scribe)


def _tell_result(item: Item, scribe: Scribe) -> None:
    call = item.text("call_id", "tool_use_id")
    name = item.text("tool_name", "function_name")
    arguments = item.text("arguments", "tool_input", "function_args", "tool_parameters")
    success = item.attributes.get("success")
    failed = True if success in _FALSE else False if success in _TRUE else None
    output = item.text("output") or (item.text("error") if failed else "")
    took = item.count("duration_ms")
    scribe.call(id=call, name=name, arguments=arguments, rank=Rank.ECHO + 1)
    scribe.returned(
        call=call, name=name, arguments="" if call else arguments, text=output or None, failed=failed,
        duration_ms=float(took) if took is not None else None,
    )  # fmt: skip


def _tell_error(item: Item, scribe: Scribe) -> None:
    data = {name: item.text(name) for name in ("error", "status_code", "model") if item.text(name)}
    scribe.mark("error", data, rank=Rank.ECHO)


_TELLERS: dict[str, Callable[[Item, Scribe], None]] = {
    "user_prompt": _tell_prompt,
    "assistant_response": _tell_answer,
    "api_request": _tell_usage,
    "api_response": _tell_usage,
    "sse_event": _tell_sse,
    "tool_result": _tell_result,
    "tool_call": _tell_result,
    "api_error": _tell_error,
    "conversation_starts": lambda item, scribe: scribe.notes(
        {"model": item.text("model")}, Rank.ECHO
    ),
    "chat_compression": lambda item, scribe: scribe.mark("compaction", rank=Rank.ECHO),
    "compaction": lambda item, scribe: scribe.mark("compaction", rank=Rank.ECHO),
}
_NOISE = frozenset((
    "tool_decision", "system_prompt", "tool", "api_request_body", "api_response_body", "config",
    "websocket_event", "websocket_request", "flash_fallback", "next_speaker_check", "slash_command",
    "file_operation", "model_routing", "agent_start", "agent_finish", "permission_mode_changed", "auth",
    "internal_error", "at_mention", "api_retries_exhausted", "conversation_finished", "startup_phase",
))  # fmt: skip
