"""Figures: metrics that can be true, and totals that add up."""

import math
from typing import Any

from unspool.sinks.atif.rules.findings import Findings, field, items

Json = dict[str, Any]

TOTALS = (
    ("total_prompt_tokens", "prompt_tokens"),
    ("total_completion_tokens", "completion_tokens"),
    ("total_cached_tokens", "cached_tokens"),
    ("total_cost_usd", "cost_usd"),
)


def check_figures(document: Json, path: str, findings: Findings) -> None:
    steps = [s if isinstance(s, dict) else {} for s in items(document.get("steps"))]
    for number, step in enumerate(steps):
        if isinstance(step.get("metrics"), dict):
            _check_metrics(step["metrics"], f"{path}.steps[{number}].metrics", findings)
    final = document.get("final_metrics")
    if isinstance(final, dict):
        _check_final(document, final, steps, f"{path}.final_metrics", findings)


def _check_metrics(metrics: Json, path: str, findings: Findings) -> None:
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
    _check_signs(metrics, path, names, findings)
    _check_subset(metrics, path, "cached_tokens", "prompt_tokens", findings)
    for kind in ("prompt", "completion"):
        ids, tokens_told = metrics.get(f"{kind}_token_ids"), _number(metrics.get(f"{kind}_tokens"))
        if isinstance(ids, list) and tokens_told is not None and len(ids) != tokens_told:
            findings.warning(
                "token-ids", f"{path}.{kind}_token_ids", f"{len(ids)} ids for {tokens_told} tokens"
            )
    logprobs, tokens = metrics.get("logprobs"), metrics.get("completion_token_ids")
    if isinstance(logprobs, list) and isinstance(tokens, list) and len(logprobs) != len(tokens):
        findings.warning(
            "token-ids", f"{path}.logprobs", f"{len(logprobs)} of them for {len(tokens)} tokens"
        )


def _check_final(
    document: Json, final: Json, steps: list[Json], path: str, findings: Findings
) -> None:
    _check_signs(final, path, (*(name for name, _ in TOTALS), "total_steps"), findings)
    _check_subset(final, path, "total_cached_tokens", "total_prompt_tokens", findings)
    total_steps = _number(final.get("total_steps"))
    if total_steps is not None and total_steps != len(steps):
        report = findings.warning if document.get("notes") else findings.error
        report(
            "total-steps", f"{path}.total_steps", f"is {total_steps}, there are {len(steps)} steps"
        )
    for name, of_step in TOTALS:
        total = _number(final.get(name))
        if total is not None:
            _check_total(document, steps, total, of_step, f"{path}.{name}", findings)


def _check_total(
    document: Json, steps: list[Json], total: float, name: str, path: str, findings: Findings
) -> None:
    """The sum of the steps that are not copied; sub-agents' may be counted in."""
    own = [
        s
        for s in steps
        if (s.get("source") == "agent" or s.get("metrics")) and not s.get("is_copied_context")
    ]
    values = [_number(field(s.get("metrics"), name)) for s in own]
    figures = [value for value in values if value is not None]
    if not figures:
        return
    least = math.fsum(figures)
    most = math.fsum([least, *_below(document, name)])
    if _near(total, least) or _near(total, most):
        return
    # Sub-agents in other files, and steps without figures, may account for what is above the sum.
    open_ended = len(figures) < len(values) or _refers_outside(steps)
    if total > least and open_ended:
        findings.warning("total", path, f"is {total}, the figures steps add up to {_shown(least)}")
    else:
        findings.error("total", path, f"is {total}, the steps add up to {_shown(least)}")


def _below(document: Json, name: str) -> list[float]:
    """The same figure of all embedded sub-agents, as their totals or their steps tell it."""
    total = next(total for total, of_step in TOTALS if of_step == name)
    figures: list[float] = []
    for sub in items(document.get("subagent_trajectories")):
        if not isinstance(sub, dict):
            continue
        final = sub.get("final_metrics")
        own_total = _number(final.get(total)) if isinstance(final, dict) else None
        if own_total is None:
            steps = [s for s in items(sub.get("steps")) if isinstance(s, dict)]
            values = [_number(field(s.get("metrics"), name)) for s in steps]
            figures += [*(value for value in values if value is not None), *_below(sub, name)]
        else:
            figures.append(own_total)
            if name != "cost_usd":  # a cost has its sub-agents' in it already
                figures += _below(sub, name)
    return figures


def _refers_outside(steps: list[Json]) -> bool:
    for step in steps:
        for result in items(field(step.get("observation"), "results")):
            refs = items(field(result, "subagent_trajectory_ref"))
            if any(field(ref, "trajectory_path") for ref in refs):
                return True
    return False


def _check_signs(value: Json, path: str, names: tuple[str, ...], findings: Findings) -> None:
    for name in names:
        number = _number(value.get(name))
        if number is not None and number < 0:
            findings.error("negative", f"{path}.{name}", f"{number} is negative")


def _check_subset(value: Json, path: str, part: str, whole: str, findings: Findings) -> None:
    some, every = _number(value.get(part)), _number(value.get(whole))
    if some is not None and every is not None and some > every:
        findings.error(
            "cached", f"{path}.{part}", f"{some} of {every} {whole}: it is a part of them"
        )


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


def _shown(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
