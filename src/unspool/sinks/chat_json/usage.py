"""Usage: tokens as VS Code keeps them with a request."""

from typing import Any

from unspool.sources.vscode_chat import fields
from unspool.trajectory import Message, Usage


def named(names: dict[str, str], extra: dict[str, Any]) -> dict[str, Any]:
    return {theirs: extra[ours] for ours, theirs in names.items() if ours in extra}


def usage_of(answers: list[Message]) -> dict[str, Any]:
    """The last call's prompt, as VS Code tells it; and the totals of the turn by model."""
    known = [(a, a.usage) for a in answers if a.usage is not None]
    if not known:
        return {}
    last = known[-1][1]
    extra = last.extra or {}
    made = named(fields.USAGE, extra)
    if "modelTotals" in made:
        prompt = extra.get("last_prompt_tokens")
    else:
        prompt = last.prompt_tokens
        if len(known) > 1 or last.cached_tokens is not None:
            made["modelTotals"] = _totals([(a.model or "", usage) for a, usage in known])
        elif last.completion_tokens is not None:
            made["completionTokens"] = last.completion_tokens
    if prompt is not None:
        made["promptTokens"] = prompt
    return made


def _totals(reports: list[tuple[str, Usage]]) -> list[dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for model, usage in reports:
        held = made.setdefault(model, {"model": model})
        for ours, theirs in (
            ("prompt_tokens", "inputTokens"),
            ("cached_tokens", "cachedTokens"),
            ("completion_tokens", "outputTokens"),
        ):
            value = getattr(usage, ours)
            if value is not None:
                held[theirs] = held.get(theirs, 0) + value
    return list(made.values())
