"""Metrics: tokens and cost of a step and of the whole, so that they add up."""

import math
from typing import Any

from unspool.sinks.atif.extras import leftover, merged
from unspool.sinks.atif.model import FinalMetrics, Metrics, Step
from unspool.trajectory import Message, Usage

LISTS = ("prompt_token_ids", "completion_token_ids", "logprobs")
WORDS = {
    "cache_write_tokens": "cache_creation_input_tokens",
    "reasoning_tokens": "reasoning_tokens",
}
"""Our word → the one that ATIF's providers use in `metrics.extra`."""

_PLACED = {*WORDS, "prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra"}
_TOTALS = (
    ("total_prompt_tokens", "prompt_tokens"),
    ("total_completion_tokens", "completion_tokens"),
    ("total_cached_tokens", "cached_tokens"),
    ("total_cost_usd", "cost_usd"),
)


def build_metrics(usage: Usage | None) -> Metrics | None:
    """A step's metrics. A figure that cannot be true stays out of them, and in `extra`."""
    if usage is None:
        return None
    rest: dict[str, Any] = leftover(usage, _PLACED)
    metrics = Metrics()
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"):
        value = getattr(usage, name)
        if value is None:
            continue
        if math.isfinite(value) and value >= 0:
            setattr(metrics, name, value)
        elif math.isfinite(value):
            rest[name] = value
    cached, prompt = metrics.cached_tokens, metrics.prompt_tokens
    if cached is not None and prompt is not None and cached > prompt:
        rest["cached_tokens"], metrics.cached_tokens = cached, None
    extra = dict(usage.extra or {})
    for name in LISTS:
        if isinstance(extra.get(name), list):
            setattr(metrics, name, extra.pop(name))
    words = {
        word: value for name, word in WORDS.items() if (value := getattr(usage, name)) is not None
    }
    metrics.extra = merged(extra, words, rest)
    return metrics if metrics != Metrics() else None


def call_count(message: Message) -> int | None:
    """How many inferences the message stands for; None where nobody can tell."""
    if message.usage is not None:
        requests = message.usage.requests
        return requests if requests is not None and requests > 0 else 1
    calls = message.tool_calls or []
    if calls and all(call.by_user for call in calls) and not message.content:
        return None if message.thinking is not None else 0
    return None if message.kind is not None else 1


def total(steps: list[Step], reported: Usage | None, below: float | None) -> FinalMetrics:
    """The sums of the steps that are not copied; what no step tells, as it was reported.

    `below` is the cost of the sub-agents, which ATIF counts into the total.
    """
    own = [step.metrics for step in steps if step.metrics and not step.is_copied_context]
    final = FinalMetrics(total_steps=len(steps))
    disagreeing: dict[str, Any] = {}
    for total_name, name in _TOTALS:
        values = [value for metrics in own if (value := getattr(metrics, name)) is not None]
        figure = getattr(reported, name) if reported is not None else None
        if figure is not None and (not math.isfinite(figure) or figure < 0):
            figure = None
        if values:
            setattr(final, total_name, sum(values))
            if figure is not None and not math.isclose(figure, sum(values), rel_tol=1e-9):
                disagreeing[name] = figure
        elif figure is not None:
            setattr(final, total_name, figure)
    if below is not None:
        final.total_cost_usd = (final.total_cost_usd or 0) + below
    # Cached tokens are part of the prompt: a report that says otherwise is only told.
    cached, prompt = final.total_cached_tokens, final.total_prompt_tokens
    if cached is not None and prompt is not None and cached > prompt:
        disagreeing["cached_tokens"], final.total_cached_tokens = cached, None
    calls = sum(len(step.tool_calls or ()) for step in steps if not step.is_copied_context)
    extra: dict[str, Any] = {"total_tool_calls": calls} if calls else {}
    if disagreeing:
        extra["reported"] = disagreeing
    final.extra = extra or None
    return final
