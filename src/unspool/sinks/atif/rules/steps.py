"""Steps: their ids, times and sources, their calls and the results of these."""

from datetime import datetime
from typing import Any

from unspool.io.times import parse_time
from unspool.sinks.atif.lenient import AGENT_ONLY, LLM_ONLY
from unspool.sinks.atif.rules.findings import Findings, field, items

Json = dict[str, Any]


def check_steps(document: Json, path: str, findings: Findings) -> None:
    last: int | None = None
    steps = document.get("steps")
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        if not isinstance(step, dict):
            continue
        at = f"{path}.steps[{number}]"
        ident = step.get("step_id")
        if isinstance(ident, int) and not isinstance(ident, bool) and ident != number + 1:
            findings.error("step-order", f"{at}.step_id", f"is {ident}, must be {number + 1}")
        last = _check_time(step, at, last, findings)
        source = step.get("source")
        count = step.get("llm_call_count")
        if isinstance(count, int) and count < 0:
            findings.error("negative", f"{at}.llm_call_count", "cannot be negative")
        if source in ("system", "user"):
            for name in AGENT_ONLY:
                if step.get(name) is not None:
                    findings.error("agent-only", f"{at}.{name}", f"not allowed on a {source} step")
            if source == "user" and step.get("observation") is not None:
                findings.warning(
                    "user-observation", f"{at}.observation", "belongs on an agent or system step"
                )
        elif source == "agent" and count == 0 and not isinstance(count, bool):
            for name in LLM_ONLY:
                if step.get(name) is not None:
                    findings.error(
                        "no-llm-call", f"{at}.{name}", "not allowed where llm_call_count is 0"
                    )
        _check_calls(step, at, findings)
        _check_context(step, at, findings)


def _check_time(step: Json, path: str, last: int | None, findings: Findings) -> int | None:
    text = step.get("timestamp")
    if not isinstance(text, str):
        return last
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        findings.error("timestamp", f"{path}.timestamp", f"{text!r} is no ISO 8601 time")
        return last
    if moment.tzinfo is None:
        findings.warning("no-time-zone", f"{path}.timestamp", f"{text!r} names no time zone")
    when = parse_time(text.replace("Z", "+00:00"))
    if when is not None and last is not None and when < last:
        findings.warning("time-goes-back", f"{path}.timestamp", "is before the step before it")
    return last if when is None else max(when, last or when)


def _check_calls(step: Json, path: str, findings: Findings) -> None:
    calls = [call for call in items(step.get("tool_calls")) if isinstance(call, dict)]
    results = items(field(step.get("observation"), "results"))
    ids = [call.get("tool_call_id") for call in calls]
    for number, ident in enumerate(ids):
        if isinstance(ident, str) and ident in ids[:number]:
            findings.error(
                "duplicate-call",
                f"{path}.tool_calls[{number}].tool_call_id",
                f"{ident!r} is the id of another call of the step",
            )
    answered: set[str] = set()
    for number, result in enumerate(results):
        source = field(result, "source_call_id")
        if not isinstance(source, str):
            continue
        at = f"{path}.observation.results[{number}].source_call_id"
        if source not in ids:
            findings.error("unknown-call", at, f"{source!r} is no tool_call_id of the same step")
        elif source in answered:
            findings.error("two-results", at, f"the call {source!r} has a result already")
        answered.add(source)
    for number, ident in enumerate(ids):
        if isinstance(ident, str) and ident not in answered:
            findings.warning(
                "no-result", f"{path}.tool_calls[{number}]", f"the call {ident!r} has no result"
            )


def _check_context(step: Json, path: str, findings: Findings) -> None:
    extra = step.get("extra")
    managed = extra.get("context_management") if isinstance(extra, dict) else None
    if managed is None:
        return
    at = f"{path}.extra.context_management"
    if not isinstance(managed, dict) or not isinstance(managed.get("type"), str):
        findings.warning("context-management", at, "should be an object with a type")
    elif step.get("source") != "system":
        findings.warning("context-management", at, "belongs on a system step")
